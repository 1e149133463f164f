// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a training loop, without zernel's prefetch signal and with it.

mod options;
mod queues;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::tunable::Tunables;
use zernel_report::training::{Figures, Lengths, Plan, Trained, Training, RANDOM_MS};
use zernel_train::{Agreement, Missing, Program, Source, Step, Watch};

pub use self::options::{QueuesArgs, TrainArgs};
pub use self::queues::{compare, job, Extent};

/// Latency of a request of the throttled disk: a small part of that of a batch.
const LATENCY: Duration = Duration::from_millis(4);

/// Time for zernel to judge the last signal, in samples.
const JUDGED: u32 = 8;

/// Source of batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A block device with slow reads, made for it.
    Disk,
    /// A file or block device that is there.
    File(PathBuf),
}

/// Runs a loop, each time as a program of which nothing is known.
pub fn run(plan: Plan, signals: &[bool], from: &From) -> Result<Training> {
    let runs = signals.iter().map(|&signal| {
        let how = if signal { "with" } else { "without" };
        one(&plan, signal, from).with_context(|| format!("the loop {how} the signal"))
    });
    Ok(Training {
        plan,
        runs: runs.collect::<Result<_>>()?,
    })
}

/// The loops of the demo and the bench, or why the kernel cannot run them.
pub fn run_all(plans: &[Plan]) -> Result<std::result::Result<Vec<Training>, Missing>> {
    let mut trainings = Vec::new();
    for &plan in plans {
        match run(plan, &[false, true], &From::Disk) {
            Ok(training) => trainings.push(training),
            Err(error) => return error.downcast::<Missing>().map(Err),
        }
    }
    Ok(Ok(trainings))
}

/// The steps of a plan.
fn steps(plan: &Plan) -> Vec<Step> {
    let steps = match plan.lengths {
        Lengths::Fixed {
            load_ms,
            compute_ms,
        } => vec![Step::of(load_ms, compute_ms); plan.steps],
        Lengths::Random { seed } => Step::random(plan.steps, seed, RANDOM_MS.0..=RANDOM_MS.1),
    };
    let optimizing = |step: Step| step.optimizing(plan.optimizer_ms);
    steps.into_iter().map(optimizing).collect()
}

fn one(plan: &Plan, signal: bool, from: &From) -> Result<Trained> {
    // Neither does a file that is not there take a device, nor no device a disk.
    let file = match from {
        From::Disk => None,
        From::File(path) => Some(Source::open(path)?),
    };
    let program = Program::new()?;
    let source = match file {
        Some(source) => source,
        None => Source::throttled(LATENCY)?,
    };
    let tick = tick()?;
    let mut program = program.reading(source);
    let watch = Watch::start()?;
    let run = match signal {
        true => program.with_signal(&steps(plan)),
        false => program.in_sequence(&steps(plan)),
    };
    let lines = watch.stop()?;
    let run = run?;
    std::thread::sleep(JUDGED * tick);
    let told = lines.of(program.trainer());
    let agreement = Agreement::of(&run.sections, &told, tick);
    let signals = program.signals()?;
    Ok(Trained {
        signal,
        figures: Figures::of(&run, agreement, lines.missed(), &program.counts()?),
        run,
        told,
        signals: signals.iter().map(|event| event.time_ns).collect(),
    })
}

/// From one sample to the next.
fn tick() -> Result<Duration> {
    let tunable = Tunables::open()?.get("phase_tick_us")?;
    let us = tunable.value.trim().parse();
    Ok(Duration::from_micros(
        us.context("phase_tick_us is no number")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_as_many_steps_as_it_says() {
        for plan in [Plan::FIXED, Plan::RANDOM, Plan::RANDOM.scaled(0.01)] {
            let all = steps(&plan);
            assert_eq!(all.len(), plan.steps);
            let optimize = Duration::from_millis(plan.optimizer_ms);
            assert!(all.iter().all(|step| step.optimize == optimize));
        }
    }
}
