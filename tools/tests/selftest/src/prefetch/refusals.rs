// SPDX-License-Identifier: GPL-2.0
//! Subscriptions that are refused, and with which errno; nothing has changed then.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::Result;
use bytemuck::Zeroable;
use libzernel::prefetch::Ranges;
use libzernel::request::Slots;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Target, Zernel};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Bell, LONG};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::Child;
use crate::common::errno;
use crate::harness::Outcome;

pub(super) fn bad_files() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let ranges = Ranges {
        offset: 0,
        length: 4096,
        span: 0,
    };
    let bell = Bell::new()?;
    let null = File::open("/dev/null")?;
    let directory = File::open("/proc")?;
    let regular = File::open("/proc/self/exe")?;
    let (reader, writer) = rustix::pipe::pipe()?;
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let write_only = rustix::fs::open(path.as_str(), OFlags::WRONLY, Mode::empty())?;
    let place = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty())?;
    let refused = |what: &str, answer: Result<_, _>, expected| {
        check_eq!(errno(answer), Some(expected), "{what}");
        Ok(())
    };
    unchanged(&zernel, || {
        let ahead = |fd: BorrowedFd<'_>| zernel.subscribe_read_ahead(&me, fd, &ranges).map(drop);
        refused("a device", ahead(null.as_fd()), Errno::BADF)?;
        refused("a directory", ahead(directory.as_fd()), Errno::BADF)?;
        refused("a pipe", ahead(reader.as_fd()), Errno::BADF)?;
        refused("an eventfd", ahead(bell.0.as_fd()), Errno::BADF)?;
        refused("zernel itself", ahead(zernel.as_fd()), Errno::BADF)?;
        refused("what is written", ahead(write_only.as_fd()), Errno::BADF)?;
        refused("the end of a pipe", ahead(writer.as_fd()), Errno::BADF)?;
        refused("a path", ahead(place.as_fd()), Errno::BADF)?;
        let rings = |fd: BorrowedFd<'_>| zernel.subscribe_eventfd(&me, fd).map(drop);
        refused("no eventfd", rings(null.as_fd()), Errno::BADF)?;
        refused("a file", rings(regular.as_fd()), Errno::BADF)?;
        refused("a place", rings(place.as_fd()), Errno::BADF)
    })?;
    // Regular, if nothing is read of it.
    zernel.subscribe_read_ahead(&me, memory.as_fd(), &ranges)?;
    Ok(())
}

pub(super) fn no_such_process() -> Outcome {
    let zernel = Zernel::open()?;
    let zombie = Child::spawn(|| Ok(()))?;
    zombie.wait_ended(LONG)?;
    let bell = Bell::new()?;
    let answer = |target: Target| {
        unchanged(&zernel, || {
            Ok(errno(zernel.subscribe_eventfd(&target, bell.0.as_fd())))
        })
    };
    for (what, pid) in [("one of the kernel", 2), ("a zombie", zombie.pid())] {
        check_eq!(answer(Target::Process(pid))?, Some(Errno::SRCH), "{what}");
    }
    check_eq!(answer(Target::pidfd(zombie.pid())?)?, Some(Errno::SRCH));
    check_eq!(answer(Target::current_thread())?, Some(Errno::INVAL));
    Ok(())
}

pub(super) fn no_such_slot() -> Outcome {
    let (zernel, other) = (Zernel::open()?, Zernel::open()?);
    let _slots = Slots::map(&zernel, 0..64)?;
    let _others = Slots::map(&other, 64..128)?;
    let subscribe = |slot| {
        let mut word = abi::zernel_subscribe {
            target: Target::current_process().raw(),
            signal: abi::ZERNEL_SIGNAL_PREFETCH,
            action: abi::ZERNEL_ACTION_WORD,
            slot,
            ..abi::zernel_subscribe::zeroed()
        };
        unchanged(&zernel, || Ok(calls::subscribe(zernel.as_fd(), &mut word)))
    };
    for slot in [64, 65, 1 << 20, u32::MAX] {
        check_eq!(subscribe(slot)?, Err(Errno::NOENT), "slot {slot}");
    }
    Ok(())
}

/// Handles name subscriptions and probes alike, in their own file, and are never used again.
pub(super) fn handles() -> Outcome {
    let (zernel, other) = (Zernel::open()?, Zernel::open()?);
    let me = Target::current_process();
    let (_bell, subscription) = Bell::of(&zernel, &me)?;
    let library = crate::gpuwait::library()?;
    let first = subscription.handle();
    let probe = zernel.add_probe(&library, crate::gpuwait::FIRST)?;
    check_eq!((first, probe), (1, 2));
    let remove = |zernel: &Zernel, handle| {
        let mut named = abi::zernel_remove { handle, flags: 0 };
        calls::remove(zernel.as_fd(), &mut named)
    };
    for (zernel, handle) in [
        (&zernel, 0),
        (&zernel, 3),
        (&zernel, u32::MAX),
        (&other, first),
    ] {
        let answer = unchanged(zernel, || Ok(remove(zernel, handle)))?;
        check_eq!(answer, Err(Errno::NOENT), "{handle}");
    }
    check_eq!(remove(&zernel, probe), Ok(()));
    check_eq!(remove(&zernel, probe), Err(Errno::NOENT), "once more");
    subscription.unsubscribe()?;
    check_eq!(remove(&zernel, first), Err(Errno::NOENT));
    let (_bell, next) = Bell::of(&zernel, &me)?;
    check_eq!(next.handle(), 3);
    Ok(())
}
