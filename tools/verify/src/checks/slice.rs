// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time slices: two TSGs without end alternate after as long as they were told.

use std::time::Duration;

use anyhow::Result;
use libzernel::Level;

use crate::check::Check;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;

/// The check.
pub const CHECK: Check = Check {
    name: "slice",
    asks: "Do two spinning TSGs alternate after level7_timeslice_us?",
    seconds: 40,
    slices: &SLICES,
    run,
};

/// Slices that are tried, in microseconds.
const SLICES: [u32; 3] = [1_000, 2_000, 4_000];

const ROUNDS: &str =
    "driver: a run list holds a slice as 8 bits of 1.024 us shifted left, rounded down";
const SWITCH: &str = "GPreempt (ATC'25): save and restore, 84 us together on an A100";

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(|gpu| gpu.can.timeslice, "the driver sets no time slices")?;
    lab.set("rotation", "none")?;
    lab.set("slice_policy", "table")?;
    lab.set("level7_timeslice_us", SLICES[0])?;
    let pair = [lab.context(Level::BE)?, lab.context(Level::BE)?];
    for context in &pair {
        context.spin()?;
    }
    let mut medians = Vec::new();
    for slice in SLICES {
        lab.set("level7_timeslice_us", slice)?;
        for context in &pair {
            lab.wait_slice(&**context, slice)?;
            lab.wait_runs(&**context)?;
        }
        lab.work.record()?;
        // A shorter slice may still go on, and each has a turn of many.
        lab.pause(Duration::from_micros(60 * u64::from(slice)))?;
        let wanted = lab.count(30, 10);
        let runs = lab.wait("the TSGs alternate", || {
            let runs = lab.work.runs()?;
            let enough = |tsg| runs.lengths_us(tsg).len() >= wanted;
            Ok(pair.iter().all(|c| enough(c.tsg())).then_some(runs))
        })?;
        let lengths: Vec<f64> = pair
            .iter()
            .flat_map(|context| runs.lengths_us(context.tsg()))
            .collect();
        let (least, most) = (f64::from(slice) * 0.85, f64::from(slice) * 1.15);
        let range = Range::new(least, most);
        let name = format!("run_at_{slice}");
        figures.cost(name, Unit::Microseconds, &lengths, range, ROUNDS);
        medians.push(crate::figure::Sample::of(&lengths).map_or(0.0, |s| s.median));
        if slice == SLICES[2] {
            let range = Range::new(5.0, 300.0);
            let switches = runs.switches_us();
            figures.cost("switch", Unit::Microseconds, &switches, range, SWITCH);
        }
    }
    // A slice that is not heeded makes them equal.
    for (name, (short, long)) in [
        ("from_1000_to_2000", (medians[0], medians[1])),
        ("from_2000_to_4000", (medians[1], medians[2])),
    ] {
        let ratio = 1e3 * long / short.max(1.0);
        let range = Range::new(1_500.0, 2_600.0);
        figures.effect(name, Unit::Permille, ratio, range, "twice the slice");
    }
    Ok(())
}
