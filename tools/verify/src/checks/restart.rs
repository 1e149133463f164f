// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kick: RESTART_RUNLIST ends the slice that runs, and LC has the GPU.

use std::time::Duration;

use anyhow::Result;
use libzernel::Level;

use crate::check::Check;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::tracefs::Tracer;
use crate::work::not_here;

use super::stage::{us, Stage, LONG_SLICE_US, PATIENCE};

/// The check.
pub const CHECK: Check = Check {
    name: "restart",
    asks: "Does RESTART_RUNLIST end a running slice, and how soon is LC served?",
    seconds: 60,
    slices: &[LONG_SLICE_US],
    run,
};

const SOURCE: &str =
    "driver: RESTART_RUNLIST is made for lower latency of higher levels; no figure";

/// An item that has not run for so long is held back by the slice of the other; and a kick is over.
const HELD_BACK: Duration = Duration::from_millis(30);

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    // A driver that has refused it is asked again when the GPU has a TSG again.
    let first = lab.context(Level::BE)?;
    lab.needs(
        |gpu| gpu.can.kick,
        "the driver has no RESTART_RUNLIST for zernel",
    )?;
    // The first one is that of the risen level of the LC context.
    let tracer = Tracer::new(&["tsg_kicked"]).ok();
    let stage = Stage::spinning(lab, LONG_SLICE_US, "kick")?;
    drop(first);
    let tries = lab.count(20, 5);
    let (mut tried, mut by_itself, mut served) = (0, 0, 0);
    let mut times = Vec::new();
    // A look that finds the end of the slice of the other teaches nothing.
    for _ in 0..2 * tries {
        lab.wait_runs(&*stage.be)?;
        // Clocks drift apart.
        lab.work.clocks()?;
        let item = stage.lc.item(super::latency::LENGTH)?;
        lab.pause(HELD_BACK)?;
        if stage.lc.ran(item)?.is_some() {
            by_itself += 1;
            continue;
        }
        let (request, trigger) = stage.begin()?;
        let ran = lab.within(PATIENCE, || stage.lc.ran(item))?;
        stage.end(request)?;
        // That it is ready was told by a kick, too, which must not serve the next item.
        lab.pause(HELD_BACK)?;
        match ran {
            Some(ran) if ran.started > trigger => {
                tried += 1;
                served += 1;
                times.push(us(trigger, ran.started));
            }
            Some(_) => by_itself += 1,
            None => {
                tried += 1;
                lab.wait_ran(&*stage.lc, item)?;
            }
        }
        if served == tries || tried - served == 2 {
            break;
        }
    }
    if tried == 0 {
        return not_here("LC is served at once, with no kick: a slice of BE does not hold it back");
    }
    figures.first(
        "served_without_a_kick",
        Unit::Count,
        &[f64::from(by_itself)],
    );
    figures.always("served_at_the_trigger", served, tried, SOURCE);
    let range = Range::new(0.0, 1_000.0);
    figures.cost("trigger_to_lc", Unit::Microseconds, &times, range, SOURCE);
    // A driver that refuses it is not asked again, and others are kept off instead.
    let is_taken = lab.gpu()?.can.kick;
    figures.always("still_taken_at_the_end", is_taken.into(), 1, SOURCE);
    if let Some(tracer) = tracer {
        let events = tracer.events()?;
        let failed = events
            .iter()
            .filter(|event| event.name == "tsg_kicked" && event.field("error") != Some("0"));
        let failed = failed.count() as f64;
        figures.effect("refused", Unit::Count, failed, Range::exactly(0.0), SOURCE);
    }
    Ok(())
}
