// SPDX-License-Identifier: GPL-2.0
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

pub(super) fn every_call_works() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let mut bytes = stage.good(call).context(call.name)?;
        sys::ioctl_bytes(stage.fd(), call.number, &mut bytes).context(call.name)?;
        let input = &stage.good(call)?[..call.input];
        if call.name != "REMOVE" && call.name != "REQUEST_UPDATE" {
            check_eq!(&bytes[..call.input] == input, true, "{} input", call.name);
        }
    }
    let info = stage.lab.zernel.info()?;
    check_eq!((info.abi, info.header, info.enabled), (1, 1, true));
    check_eq!((info.list_max, info.slots_max), (64, 16_384));
    let bounds = (info.gpus_max, info.tsgs_max, info.classes_max);
    check_eq!(bounds, (64, 4096, 100_000));
    check_eq!(
        info.event_max as usize,
        size_of::<abi::zernel_event_signal>()
    );
    check_eq!(info.clock_offset_ns, 0, "outside time namespaces");
    Ok(())
}

pub(super) fn addresses() -> Outcome {
    let stage = Stage::new()?;
    let mut area = Area::new()?;
    for call in &CALLS {
        for wild in Wild::ALL {
            let result = unchanged(
                &stage.lab.zernel,
                || Ok(wild.ioctl(stage.fd(), call.number)),
            )?;
            check_eq!(result, Err(Errno::FAULT), "{} at {wild:?}", call.name);
        }
        // The end of the input lies beyond the end of the memory.
        let bytes = stage.good(call)?;
        for missing in [1, call.input / 2, call.input] {
            let offset = Area::PAGE - call.input + missing;
            area.put(offset, &bytes[..call.input - missing]);
            let result = unchanged(&stage.lab.zernel, || {
                Ok(area.ioctl(stage.fd(), call.number, offset))
            })?;
            check_eq!(result, Err(Errno::FAULT), "{} less {missing}", call.name);
        }
        // The last byte that is there is good enough.
        let offset = Area::PAGE - call.size;
        area.put(offset, &stage.good(call)?);
        area.ioctl(stage.fd(), call.number, offset)
            .with_context(|| format!("{} at the end of a page", call.name))?;
    }
    Ok(())
}

/// A call that cannot write its answer is undone; TRACK stays in force.
pub(super) fn read_only_structures() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let bytes = stage.good(call)?;
        let mut area = Area::new()?;
        area.put(0, &bytes);
        area.freeze()?;
        if call.input == call.size {
            area.ioctl(stage.fd(), call.number, 0).context(call.name)?;
            continue;
        }
        let mut make = || area.ioctl(stage.fd(), call.number, 0);
        let result = match call.name {
            "TRACK" => make(),
            _ => unchanged(&stage.lab.zernel, || Ok(make())).context(call.name)?,
        };
        check_eq!(result, Err(Errno::FAULT), "{}", call.name);
    }
    Ok(())
}

pub(super) fn shorter_structures() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let bytes = stage.good(call)?;
        for size in (0..call.size).filter(|size| *size < call.first || size % 8 != 0) {
            let what = format!("{} of {size} bytes", call.name);
            refused(&stage, call.sized(size), &bytes, Errno::INVAL, &what)?;
        }
    }
    Ok(())
}

pub(super) fn longer_structures() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
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

/// A file that is open for reading alone takes what changes nothing.
pub(super) fn files_open_for_reading() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let mut bytes = stage.good(call)?;
        let result = sys::ioctl_bytes(stage.reader.as_fd(), call.number, &mut bytes);
        let expected = match call.changes {
            true => Err(Errno::BADF),
            false => Ok(0),
        };
        check_eq!(result, expected, "{}", call.name);
    }
    Ok(())
}

pub(super) fn other_files() -> Outcome {
    let stage = Stage::new()?;
    let (pipe, _writer) = rustix::pipe::pipe()?;
    let regular = File::open("/proc/self/exe")?;
    let place = rustix::fs::open(Zernel::PATH, OFlags::PATH, Mode::empty())?;
    for call in &CALLS {
        for (what, fd, errno) in [
            ("/dev/null", stage.null.as_fd(), Errno::NOTTY),
            ("a pipe", pipe.as_fd(), Errno::NOTTY),
            ("a file", regular.as_fd(), Errno::NOTTY),
            ("the software GPU", stage.lab.sim.as_fd(), Errno::NOTTY),
            ("a path", place.as_fd(), Errno::BADF),
        ] {
            let mut bytes = vec![0; call.size];
            let result = sys::ioctl_bytes(fd, call.number, &mut bytes);
            check_eq!(result, Err(errno), "{} on {what}", call.name);
        }
    }
    let write = rustix::io::write(stage.fd(), &[0; 64]);
    check_eq!(write, Err(Errno::INVAL), "write()");
    Ok(())
}

/// A call can be decoded from its number and its structure alone: what it reads, what it writes,
/// and of LIST and HISTOGRAM how much lies at the address.
pub(super) fn numbers_tell_the_structure() -> Outcome {
    let stage = Stage::new()?;
    for call in &CALLS {
        let number = call.number;
        let decoded = (number >> 30, number >> 16 & 0x3fff, number >> 8 & 0xff);
        let expected = (3, call.size as u32, abi::ZERNEL_IOC_MAGIC);
        check_eq!(decoded, expected, "{}", call.name);
        // As a tracer prints it: that many bytes at the address, before and after.
        let before = stage.good(call)?;
        let mut after = before.clone();
        let guarded = after.len();
        after.extend([0x5a; 64]);
        sys::ioctl_bytes(stage.fd(), number, &mut after).context(call.name)?;
        let beyond = after.split_off(guarded);
        check_eq!(beyond.iter().all(|&b| b == 0x5a), true, "{}", call.name);
        check_eq!(
            after[..call.input] == before[..call.input],
            true,
            "{}",
            call.name
        );
        if let Some((address, length)) = array_of(call, &after) {
            let known = [
                (stage.entries.address(0), size_of::<abi::zernel_gpu_info>()),
                (0, 0),
            ];
            check_eq!(known.contains(&(address, length)), true, "{}", call.name);
        }
    }
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
pub(super) fn seccomp_tells_calls_apart() -> Outcome {
    let mask = abi::LIBZERNEL_IOC_MASK;
    for call in &CALLS {
        for other in &CALLS {
            for size in [0, 8, call.size + 8, 16_376] {
                let is_same = call.sized(size) & mask == other.number & mask;
                check_eq!(
                    is_same,
                    call.name == other.name,
                    "{} {}",
                    call.name,
                    other.name
                );
            }
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
        check_eq!(
            result == Err(Errno::OWNERDEAD),
            false,
            "LIST of {size} bytes"
        );
    }
    Ok(())
}
