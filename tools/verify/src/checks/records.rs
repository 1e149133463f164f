// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of context switches: the cost of a read with its FLUSH, for others too, and their content.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use libzernel::Level;

use crate::check::Check;
use crate::debugfs;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::work::not_here;

/// The check.
pub const CHECK: Check = Check {
    name: "records",
    asks: "What does FLUSH of FECS records cost, how long does it hold the driver?",
    seconds: 45,
    slices: &[SLICE_US],
    run,
};

const SWITCH: &str = "GPreempt (ATC'25): 42 us each on an A100";
const LOST: &str = "8,191 records of the driver's ring, read 30 times a second";

/// The tenant's slices, in microseconds: so that there are switches to record.
const SLICE_US: u32 = 2_000;

/// From a read of the file to the next one: each is a FLUSH, which takes locks of the driver.
pub const BETWEEN_READS: Duration = Duration::from_millis(33);

/// From a call of the driver to the next one, so that some meet a read.
const BETWEEN_CALLS: Duration = Duration::from_millis(3);

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let gpu = debugfs::handle("gpu", lab.gpu()?.id.as_u64())?;
    lab.set("rotation", "none")?;
    lab.set("slice_policy", "table")?;
    lab.set("level7_timeslice_us", SLICE_US)?;
    let pair = [lab.context(Level::BE)?, lab.context(Level::BE)?];
    for context in &pair {
        context.spin()?;
    }
    let line = |name: &str| -> Result<Option<i64>> {
        let lines = debugfs::lines("records")?;
        let line = debugfs::of_gpu(&lines, gpu)?;
        line.context("the GPU is not told of")?.number(name)
    };
    let before = line("records")?.unwrap_or_default();
    let lost = line("lost")?.unwrap_or_default();
    let found = lab.within(Duration::from_secs(5), || {
        lab.pause(BETWEEN_READS)?;
        // Records are written while somebody asks for the load.
        lab.gpu()?;
        Ok((line("records")?.unwrap_or_default() > before).then_some(()))
    })?;
    if found.is_none() {
        return not_here(
            "no records come: load zernel_nvidia.ko with records=1, unless the driver has none",
        );
    }
    let [mut reads, mut flushes] = [const { Vec::new() }; 2];
    for _ in 0..lab.count(30, 8) {
        lab.pause(BETWEEN_READS)?;
        let begin = Instant::now();
        let flush = line("flush_ns")?;
        reads.push(begin.elapsed().as_nanos() as f64 / 1e3);
        flushes.extend(flush.map(|ns| ns as f64 / 1e3));
    }
    figures.first("read_of_the_file", Unit::Microseconds, &reads);
    figures.first("read_with_flush", Unit::Microseconds, &flushes);
    let more = (line("records")?.unwrap_or_default() - before) as f64;
    let range = Range::new(1.0, 1e9);
    figures.effect("records", Unit::Count, more, range, "two TSGs alternate");
    let lost = (line("lost")?.unwrap_or_default() - lost) as f64;
    figures.cost("lost", Unit::Count, &[lost], Range::exactly(0.0), LOST);
    for (name, told) in [("save", "save_median_ns"), ("restore", "restore_median_ns")] {
        let median: Vec<f64> = line(told)?.map(|ns| ns as f64 / 1e3).into_iter().collect();
        let range = Range::new(1.0, 200.0);
        figures.cost(name, Unit::Microseconds, &median, range, SWITCH);
    }
    beside(lab, figures)
}

/// Calls of the driver alone, and beside somebody who reads records as often as zernel_nvidia.ko does.
fn beside(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let count = lab.count(300, 30);
    figures.first("driver_call_alone", Unit::Microseconds, &calls(lab, count)?);
    let ends = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let _ = debugfs::lines("records");
                thread::sleep(BETWEEN_READS);
            }
        });
        let found = calls(lab, count);
        ends.store(true, Ordering::Relaxed);
        found
    })?;
    figures.first("driver_call_beside_reads", Unit::Microseconds, &beside);
    Ok(())
}

fn calls(lab: &Lab<'_>, count: usize) -> Result<Vec<f64>> {
    let one = |_| {
        lab.pause(BETWEEN_CALLS)?;
        let begin = Instant::now();
        lab.work.call_driver()?;
        Ok(begin.elapsed().as_nanos() as f64 / 1e3)
    };
    (0..count).map(one).collect()
}
