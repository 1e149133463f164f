// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exclusion for a request without a holder: the calls that preempt and disable, and their effect.

use anyhow::Result;

use crate::check::Check;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::tracefs::Tracer;

use super::stage::{us, Outcome, Stage, LONG_SLICE_US};

/// The check of the calls.
pub const PREEMPT: Check = Check {
    name: "preempt",
    asks: "Does the driver take a spinning TSG off the GPU, and after how long?",
    seconds: 35,
    slices: &[LONG_SLICE_US],
    run: preempt,
};

/// The check of the effect.
pub const CHECK: Check = Check {
    name: "disable",
    asks: "Is a disabled TSG off the GPU until it is enabled, and LC on it?",
    seconds: 60,
    slices: &[LONG_SLICE_US],
    run: disable,
};

const PUBLISHED: &str = "gpu_ext: 250 to 356 us for a preemption; to disable is one call more";
const PROMISE: &str = "Documentation/requests.rst: exclusion from the trigger to ready";

/// Longest wait for a preemption, in microseconds: it is measured here, not bounded.
const TIMEOUT_US: u32 = 500_000;

/// After so many in vain the rest would be, too.
const VAIN: usize = 2;

fn preempt(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(
        |gpu| gpu.can.preempt && gpu.can.enable,
        "the driver preempts no TSG",
    )?;
    lab.set("preempt_timeout_us", TIMEOUT_US)?;
    let stage = Stage::spinning(lab, LONG_SLICE_US, "exclude")?;
    // Without it, outcomes are counted all the same.
    let tracer = Tracer::new(&["request_trigger", "tsg_preempted"]).ok();
    let tries = lab.count(20, 5);
    let (mut done, mut failed) = (0, 0);
    for _ in 0..tries {
        let before = stage.outcomes()?;
        let (request, _) = stage.begin()?;
        match stage.wait_outcome(&before)? {
            Some(Outcome::Preempted) => done += 1,
            _ => failed += 1,
        }
        stage.end(request)?;
        stage.wait_on()?;
        if failed == VAIN {
            break;
        }
    }
    figures.always("preempted_in_time", done, done + failed, PROMISE);
    if let Some(tracer) = tracer {
        let times = calls(&tracer, stage.be.tsg().as_u64())?;
        let range = Range::new(50.0, 2_000.0);
        figures.cost(
            "trigger_to_end_of_calls",
            Unit::Microseconds,
            &times,
            range,
            PUBLISHED,
        );
    }
    Ok(())
}

/// Times from each trigger to the end of the calls for a TSG, in microseconds.
fn calls(tracer: &Tracer, tsg: u64) -> Result<Vec<f64>> {
    let tsg = tsg.to_string();
    let (mut times, mut trigger) = (Vec::new(), None);
    for event in tracer.events()? {
        match event.name.as_str() {
            "request_trigger" => trigger = Some(event.at),
            "tsg_preempted" if event.field("tsg") == Some(&tsg) => {
                let told = trigger
                    .take()
                    .filter(|_| event.field("verdict") == Some("done"));
                times.extend(told.map(|then| us(then, event.at)));
            }
            _ => {}
        }
    }
    Ok(times)
}

fn disable(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(|gpu| gpu.can.enable, "the driver disables no TSG")?;
    lab.set("preempt_timeout_us", TIMEOUT_US)?;
    let stage = Stage::spinning(lab, LONG_SLICE_US, "exclude")?;
    let tries = lab.count(20, 5);
    let (mut tried, mut off, mut on, mut served) = (0, 0, 0, 0);
    let [mut to_off, mut to_lc, mut to_on] = [const { Vec::new() }; 3];
    for _ in 0..tries {
        tried += 1;
        lab.wait_runs(&*stage.be)?;
        lab.work.record()?;
        let item = stage.lc.item(super::latency::LENGTH)?;
        let (request, trigger) = stage.begin()?;
        let is_off = stage.wait_off()?;
        let ran = lab.within(super::stage::PATIENCE, || stage.lc.ran(item))?;
        let ready = libzernel::Timestamp::now();
        stage.end(request)?;
        let is_on = stage.wait_on()?;
        let runs = lab.work.runs()?;
        if let Some(ran) = ran {
            served += 1;
            to_lc.push(us(trigger, ran.started));
        }
        if is_off {
            off += 1;
            let end = runs.end_of_last_before(stage.be.tsg(), ready);
            to_off.extend(end.map(|end| us(trigger, end)));
        } else {
            // It keeps the GPU: the item runs when its slice is over.
            lab.wait_ran(&*stage.lc, item).ok();
        }
        if is_on {
            on += 1;
            let begin = runs.first_after(stage.be.tsg(), ready);
            to_on.extend(begin.map(|begin| us(ready, begin)));
        }
        if tried - off == VAIN {
            break;
        }
    }
    figures.always("off_at_the_trigger", off, tried, PROMISE);
    figures.always("lc_served", served, tried, PROMISE);
    figures.always("on_when_ready", on, tried, PROMISE);
    let range = Range::new(50.0, 2_000.0);
    figures.cost(
        "trigger_to_off",
        Unit::Microseconds,
        &to_off,
        range,
        PUBLISHED,
    );
    figures.cost(
        "trigger_to_lc",
        Unit::Microseconds,
        &to_lc,
        range,
        PUBLISHED,
    );
    figures.first("ready_to_on", Unit::Microseconds, &to_on);
    Ok(())
}
