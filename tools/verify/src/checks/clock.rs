// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU's clock beside the kernel's: error, step, drift; and as zernel_nvidia.ko knows it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::Level;

use crate::check::Check;
use crate::debugfs;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::work::Clocks;

/// The check.
pub const CHECK: Check = Check {
    name: "clock",
    asks: "How well are times of the GPU known by the kernel's clock?",
    seconds: 30,
    slices: &[],
    run,
};

const ERROR: &str = "half of a round trip over PCIe: 1 to 5 us";
const DRIFT: &str = "a quartz: below 100 ppm";
const SAME: &str = "PTIMER and %globaltimer are one clock; not tried";

/// Time over which drift is measured.
const SPAN: Duration = Duration::from_secs(4);

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let first = best(lab)?;
    let mut errors = Vec::new();
    let mut steps = Vec::new();
    let mut last = first.gpu_ns;
    let mut back = 0;
    for _ in 0..lab.count(200, 20) {
        let now = lab.work.clocks()?;
        errors.push(now.error.as_nanos() as f64);
        back += usize::from(now.gpu_ns < last);
        steps.push(now.gpu_ns.saturating_sub(last) as f64);
        last = now.gpu_ns;
    }
    figures.always("went_back", back, 0, "a clock");
    let range = Range::new(0.0, 20_000.0);
    figures.cost("error", Unit::Nanoseconds, &errors, range, ERROR);
    figures.first("from_look_to_look", Unit::Nanoseconds, &steps);
    lab.pause(SPAN)?;
    let second = best(lab)?;
    let passed = second.cpu.since(first.cpu).as_nanos() as f64;
    let gone = offset(&second) - offset(&first);
    let drift = [gone as f64 / passed * 1e9];
    let range = Range::new(-100_000.0, 100_000.0);
    figures.cost("drift", Unit::Ppb, &drift, range, DRIFT);
    let error = (first.error + second.error).as_nanos() as f64 / passed * 1e9;
    figures.first("error_of_drift", Unit::Ppb, &[error]);
    // A clock that runs at another speed, or is read wrongly, on any GPU.
    let speed = 1e3 * (second.gpu_ns - first.gpu_ns) as f64 / passed;
    let range = Range::new(950.0, 1_050.0);
    figures.effect("speed", Unit::Permille, speed, range, "nanoseconds in both");
    told(lab, figures, &second)
}

/// The lead of the GPU's clock.
fn offset(clocks: &Clocks) -> i128 {
    i128::from(clocks.gpu_ns) - i128::from(clocks.cpu.as_ns())
}

/// The look with the least error of some.
fn best(lab: &Lab<'_>) -> Result<Clocks> {
    let looks = (0..20).map(|_| lab.work.clocks());
    let looks: Vec<Clocks> = looks.collect::<Result<_>>()?;
    let best = looks.into_iter().min_by_key(|clocks| clocks.error);
    best.context("no look at the clock")
}

/// The same as zernel_nvidia.ko tells it with records, if it does.
fn told(lab: &Lab<'_>, figures: &mut Figures, own: &Clocks) -> Result<()> {
    let Ok(gpu) = debugfs::handle("gpu", lab.gpu()?.id.as_u64()) else {
        return Ok(());
    };
    if debugfs::lines("records").is_err() {
        return Ok(());
    }
    // Records come while a TSG is there and somebody asks.
    let context = lab.context(Level::BE)?;
    context.spin()?;
    let found = lab.within(Duration::from_secs(2), || {
        lab.pause(super::records::BETWEEN_READS)?;
        lab.gpu()?;
        let lines = debugfs::lines("records")?;
        let line = debugfs::of_gpu(&lines, gpu)?.context("the GPU is not told of")?;
        let told = |name| line.number(name);
        Ok(told("clock_ns")?.zip(told("clock_error_ns")?))
    })?;
    let Some((lead, error)) = found else {
        return Ok(());
    };
    figures.first("error_of_records", Unit::Nanoseconds, &[error as f64]);
    let apart = [(i128::from(lead) - offset(own)).unsigned_abs() as f64];
    let most = error as f64 + own.error.as_nanos() as f64 + 100_000.0;
    let range = Range::new(0.0, most);
    figures.cost(
        "records_apart_from_work",
        Unit::Nanoseconds,
        &apart,
        range,
        SAME,
    );
    Ok(())
}
