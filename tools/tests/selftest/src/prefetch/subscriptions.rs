// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subscriptions: an eventfd rings, a word counts, a stream tells, until it ends; and refusals.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::ensure;
use libzernel::event::Kind;
use libzernel::request::{Slots, Word};
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Target, Zernel};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use testkit::Repeat;

use super::{read_ahead, wait_subscriptions, Bell, Signaller};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::Child;
use crate::common::{self, errno, wait_until};
use crate::events::{Watched, KINDS};
use crate::harness::Outcome;
use crate::track::wait_count;

pub(super) fn eventfds_count() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let target = Target::Process(child.pid());
    // Before it is tracked.
    let (own, _own) = Bell::of(&zernel, &Target::current_process())?;
    let (pidfd, subscription) = Bell::of(&zernel, &Target::pidfd(child.pid())?)?;
    let (number, _number) = Bell::of(&zernel, &target)?;
    // One more of the same eventfd adds one more.
    let twice = number.subscribe(&zernel, &target)?;
    check_eq!(zernel.stats()?.subscriptions, 4);
    let expect = |expected: [u64; 3]| -> Outcome {
        let [o, p, n] = expected;
        let rings = [own.rings(o)?, pidfd.rings(p)?, number.rings(n)?];
        check_eq!(rings, expected);
        Ok(())
    };
    let its = Signaller::new(&zernel, child.pid())?;
    expect([0, 0, 0])?;
    its.signal(3)?;
    expect([0, 3, 6])?;
    let ours = Signaller::own(&zernel)?;
    ours.signal(1)?;
    expect([1, 0, 0])?;
    subscription.unsubscribe()?;
    wait_subscriptions(&zernel, 3)?;
    its.signal(2)?;
    expect([0, 0, 4])?;
    // Those of a process that is killed count until they are ended.
    child.kill()?;
    child.end()?;
    wait_count(&zernel, 1)?;
    ours.signal(2)?;
    expect([2, 0, 0])?;
    check_eq!(zernel.stats()?.subscriptions, 3);
    check_eq!(errno(number.subscribe(&zernel, &target)), Some(Errno::SRCH));
    drop(twice);
    wait_subscriptions(&zernel, 2)
}

pub(super) fn words_count() -> Outcome {
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let mapped = Slots::map(&zernel, 0..64)?;
    let slots: Vec<_> = mapped.slots().collect();
    let signals = || [5, 63].map(|slot| slots[slot].load(Word::Signals));
    slots[5].store(Word::Signals, u32::MAX - 1);
    let subscription = slots[5].subscribe(&me)?;
    let _other = slots[63].subscribe(&me)?;
    let signaller = Signaller::own(&zernel)?;
    check_eq!(signals(), [u32::MAX - 1, 0]);
    signaller.signal(3)?;
    check_eq!(signals(), [1, 3], "it wraps");
    // A store of the process is its own affair.
    slots[5].store(Word::Signals, 77);
    signaller.signal(1)?;
    check_eq!(signals(), [2, 4]);
    check_eq!(errno(slots[5].subscribe(&me)), Some(Errno::BUSY));
    subscription.unsubscribe()?;
    signaller.signal(1)?;
    check_eq!(signals(), [2, 5], "nobody has subscribed");
    // From what it holds.
    slots[5].store(Word::Signals, 1_000);
    let _again = slots[5].subscribe(&me)?;
    signaller.signal(1)?;
    check_eq!(signals(), [1_001, 6]);
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

pub(super) fn file_is_closed() -> Outcome {
    let zernel = Zernel::open()?;
    let file = File::open("/proc/self/exe")?;
    let bell = Bell::new()?;
    let subscribed = || -> anyhow::Result<Zernel> {
        let zernel = Zernel::open()?;
        bell.subscribe(&zernel, &Target::current_process())?.keep();
        read_ahead(&zernel, &file, [0, 1 << 20, 0])?.keep();
        Ok(zernel)
    };
    let signaller = Signaller::own(&zernel)?;
    let signal = |rings: u64, subscriptions: u64| -> Outcome {
        wait_subscriptions(&zernel, subscriptions)?;
        signaller.signal(1)?;
        check_eq!(bell.rings(rings)?, rings);
        Ok(())
    };
    let closed = subscribed()?;
    signal(1, 2)?;
    drop(closed);
    signal(0, 0)?;
    // A process that has the file, too, keeps them, and so does a mapping of its slots.
    let shared = subscribed()?;
    let child = Child::idle(|| Ok(()))?;
    let mapped = subscribed()?;
    let slots = Slots::map(&mapped, 0..64)?;
    let word = slots.slot(1).expect("a slot");
    word.subscribe(&Target::current_process())?.keep();
    drop((shared, mapped));
    signal(2, 5)?;
    check_eq!(word.load(Word::Signals), 1);
    drop(slots);
    signal(1, 2)?;
    child.kill()?;
    child.end()?;
    signal(0, 0)
}

/// A file with subscriptions keeps the module, and nothing is left of it afterwards.
pub(super) fn module_stays() -> Outcome {
    common::unload_soon("zernel_sim")?;
    let zernel = Zernel::open()?;
    let me = Target::current_process();
    let (_bell, subscription) = Bell::of(&zernel, &me)?;
    let ahead = read_ahead(&zernel, File::open("/proc/self/exe")?, [0, 1 << 20, 0])?;
    Signaller::own(&zernel)?.signal(1)?;
    zernel.untrack(&me)?;
    wait_count(&zernel, 0)?;
    drop(zernel);
    // The subscriptions have the file now.
    check_eq!(common::try_unload("zernel"), Err(Errno::AGAIN));
    drop(ahead);
    check_eq!(common::try_unload("zernel"), Err(Errno::AGAIN));
    drop(subscription);
    common::unload_all()?;
    common::load_all()
}

/// Beside what the suite `abi` refuses.
pub(super) fn bad_files() -> Outcome {
    let zernel = Zernel::open()?;
    let directory = File::open("/proc")?;
    let regular = File::open("/proc/self/exe")?;
    let memory = rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
    let write_only = rustix::fs::open(path, OFlags::WRONLY, Mode::empty())?;
    let place = rustix::fs::open("/proc/self/exe", OFlags::PATH, Mode::empty())?;
    for (what, file, is_rung) in [
        ("a directory", directory.as_fd(), false),
        ("zernel itself", zernel.as_fd(), false),
        ("what is written", write_only.as_fd(), false),
        ("a path", place.as_fd(), false),
        ("a file", regular.as_fd(), true),
        ("a path", place.as_fd(), true),
    ] {
        let answer = unchanged(&zernel, || {
            Ok(errno(match is_rung {
                true => zernel.subscribe_eventfd(&Target::current_process(), file),
                false => read_ahead(&zernel, file, [0, 4096, 0]),
            }))
        })?;
        check_eq!(answer, Some(Errno::BADF), "{what}");
    }
    // Regular, if nothing is read of it.
    read_ahead(&zernel, &memory, [0, 4096, 0])?;
    Ok(())
}

/// Handles name subscriptions and probes alike, in their own file, and are never used again.
pub(super) fn handles() -> Outcome {
    let (zernel, other) = (Zernel::open()?, Zernel::open()?);
    let me = Target::current_process();
    let (_bell, subscription) = Bell::of(&zernel, &me)?;
    let (library, place) = crate::gpuwait::library()?;
    let first = subscription.handle();
    let probe = zernel.add_probe(&library, place)?;
    check_eq!((first, probe), (1, 2));
    let remove = |zernel: &Zernel, handle| {
        let mut named = abi::zernel_remove { handle, flags: 0 };
        calls::remove(zernel.as_fd(), &mut named)
    };
    for (file, handle) in [(&zernel, 3), (&other, first)] {
        let answer = unchanged(file, || Ok(remove(file, handle)))?;
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

pub(super) fn beside_signals() -> Outcome {
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let signaller = Signaller::own(&zernel)?;
        let (all, _all) = Bell::of(&zernel, &Target::current_process())?;
        let other = std::thread::spawn(come_and_go);
        let mut signals = 0;
        while !other.is_finished() || signals == 0 {
            signaller.signal(1)?;
            signals += 1;
        }
        let seen = other.join().expect("a thread that ends")?;
        let rings = all.rings(signals)?;
        println!("    # {signals} signals, {seen} of them seen");
        ensure!(rings == signals, "{rings} of {signals}");
        Ok(())
    })?;
    // Longer than it takes.
    child.join_within(Duration::from_secs(3_000))?;
    wait_subscriptions(&Zernel::open()?, 0)
}

/// Begins and ends subscriptions. Returns how many signals reached those that are counted.
fn come_and_go() -> anyhow::Result<u64> {
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let mut seen = 0;
    let mut repeat = Repeat::new(400, "times four subscriptions");
    for round in repeat.by_ref() {
        let zernel = Zernel::open()?;
        let slots = Slots::map(&zernel, 0..64)?;
        let slot = slots.slot((round % 64) as u32).expect("a slot");
        let (bell, rings) = Bell::of(&zernel, &me)?;
        let word = slot.subscribe(&me)?;
        let ahead = read_ahead(&zernel, &file, [4096, 1 << 20, 3 << 20])?;
        let _twice = bell.subscribe(&zernel, &me)?;
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(round % 16));
        }
        seen += u64::from(slot.load(Word::Signals)) + bell.rings(0)?;
        for subscription in [rings, word, ahead] {
            match round % 3 {
                // By itself.
                0 => subscription.unsubscribe()?,
                // With the file.
                1 => subscription.keep(),
                _ => {}
            }
        }
    }
    println!("    # {}", repeat.report());
    Ok(seen)
}
