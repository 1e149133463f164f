// SPDX-License-Identifier: GPL-2.0
//! Permission to track, and visibility.

use anyhow::Result;
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;

use super::{idle, threads_of, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tune, Lab};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB, GROUP};
use crate::sys;

const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;

pub(super) fn who_may() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let alices = idle(ALICE)?;
    let target = || Target::Process(alices.pid());
    let eperm = Some(Errno::PERM);
    // Whoever it does not belong to, and has no privilege.
    let denied = lab.stats()?.denied;
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        let zernel = Zernel::open()?;
        check_eq!(errno(zernel.track(&target(), Tracking::PLAIN)), eperm);
        check_eq!(errno(zernel.untrack(&target())), eperm);
        check_eq!(
            errno(zernel.track(&Target::Process(1), Tracking::PLAIN)),
            eperm
        );
        Ok(())
    })?;
    check_eq!(lab.stats()?.denied, denied + 3);
    check_eq!(lab.stats()?.threads, 0);
    // The owner, somebody with the capability, a member of the group.
    let privileged = |begin: &dyn Fn() -> Result<()>| -> Result<bool> {
        in_child(|| {
            begin()?;
            Zernel::open()?.track(&target(), Tracking::PLAIN)?;
            Ok(())
        })?;
        let threads = threads_of(&lab.zernel, alices.pid())?;
        check_eq!(threads.len(), 1);
        Ok(threads[0].privileged)
    };
    let alice = || Ok(sys::become_user(ALICE, ALICE, &[])?);
    let nice = || Ok(sys::become_user_with(BOB, BOB, CAP_SYS_NICE)?);
    let member = || Ok(sys::become_user(BOB, BOB, &[GROUP])?);
    let untrack = |by: &dyn Fn() -> Result<()>, expected: Option<Errno>| {
        in_child(|| {
            by()?;
            check_eq!(errno(Zernel::open()?.untrack(&target())), expected);
            Ok(())
        })
    };
    check_eq!(privileged(&alice)?, false);
    untrack(&alice, None)?;
    for by in [&nice as &dyn Fn() -> Result<()>, &member] {
        check_eq!(privileged(by)?, true);
        // An owner does not end what privilege has begun, nor take it over by beginning again.
        untrack(&alice, eperm)?;
        check_eq!(privileged(&alice)?, true);
        untrack(&alice, eperm)?;
        untrack(by, None)?;
    }
    check_eq!(privileged(&alice)?, false);
    untrack(&member, None)
}

pub(super) fn who_sees() -> Outcome {
    let lab = Lab::open()?;
    let (alices, bobs) = (idle(ALICE)?, idle(BOB)?);
    lab.zernel
        .track(&Target::Process(alices.pid()), Tracking::PLAIN)?;
    lab.zernel
        .track(&Target::Process(bobs.pid()), Tracking::PLAIN)?;
    wait_recorded(&lab.zernel, alices.pid(), 1)?;
    wait_recorded(&lab.zernel, bobs.pid(), 1)?;
    let seen = |by: &dyn Fn() -> Result<()>, expected: &[u32]| {
        in_child(|| {
            by()?;
            let zernel = Zernel::open()?;
            let mut pids = Vec::new();
            for thread in zernel.threads() {
                pids.push(thread?.pid);
            }
            check_eq!(pids, expected);
            Ok(())
        })
    };
    let (a, b) = (alices.pid(), bobs.pid());
    seen(&|| Ok(()), &[a, b])?;
    seen(&|| Ok(sys::become_user(ALICE, ALICE, &[])?), &[a])?;
    seen(&|| Ok(sys::become_user(BOB, BOB, &[])?), &[b])?;
    seen(&|| Ok(sys::become_user(1002, 1002, &[])?), &[])?;
    let perfmon = || Ok(sys::become_user_with(1002, 1002, CAP_PERFMON)?);
    seen(&perfmon, &[a, b])?;
    // One of alice's that has taken root's rights, as by a program that is set-user-ID, is not hers
    // to watch any more.
    let raised = Child::idle(|| Ok(sys::set_users(ALICE, 0, 0)?))?;
    lab.zernel
        .track(&Target::Process(raised.pid()), Tracking::PLAIN)?;
    wait_recorded(&lab.zernel, raised.pid(), 1)?;
    seen(&|| Ok(sys::become_user(ALICE, ALICE, &[])?), &[a])?;
    seen(&|| Ok(()), &[a, b, raised.pid()])
}

/// A thread of a user does not count any more when it has ended. The suite `scale` has as many
/// threads as the bound.
pub(super) fn quota() -> Outcome {
    let lab = Lab::open()?;
    let (alices, bobs) = (idle(ALICE)?, idle(BOB)?);
    for round in 0..20 {
        for child in [&alices, &bobs] {
            let target = Target::Process(child.pid());
            check_eq!(
                lab.zernel.track(&target, Tracking::PLAIN)?,
                1,
                "round {round}"
            );
        }
        check_eq!(lab.stats()?.threads, 2);
        for child in [&alices, &bobs] {
            lab.zernel.untrack(&Target::Process(child.pid()))?;
        }
        check_eq!(lab.stats()?.threads, 0);
    }
    Ok(())
}
