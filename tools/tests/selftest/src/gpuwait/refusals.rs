// SPDX-License-Identifier: GPL-2.0
//! What is refused, and with which errno; nothing has changed then.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context as _, Result};
use bytemuck::Zeroable;
use libzernel::probe::{MAX, MAX_PER_FILE};
use libzernel::sys::abi;
use libzernel::Zernel;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{file_of, library};
use crate::abi::{call, unchanged};
use crate::check_eq;
use crate::child::in_child;
use crate::common::errno;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

pub(super) fn fields() -> Outcome {
    let zernel = Zernel::open()?;
    let library = library()?;
    let probe = abi::zernel_v0_probe {
        fd: library.as_raw_fd() as u32,
        ..abi::zernel_v0_probe::zeroed()
    };
    let nothing = abi::zernel_v0_probe::zeroed();
    let (add, remove) = (
        abi::LIBZERNEL_V0_IOC_PROBE_ADD,
        abi::LIBZERNEL_V0_IOC_PROBE_REMOVE,
    );
    let mut wrong = vec![
        (add, abi::zernel_v0_probe { probe: 1, ..probe }),
        (
            add,
            abi::zernel_v0_probe {
                reserved: 1,
                ..probe
            },
        ),
        (
            remove,
            abi::zernel_v0_probe {
                fd: 1,
                probe: 1,
                ..nothing
            },
        ),
        (
            remove,
            abi::zernel_v0_probe {
                offset: 1,
                probe: 1,
                ..nothing
            },
        ),
        (
            remove,
            abi::zernel_v0_probe {
                reserved: 1,
                probe: 1,
                ..nothing
            },
        ),
    ];
    for bit in 0..32 {
        let flags = 1 << bit;
        wrong.push((add, abi::zernel_v0_probe { flags, ..probe }));
        wrong.push((
            remove,
            abi::zernel_v0_probe {
                flags,
                probe: 1,
                ..nothing
            },
        ));
    }
    for (number, request) in wrong {
        let (result, _) = unchanged(&zernel, || Ok(call(zernel.as_fd(), number, &request)))?;
        check_eq!(result, Err(Errno::INVAL), "{request:?}");
    }
    for number in [0, 1, 2, u32::MAX] {
        check_eq!(errno(zernel.remove_probe(number)), Some(Errno::NOENT));
    }
    // Numbers are never used again, and are those of one open file.
    check_eq!(zernel.add_probe(&library, 0)?, 1);
    check_eq!(zernel.add_probe(&library, 0)?, 2);
    zernel.remove_probe(2)?;
    check_eq!(zernel.add_probe(&library, 1)?, 3);
    check_eq!(errno(Zernel::open()?.remove_probe(1)), Some(Errno::NOENT));
    Ok(())
}

pub(super) fn files() -> Outcome {
    let zernel = Zernel::open()?;
    let wrong = |file: &File, offset: u64, expected: Errno| -> Result<()> {
        let answer = unchanged(&zernel, || Ok(errno(zernel.add_probe(file, offset))))?;
        check_eq!(answer, Some(expected), "{file:?} at {offset:#x}");
        Ok(())
    };
    let open = |path: &str, flags| -> Result<File> {
        let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
        Ok(file.with_context(|| path.to_owned())?.into())
    };
    let library = library()?;
    for offset in [128, 129, 4_096, 1 << 40, u64::MAX >> 1, u64::MAX] {
        wrong(&library, offset, Errno::RANGE)?;
    }
    wrong(&file_of(&[])?, 0, Errno::RANGE)?;
    // No instruction in 64-bit mode, and a trap of its own.
    let no_code = file_of(&[[0x06; 16], [0xcc; 16]].concat())?;
    wrong(&no_code, 0, Errno::NOEXEC)?;
    wrong(&no_code, 16, Errno::NOEXEC)?;
    wrong(&open("/", OFlags::RDONLY)?, 0, Errno::NODEV)?;
    wrong(&open("/dev/null", OFlags::RDWR)?, 0, Errno::NODEV)?;
    wrong(&open("/proc/self/exe", OFlags::PATH)?, 0, Errno::BADF)?;
    wrong(
        &open("/proc/sys/kernel/hostname", OFlags::WRONLY)?,
        0,
        Errno::ACCESS,
    )?;
    // None of the kernel's own files has a size.
    wrong(&open("/proc/version", OFlags::RDONLY)?, 0, Errno::RANGE)?;
    // This one has, and no memory that could be mapped.
    let attribute = open("/proc/config.gz", OFlags::RDONLY)?;
    wrong(&attribute, 0, Errno::IO)?;
    for fd in [9_999, i32::MAX as u32, u32::MAX] {
        let request = abi::zernel_v0_probe {
            fd,
            ..abi::zernel_v0_probe::zeroed()
        };
        let number = abi::LIBZERNEL_V0_IOC_PROBE_ADD;
        let (result, _) = unchanged(&zernel, || Ok(call(zernel.as_fd(), number, &request)))?;
        check_eq!(result, Err(Errno::BADF), "fd {fd}");
    }
    Ok(())
}

pub(super) fn who_may() -> Outcome {
    let library = library()?;
    let denied = Zernel::open()?.stats()?.denied;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        check_eq!(errno(zernel.add_probe(&library, 0)), Some(Errno::PERM));
        Ok(())
    })?;
    check_eq!(Zernel::open()?.stats()?.denied, denied + 1);
    // Either is enough.
    for capability in [CAP_PERFMON, CAP_SYS_ADMIN] {
        in_child(|| {
            sys::become_user_with(ALICE, ALICE, capability)?;
            let zernel = Zernel::open()?;
            let number = zernel.add_probe(&library, 0)?;
            // What is there goes without it.
            sys::set_capabilities(0)?;
            check_eq!(errno(zernel.add_probe(&library, 0)), Some(Errno::PERM));
            zernel.remove_probe(number)?;
            Ok(())
        })
        .with_context(|| format!("capability {capability}"))?;
    }
    check_eq!(Zernel::open()?.stats()?.denied, denied + 3);
    Ok(())
}

pub(super) fn bounds() -> Outcome {
    let library = library()?;
    let mut files = Vec::new();
    for _ in 0..MAX / MAX_PER_FILE {
        let zernel = Zernel::open()?;
        for _ in 0..MAX_PER_FILE {
            zernel.add_probe(&library, 7)?;
        }
        check_eq!(errno(zernel.add_probe(&library, 7)), Some(Errno::DQUOT));
        files.push(zernel);
    }
    let another = Zernel::open()?;
    check_eq!(errno(another.add_probe(&library, 7)), Some(Errno::NOSPC));
    // What is removed makes room.
    files[1].remove_probe(9)?;
    another.add_probe(&library, 7)?;
    check_eq!(errno(another.add_probe(&library, 7)), Some(Errno::NOSPC));
    drop(another);
    files[1].add_probe(&library, 7)?;
    drop(files);
    // All of them have gone.
    Zernel::open()?.add_probe(&library, 7)?;
    Ok(())
}
