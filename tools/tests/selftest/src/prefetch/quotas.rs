// SPDX-License-Identifier: GPL-2.0
//! The quota of subscriptions.

use std::fs::File;
use std::os::fd::AsFd;

use libzernel::prefetch::Ranges;
use libzernel::request::Slots;
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use super::Bell;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tune};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Subscriptions of a user.
const MOST: usize = 64;

const CAP_SYS_RESOURCE: u32 = 24;

pub(super) fn subscriptions_of_a_user() -> Outcome {
    let me = Target::current_process();
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let (zernel, other) = (Zernel::open()?, Zernel::open()?);
        let (bell, first) = Bell::of(&zernel, &me)?;
        let slots = Slots::map(&zernel, 0..64)?;
        let _word = slots.slot(0).expect("a slot").subscribe(&me)?;
        // However many files she has.
        let mut kept = Vec::new();
        for _ in 2..MOST {
            kept.push(other.subscribe_eventfd(&me, bell.0.as_fd())?);
        }
        let before = zernel.stats()?;
        check_eq!(before.subscriptions as usize, MOST);
        let full = Some(Errno::DQUOT);
        check_eq!(errno(zernel.subscribe_eventfd(&me, bell.0.as_fd())), full);
        check_eq!(errno(slots.slot(1).expect("a slot").subscribe(&me)), full);
        let after = zernel.stats()?;
        check_eq!(
            (after.subscriptions, after.denied),
            (before.subscriptions, before.denied + 2)
        );
        in_child(|| {
            // The same user in another process.
            let answer = Zernel::open()?.subscribe_eventfd(&me, bell.0.as_fd());
            check_eq!(errno(answer), full);
            Ok(())
        })?;
        first.unsubscribe()?;
        let _again = zernel.subscribe_eventfd(&me, bell.0.as_fd())?;
        check_eq!(errno(zernel.subscribe_eventfd(&me, bell.0.as_fd())), full);
        Ok(())
    })?;
    for unbound in [false, true] {
        in_child(|| {
            match unbound {
                false => sys::become_user(BOB, BOB, &[])?,
                true => sys::become_user_with(BOB, BOB, CAP_SYS_RESOURCE)?,
            }
            let zernel = Zernel::open()?;
            let bell = Bell::new()?;
            let count = MOST + usize::from(unbound) * 5;
            let subscribe = || zernel.subscribe_eventfd(&me, bell.0.as_fd());
            let kept = (0..count)
                .map(|_| subscribe())
                .collect::<Result<Vec<_>, _>>()?;
            check_eq!(zernel.stats()?.subscriptions as usize, kept.len());
            Ok(())
        })?;
    }
    check_eq!(Zernel::open()?.stats()?.subscriptions, 0);
    Ok(())
}

pub(super) fn bytes_of_a_user() -> Outcome {
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let ahead = |zernel: &Zernel, length: u64| {
        let ranges = Ranges {
            offset: 0,
            length,
            span: length * 4,
        };
        zernel.subscribe_read_ahead(&me, file.as_fd(), &ranges)
    };
    let full = Some(Errno::DQUOT);
    tune("prefetch_readahead_bytes", 8192)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let before = zernel.stats()?;
        check_eq!(errno(ahead(&zernel, 8193)), full);
        let first = ahead(&zernel, 4096)?;
        let _second = ahead(&zernel, 4095)?;
        check_eq!(errno(ahead(&zernel, 2)), full);
        let _third = ahead(&zernel, 1)?;
        check_eq!(errno(ahead(&zernel, 1)), full);
        let after = zernel.stats()?;
        check_eq!(
            (after.subscriptions, after.denied),
            (before.subscriptions + 3, before.denied + 3)
        );
        // A subscription that reads nothing needs no room.
        let _bell = Bell::of(&zernel, &me)?;
        drop(first);
        let _again = ahead(&zernel, 4096)?;
        check_eq!(errno(ahead(&zernel, 1)), full);
        Ok(())
    })?;
    tune("prefetch_readahead_bytes", 0)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        check_eq!(errno(ahead(&zernel, 1)), full);
        let _bell = Bell::of(&zernel, &me)?;
        Ok(())
    })?;
    // The users that quotas do not bind.
    let zernel = Zernel::open()?;
    let _kept = [ahead(&zernel, 1 << 30)?, ahead(&zernel, 1 << 30)?];
    Ok(())
}
