// SPDX-License-Identifier: GPL-2.0
//! Slots whose contents change all the time: nothing is believed that need not be.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{anyhow, ensure, Context as _, Result};
use libzernel::request::{Begin, Of, Slot, Slots, Word};
use libzernel::sys::memory::SharedMemory;
use libzernel::{Timestamp, Zernel};
use rustix::io::Errno;
use testkit::random::Random;
use testkit::Repeat;

use super::{at_once, new_key, slot, Client, Since};
use crate::check_eq;
use crate::common::{errno, tune, Lab};
use crate::harness::Outcome;

/// Requests while it goes on.
const REQUESTS: u64 = 5_000;
/// Slots that are used, few enough that each is hit often.
const SLOTS: u64 = 4;

/// Stores anything anywhere, and often what almost makes sense.
fn vandalize(view: &SharedMemory, random: &mut Random) {
    let slot = &view.slots()[random.below(SLOTS) as usize];
    let near = slot
        .trigger
        .load(Relaxed)
        .wrapping_add(random.below(3) as u32);
    let value = match random.below(4) {
        0 => random.draw() as u32,
        1 => random.edge() as u32,
        _ => near.wrapping_sub(1),
    };
    let time = match random.below(3) {
        0 => random.edge(),
        1 => random.draw(),
        _ => Timestamp::now().as_ns(),
    };
    match random.below(8) {
        0 | 1 => slot.trigger.store(value, Relaxed),
        2 | 3 => slot.release.store(value, Relaxed),
        4 => slot.done.store(value, Relaxed),
        5 => slot.held.store(value, Relaxed),
        6 => slot.ready_at.store(time, Relaxed),
        _ => slot.done_at.store(time, Relaxed),
    }
}

/// One request of any kind, and what may be done with it.
fn request(slot: &Slot<'_>, begin: Begin, random: &mut Random) -> Outcome {
    let expected = Duration::from_nanos(random.below(3_000_000));
    let mut begin = begin
        .expected(expected)
        .slo(Duration::from_micros(random.below(2_000)));
    if random.one_in(3) {
        begin = begin.exact();
    }
    let number = slot.begin(&begin)?.number;
    if random.one_in(4) {
        std::thread::sleep(Duration::from_micros(random.below(2_000)));
    }
    let answer = match random.below(6) {
        0 => slot.ready_call(number),
        1 => slot.done_call(number),
        2 => slot.cancel(number),
        3 => {
            slot.ready(number);
            Ok(())
        }
        4 => {
            slot.ready(number);
            slot.done(number);
            Ok(())
        }
        _ => Ok(()),
    };
    // Somebody may have said that it is over already.
    let answer = errno(answer);
    ensure!(matches!(answer, None | Some(Errno::STALE)), "{answer:?}");
    Ok(())
}

/// Requests in slots that a thread vandalizes. Returns how many there were.
fn go_on(slots: &Slots, begin: Begin, random: &mut Random) -> Result<u64> {
    let over = AtomicBool::new(false);
    let seed = random.draw();
    std::thread::scope(|scope| {
        let vandal = scope.spawn(|| {
            let mut random = Random::new(seed);
            while !over.load(Relaxed) {
                vandalize(slots.memory(), &mut random);
            }
        });
        let mut repeat = Repeat::new(REQUESTS, "requests");
        let result = repeat.try_for_each(|_| {
            let slot = slot(slots, random.below(SLOTS) as u32);
            request(&slot, begin, random)
        });
        over.store(true, Relaxed);
        vandal.join().map_err(|_| anyhow!("the vandal panicked"))?;
        result.map(|()| repeat.done())
    })
}

pub(super) fn contents() -> Outcome {
    tune("lease_us", 1_000)?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slots = Slots::map(&Zernel::open()?, 0..64)?;
    let (since, began) = (Since::now(&lab.zernel)?, Timestamp::now());
    let begin = Begin::new(client.tsg).key(new_key());
    let mut random = Random::new(0x7e57);
    let begun = go_on(&slots, begin, &mut random)?;

    // Times lie within what has passed, whatever was claimed.
    let passed = Timestamp::now().since(began).as_nanos();
    let stats = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    check_eq!(stats.begun, begun, "requests");
    check_eq!(stats.begun, stats.over() + stats.in_flight, "{stats:?}");
    for (what, ns) in [
        ("longest", u128::from(stats.latency_max_ns)),
        ("mean", u128::from(stats.mean_ns().unwrap_or(0))),
    ] {
        ensure!(ns <= passed, "{what}: {ns} of {passed} ns");
    }
    for (number, ns) in [stats.latency_ns, stats.early_ns].into_iter().enumerate() {
        // Those of the slots overlap.
        let most = passed * u128::from(SLOTS);
        ensure!(u128::from(ns) <= most, "sum {number}: {ns} of {most} ns");
    }

    // The slots are good again, and so are their leases.
    for slot in slots.slots() {
        for word in [Word::Trigger, Word::Release, Word::Done, Word::Held] {
            slot.store(word, 0);
        }
    }
    let before = since.ends()?;
    for number in 0..SLOTS as u32 {
        slot(&slots, number).begin(&at_once(client.tsg))?;
    }
    let all = begun + SLOTS;
    crate::common::wait_until("leases end", || Ok(since.ends()?.in_flight == 0))
        .context("after it was left alone")?;
    let ends = since.ends()?;
    check_eq!(ends.expired >= before.expired + SLOTS, true, "{ends:?}");
    check_eq!(since.stats()?.begun, all, "requests");
    for slot in slots.slots().take(SLOTS as usize) {
        let (trigger, release) = (slot.load(Word::Trigger), slot.load(Word::Release));
        check_eq!(trigger, release, "words of slot {}", slot.number());
    }
    drop(slots);
    since.expect(ends)
}
