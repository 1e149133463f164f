// SPDX-License-Identifier: GPL-2.0
//! Actions at a signal: an eventfd rings, a word counts, a stream tells.

use libzernel::event::Kind;
use libzernel::request::{Slots, Word};
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use super::{wait_subscriptions, Bell, Signaller};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, wait_until};
use crate::events::{Watched, KINDS};
use crate::harness::Outcome;

pub(super) fn eventfds_count() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    // Before it is tracked.
    let (first, subscription) = Bell::of(&zernel, &me)?;
    let (second, _kept) = Bell::of(&zernel, &me)?;
    // One more of the same eventfd adds one more.
    let _twice = zernel.subscribe_eventfd(&me, std::os::fd::AsFd::as_fd(&second.0))?;
    check_eq!(zernel.stats()?.subscriptions, 3);
    let signaller = Signaller::own(&zernel)?;
    check_eq!((first.rings(0)?, second.rings(0)?), (0, 0));
    signaller.signal(3)?;
    check_eq!((first.rings(3)?, second.rings(6)?), (3, 6));
    subscription.unsubscribe()?;
    wait_subscriptions(&zernel, 2)?;
    signaller.signal(2)?;
    check_eq!((first.rings(0)?, second.rings(4)?), (0, 4));
    Ok(())
}

pub(super) fn words_count() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let mapped = Slots::map(&zernel, 0..64)?;
    let slots: Vec<_> = mapped.slots().collect();
    slots[5].store(Word::Signals, u32::MAX - 1);
    let subscription = slots[5].subscribe(&me)?;
    let _other = slots[63].subscribe(&me)?;
    let signaller = Signaller::own(&zernel)?;
    check_eq!(slots[5].load(Word::Signals), u32::MAX - 1);
    signaller.signal(3)?;
    check_eq!(slots[5].load(Word::Signals), 1, "it wraps");
    check_eq!(slots[63].load(Word::Signals), 3);
    // A store of the process is its own affair.
    slots[5].store(Word::Signals, 77);
    signaller.signal(1)?;
    check_eq!(slots[5].load(Word::Signals), 2);
    check_eq!(errno(slots[5].subscribe(&me)), Some(Errno::BUSY));
    subscription.unsubscribe()?;
    signaller.signal(1)?;
    check_eq!(slots[5].load(Word::Signals), 2, "nobody has subscribed");
    // From what it holds.
    slots[5].store(Word::Signals, 1_000);
    let _again = slots[5].subscribe(&me)?;
    signaller.signal(1)?;
    check_eq!(slots[5].load(Word::Signals), 1_001);
    check_eq!(slots[63].load(Word::Signals), 6);
    for slot in &slots {
        for word in [Word::Trigger, Word::Release, Word::Done, Word::Held] {
            check_eq!(slot.load(word), 0, "{word:?} of slot {}", slot.number());
        }
        if ![5, 63].contains(&slot.number()) {
            check_eq!(slot.load(Word::Signals), 0, "slot {}", slot.number());
        }
    }
    Ok(())
}

pub(super) fn words_end_with_their_file() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let other = Zernel::open()?;
    let slots = Slots::map(&other, 0..64)?;
    for slot in slots.slots().take(3) {
        slot.subscribe(&me)?.keep();
    }
    let (bell, _bell) = Bell::of(&zernel, &me)?;
    let signaller = Signaller::own(&zernel)?;
    signaller.signal(1)?;
    check_eq!(zernel.stats()?.subscriptions, 4);
    drop(other);
    signaller.signal(1)?;
    for slot in slots.slots().take(3) {
        check_eq!(slot.load(Word::Signals), 2, "slot {}", slot.number());
    }
    drop(slots);
    check_eq!(zernel.stats()?.subscriptions, 1);
    check_eq!(bell.rings(2)?, 2);
    Ok(())
}

pub(super) fn of_another_process() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let (number, _number) = Bell::of(&zernel, &Target::Process(child.pid()))?;
    let (pidfd, _pidfd) = Bell::of(&zernel, &Target::pidfd(child.pid())?)?;
    let (own, _own) = Bell::of(&zernel, &Target::current_process())?;
    let rings = |[n, p, o]: [u64; 3]| -> anyhow::Result<_> {
        Ok([number.rings(n)?, pidfd.rings(p)?, own.rings(o)?])
    };
    let its = Signaller::new(&zernel, child.pid())?;
    its.signal(2)?;
    check_eq!(rings([2, 2, 0])?, [2, 2, 0]);
    Signaller::own(&zernel)?.signal(1)?;
    check_eq!(rings([0, 0, 1])?, [0, 0, 1]);
    Ok(())
}

/// A loop that waits by epoll hears of a signal as of any event.
pub(super) fn epoll_tells_of_signals() -> Outcome {
    let zernel = Zernel::open()?;
    let signaller = Signaller::own(&zernel)?;
    for kind in KINDS {
        let watched = Watched::new(kind)?;
        for number in 1..=2 {
            check_eq!(watched.is_told()?, false, "{kind:?}: before {number}");
            signaller.signal(1)?;
            wait_until("it is told of a signal", || watched.is_told())?;
            let event = watched.read()?;
            let seen = (event.kind, event.pid, event.seq);
            let expected = (Kind::Signal, std::process::id(), number);
            check_eq!(seen, expected, "{kind:?}: {number}");
        }
    }
    Ok(())
}
