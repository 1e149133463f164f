// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trigger: when zernel stores it, once, and whose.

use std::time::{Duration, Instant};

use anyhow::ensure;
use libzernel::request::{Number, Slot, Word};
use libzernel::Timestamp;

use super::{at_once, far, in_so_long, lab, words, Since, Update, UPDATES};
use crate::check_eq;
use crate::common::SOON;
use crate::harness::Outcome;

/// Looks at the trigger word all the time until it has reached a request, which it must not have
/// before its time.
fn watch(slot: &Slot<'_>, request: Number, at: Timestamp) -> Outcome {
    let end = Instant::now() + SOON;
    while !request.is_reached_by(slot.load(Word::Trigger)) {
        ensure!(Instant::now() < end, "no trigger since {at}");
        std::hint::spin_loop();
    }
    let now = Timestamp::now();
    ensure!(now >= at, "triggered {:?} too early", at.since(now));
    Ok(())
}

/// At once where nothing is known, else not before its time.
pub(super) fn comes_in_time() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    let since = Since::now(&lab.zernel)?;
    for count in 1..=25 {
        let expected = [0, 1, 3, 20, 100][count as usize % 5];
        let expected = Some(Duration::from_millis(expected)).filter(|expected| !expected.is_zero());
        let begin = match expected {
            Some(expected) => in_so_long(client.tsg, expected),
            None => at_once(client.tsg),
        };
        let before = Timestamp::now();
        let begun = slot.begin(&begin)?;
        let after = Timestamp::now();
        check_eq!(begun.predicted, expected, "prediction");
        let at = begun.trigger_at;
        let latest = after + expected.unwrap_or_default();
        ensure!(before <= at && at <= latest, "trigger at {at}");
        let number = begun.number.get();
        if expected.is_none() {
            check_eq!(slot.load(Word::Trigger), number, "trigger");
        }
        watch(&slot, begun.number, at)?;
        check_eq!(words(&slot), (number, number - 1), "not ready yet");
        slot.ready(begun.number);
        slot.done(begun.number);
        check_eq!(since.stats()?.triggers, count, "triggers");
    }
    let last = slot.begin(&far(client.tsg))?.number;
    slot.cancel(last)?;
    since.expect(ends!(done: 25, cancelled: 1))
}

/// The timer of a request that is over, or was ready before, does nothing to the next one.
pub(super) fn do_not_fire_twice() -> Outcome {
    let stores: [(&str, Update); 2] = [
        ("ready by a store", |slot, request| {
            slot.ready(request);
            Ok(())
        }),
        ("ready and done by stores", |slot, request| {
            slot.ready(request);
            slot.done(request);
            Ok(())
        }),
    ];
    let (lab, client) = lab()?;
    for (index, (what, end)) in (0..).zip(stores.into_iter().chain(UPDATES)) {
        let slot = client.slot(index);
        let since = Since::now(&lab.zernel)?;
        let first = slot.begin(&in_so_long(client.tsg, Duration::from_millis(500)))?;
        if first.number.is_reached_by(slot.load(Word::Trigger)) {
            // On a machine so slow the timer was first, and there is nothing to see.
            slot.cancel(first.number)?;
            continue;
        }
        end(&slot, first.number)?;
        let in_time = Timestamp::now() < first.trigger_at;
        let both = (first.number.get(), first.number.get());
        check_eq!(words(&slot), both, "{what}: both words");
        let next = slot.begin(&far(client.tsg))?.number;
        let left = first.trigger_at.since(Timestamp::now());
        std::thread::sleep(left + Duration::from_millis(50));
        check_eq!(words(&slot), both, "{what}: later");
        let stats = since.stats()?;
        check_eq!((stats.begun, stats.in_flight), (2, 1), "{what}");
        let by_zernel = u64::from(index >= 2);
        ensure!(!in_time || stats.triggers <= by_zernel, "{what}: {stats:?}");
        slot.cancel(next)?;
    }
    Ok(())
}
