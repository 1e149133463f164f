// SPDX-License-Identifier: GPL-2.0
//! A training loop against its own marks: what it says that it does, and what is told of it.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::Timestamp;
use zernel_train::{Agreement, Program, Step, Watch};

use crate::block::disk;
use crate::check_eq;
use crate::child::in_child;
use crate::common::default_of;
use crate::gpuwait::{self, Probed};
use crate::harness::Outcome;

/// The time of a request of the disk: a small part of a section, so that sections are as long as
/// they should be.
const LATENCY: Duration = Duration::from_millis(4);

/// Percent of the time, at least, in which the phase told is what the loop says.
const AGREEMENT: f64 = 95.0;

/// Samples after which a phase is told at most; one more may have begun before it.
const LAG: u64 = 3;

/// An optimizer takes less than the longest burst of one.
const OPTIMIZE_MS: u64 = 4;

/// A program that reads its batches from the disk.
fn program() -> Result<Program> {
    // First, for making it takes reading it.
    let disk = disk(LATENCY)?;
    Ok(Program::new()?.reading(disk))
}

/// Trains; the phases told agree with the marks.
fn agrees(mut program: Program, steps: &[Step]) -> Outcome {
    let watch = Watch::start()?;
    let run = program.in_sequence(steps);
    let lines = watch.stop()?;
    let tick = Duration::from_micros(default_of("phase_tick_us").into());
    let agreement = Agreement::of(&run?.sections, &lines.of(program.trainer()), tick);
    println!("    # {agreement}");
    check_eq!(lines.missed(), 0);
    ensure!(agreement.percent >= AGREEMENT, "too little: {agreement}");
    ensure!(agreement.longest_samples() <= LAG, "too late: {agreement}");
    Ok(())
}

pub(super) fn fixed() -> Outcome {
    let steps = [Step::of(120, 180).optimizing(OPTIMIZE_MS); 26];
    in_child(|| agrees(program()?, &steps))
}

/// Sections of 1 to 200 ms.
pub(super) fn random() -> Outcome {
    in_child(|| agrees(program()?, &random_steps()))
}

/// The same of a runtime that spins while the GPU computes, whose driver tells nothing.
pub(super) fn spinning() -> Outcome {
    in_child(|| {
        let _probed = Probed::new()?;
        let wait = |duration| gpuwait::synchronize(&mut || gpuwait::spin(duration));
        agrees(program()?.spinning(wait), &random_steps())
    })
}

fn random_steps() -> Vec<Step> {
    let seed = Timestamp::now().as_ns();
    println!("    # seed {seed:#x}");
    let mut steps = Step::random(41, seed, 1..=200);
    for step in &mut steps {
        step.optimize = Duration::from_millis(OPTIMIZE_MS);
    }
    steps
}
