// SPDX-License-Identifier: GPL-2.0
//! How calls of `/dev/zernel` are taken or refused: memory, sizes, numbers, reserved fields.
//!
//! Calls of 32-bit programs are not among these: the layouts are the same for them, so that the
//! kernel's `compat_ptr_ioctl` is all there is to it, and the test kernels have no
//! `CONFIG_IA32_EMULATION` to make such a call with.

mod fields;
mod table;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of_mut, Pod, Zeroable};
use libzernel::request::Of;
use libzernel::sys::abi;
use libzernel::{Level, Stats, Target, Zernel};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::check_eq;
use crate::common::Lab;
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys::{self, Area, Wild};

use table::Stage;

/// The suite.
pub const SUITE: Suite = suite(
    "abi",
    &[
        case("every_call_works", every_call_works),
        case("wild_pointers", wild_pointers),
        case("structure_over_the_edge", structure_over_the_edge),
        case("read_only_structure", read_only_structure),
        case("entries_out_of_reach", entries_out_of_reach),
        case("short_structures", short_structures),
        case("older_structures", older_structures),
        case("longer_structures", longer_structures),
        case("longer_with_unknown_content", longer_with_unknown_content),
        case("foreign_numbers", foreign_numbers),
        case("list_fields", fields::list_fields),
        case("read_needs_room", read_needs_room),
        case("write_and_mmap_are_refused", write_and_mmap_are_refused),
        case("other_files", other_files),
    ],
);

/// Runs `f` and fails if anything but the count of refusals is different afterwards.
pub fn unchanged<T>(zernel: &Zernel, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let look = || -> Result<(Stats, _, _)> {
        let stats = Stats {
            denied: 0,
            ..zernel.stats()?
        };
        let requests = zernel.request_stats(Of::All)?;
        let own = zernel.class(&Target::current_process())?;
        Ok((stats, requests, own))
    };
    let before = look()?;
    let result = f()?;
    check_eq!(look()?, before, "a call that failed changed something");
    Ok(result)
}

/// Makes a call on a structure and hands back both.
pub fn call<T: Pod>(fd: BorrowedFd<'_>, number: u32, value: &T) -> (Result<i32, Errno>, T) {
    let mut value = *value;
    let result = sys::ioctl_bytes(fd, number, bytes_of_mut(&mut value));
    (result, value)
}

fn every_call_works() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let mut area = Area::new()?;
    for call in stage.calls()? {
        area.put(512, &call.request);
        area.ioctl(stage.fd(), call.number, 512)
            .context(call.name)?;
    }
    let version = lab.zernel.version()?;
    check_eq!((version.abi, version.levels), (6, 8));
    check_eq!(
        [
            version.classes,
            version.events,
            version.requests,
            version.tracking,
            version.phases,
            version.prefetch
        ],
        [true; 6]
    );
    check_eq!(version.enabled, true);
    check_eq!(
        (
            version.max_gpus,
            version.max_tsgs_per_gpu,
            version.max_assignments
        ),
        (64, 4096, 100_000)
    );
    check_eq!(lab.zernel.gpus().count(), 2);
    check_eq!(lab.stats()?.gpus, 2);
    let own = lab.zernel.class(&Target::current_process())?;
    check_eq!(own.level.value, None);
    Ok(())
}

fn wild_pointers() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    for call in stage.calls()? {
        for wild in Wild::ALL {
            let result = unchanged(&lab.zernel, || {
                Ok(wild.ioctl(lab.zernel.as_fd(), call.number))
            })?;
            check_eq!(result, Err(Errno::FAULT), "{} at {wild:?}", call.name);
        }
    }
    Ok(())
}

fn structure_over_the_edge() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let mut area = Area::new()?;
    for mut call in stage.calls()? {
        for missing in [1, call.size() / 2, call.size()] {
            let offset = Area::PAGE - call.size() + missing;
            area.put(offset, &call.request[..call.size() - missing]);
            let result = unchanged(&lab.zernel, || {
                Ok(area.ioctl(lab.zernel.as_fd(), call.number, offset))
            })?;
            check_eq!(result, Err(Errno::FAULT), "{} less {missing}", call.name);
        }
        // The last byte that is there is good enough.
        stage.renew(&mut call)?;
        let offset = Area::PAGE - call.size();
        area.put(offset, &call.request);
        area.ioctl(lab.zernel.as_fd(), call.number, offset)
            .with_context(|| format!("{} at the end of a page", call.name))?;
        lab.wait_set()?;
    }
    Ok(())
}

fn read_only_structure() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let me = Target::current_process();
    lab.zernel.set_class(&me, Level::BE)?;
    lab.wait_set()?;
    for call in stage.calls()? {
        let mut area = Area::new()?;
        area.put(0, &call.request);
        area.freeze()?;
        if !call.answers {
            // There is nothing to write.
            area.ioctl(stage.fd(), call.number, 0).context(call.name)?;
            continue;
        }
        let result = unchanged(&lab.zernel, || {
            Ok(area.ioctl(lab.zernel.as_fd(), call.number, 0))
        })
        .context(call.name)?;
        check_eq!(result, Err(Errno::FAULT), "{}", call.name);
    }

    Ok(())
}

fn entries_out_of_reach() -> Outcome {
    let stage = Stage::new()?;
    let (lab, area) = (&stage.lab, Area::new()?);
    let calls = stage.calls()?;
    for call in calls.iter().filter(|call| call.name.starts_with("LIST")) {
        let good: abi::zernel_v0_list = bytemuck::pod_read_unaligned(&call.request);
        let over = area.address(Area::PAGE - good.entry_size as usize + 1);
        let wild = Wild::ALL.map(Wild::address);
        for entries in wild.into_iter().chain([over, u64::MAX - 8]) {
            let request = abi::zernel_v0_list { entries, ..good };
            let (result, after) = self::call(lab.zernel.as_fd(), call.number, &request);
            check_eq!(result, Err(Errno::FAULT), "{} to {entries:#x}", call.name);
            check_eq!((after.cursor, after.count), (0, 1), "{}", call.name);
        }
        // At the end of the list nothing is written, so that no address is looked at.
        let request = abi::zernel_v0_list {
            cursor: u64::MAX,
            entries: 0,
            ..good
        };
        let (result, after) = self::call(lab.zernel.as_fd(), call.number, &request);
        check_eq!(
            (result, after.count),
            (Ok(0), 0),
            "{} at the end",
            call.name
        );
    }
    Ok(())
}

fn short_structures() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let mut area = Area::new()?;
    for call in stage.calls()? {
        for size in 0..call.first {
            area.put(512, &call.request);
            let result = unchanged(&lab.zernel, || {
                Ok(area.ioctl(lab.zernel.as_fd(), call.sized(size), 512))
            })?;
            check_eq!(result, Err(Errno::INVAL), "{} of {size} bytes", call.name);
            check_eq!(
                area.get(512, call.size()) == call.request,
                true,
                "{}",
                call.name
            );
        }
    }
    Ok(())
}

/// A program that knows an older version gets just what it knows.
fn older_structures() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let mut tried = 0;
    for mut call in stage.calls()? {
        for size in call.first..call.size() {
            stage.renew(&mut call)?;
            let mut bytes = vec![0xa5; call.size()];
            if call.reads {
                bytes[..size].copy_from_slice(&call.request[..size]);
            }
            sys::ioctl_bytes(lab.zernel.as_fd(), call.sized(size), &mut bytes)
                .with_context(|| format!("{} of {size} bytes", call.name))?;
            check_eq!(
                bytes[size..].iter().all(|&byte| byte == 0xa5),
                true,
                "{} past {size} bytes",
                call.name
            );
            check_eq!(
                bytes[..size].iter().all(|&byte| byte == 0xa5),
                false,
                "{} of {size} bytes",
                call.name
            );
            tried += 1;
        }
    }
    // 80 bytes of the counters, 8 of a class in three calls, 8 of the request statistics.
    check_eq!(tried, 112, "sizes between two versions");
    Ok(())
}

fn longer_structures() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    for mut call in stage.calls()? {
        for size in [call.size() + 1, call.size() + 8, 4096, 16383] {
            stage.renew(&mut call)?;
            let mut bytes = vec![0; size + 8];
            bytes[..call.size()].copy_from_slice(&call.request);
            bytes[size..].fill(0xa5);
            sys::ioctl_bytes(lab.zernel.as_fd(), call.sized(size), &mut bytes)
                .with_context(|| format!("{} of {size} bytes", call.name))?;
            check_eq!(bytes[call.size()..size].iter().any(|&b| b != 0), false);
            check_eq!(&bytes[size..], [0xa5; 8], "{} past {size} bytes", call.name);
        }
    }
    Ok(())
}

fn longer_with_unknown_content() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    for call in stage.calls()?.iter().filter(|call| call.reads) {
        let known = call.size();
        for (size, position) in [
            (known + 1, known),
            (known + 200, known + 70),
            (16383, known),
            (16383, 16382),
        ] {
            let mut bytes = vec![0; size];
            bytes[..known].copy_from_slice(&call.request);
            bytes[position] = 1;
            let before = bytes.clone();
            let result = unchanged(&lab.zernel, || {
                let number = call.sized(size);
                Ok(sys::ioctl_bytes(lab.zernel.as_fd(), number, &mut bytes))
            })?;
            check_eq!(
                result,
                Err(Errno::TOOBIG),
                "{} of {size} bytes with byte {position} set",
                call.name
            );
            check_eq!(bytes == before, true, "{} wrote something", call.name);
        }
    }
    Ok(())
}

fn foreign_numbers() -> Outcome {
    let lab = Lab::open()?;
    let fd = lab.zernel.as_fd();
    let mut bytes = vec![0; 16384];
    let class = abi::LIBZERNEL_V0_IOC_VERSION;
    unchanged(&lab.zernel, || {
        // Those of ABI 1 have their own suite.
        let known = [0x20..0x25, 0x30..0x32, 0x40..0x42, 0x50..0x54];
        let is_known = |number: &u32| known.iter().any(|numbers| numbers.contains(number));
        let numbers = 0x19..=255;
        for number in numbers.filter(|number| !is_known(number)) {
            let number = class & !0xff | number;
            let result = sys::ioctl_bytes(fd, number, &mut bytes);
            check_eq!(result, Err(Errno::NOTTY), "number {number:#x}");
        }
        for magic in (0..=255).filter(|&magic| magic != abi::ZERNEL_V0_IOC_MAGIC) {
            // The VFS keeps some numbers of these for itself: none of them is number 0x7b.
            let number = class & !0xffff | magic << 8 | 0x7b;
            let result = sys::ioctl_bytes(fd, number, &mut bytes);
            check_eq!(result, Err(Errno::NOTTY), "number {number:#x}");
        }
        Ok(())
    })?;
    check_eq!(bytes.iter().any(|&byte| byte != 0), false);
    Ok(())
}

fn read_needs_room() -> Outcome {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(Zernel::PATH, flags, Mode::empty())?);
    let event = size_of::<abi::zernel_v0_event>();
    let mut buffer = vec![0; event];
    for room in 1..event {
        let error = file.read(&mut buffer[..room]).err().map(|e| e.kind());
        check_eq!(
            error,
            Some(std::io::ErrorKind::InvalidInput),
            "{room} bytes"
        );
    }
    let error = file.read(&mut buffer).err().map(|error| error.kind());
    check_eq!(error, Some(std::io::ErrorKind::WouldBlock));
    Ok(())
}

fn write_and_mmap_are_refused() -> Outcome {
    let lab = Lab::open()?;
    unchanged(&lab.zernel, || {
        let result = rustix::io::write(lab.zernel.as_fd(), &[0; 64]);
        check_eq!(result, Err(Errno::INVAL));
        check_eq!(sys::map_shared(lab.zernel.as_fd(), 4096), Err(Errno::NODEV));
        Ok(())
    })
}

fn other_files() -> Outcome {
    let stage = Stage::new()?;
    let lab = &stage.lab;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let (reader, _writer) = rustix::pipe::pipe()?;
    let regular = File::open("/proc/self/exe")?;
    let place = rustix::fs::open(Zernel::PATH, OFlags::PATH, Mode::empty())?;
    let mut area = Area::new()?;
    for call in stage.calls()? {
        area.put(512, &call.request);
        for (what, fd, errno) in [
            ("/dev/null", null.as_fd(), Errno::NOTTY),
            ("a pipe", reader.as_fd(), Errno::NOTTY),
            ("a file", regular.as_fd(), Errno::NOTTY),
            ("the software GPU", lab.sim.as_fd(), Errno::NOTTY),
            ("a path", place.as_fd(), Errno::BADF),
        ] {
            let result = area.ioctl(fd, call.number, 512);
            check_eq!(result, Err(errno), "{} on {what}", call.name);
        }
    }
    Ok(())
}

/// How many TSGs the first page through this file has.
pub fn count_tsgs(fd: BorrowedFd<'_>) -> Result<usize> {
    let mut part = [abi::zernel_tsg_info::zeroed(); 64];
    Ok(crate::list::part(fd, abi::ZERNEL_LIST_TSGS, 0, &mut part)?.0)
}

/// Sets a class through a file that is no [`Zernel`].
pub fn set_through(fd: BorrowedFd<'_>, target: &Target, level: u32) -> Result<(), Errno> {
    let mut call = abi::zernel_class_set {
        target: target.raw(),
        set: abi::ZERNEL_CLASS_LEVEL,
        level,
        ..Zeroable::zeroed()
    };
    libzernel::sys::zernel::class_set(fd, &mut call)
}
