// SPDX-License-Identifier: GPL-2.0
//! How many pages one may have, and whose memory they are.

use std::fs;
use std::os::fd::AsFd;

use anyhow::{Context as _, Result};
use libzernel::request::Page;
use libzernel::sys::abi;
use libzernel::Zernel;
use rustix::io::Errno;
use rustix::process::{setrlimit, Resource, Rlimit};

use super::shared_memory;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::errno;
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;
use testkit::passing;

/// Pages of a user.
const MOST: usize = abi::ZERNEL_V0_MAX_PAGES_PER_USER as usize;
/// `CAP_IPC_LOCK`.
const IPC_LOCK: u32 = 14;
/// `CAP_SYS_RESOURCE`.
const RESOURCE: u32 = 24;

/// What the caller may lock, in bytes.
pub(super) fn limit_memory(bytes: u64) -> Result<()> {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    Ok(setrlimit(Resource::Memlock, limit)?)
}

/// What the caller has locked or pinned, in KiB.
pub(super) fn locked_kib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mut sum = 0;
    for name in ["VmLck:", "VmPin:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let text = line.with_context(|| format!("no {name}"))?;
        sum += text.trim().trim_end_matches(" kB").parse::<u64>()?;
    }
    Ok(sum)
}

fn pages(zernel: &Zernel, count: usize) -> Result<Vec<Page>> {
    let pages = (0..count).map(|_| Page::anonymous(zernel));
    Ok(pages.collect::<libzernel::Result<_>>()?)
}

pub(super) fn pages_of_a_user() -> Outcome {
    let (ours, theirs) = passing::pair()?;
    // Another process, and so another file, of the same user counts too.
    let other = Child::spawn(|| {
        limit_memory(64 << 20)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let _pages = pages(&zernel, 10)?;
        passing::send_number(&theirs, 10)?;
        passing::receive_number(&theirs)?;
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    let full = Some(Errno::DQUOT);
    in_child(|| {
        limit_memory(64 << 20)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let (zernel, second) = (Zernel::open()?, Zernel::open()?);
        let mut all = pages(&zernel, MOST - 10)?;
        let locked = locked_kib()?;
        for _ in 0..3 {
            check_eq!(errno(Page::anonymous(&zernel)), full, "one more");
            check_eq!(errno(Page::anonymous(&second)), full, "one more");
        }
        check_eq!(locked_kib()?, locked, "memory locked by what was refused");
        // One that goes makes room for one.
        drop(all.pop());
        all.push(Page::anonymous(&second)?);
        check_eq!(errno(Page::anonymous(&zernel)), full, "in its place");
        // The same memory again counts again.
        check_eq!(errno(all[0].register_with(&second)), full, "the same again");
        Ok(())
    })?;
    in_child(|| {
        sys::become_user_with(ALICE, ALICE, RESOURCE)?;
        let zernel = Zernel::open()?;
        let all = pages(&zernel, MOST + 20)?;
        check_eq!(all.len(), MOST + 20);
        Ok(())
    })?;
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        Page::anonymous(&Zernel::open()?)?;
        Ok(())
    })?;
    // What a process had is given back when it has ended.
    passing::send_number(&ours, 0)?;
    other.join()?;
    in_child(|| {
        limit_memory(64 << 20)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let _all = pages(&zernel, MOST)?;
        check_eq!(errno(Page::anonymous(&zernel)), full, "one more than all");
        Ok(())
    })
}

pub(super) fn locked_memory() -> Outcome {
    let full = Some(Errno::NOMEM);
    in_child(|| {
        limit_memory(3 * 4096)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let mut all = pages(&zernel, 3)?;
        for _ in 0..3 {
            check_eq!(errno(Page::anonymous(&zernel)), full, "one more");
        }
        drop(all.pop());
        all.extend(pages(&zernel, 1)?);
        check_eq!(errno(Page::anonymous(&zernel)), full, "in its place");
        // A file that is closed gives back all at once, mapped or not.
        for page in all {
            page.unmap();
        }
        drop(zernel);
        check_eq!(locked_kib()?, 0, "memory locked by a closed file");
        let zernel = Zernel::open()?;
        pages(&zernel, 3)?;
        Ok(())
    })?;
    in_child(|| {
        limit_memory(0)?;
        sys::become_user(ALICE, ALICE, &[])?;
        let answer = errno(Page::anonymous(&Zernel::open()?));
        check_eq!(answer, full, "no memory at all");
        Ok(())
    })?;
    in_child(|| {
        limit_memory(0)?;
        sys::become_user_with(ALICE, ALICE, IPC_LOCK)?;
        let zernel = Zernel::open()?;
        check_eq!(pages(&zernel, 20)?.len(), 20, "with CAP_IPC_LOCK");
        Ok(())
    })
}

pub(super) fn pages_are_accounted() -> Outcome {
    let before = locked_kib()?;
    let zernel = Zernel::open()?;
    let mut all = pages(&zernel, 20)?;
    check_eq!(locked_kib()?, before + 80, "20 pages");
    let file = shared_memory()?;
    all.push(Page::of_file(&zernel, file.as_fd(), 0)?);
    all.push(all[0].register_with(&zernel)?);
    check_eq!(locked_kib()?, before + 88, "two that are shared");
    // They are the process' that registered them, whoever closes the file.
    let child = Child::spawn(|| {
        check_eq!(locked_kib()?, 0, "a child's");
        Ok(())
    })?;
    child.join()?;
    check_eq!(locked_kib()?, before + 88, "after a child");
    all.truncate(5);
    check_eq!(locked_kib()?, before + 20, "5 pages");
    drop((all, zernel));
    check_eq!(locked_kib()?, before, "none");
    Ok(())
}
