// SPDX-License-Identifier: GPL-2.0
//! Permission to subscribe to signals, at the call and when they come.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::Result;
use libzernel::{Subscription, Target, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::{Bell, Signaller};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::errno;
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB, NICE};
use crate::sys;

const CAP_PERFMON: u32 = 38;
const CAP_SETUID: u32 = 7;

type Become<'a> = &'a dyn Fn() -> Result<()>;

fn alice() -> Result<()> {
    Ok(sys::become_user(ALICE, ALICE, &[])?)
}

fn bob() -> Result<()> {
    Ok(sys::become_user(BOB, BOB, &[])?)
}

fn perfmon() -> Result<()> {
    Ok(sys::become_user_with(BOB, BOB, CAP_PERFMON)?)
}

fn nice() -> Result<()> {
    Ok(sys::become_user_with(BOB, BOB, NICE)?)
}

pub(super) fn who_may_subscribe() -> Outcome {
    let lab = Zernel::open()?;
    let alices = Child::idle(alice)?;
    let raised = Child::idle(|| Ok(sys::set_users(ALICE, 0, 0)?))?;
    let denied = lab.stats()?.denied;
    let mut refusals = 0;
    let mut subscribe = |by: Become<'_>, pid: u32, may: bool| {
        refusals += u64::from(!may);
        in_child(|| {
            by()?;
            let zernel = Zernel::open()?;
            let bell = Bell::new()?;
            let answer = zernel.subscribe_eventfd(&Target::Process(pid), bell.0.as_fd());
            check_eq!(errno(answer), (!may).then_some(Errno::PERM));
            Ok(())
        })
    };
    let root = || Ok(());
    subscribe(&root, alices.pid(), true)?;
    subscribe(&alice, alices.pid(), true)?;
    subscribe(&perfmon, alices.pid(), true)?;
    subscribe(&bob, alices.pid(), false)?;
    // To track it would be another matter.
    subscribe(&nice, alices.pid(), false)?;
    subscribe(&root, raised.pid(), true)?;
    subscribe(&perfmon, raised.pid(), true)?;
    subscribe(&alice, raised.pid(), false)?;
    subscribe(&bob, 1, false)?;
    check_eq!(lab.stats()?.denied, denied + refusals);
    check_eq!(lab.stats()?.subscriptions, 0);
    Ok(())
}

/// A process in a pid namespace of its own sees nobody outside of it, not even by a pidfd.
pub(super) fn other_pid_namespaces() -> Outcome {
    let outside = Child::idle(alice)?;
    let by_pidfd = Target::pidfd(outside.pid())?;
    for (by, expected) in [(&alice as Become<'_>, Some(Errno::SRCH)), (&perfmon, None)] {
        in_child(|| {
            sys::unshare(libc::CLONE_NEWPID)?;
            in_child(|| {
                by()?;
                let zernel = Zernel::open()?;
                let bell = Bell::new()?;
                let by_number = Target::Process(outside.pid());
                let answer = zernel.subscribe_eventfd(&by_number, bell.0.as_fd());
                check_eq!(errno(answer), Some(Errno::SRCH), "by number");
                let answer = zernel.subscribe_eventfd(&by_pidfd, bell.0.as_fd());
                check_eq!(errno(answer), expected, "by pidfd");
                let (_bell, _own) = Bell::of(&zernel, &Target::current_process())?;
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// A child that subscribes to a process as somebody, and tells how often it was signalled whenever
/// it is asked.
fn subscriber(by: Become<'_>, pid: u32) -> Result<(Child, OwnedFd)> {
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        by()?;
        let zernel = Zernel::open()?;
        let (bell, _subscription): (Bell, Subscription) = Bell::of(&zernel, &Target::Process(pid))?;
        loop {
            let at_least = passing::receive_number(&its)?;
            passing::send_number(&its, bell.rings(at_least)?)?;
        }
    })?;
    check_eq!(rings(&ours, 0)?, 0);
    Ok((child, ours))
}

/// Asks a subscriber, who waits for so many.
fn rings(subscriber: &OwnedFd, at_least: u64) -> Result<u64> {
    passing::send_number(subscriber, at_least)?;
    passing::receive_number(subscriber)
}

/// A subscriber that may not see a process any more is not signalled any more.
pub(super) fn who_has_become_another() -> Outcome {
    let zernel = Zernel::open()?;
    let turn = Bell::new()?;
    let turned = Bell::new()?;
    let process = process_with(&turn, &turned)?;
    let (_alice, hers) = subscriber(&alice, process.pid())?;
    let (_observer, observers) = subscriber(&perfmon, process.pid())?;
    let signaller = Signaller::new(&zernel, process.pid())?;
    signaller.signal(2)?;
    check_eq!((rings(&hers, 2)?, rings(&observers, 2)?), (2, 2));
    rustix::io::write(&turn.0, &1u64.to_ne_bytes())?;
    turned.rings(1)?;
    signaller.signal(2)?;
    check_eq!((rings(&hers, 0)?, rings(&observers, 2)?), (0, 2));
    Ok(())
}

/// A process of Alice that becomes Bob's, too, when it is told to.
fn process_with(turn: &Bell, turned: &Bell) -> Result<Child> {
    let ready = Bell::new()?;
    let child = Child::spawn(|| {
        sys::become_user_with(ALICE, ALICE, CAP_SETUID)?;
        rustix::io::write(&ready.0, &1u64.to_ne_bytes())?;
        loop {
            std::thread::sleep(std::time::Duration::from_millis(2));
            if turn.rings(0)? > 0 {
                sys::set_users(ALICE, BOB, BOB)?;
                rustix::io::write(&turned.0, &1u64.to_ne_bytes())?;
            }
        }
    })?;
    ready.rings(1)?;
    Ok(child)
}
