// SPDX-License-Identifier: GPL-2.0
//! Refusals and their errno; nothing has changed then.

use std::fs::File;

use anyhow::{Context as _, Result};
use libzernel::probe::{MAX, MAX_PER_FILE};
use libzernel::Zernel;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{elf, file_of, library, FIRST};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::errno;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

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
    for offset in [u64::MAX >> 1, u64::MAX, library.metadata()?.len()] {
        wrong(&library, offset, Errno::RANGE)?;
    }
    wrong(&file_of(&[])?, 0, Errno::RANGE)?;
    // Within a function, before it, in a header; and where the file is no ELF file at all.
    for offset in [FIRST + 1, FIRST + 3, 0, FIRST - 1] {
        wrong(&library, offset, Errno::NOEXEC)?;
    }
    wrong(&file_of(&[0x90; 4096])?, 0, Errno::NOEXEC)?;
    // A file that ends within its symbol table.
    let whole = elf(&[0x90; 64], &[0]);
    wrong(&file_of(&whole[..whole.len() - 1])?, FIRST, Errno::NOEXEC)?;
    // No instruction in 64-bit mode, and a trap of its own.
    let no_code = file_of(&elf(&[[0x06; 16], [0xcc; 16]].concat(), &[0, 16]))?;
    wrong(&no_code, FIRST, Errno::NOEXEC)?;
    wrong(&no_code, FIRST + 16, Errno::NOEXEC)?;
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
    Ok(())
}

pub(super) fn who_may() -> Outcome {
    let library = library()?;
    let denied = Zernel::open()?.stats()?.denied;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        check_eq!(errno(zernel.add_probe(&library, FIRST)), Some(Errno::PERM));
        Ok(())
    })?;
    check_eq!(Zernel::open()?.stats()?.denied, denied + 1);
    // To see what others do is not enough.
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, CAP_PERFMON)?;
        let zernel = Zernel::open()?;
        check_eq!(errno(zernel.add_probe(&library, FIRST)), Some(Errno::PERM));
        Ok(())
    })?;
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, CAP_SYS_ADMIN)?;
        let zernel = Zernel::open()?;
        let handle = zernel.add_probe(&library, FIRST)?;
        // An object that is there goes without it.
        sys::set_capabilities(0)?;
        check_eq!(errno(zernel.add_probe(&library, FIRST)), Some(Errno::PERM));
        zernel.remove_probe(handle)?;
        Ok(())
    })?;
    check_eq!(Zernel::open()?.stats()?.denied, denied + 3);
    Ok(())
}

pub(super) fn bounds() -> Outcome {
    let library = library()?;
    let mut files = Vec::new();
    for _ in 0..MAX / MAX_PER_FILE {
        let zernel = Zernel::open()?;
        for _ in 0..MAX_PER_FILE {
            zernel.add_probe(&library, FIRST)?;
        }
        check_eq!(errno(zernel.add_probe(&library, FIRST)), Some(Errno::DQUOT));
        files.push(zernel);
    }
    let another = Zernel::open()?;
    check_eq!(
        errno(another.add_probe(&library, FIRST)),
        Some(Errno::NOSPC)
    );
    // A probe that is removed makes room.
    files[1].remove_probe(9)?;
    another.add_probe(&library, FIRST)?;
    check_eq!(
        errno(another.add_probe(&library, FIRST)),
        Some(Errno::NOSPC)
    );
    drop(another);
    files[1].add_probe(&library, FIRST)?;
    drop(files);
    // All of them have gone.
    Zernel::open()?.add_probe(&library, FIRST)?;
    Ok(())
}
