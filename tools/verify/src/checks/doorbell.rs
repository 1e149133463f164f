// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that is submitted while its TSG is disabled: seen by registers, and begun without another
//! doorbell.

use std::time::Duration;

use anyhow::Result;

use crate::check::Check;
use crate::debugfs;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;

use super::registers::Words;
use super::stage::{us, Stage, PATIENCE};

/// The check.
pub const CHECK: Check = Check {
    name: "doorbell",
    asks: "Does work submitted while its TSG is disabled begin once it is enabled?",
    seconds: 60,
    slices: &[SLICE_US],
    run,
};

const SOURCE: &str =
    "Documentation/nvidia.rst: a doorbell to a disabled TSG may be lost; not known";
const KEPT: &str = "Documentation/requests.rst: a TSG that is kept off does not run";
const PENDING: &str =
    "dev_runlist.h: NV_CHRAM_CHANNEL is pending; without it zernel tries after 100 ms";

/// Longer than work takes to begin, if it does.
const KEPT_OFF: Duration = Duration::from_millis(50);

/// Slices of the best-effort TSG, in microseconds.
const SLICE_US: u32 = 2_000;

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(|gpu| gpu.can.enable, "the driver disables no TSG")?;
    let stage = Stage::new(lab, SLICE_US, "exclude")?;
    let handle = debugfs::handle("tsg", stage.be.tsg().as_u64()).ok();
    let tries = lab.count(20, 5);
    let (mut tried, mut kept_off, mut begun, mut again) = (0, 0, 0, 0);
    let (mut pending, mut looks) = (0, 0);
    let mut times = Vec::new();
    for _ in 0..tries {
        tried += 1;
        // Clocks drift apart.
        lab.work.clocks()?;
        let before = stage.outcomes()?;
        let (request, _) = stage.begin()?;
        stage.wait_outcome(&before)?;
        let item = stage.be.item(super::latency::LENGTH)?;
        lab.pause(KEPT_OFF)?;
        let early = stage.be.ran(item)?;
        if let Some(words) = handle.and_then(|tsg| Words::of_tsg(tsg).ok().flatten()) {
            looks += 1;
            pending += usize::from(words.has_work());
        }
        let ready = libzernel::Timestamp::now();
        stage.end(request)?;
        if early.is_some() {
            continue;
        }
        kept_off += 1;
        if let Some(ran) = lab.within(PATIENCE, || stage.be.ran(item))? {
            begun += 1;
            times.push(us(ready, ran.started));
            continue;
        }
        let second = stage.be.item(super::latency::LENGTH)?;
        again += usize::from(lab.within(PATIENCE, || stage.be.ran(second))?.is_some());
        break;
    }
    figures.always("kept_off_while_disabled", kept_off, tried, KEPT);
    // None that was kept off tells nothing of doorbells.
    if kept_off > 0 {
        figures.always("begun_without_another_doorbell", begun, kept_off, SOURCE);
    }
    if begun < kept_off {
        figures.first("begun_with_another_doorbell", Unit::Count, &[again as f64]);
    }
    if looks > 0 {
        figures.always("pending_in_the_register", pending, looks, PENDING);
    }
    let range = Range::new(0.0, 2_000.0);
    figures.cost("enable_to_begin", Unit::Microseconds, &times, range, SOURCE);
    Ok(())
}
