// SPDX-License-Identifier: GPL-2.0
//! A training loop, without zernel's prefetch signal and with it: what came of both.

mod figures;
mod goals;
mod options;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::tunable::Tunables;
use libzernel::Timestamp;
use serde::{Deserialize, Serialize};
use zernel_train::{Agreement, Missing, Program, Run, Source, Step, Told, Watch};

pub use self::figures::Figures;
pub use self::goals::goals;
pub use self::options::TrainArgs;
pub use self::table::{cells, render, HEAD, LEGEND};

/// The file of what came of loops in a folder of results.
pub const FILE: &str = "training.json";

/// What a request of the throttled disk takes: a small part of what a batch does.
const LATENCY: Duration = Duration::from_millis(4);

/// What a random time is at least and at most, in milliseconds.
const RANDOM_MS: (u64, u64) = (1, 200);

/// How long zernel has to judge the last signal, in samples.
const JUDGED: u32 = 8;

/// How long each part of a step takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lengths {
    /// As long in every step.
    Fixed {
        /// Loading, in milliseconds.
        load_ms: u64,
        /// Computing, in milliseconds.
        compute_ms: u64,
    },
    /// Anew in every step.
    Random {
        /// Seed of the random numbers.
        seed: u64,
    },
}

/// What a loop is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How often.
    pub steps: usize,
    /// How long each time.
    pub lengths: Lengths,
    /// And its optimizer, in milliseconds.
    pub optimizer_ms: u64,
}

impl Plan {
    /// A loop whose loading a computation can hide.
    pub const FIXED: Self = Self {
        steps: 30,
        lengths: Lengths::Fixed {
            load_ms: 120,
            compute_ms: 180,
        },
        optimizer_ms: 4,
    };

    /// A loop of which nothing can be told ahead.
    pub const RANDOM: Self = Self {
        lengths: Lengths::Random { seed: 1 },
        ..Self::FIXED
    };

    /// So many times as long, some steps at least.
    pub fn scaled(self, scale: f64) -> Self {
        let steps = (self.steps as f64 * scale).round() as usize;
        Self {
            steps: steps.max(8),
            ..self
        }
    }

    fn steps(&self) -> Vec<Step> {
        let steps = match self.lengths {
            Lengths::Fixed {
                load_ms,
                compute_ms,
            } => vec![Step::of(load_ms, compute_ms); self.steps],
            Lengths::Random { seed } => Step::random(self.steps, seed, RANDOM_MS.0..=RANDOM_MS.1),
        };
        let optimizing = |step: Step| step.optimizing(self.optimizer_ms);
        steps.into_iter().map(optimizing).collect()
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self.lengths {
            Lengths::Fixed { .. } => "fixed",
            Lengths::Random { .. } => "random",
        }
    }

    /// In words.
    pub fn title(&self) -> String {
        let (steps, optimizer) = (self.steps, self.optimizer_ms);
        let lengths = match self.lengths {
            Lengths::Fixed {
                load_ms,
                compute_ms,
            } => format!("load {load_ms} ms · compute {compute_ms} ms"),
            Lengths::Random { seed } => format!(
                "load and compute {} to {} ms at random (seed {seed})",
                RANDOM_MS.0, RANDOM_MS.1
            ),
        };
        format!("A training loop · {lengths} · optimizer {optimizer} ms · {steps} steps")
    }
}

/// What a loop did, and what was told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// A loader waited for the signal.
    pub signal: bool,
    /// What it came to.
    pub figures: Figures,
    /// What it did, as it says itself.
    pub run: Run,
    /// The phases of the thread that trains, as zernel told them.
    pub told: Vec<Told>,
    /// When the signals were given.
    pub signals: Vec<Timestamp>,
}

/// A loop without the signal and with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// What was to be done.
    pub plan: Plan,
    /// What was done.
    pub runs: Vec<Trained>,
}

impl Training {
    /// The run with the signal, or the one without it.
    pub fn run(&self, signal: bool) -> Option<&Trained> {
        self.runs.iter().find(|run| run.signal == signal)
    }

    /// GPU idle time that the signal has removed, in percent.
    pub fn idle_removed_percent(&self) -> Option<f64> {
        let idle = |signal| Some(self.run(signal)?.run.engine.idle_ns as f64);
        let (without, with) = (idle(false)?, idle(true)?);
        (without > 0.0).then(|| 100.0 * (1.0 - with / without))
    }

    /// By how much longer the same steps took with the signal, in percent; negative if they were
    /// faster.
    pub fn slower_percent(&self) -> Option<f64> {
        let took = |signal| Some(self.run(signal)?.run.took().as_secs_f64());
        let (without, with) = (took(false)?, took(true)?);
        (without > 0.0).then(|| 100.0 * (with / without - 1.0))
    }

    /// Its figures, without the time lines.
    pub fn summary(&self) -> Summary {
        Summary {
            plan: self.plan,
            idle_removed_percent: self.idle_removed_percent(),
            slower_percent: self.slower_percent(),
            without_signal: self.run(false).map(|run| run.figures),
            with_signal: self.run(true).map(|run| run.figures),
        }
    }
}

/// The figures of a loop without the signal and with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// What was to be done.
    pub plan: Plan,
    /// GPU idle time that the signal has removed, in percent.
    pub idle_removed_percent: Option<f64>,
    /// By how much longer the same steps took with it, in percent.
    pub slower_percent: Option<f64>,
    /// What the loop came to without it.
    pub without_signal: Option<Figures>,
    /// And with it.
    pub with_signal: Option<Figures>,
}

/// What batches are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A block device made for it, whose reads take their time.
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
        true => program.with_signal(&plan.steps()),
        false => program.in_sequence(&plan.steps()),
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

/// Writes what came of loops to a file.
pub fn save(trainings: &[Training], path: &Path) -> Result<()> {
    fs::write(path, serde_json::to_vec(trainings)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads what [`save`] wrote to a folder; nothing if there is none.
pub fn load(dir: &Path) -> Result<Vec<Training>> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not what came of training loops", path.display()))
}

/// A table for each, and what they mean; nothing if there is none.
pub fn tables(trainings: &[Training]) -> String {
    let tables: String = trainings.iter().map(|one| render(one) + "\n").collect();
    let legend = if tables.is_empty() { "" } else { LEGEND };
    format!(
        "{}{tables}{legend}",
        if legend.is_empty() { "" } else { "\n" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn a_plan_is_as_many_steps_as_it_says() {
        for plan in [Plan::FIXED, Plan::RANDOM, Plan::RANDOM.scaled(0.01)] {
            let steps = plan.steps();
            assert_eq!(steps.len(), plan.steps);
            let optimize = Duration::from_millis(plan.optimizer_ms);
            assert!(steps.iter().all(|step| step.optimize == optimize));
        }
        assert_eq!(Plan::FIXED.scaled(0.01).steps, 8);
        assert_eq!(Plan::FIXED.scaled(2.0).steps, 60);
        let title = Plan::RANDOM.title();
        assert!(title.contains("1 to 200 ms at random (seed 1)"), "{title}");
    }

    #[test]
    fn a_training_compares_both_runs() {
        let mut training = testdata::training(Plan::FIXED);
        let near = |one: Option<f64>, other: f64| (one.unwrap_or(-1e9) - other).abs() < 1e-6;
        // 7 of 8 loadings of 80 ms, and 8 of 4 ms.
        assert!(training
            .idle_removed_percent()
            .is_some_and(|one| one > 80.0));
        assert!(training.slower_percent().is_some_and(|one| one < -30.0));
        training.runs[0].run.engine.idle_ns = 0;
        assert_eq!(training.idle_removed_percent(), None);
        training.runs[0] = training.runs[1].clone();
        training.runs[0].signal = false;
        assert!(near(training.slower_percent(), 0.0));
        training.runs.pop();
        assert_eq!(training.slower_percent(), None);
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), []);
        let trainings = [Plan::FIXED, Plan::RANDOM].map(testdata::training);
        save(&trainings, &dir.path().join(FILE)).unwrap();
        let loaded = load(dir.path()).unwrap();
        assert_eq!(loaded.len(), 2);
        for (one, other) in loaded.iter().zip(&trainings) {
            assert_eq!(one.plan, other.plan);
            for (one, other) in one.runs.iter().zip(&other.runs) {
                assert_eq!(one.run, other.run);
                assert_eq!((&one.told, &one.signals), (&other.told, &other.signals));
                assert_eq!(one.figures.steps, other.figures.steps);
            }
        }
        fs::write(dir.path().join(FILE), "{").unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("training.json is not what came of"),
            "{error}"
        );
    }
}
