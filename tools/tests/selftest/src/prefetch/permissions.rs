// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permission to subscribe to signals, at the call and when they come; who sees them; quotas.

use std::fs::File;
use std::time::Duration;

use anyhow::Result;
use libzernel::event::Kind;
use libzernel::request::Slots;
use libzernel::{EventStream, Subscription, Target, Zernel};
use rustix::io::Errno;

use super::{read_ahead, Bell, Signaller};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tune};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::phase::who::{alice, bob, nice, perfmon, raised, stranger, Become};
use crate::sys;

/// Subscriptions of a user.
const MOST: usize = 64;

const CAP_SETUID: u32 = 7;
const CAP_SYS_RESOURCE: u32 = 24;

pub(super) fn who_may_subscribe() -> Outcome {
    let lab = Zernel::open()?;
    let (alices, raised) = (Child::idle(alice)?, Child::idle(raised)?);
    let denied = lab.stats()?.denied;
    let root = || Ok(());
    for (by, pid, expected) in [
        (&root as Become<'_>, alices.pid(), None),
        (&alice, alices.pid(), None),
        (&perfmon, alices.pid(), None),
        (&bob, alices.pid(), Some(Errno::PERM)),
        // To track it would be another matter.
        (&nice, alices.pid(), Some(Errno::PERM)),
        (&root, raised.pid(), None),
        (&perfmon, raised.pid(), None),
        (&alice, raised.pid(), Some(Errno::PERM)),
        (&bob, 1, Some(Errno::PERM)),
    ] {
        in_child(|| {
            by()?;
            let answer = Bell::new()?.subscribe(&Zernel::open()?, &Target::Process(pid));
            check_eq!(errno(answer), expected);
            Ok(())
        })?;
    }
    let after = lab.stats()?;
    check_eq!((after.denied, after.subscriptions), (denied + 4, 0));
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
                let (zernel, bell) = (Zernel::open()?, Bell::new()?);
                let answer = bell.subscribe(&zernel, &Target::Process(outside.pid()));
                check_eq!(errno(answer), Some(Errno::SRCH), "by number");
                let answer = bell.subscribe(&zernel, &by_pidfd);
                check_eq!(errno(answer), expected, "by pidfd");
                let (_bell, _own) = Bell::of(&zernel, &Target::current_process())?;
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// Streams and subscriptions tell of signals as long as their owner may see the process.
pub(super) fn who_sees() -> Outcome {
    let zernel = Zernel::open()?;
    let (turn, turned) = (Bell::new()?, Bell::new()?);
    // A process of Alice that becomes Bob's, too, when it is told to.
    let process = Child::spawn(|| {
        sys::become_user_with(ALICE, ALICE, CAP_SETUID)?;
        turned.ring()?;
        loop {
            std::thread::sleep(Duration::from_millis(2));
            if turn.rings(0)? > 0 {
                sys::set_users(ALICE, BOB, BOB)?;
                turned.ring()?;
            }
        }
    })?;
    turned.rings(1)?;
    let signaller = Signaller::new(&zernel, process.pid())?;
    // Each has a subscription, if it may, and rings at what its stream tells.
    let observer = |by: Become<'_>| -> Result<(Child, [Bell; 2])> {
        let bells = [Bell::new()?, Bell::new()?];
        let child = Child::spawn(|| {
            by()?;
            let (zernel, mut stream) = (Zernel::open()?, EventStream::open()?);
            let _bell = bells[0].subscribe(&zernel, &Target::Process(process.pid()));
            bells[1].ring()?;
            loop {
                let event = stream.next_event()?;
                let signal = (event.kind, event.pid, event.uid);
                check_eq!(signal, (Kind::Signal, process.pid(), ALICE));
                bells[1].ring()?;
            }
        })?;
        bells[1].rings(1)?;
        Ok((child, bells))
    };
    let root = || Ok(());
    let all = [&root as Become<'_>, &perfmon, &alice, &bob, &stranger];
    let all = all.into_iter().map(observer).collect::<Result<Vec<_>>>()?;
    for expected in [[2, 2, 2, 0, 0], [2, 2, 0, 0, 0]] {
        signaller.signal(2)?;
        for ((_, [bell, told]), expected) in all.iter().zip(expected) {
            let seen = [bell.rings(expected)?, told.rings(expected)?];
            check_eq!(seen, [expected; 2]);
        }
        turn.ring()?;
        turned.rings(1)?;
    }
    Ok(())
}

/// The subscription is over the quota.
fn full(answer: libzernel::Result<Subscription>) -> Outcome {
    check_eq!(errno(answer), Some(Errno::DQUOT));
    Ok(())
}

pub(super) fn of_a_user() -> Outcome {
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let ahead = |zernel: &Zernel, length: u64| read_ahead(zernel, &file, [0, length, length * 4]);
    tune("prefetch_readahead_bytes", 8192)?;
    in_child(|| {
        alice()?;
        let (zernel, other) = (Zernel::open()?, Zernel::open()?);
        let begin = zernel.stats()?;
        full(ahead(&zernel, 8193))?;
        let first = ahead(&zernel, 4096)?;
        let _second = ahead(&zernel, 4096)?;
        full(ahead(&zernel, 1))?;
        drop(first);
        let _again = ahead(&zernel, 4096)?;
        full(ahead(&zernel, 1))?;
        // A subscription that reads nothing needs no room; she has as many as her files together.
        let (bell, rings) = Bell::of(&zernel, &me)?;
        let slots = Slots::map(&zernel, 0..64)?;
        let [word, next] = [0, 1].map(|number| slots.slot(number).expect("a slot"));
        let _word = word.subscribe(&me)?;
        let more = (4..MOST).map(|_| bell.subscribe(&other, &me));
        let _more = more.collect::<libzernel::Result<Vec<_>>>()?;
        full(bell.subscribe(&zernel, &me))?;
        full(next.subscribe(&me))?;
        let end = zernel.stats()?;
        let seen = (end.subscriptions as usize, end.denied);
        check_eq!(seen, (MOST, begin.denied + 5));
        // The same user in another process.
        in_child(|| full(bell.subscribe(&Zernel::open()?, &me)))?;
        rings.unsubscribe()?;
        let _rings = bell.subscribe(&zernel, &me)?;
        full(bell.subscribe(&zernel, &me))
    })?;
    tune("prefetch_readahead_bytes", 0)?;
    let unbound = || Ok(sys::become_user_with(BOB, BOB, CAP_SYS_RESOURCE)?);
    for (by, is_bound) in [(&bob as Become<'_>, true), (&unbound, false)] {
        in_child(|| {
            by()?;
            let (zernel, bell) = (Zernel::open()?, Bell::new()?);
            let count = if is_bound { MOST } else { MOST + 5 };
            let all = (0..count).map(|_| bell.subscribe(&zernel, &me));
            let all = all.collect::<libzernel::Result<Vec<_>>>()?;
            check_eq!(zernel.stats()?.subscriptions as usize, all.len());
            drop(all);
            if is_bound {
                return full(ahead(&zernel, 1));
            }
            let _more = [ahead(&zernel, 1 << 30)?, ahead(&zernel, 1 << 30)?];
            Ok(())
        })?;
    }
    check_eq!(Zernel::open()?.stats()?.subscriptions, 0);
    Ok(())
}
