// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of all calls: memory, sizes, direction, numbers, files.

use std::fs::File;
use std::os::fd::AsFd;

use anyhow::{bail, Context as _};
use libzernel::sys::abi;
use libzernel::Zernel;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::stage::{Call, Stage, CALLS};
use super::unchanged;
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys::{self, Area, Wild};

/// Makes a call that must fail with `errno`, and change nothing of the module or of its structure.
pub fn refused(stage: &Stage, number: u32, bytes: &[u8], errno: Errno, what: &str) -> Outcome {
    let mut after = bytes.to_vec();
    let result = unchanged(&stage.lab.zernel, || {
        Ok(sys::ioctl_bytes(stage.fd(), number, &mut after))
    })
    .context(what.to_owned())?;
    check_eq!(result, Err(errno), "{what}");
    if after != bytes {
        bail!("{what}: the structure was written");
    }
    Ok(())
}

/// A call can be decoded from its number and its structure alone: what it reads, what it writes,
/// and of LIST and HISTOGRAM how much lies at the address.
pub(super) fn every_call_works() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let number = call.number;
        let decoded = (number >> 30, number >> 16 & 0x3fff, number >> 8 & 0xff);
        let expected = (3, call.size as u32, abi::ZERNEL_IOC_MAGIC);
        check_eq!(decoded, expected, "{}", call.name);
        let before = stage.good(call).context(call.name)?;
        let mut after = before.clone();
        after.extend([0x5a; 64]);
        sys::ioctl_bytes(stage.fd(), number, &mut after).context(call.name)?;
        check_eq!(after[..call.input], before[..call.input], "{}", call.name);
        check_eq!(&after[call.size..], [0x5a; 64], "{}", call.name);
        let gpu = (stage.entries.address(0), size_of::<abi::zernel_gpu_info>());
        let array = array_of(call, &after).unwrap_or((0, 0));
        check_eq!([gpu, (0, 0)].contains(&array), true, "{}", call.name);
    }
    let info = stage.lab.zernel.info()?;
    check_eq!((info.abi, info.header, info.enabled), (1, 3, true));
    check_eq!((info.list_max, info.slots_max), (64, 16_384));
    let bounds = (info.gpus_max, info.tsgs_max, info.classes_max);
    check_eq!(bounds, (64, 4096, 100_000));
    let longest = size_of::<abi::zernel_event_signal>();
    check_eq!(info.event_max as usize, longest);
    check_eq!(info.clock_offset_ns, 0, "outside time namespaces");
    Ok(())
}

/// A call whose structure cannot be read changes nothing. One that cannot write its answer is undone;
/// TRACK stays in force.
pub(super) fn addresses() -> Outcome {
    let stage = Stage::new()?;
    let (fd, zernel) = (stage.fd(), &stage.lab.zernel);
    let mut area = Area::new()?;
    for call in &CALLS {
        let (name, number) = (call.name, call.number);
        for wild in Wild::ALL {
            let result = unchanged(zernel, || Ok(wild.ioctl(fd, number)))?;
            check_eq!(result, Err(Errno::FAULT), "{name} at {wild:?}");
        }
        // The end of the input lies beyond the end of the memory.
        let bytes = stage.good(call)?;
        for missing in [1, call.input / 2, call.input] {
            let offset = Area::PAGE - call.input + missing;
            area.put(offset, &bytes[..call.input - missing]);
            let result = unchanged(zernel, || Ok(area.ioctl(fd, number, offset)))?;
            check_eq!(result, Err(Errno::FAULT), "{name} less {missing}");
        }
        // The last byte that is there is good enough.
        let offset = Area::PAGE - call.size;
        area.put(offset, &stage.good(call)?);
        area.ioctl(fd, number, offset).context(name)?;

        let mut area = Area::new()?;
        area.put(0, &stage.good(call)?);
        area.freeze()?;
        let mut make = || area.ioctl(fd, number, 0);
        if call.input == call.size {
            make().context(name)?;
            continue;
        }
        let result = match name {
            "TRACK" => make(),
            _ => unchanged(zernel, || Ok(make())).context(name)?,
        };
        check_eq!(result, Err(Errno::FAULT), "{name} in a read-only page");
    }
    Ok(())
}

pub(super) fn other_sizes() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let good = stage.good(call)?;
        for size in (0..call.size).filter(|size| *size < call.first || size % 8 != 0) {
            let what = format!("{} of {size} bytes", call.name);
            refused(&stage, call.sized(size), &good, Errno::INVAL, &what)?;
        }
        // The size has 14 bits.
        for size in [call.size + 8, 4096, 16_376] {
            let what = format!("{} of {size} bytes", call.name);
            for position in [call.size, size - 1] {
                let mut bytes = stage.good(call)?;
                bytes.resize(size, 0);
                bytes[position] = 1;
                refused(&stage, call.sized(size), &bytes, Errno::TOOBIG, &what)?;
                if position > call.size {
                    refused(&stage, call.sized(size - 1), &bytes, Errno::INVAL, &what)?;
                }
            }
            let mut bytes = stage.good(call)?;
            bytes.resize(size, 0);
            bytes.extend([0xa5; 8]);
            sys::ioctl_bytes(stage.fd(), call.sized(size), &mut bytes).context(what)?;
            check_eq!(bytes[call.size..size].iter().all(|&byte| byte == 0), true);
            check_eq!(&bytes[size..], [0xa5; 8], "past {size} bytes");
        }
    }
    Ok(())
}

/// All numbers but thirteen, in all directions, are no call: those before ABI 1, too.
pub(super) fn other_numbers() -> Outcome {
    let lab = Lab::open()?;
    let mut bytes = vec![0xff; 16_384];
    let known: Vec<u32> = CALLS.iter().map(|call| call.number & 0xff).collect();
    unchanged(&lab.zernel, || {
        for direction in 0..4u32 {
            for number in 0..=255u32 {
                if direction == 3 && known.contains(&number) {
                    continue;
                }
                // Sizes of structures before ABI 1, and of those that take them now.
                for size in [0u32, 16, 24, 32, 40, 72, 80, 200, 16_383] {
                    let whole = direction << 30 | size << 16 | abi::ZERNEL_IOC_MAGIC << 8 | number;
                    let result = sys::ioctl_bytes(lab.zernel.as_fd(), whole, &mut bytes);
                    if result != Err(Errno::NOTTY) {
                        bail!("number {whole:#x} is answered by {result:?}");
                    }
                }
            }
        }
        for magic in (0..=255).filter(|&magic| magic != abi::ZERNEL_IOC_MAGIC) {
            // The VFS keeps some numbers of these for itself: none of them is number 0x7b.
            let number = abi::LIBZERNEL_IOC_INFO & !0xffff | magic << 8 | 0x7b;
            let result = sys::ioctl_bytes(lab.zernel.as_fd(), number, &mut bytes);
            check_eq!(result, Err(Errno::NOTTY), "number {number:#x}");
        }
        Ok(())
    })?;
    check_eq!(bytes.iter().all(|&byte| byte == 0xff), true, "written to");
    Ok(())
}

/// A file that is open for reading alone takes what changes nothing, and no other file takes anything.
pub(super) fn other_files() -> Outcome {
    let stage = Stage::new()?;
    let (pipe, _writer) = rustix::pipe::pipe()?;
    let regular = File::open("/proc/self/exe")?;
    let place = rustix::fs::open(Zernel::PATH, OFlags::PATH, Mode::empty())?;
    for call in &CALLS {
        let for_reading = match call.changes {
            true => Err(Errno::BADF),
            false => Ok(0),
        };
        for (what, fd, expected) in [
            ("a file for reading", stage.reader.as_fd(), for_reading),
            ("/dev/null", stage.null.as_fd(), Err(Errno::NOTTY)),
            ("a pipe", pipe.as_fd(), Err(Errno::NOTTY)),
            ("a file", regular.as_fd(), Err(Errno::NOTTY)),
            ("the software GPU", stage.lab.sim.as_fd(), Err(Errno::NOTTY)),
            ("a path", place.as_fd(), Err(Errno::BADF)),
        ] {
            let result = sys::ioctl_bytes(fd, call.number, &mut stage.good(call)?);
            check_eq!(result, expected, "{} on {what}", call.name);
        }
    }
    let write = rustix::io::write(stage.fd(), &[0; 64]);
    check_eq!(write, Err(Errno::INVAL), "write()");
    Ok(())
}

/// The array that a call fills beside its structure.
fn array_of(call: &Call, bytes: &[u8]) -> Option<(u64, usize)> {
    let word = |offset: usize| {
        let bytes = bytes[offset..offset + 4].try_into().unwrap_or_default();
        u32::from_ne_bytes(bytes) as usize
    };
    let address = |offset: usize| (word(offset + 4) as u64) << 32 | word(offset) as u64;
    match call.name {
        // Offsets that the header fixes for good: entries, entry_size and filled.
        "LIST" => Some((address(32), word(40) * word(72))),
        "HISTOGRAM" => Some((address(24), word(40) * 8)),
        _ => None,
    }
}

/// A filter that cannot look into memory tells looking from changing, whatever the size.
pub(super) fn seccomp_tells_apart() -> Outcome {
    let mask = abi::LIBZERNEL_IOC_MASK;
    for call in &CALLS {
        for (other, size) in CALLS
            .iter()
            .flat_map(|it| [0, 8, 16_376].map(|size| (it, size)))
        {
            let is_same = call.sized(size) & mask == other.number & mask;
            check_eq!(is_same, call.name == other.name, "{}", other.name);
        }
    }
    let stage = Stage::new()?;
    let (look, change) = (Call::named("LIST"), Call::named("REMOVE"));
    let mut bytes = stage.good(look)?;
    match super::filter::refuse(change.number & mask, mask) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            eprintln!("this kernel has no seccomp filters");
            return Ok(());
        }
        result => result?,
    }
    sys::ioctl_bytes(stage.fd(), look.number, &mut bytes)?;
    for size in [0, 8, 16, 16_376] {
        let mut bytes = vec![0; size.max(look.size)];
        let result = sys::ioctl_bytes(stage.fd(), change.sized(size), &mut bytes);
        check_eq!(result, Err(Errno::OWNERDEAD), "REMOVE of {size} bytes");
        let result = sys::ioctl_bytes(stage.fd(), look.sized(size), &mut bytes);
        check_eq!(result == Err(Errno::OWNERDEAD), false, "LIST of {size}");
    }
    Ok(())
}
