// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a switch between two processes: each notes when it does not have the GPU, by the timer
//! that both see.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::Zernel;

use crate::gpu::{Gpu, ONE};
use crate::neighbour::{Neighbour, GAP_NS};
use crate::programs::slices;
use crate::report::Findings;
use crate::software;
use crate::sys;
use crate::witness::{Gap, Witness};

/// A switch takes no longer.
const LONGEST_US: f64 = 1000.0;

/// Times from the last look of the one to the first look of the other, in microseconds. One that has
/// the GPU does not have it in a gap of the other.
fn switches(one: &[Gap], other: &[Gap]) -> Vec<f64> {
    let mut times = Vec::new();
    for gap in one {
        // The other came to have it after the one had lost it.
        let next = other.partition_point(|gap_of_other| gap_of_other.to < gap.from);
        let Some(came) = other.get(next) else { break };
        let time = (came.to - gap.from) as f64 / 1e3;
        if came.to <= gap.to && time < LONGEST_US {
            times.push(time);
        }
    }
    times
}

/// The times between gaps: slices in which it had the GPU, in microseconds.
fn slices_of(gaps: &[Gap]) -> Vec<f64> {
    let between = gaps.windows(2);
    between
        .map(|pair| pair[1].from.saturating_sub(pair[0].to) as f64 / 1e3)
        .collect()
}

fn measure(gpu: &Gpu, is_full: bool, slice: Option<u64>) -> Result<(Vec<Gap>, Vec<Gap>)> {
    const TIME: Duration = Duration::from_millis(1500);
    let other = Neighbour::start(&gpu.options, is_full, slice)?;
    let stream = gpu.api.stream()?;
    let own = Witness::start_in(gpu, stream.stream(), GAP_NS)?;
    std::thread::sleep(if gpu.options.short { TIME / 10 } else { TIME });
    Ok((own.stop()?, other.stop()?))
}

/// The software GPU, whose kernels see no timer: the switches of its TSGs, as zernel measures them.
fn of_software(gpu: &Gpu) -> Result<Findings> {
    let Ok(zernel) = Zernel::open() else {
        return Ok(Findings::absent(
            "the software GPU tells its switches through zernel alone",
        ));
    };
    let mut findings = Findings::default();
    let bus = gpu.driver.bus(gpu.device)?;
    let own = zernel
        .gpus()
        .filter_map(|found| found.ok().filter(|gpu| gpu.bus == bus))
        .next();
    let own = own.context("zernel does not list the GPU")?;
    let before = software::preemptions()?;
    let other = Neighbour::start(&gpu.options, true, Some(200))?;
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    let spin = gpu.spin()?;
    for _ in 0..gpu.options.rounds(200) {
        sys::launch(&spin, ONE, stream.stream(), [5_000_000])?;
        entered.wait_idle(stream.stream())?;
    }
    other.stop()?;
    let preemptions = software::preemptions()? - before;
    findings.value("preemptions of this process", preemptions);
    findings.expect("two processes take turns on the GPU", preemptions > 0);
    let switches = zernel.switches(own.id)?;
    findings.value("switches, as zernel has measured them", switches.samples);
    if let Some(mean) = switches.sum_ns.checked_div(switches.samples) {
        let (min, max) = (switches.min_ns / 1000, switches.max_ns / 1000);
        findings.value(
            "  their mean, us",
            format!("{}, from {min} to {max}", mean / 1000),
        );
    }
    Ok(findings)
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    if gpu.is_software()? {
        return of_software(gpu);
    }
    let mut findings = Findings::default();
    let mut found = 0;
    for (is_full, name) in [(false, "of one warp"), (true, "of the whole GPU")] {
        let (own, other) = measure(gpu, is_full, None)?;
        let mut times = switches(&own, &other);
        times.extend(switches(&other, &own));
        found += times.len();
        let name = format!("a switch, neighbour {name}, us");
        if let Some(switch) = findings.figure(&name, times) {
            findings.expect_on_hardware(
                format!("{name}: p50 from 5 to 500"),
                (5.0..=500.0).contains(&switch.p50),
            );
        }
        findings.figure("  own time slices, us", slices_of(&own));
        findings.figure("  the neighbour's time slices, us", slices_of(&other));
    }
    findings.expect("at least 20 switches were seen", found >= 20);
    if slices::set_own(200).is_ok() {
        let (own, other) = measure(gpu, true, Some(1000))?;
        let mine = findings.figure("own time slices, set to 200 us, us", slices_of(&own));
        let name = "the neighbour's time slices, set to 1000 us, us";
        let others = findings.figure(name, slices_of(&other));
        let near = |figure: Option<crate::report::Figure>, us: f64| {
            figure.is_some_and(|figure| (0.5 * us..2.0 * us).contains(&figure.p50))
        };
        findings.expect_on_hardware("own slices of 100 to 400 us", near(mine, 200.0));
        findings.expect_on_hardware("the neighbour's of 500 to 2000 us", near(others, 1000.0));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_from_the_ones_last_look_to_the_others_first() {
        let gap = |from, to| Gap { from, to };
        let one = [gap(1_000_000, 3_000_000), gap(4_000_000, 6_000_000)];
        let other = [gap(500_000, 1_050_000), gap(2_960_000, 4_060_000)];
        assert_eq!(switches(&one, &other), [50.0, 60.0]);
        assert_eq!(switches(&other, &one), [40.0]);
        assert_eq!(slices_of(&one), [1000.0]);
        assert_eq!(slices_of(&other), [1910.0]);
    }
}
