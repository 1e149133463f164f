// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency of LC items: alone, and beside a spinning BE TSG by slices, classes and requests.

use std::time::Duration;

use anyhow::Result;
use libzernel::request::Word;
use libzernel::{Level, Timestamp};

use crate::check::Check;
use crate::figure::{Figures, Range, Sample, Unit};
use crate::lab::Lab;
use crate::work::Context;

use super::stage::{us, PATIENCE};

/// The check.
pub const CHECK: Check = Check {
    name: "latency",
    asks: "How much later does LC end beside a spinning BE, in each way of sharing?",
    seconds: 90,
    slices: &[],
    run,
};

/// Length of an item.
pub const LENGTH: Duration = Duration::from_micros(200);

/// From one item to the next: no part of a slice of the driver's.
const PAUSE: Duration = Duration::from_micros(5_300);

/// From begin to ready of a request.
const PREPARATION: Duration = Duration::from_millis(2);

const BY_SLICES: &str = "half of a slice of 1024 us and a switch, or more";
const BY_CLASSES: &str = "Documentation/sharing.rst: 134 us on an A100 at most, 67 us in the mean";
const PROMISE: &str = "Documentation/sharing.rst: LC waits for a BE slice and a switch at most";

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let period = lab.tunable("level0_period_us")?;
    lab.set("level0_budget_us", period)?;
    lab.set("lease_us", 10_000_000)?;
    // Slots outlive a GPU that uses them.
    let slots = lab.slots()?;
    let mut lc = lab.context(Level::LC)?;
    lc.use_slots(&slots)?;
    let slot = slots.slot(0).expect("it was mapped");
    let count = lab.count(400, 60);
    // The first item of a context may cost more.
    items(lab, &*lc, 5)?;
    let alone = items(lab, &*lc, count)?;
    let base = Sample::of(&alone).map_or(0.0, |s| s.median);
    figures.first("alone", Unit::Microseconds, &alone);

    let be = lab.context(Level::BE)?;
    be.spin()?;
    let settle = || {
        [&*lc, &*be]
            .into_iter()
            .try_for_each(|context| lab.settle(context))
    };
    lab.set("enabled", 0)?;
    settle()?;
    lab.wait_runs(&*be)?;
    let slices = added(&items(lab, &*lc, count)?, base);
    let range = Range::new(0.0, 5_000.0);
    figures.cost(
        "added_by_slices",
        Unit::Microseconds,
        &slices,
        range,
        BY_SLICES,
    );

    lab.set("enabled", 1)?;
    settle()?;
    let classes = added(&items(lab, &*lc, count)?, base);
    let range = Range::new(0.0, 250.0);
    figures.cost(
        "added_by_classes",
        Unit::Microseconds,
        &classes,
        range,
        BY_CLASSES,
    );

    let mut requests = Vec::new();
    for _ in 0..count {
        lab.work.clocks()?;
        lab.pause(PAUSE)?;
        let request = lab.request(&*lc).expected(PREPARATION).exact();
        let begun = slot.begin(&request)?;
        let holder = lc.hold(&slot, begun.number)?;
        lab.pause(PREPARATION)?;
        // A machine that is late has it held later.
        let reached = || {
            Ok(begun
                .number
                .is_reached_by(slot.load(Word::Held))
                .then_some(()))
        };
        lab.within(PATIENCE, reached)?;
        let item = lc.item(LENGTH)?;
        let ready = Timestamp::now();
        slot.ready_at(begun.number, ready);
        lc.stored()?;
        lab.wait_ran(&*lc, holder)?;
        let ran = lab.wait_ran(&*lc, item)?;
        slot.done_call(begun.number)?;
        requests.push(us(ready, ran.ended));
    }
    let requests = added(&requests, base);
    let range = Range::new(-50.0, 60.0);
    figures.cost(
        "added_by_requests",
        Unit::Microseconds,
        &requests,
        range,
        PROMISE,
    );

    let middle = |values: &[f64]| Sample::of(values).map_or(0.0, |s| s.median.max(1.0));
    let ratio = 1e3 * middle(&classes) / middle(&slices);
    let range = Range::new(0.0, 800.0);
    figures.effect("classes_to_slices", Unit::Permille, ratio, range, PROMISE);
    Ok(())
}

/// Latencies of some items, in microseconds.
fn items(lab: &Lab<'_>, context: &dyn Context, count: usize) -> Result<Vec<f64>> {
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        // Clocks drift apart.
        lab.work.clocks()?;
        lab.pause(PAUSE)?;
        let ran = lab.wait_ran(context, context.item(LENGTH)?)?;
        found.push(us(ran.submitted, ran.ended));
    }
    Ok(found)
}

/// Latencies above that of items alone.
fn added(latencies: &[f64], base: f64) -> Vec<f64> {
    latencies.iter().map(|latency| latency - base).collect()
}
