// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interleave levels: the share of three TSGs, one of each level.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::tsg::Interleave;
use libzernel::Level;

use crate::check::Check;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::work::not_here;

use super::stage::PATIENCE;

/// The check.
pub const CHECK: Check = Check {
    name: "interleave",
    asks: "Do TSGs of a higher interleave level have more turns?",
    seconds: 30,
    slices: &[SLICE],
    run,
};

/// The slice of all three, in microseconds.
const SLICE: u32 = 2_000;

/// Levels of zernel, with high, medium and low interleave.
const LEVELS: [(u8, &str); 3] = [(1, "high"), (2, "medium"), (7, "low")];

const SOURCE: &str = "a high one has its turn between any two others, so half of all turns";

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.needs(
        |gpu| gpu.can.interleave,
        "the driver sets no interleave levels",
    )?;
    lab.set("rotation", "none")?;
    lab.set("slice_policy", "table")?;
    let mut all = Vec::new();
    for (number, name) in LEVELS {
        lab.set(&format!("level{number}_timeslice_us"), SLICE)?;
        let level = Level::new(number).expect("a level from 0 to 7");
        let context = lab.context(level)?;
        lab.wait_slice(&*context, SLICE)?;
        context.spin()?;
        all.push((context, name));
    }
    // It is set after the slice.
    let high = all[0].0.tsg();
    let is_set = || Ok((lab.tsg(high)?.interleave == Interleave::High).then_some(()));
    if lab.within(PATIENCE, is_set)?.is_none() {
        return not_here("the driver takes no interleave levels");
    }
    for (context, _) in &all {
        lab.wait_runs(&**context)?;
    }
    lab.work.record()?;
    lab.pause(Duration::from_micros(u64::from(SLICE) * 200))?;
    let runs = lab.work.runs()?;
    let busy = |at: usize| {
        let context: &dyn crate::work::Context = &*all[at].0;
        runs.busy_ns(context.tsg()) as f64
    };
    let sum: f64 = (0..all.len()).map(busy).sum();
    ensure!(sum > 0.0, "nobody ran");
    let wide = [(400.0, 650.0), (120.0, 330.0), (80.0, 330.0)];
    for (at, (_, name)) in all.iter().enumerate() {
        let share = [1e3 * busy(at) / sum];
        let range = Range::new(wide[at].0, wide[at].1);
        figures.cost(
            format!("share_{name}"),
            Unit::Permille,
            &share,
            range,
            SOURCE,
        );
    }
    // Without levels all have a third.
    let ratio = 1e3 * busy(0) / busy(2).max(1.0);
    let range = Range::new(1_300.0, 10_000.0);
    figures.effect("high_to_low", Unit::Permille, ratio, range, SOURCE);
    Ok(())
}
