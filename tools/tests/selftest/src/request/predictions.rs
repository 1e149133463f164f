// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predictions: what is learned of a key, and who is asked.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Slot};
use libzernel::Timestamp;

use super::{lab, new_key};
use crate::check_eq;
use crate::common::{switch_ns, tune, SOON};
use crate::harness::Outcome;

/// The time of preparation here: much longer than a system call on any machine.
const TOOK: Duration = Duration::from_millis(20);

/// The error of a preparation: begin lies somewhere in a call that took twice that at most.
const OFF: Duration = Duration::from_millis(1);

/// One request whose preparation took [`TOOK`], give or take [`OFF`]: one whose call took longer is
/// cancelled, from which nothing is learned.
pub(super) fn prepare(slot: &Slot<'_>, begin: &Begin) -> Result<()> {
    let end = Instant::now() + SOON;
    loop {
        let before = Timestamp::now();
        let number = slot.begin(begin)?.number;
        let took = Timestamp::now().since(before);
        if took <= 2 * OFF {
            let ready = before + took / 2 + TOOK;
            while Timestamp::now() < ready {
                std::thread::sleep(ready.since(Timestamp::now()));
            }
            slot.ready_at(number, ready);
            slot.done(number);
            return Ok(());
        }
        slot.cancel(number)?;
        ensure!(Instant::now() < end, "a call takes {took:?}");
    }
}

/// The present prediction; the request is cancelled.
pub(super) fn predicted(slot: &Slot<'_>, begin: &Begin) -> Result<Option<Duration>> {
    let begun = slot.begin(begin)?;
    slot.cancel(begun.number)?;
    Ok(begun.predicted)
}

/// A preparation that always takes the same is soon known; a point predictor is right, and the
/// default not above it, as being late costs more.
pub(super) fn predictors_learn() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    let history = Begin::new(client.tsg).key(new_key());
    for _ in 0..40 {
        prepare(&slot, &history)?;
    }
    // All of them learn from every request, not only the one that is asked.
    for (predictor, least, most) in [("ema", 85, 115), ("holt", 70, 130), ("quantile", 75, 115)] {
        for (margin, least) in [(0, least), (1, 0)] {
            tune("predictor", predictor)?;
            tune("predictor_margin", margin)?;
            let told = predicted(&slot, &history)?;
            let part = told.map(|told| told.as_nanos() * 100 / TOOK.as_nanos());
            let right = part.is_some_and(|part| (least..=most).contains(&part));
            ensure!(right, "{predictor}, margin {margin}: {told:?}");
        }
    }
    // Its trigger comes when the GPU should switch, not at once.
    let before = Timestamp::now();
    let begun = slot.begin(&history)?;
    let switch = Duration::from_nanos(switch_ns(&lab.zernel, client.tsg)?);
    let after = Timestamp::now();
    slot.cancel(begun.number)?;
    let (at, told) = (begun.trigger_at, begun.predicted.unwrap_or_default());
    // The switch cost can only have grown meanwhile, as no holder runs here.
    let right = at >= before && at + switch >= before + told && at <= after + told;
    ensure!(
        right,
        "{at}, a switch of {switch:?}, {told:?} after {before} to {after}"
    );
    // Other keys know nothing of it.
    let other = history.key(new_key());
    check_eq!(predicted(&slot, &other)?, None, "another key");
    Ok(())
}

/// The tunable is about those that do not say, from then on.
pub(super) fn tunable_predictor() -> Outcome {
    let (_lab, client) = lab()?;
    let slot = client.slot(0);
    let begin = Begin::new(client.tsg).key(new_key());
    let expected = Duration::from_nanos(12_345_678);
    for begin in [begin, begin.exact()] {
        let told = predicted(&slot, &begin.expected(expected))?;
        check_eq!(told, Some(expected), "{begin:?} without history");
    }
    for _ in 0..8 {
        prepare(&slot, &begin)?;
    }
    // A begin does not wait for the newest preparation; the next one knows it.
    predicted(&slot, &begin)?;
    for name in ["ema", "holt", "fixed", "features", "quantile"] {
        tune("predictor", name)?;
        let told = predicted(&slot, &begin.expected(expected))?;
        check_eq!(told == Some(expected), name == "fixed", "{name}");
        // An exact expectation is taken.
        for (expected, told) in [(expected, Some(expected)), (Duration::ZERO, None)] {
            let exact = predicted(&slot, &begin.expected(expected).exact())?;
            check_eq!(exact, told, "exact while the tunable is {name}");
        }
        if name == "fixed" {
            // The constant of GPreempt.
            let told = predicted(&slot, &begin)?;
            check_eq!(told, Some(Duration::from_micros(200)), "nothing expected");
        }
    }
    // The dearer it is to be early, the later the GPU is taken.
    let mut told = Vec::new();
    for (early, late) in [(1, 9), (1, 1), (9, 1), (0, 1), (1, 0), (0, 0)] {
        tune("early_cost", early)?;
        tune("late_cost", late)?;
        told.push(predicted(&slot, &begin.expected(expected))?.unwrap_or_default());
    }
    ensure!(told[0] <= told[1] && told[1] <= told[2], "{told:?}");
    ensure!(told[3] <= told[0] && told[2] <= told[4], "{told:?}");
    check_eq!(told[5], told[1], "no cost at all is an equal cost");
    Ok(())
}

/// The trigger is where it is tuned, for requests that begin from then on.
pub(super) fn tunable_trigger() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(0);
    let expected = Duration::from_nanos(200_000_500);
    let begin = Begin::new(client.tsg).expected(expected).exact();
    let switch = Duration::from_nanos(switch_ns(&lab.zernel, client.tsg)?);
    // From the begin to the trigger, at least and at most.
    let lead = || -> Result<(Duration, Duration)> {
        let before = Timestamp::now();
        let begun = slot.begin(&begin)?;
        let after = Timestamp::now();
        slot.cancel(begun.number)?;
        let least = begun.trigger_at.since(after);
        Ok((least, begun.trigger_at.since(before)))
    };
    let predicted =
        |(least, most): (Duration, Duration)| least <= expected && most + switch >= expected;
    let at_once = |(least, _)| least == Duration::ZERO;
    let never = |(_, most)| most > Duration::from_secs(17);
    ensure!(predicted(lead()?), "by default {:?}", lead()?);
    tune("preempt_scheduled", 0)?;
    ensure!(at_once(lead()?), "at begin {:?}", lead()?);
    tune("preempt_enabled", 0)?;
    ensure!(never(lead()?), "neither {:?}", lead()?);
    tune("preempt_scheduled", 1)?;
    ensure!(never(lead()?), "at ready {:?}", lead()?);
    // Ready data has the GPU all the same.
    let number = slot.begin(&begin)?.number;
    slot.ready_at(number, Timestamp::now());
    slot.done(number);
    tune("preempt_enabled", 1)?;
    tune("min_prep_us", 200_001)?;
    ensure!(at_once(lead()?), "shorter {:?}", lead()?);
    tune("min_prep_us", 200_000)?;
    ensure!(predicted(lead()?), "not shorter {:?}", lead()?);
    Ok(())
}

/// A key keeps the margin that it began with, until it learns.
pub(super) fn margins_begin_as_tuned() -> Outcome {
    let (_lab, client) = lab()?;
    let slot = client.slot(0);
    let expected = Duration::from_millis(10);
    tune("predictor", "fixed")?;
    tune("predictor_margin", 1)?;
    let mut keys = Vec::new();
    for margin in [20u64, 1, 500, 50] {
        tune("safety_margin_us", margin)?;
        let begin = Begin::new(client.tsg).key(new_key()).expected(expected);
        keys.push((begin, expected - Duration::from_micros(margin)));
        for (begin, left) in &keys {
            check_eq!(predicted(&slot, begin)?, Some(*left), "{margin}");
        }
    }
    Ok(())
}
