// SPDX-License-Identifier: GPL-2.0
//! Predictions: what is learned of a key, and who is asked.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Result};
use libzernel::request::{Begin, Begun, Slot};
use libzernel::Timestamp;

use super::{longest_lease, new_key, Client};
use crate::check_eq;
use crate::common::{switch_ns, tune, Lab, SOON};
use crate::harness::Outcome;

/// The time of preparation here: much longer than a system call on any machine.
pub(super) const TOOK: Duration = Duration::from_millis(20);

/// The error of a preparation: begin lies somewhere in a call that took twice that at most.
const OFF: Duration = Duration::from_millis(1);

/// One request whose preparation took [`TOOK`], give or take [`OFF`]: one whose call took longer is
/// cancelled, from which nothing is learned.
pub(super) fn prepare(slot: &Slot<'_>, begin: &Begin) -> Result<Begun> {
    let end = Instant::now() + SOON;
    loop {
        let before = Timestamp::now();
        let begun = slot.begin(begin)?;
        let after = Timestamp::now();
        if after.since(before) > 2 * OFF {
            slot.cancel(begun.number)?;
            if Instant::now() > end {
                bail!("a call takes {:?}", after.since(before));
            }
            continue;
        }
        let ready = before + after.since(before) / 2 + TOOK;
        while Timestamp::now() < ready {
            std::thread::sleep(ready.since(Timestamp::now()));
        }
        slot.ready_at(begun.number, ready);
        slot.done(begun.number);
        return Ok(begun);
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
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let history = Begin::new(client.tsg).key(new_key());
    for _ in 0..40 {
        prepare(&slot, &history)?;
    }
    // All of them learn from every request, whichever is asked.
    for (predictor, percent) in [
        ("ema", 85..=115),
        ("holt", 70..=130),
        ("quantile", 75..=115),
    ] {
        for margin in [0, 1] {
            tune("predictor", predictor)?;
            tune("predictor_margin", margin)?;
            let Some(told) = predicted(&slot, &history)? else {
                bail!("{predictor} has learned nothing");
            };
            let part = told.as_nanos() * 100 / TOOK.as_nanos();
            let least = if margin == 1 { 0 } else { *percent.start() };
            let right = (least..=*percent.end()).contains(&part);
            ensure!(right, "{predictor}, margin {margin}: {told:?}");
        }
    }
    // Its trigger comes when the GPU should switch, not at once.
    let before = Timestamp::now();
    let begun = slot.begin(&history)?;
    let switch = switch_ns(&lab.zernel, client.tsg)?;
    let after = Timestamp::now();
    slot.cancel(begun.number)?;
    let told = begun.predicted.unwrap_or_default();
    let (at, switch) = (begun.trigger_at, Duration::from_nanos(switch));
    // The switch cost can only have grown meanwhile, as no holder runs here.
    ensure!(at >= before, "{at} before {before}");
    ensure!(
        at + switch >= before + told,
        "{at}, a switch of {switch:?}, {told:?}"
    );
    ensure!(at <= after + told, "{at}, {told:?} after {after}");
    // Other keys know nothing of it.
    let other = Begin::new(client.tsg).key(new_key());
    check_eq!(predicted(&slot, &other)?, None, "another key");
    Ok(())
}

pub(super) fn exact_and_expected() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let begin = Begin::new(client.tsg).key(new_key());
    let expected = Duration::from_nanos(12_345_678);
    for begin in [begin, begin.exact()] {
        let told = predicted(&slot, &begin.expected(expected))?;
        check_eq!(told, Some(expected), "{begin:?} without history");
    }
    for _ in 0..5 {
        prepare(&slot, &begin)?;
    }
    let begin = begin.expected(expected);
    ensure!(predicted(&slot, &begin)? != Some(expected), "with history");
    check_eq!(predicted(&slot, &begin.exact())?, Some(expected), "exact");
    // Exactly nothing is at once.
    let now = begin.expected(Duration::ZERO).exact();
    check_eq!(predicted(&slot, &now)?, None, "nothing expected");
    Ok(())
}

/// The tunable is about those that do not say, from then on.
pub(super) fn tunable_predictor() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let begin = Begin::new(client.tsg).key(new_key());
    for _ in 0..8 {
        prepare(&slot, &begin)?;
    }
    // A begin does not wait for the newest preparation; the next one knows it.
    predicted(&slot, &begin)?;
    let expected = Duration::from_secs(5);
    for name in ["ema", "holt", "fixed", "quantile"] {
        tune("predictor", name)?;
        let told = predicted(&slot, &begin.expected(expected))?;
        check_eq!(told == Some(expected), name == "fixed", "{name}");
        // Whoever says so gets what it expects.
        let exact = predicted(&slot, &begin.expected(expected).exact())?;
        check_eq!(exact, Some(expected), "exact while the tunable is {name}");
        if name == "fixed" {
            // The constant of GPreempt.
            let told = predicted(&slot, &begin)?;
            check_eq!(told, Some(Duration::from_micros(200)), "nothing expected");
        }
    }
    let begin = begin.expected(expected);
    // The dearer it is to be early, the later the GPU is taken.
    let mut told = Vec::new();
    for (early, late) in [(1, 9), (1, 1), (9, 1), (0, 1), (1, 0), (0, 0)] {
        tune("early_cost", early)?;
        tune("late_cost", late)?;
        told.push(predicted(&slot, &begin)?.unwrap_or_default());
    }
    ensure!(told[0] <= told[1] && told[1] <= told[2], "{told:?}");
    ensure!(told[3] <= told[0] && told[2] <= told[4], "{told:?}");
    check_eq!(told[5], told[1], "no cost at all is an equal cost");
    Ok(())
}
