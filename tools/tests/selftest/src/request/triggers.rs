// SPDX-License-Identifier: GPL-2.0
//! The trigger: when zernel stores it, once, and whose.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::request::{Number, Slot, Slots, Word};
use libzernel::Timestamp;

use super::{at_once, far, in_so_long, longest_lease, slot, Client, Ends, Since};
use crate::check_eq;
use crate::common::{Lab, SOON};
use crate::harness::Outcome;

/// Both words.
fn words(slot: &Slot<'_>) -> (u32, u32) {
    (slot.load(Word::Trigger), slot.load(Word::Release))
}

/// Looks at the trigger word all the time until it has reached a request, which it must not have
/// before its time.
fn watch(slot: &Slot<'_>, request: Number, at: Timestamp) -> Outcome {
    let end = Instant::now() + SOON;
    loop {
        let reached = request.is_reached_by(slot.load(Word::Trigger));
        // Later than the look.
        let now = Timestamp::now();
        if reached {
            ensure!(now >= at, "triggered {:?} too early", at.since(now));
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "no trigger {:?} after its time",
            now.since(at)
        );
        std::hint::spin_loop();
    }
}

/// Sleeps until a time has passed, and a good while more.
fn pass(at: Timestamp) {
    std::thread::sleep(at.since(Timestamp::now()) + Duration::from_millis(50));
}

pub(super) fn comes_in_time() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let since = Since::now(&lab.zernel)?;
    let mut count = 0;
    for _ in 0..5 {
        for ms in [1, 3, 20, 100] {
            let expected = Duration::from_millis(ms);
            let before = Timestamp::now();
            let begun = slot.begin(&in_so_long(client.tsg, expected))?;
            let after = Timestamp::now();
            check_eq!(begun.predicted, Some(expected), "prediction");
            let at = begun.trigger_at;
            ensure!(before <= at && at <= after + expected, "trigger at {at}");
            watch(&slot, begun.number, at)?;
            check_eq!(slot.load(Word::Trigger), begun.number.get());
            let released = begun.number.is_reached_by(slot.load(Word::Release));
            ensure!(!released, "released before it was ready");
            slot.ready(begun.number);
            slot.done(begun.number);
            count += 1;
            check_eq!(since.stats()?.triggers, count, "triggers");
        }
    }
    let last = slot.begin(&far(client.tsg))?.number;
    slot.cancel(last)?;
    since.expect(Ends {
        done: count,
        cancelled: 1,
        ..Ends::NONE
    })
}

/// Where nothing is known there is nothing to wait for.
pub(super) fn come_at_once() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    for (count, slot) in (1..).zip(client.slots.slots()) {
        let before = Timestamp::now();
        let begun = slot.begin(&at_once(client.tsg))?;
        let after = Timestamp::now();
        check_eq!(begun.predicted, None, "prediction");
        let at = begun.trigger_at;
        ensure!(before <= at && at <= after, "{before} {at} {after}");
        check_eq!(slot.load(Word::Trigger), begun.number.get(), "trigger");
        check_eq!(slot.load(Word::Release), 0, "release");
        check_eq!(since.stats()?.triggers, count, "triggers");
        slot.done_call(begun.number)?;
    }
    since.expect(Ends {
        done: 64,
        ..Ends::NONE
    })
}

/// Data that is ready before its trigger does not wait for it.
pub(super) fn ready_triggers_early() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(1);
    let since = Since::now(&lab.zernel)?;
    for round in 0..10 {
        let begun = slot.begin(&far(client.tsg))?;
        let number = begun.number;
        let seq = client.submit(&slot, number, Duration::from_micros(50))?;
        let (trigger, release) = words(&slot);
        let taken = number.is_reached_by(trigger) || number.is_reached_by(release);
        ensure!(!taken, "words of {number}: {trigger} and {release}");
        let by_store = round % 2 == 0;
        if by_store {
            slot.ready(number);
        } else {
            slot.ready_call(number)?;
        }
        check_eq!(words(&slot), (number.get(), number.get()), "both words");
        client.wait(seq)?;
        check_eq!(slot.load(Word::Held), number.get(), "the holder");
        if by_store {
            slot.done(number);
        } else {
            slot.done_call(number)?;
        }
        // Even rounds are triggered by the process itself.
        check_eq!(
            since.stats()?.triggers,
            u64::div_ceil(round, 2),
            "triggers of zernel"
        );
    }
    since.expect(Ends {
        done: 10,
        ..Ends::NONE
    })
}

/// The timer of a request that is over, or was ready before, does nothing to the next one.
pub(super) fn do_not_fire_twice() -> Outcome {
    let expected = Duration::from_millis(500);
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    type End = fn(&Slot<'_>, Number) -> Result<()>;
    let ends: [(&str, End, u64); 5] = [
        (
            "ready and done by stores",
            |slot, request| {
                slot.ready(request);
                slot.done(request);
                Ok(())
            },
            0,
        ),
        (
            "ready by a store",
            |slot, request| {
                slot.ready(request);
                Ok(())
            },
            0,
        ),
        (
            "ready by a call",
            |slot, request| Ok(slot.ready_call(request)?),
            1,
        ),
        ("done", |slot, request| Ok(slot.done_call(request)?), 1),
        ("cancelled", |slot, request| Ok(slot.cancel(request)?), 1),
    ];
    for (index, (what, end, stored)) in (10..).zip(ends) {
        let slot = client.slot(index);
        let since = Since::now(&lab.zernel)?;
        let first = slot.begin(&in_so_long(client.tsg, expected))?;
        if first.number.is_reached_by(slot.load(Word::Trigger)) {
            // On a machine so slow the timer was first, and there is nothing to see.
            slot.cancel(first.number)?;
            continue;
        }
        end(&slot, first.number)?;
        let in_time = Timestamp::now() < first.trigger_at;
        let was = first.number.get();
        check_eq!(words(&slot), (was, was), "{what}: both words");
        let next = slot.begin(&far(client.tsg))?;
        pass(first.trigger_at);
        check_eq!(words(&slot), (was, was), "{what}: later");
        let stats = since.stats()?;
        check_eq!((stats.begun, stats.in_flight), (2, 1), "{what}");
        ensure!(
            !in_time || stats.triggers <= stored,
            "{what}: {} triggers",
            stats.triggers
        );
        slot.cancel(next.number)?;
        check_eq!(since.ends()?.in_flight, 0, "{what}");
    }
    Ok(())
}

/// Requests of many slots at a time, of two TSGs: each has its own words and its own trigger.
pub(super) fn slots_are_independent() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let (_other, other) = lab.compute()?;
    let second = Slots::map(&lab.zernel, 0..64)?;
    let since = Since::now(&lab.zernel)?;
    let mut open = Vec::new();
    for number in 0..64 {
        for (slots, tsg) in [(&client.slots, client.tsg), (&second, other.id)] {
            let slot = slot(slots, number);
            open.push((slot, slot.begin(&far(tsg))?.number));
        }
    }
    since.expect(Ends {
        in_flight: 128,
        ..Ends::NONE
    })?;
    // One after the other, from somewhere in the middle on; the rest stays as it is.
    for step in 0..open.len() {
        let (slot, request) = open[(step * 37 + 5) % open.len()];
        slot.ready_call(request)?;
        check_eq!(words(&slot), (request.get(), request.get()));
        let reached = open.iter().filter(|(slot, request)| {
            let (trigger, release) = words(slot);
            request.is_reached_by(trigger) || request.is_reached_by(release)
        });
        check_eq!(reached.count(), step + 1, "slots that were reached");
    }
    check_eq!(since.stats()?.triggers, 128, "triggers");
    for (slot, request) in &open {
        slot.done_call(*request)?;
    }
    for (of, done) in [(client.tsg, 64), (other.id, 64)] {
        let stats = lab.zernel.request_stats(libzernel::request::Of::Tsg(of))?;
        check_eq!((stats.begun, stats.done), (done, done), "TSG {of}");
    }
    since.expect(Ends {
        done: 128,
        ..Ends::NONE
    })
}

/// Numbers go on from what the words hold, past the largest one, and leave 0 out.
pub(super) fn numbers_wrap() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let since = Since::now(&lab.zernel)?;
    for (index, last) in (0..).zip([u32::MAX - 3, 1 << 31, (1 << 31) - 2, 77]) {
        let slot = client.slot(index);
        slot.store(Word::Trigger, last);
        slot.store(Word::Release, last);
        let mut before: Option<Number> = None;
        for _ in 0..8 {
            let (trigger, release) = words(&slot);
            let request = slot.begin(&far(client.tsg))?.number;
            let reached = request.is_reached_by(trigger) || request.is_reached_by(release);
            ensure!(!reached, "{request} was reached by {trigger} or {release}");
            if let Some(before) = before {
                check_eq!(request, before.next(), "the next number");
            }
            before = Some(request);
            let seq = client.submit(&slot, request, Duration::from_micros(5))?;
            slot.ready(request);
            client.wait(seq)?;
            slot.done_call(request)?;
        }
    }
    since.expect(Ends {
        done: 32,
        ..Ends::NONE
    })
}
