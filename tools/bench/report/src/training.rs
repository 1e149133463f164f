// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of a training loop, without zernel's prefetch signal and with it.

mod figures;
mod goals;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use libzernel::Timestamp;
use serde::{Deserialize, Serialize};
use zernel_train::{Run, Told};

pub use self::figures::Figures;
pub use self::goals::{goals, Goal};
pub use self::table::{cells, render, HEAD, LEGEND};

/// The file of loops in a folder of results.
pub const FILE: &str = "training.json";

/// Bounds of a random time, in milliseconds.
pub const RANDOM_MS: (u64, u64) = (1, 200);

/// Durations of the parts of a step.
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

/// Plan of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of steps.
    pub steps: usize,
    /// Durations of the parts of a step.
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

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self.lengths {
            Lengths::Fixed { .. } => "fixed",
            Lengths::Random { .. } => "random",
        }
    }

    /// In words.
    pub fn title(&self) -> String {
        format!("A training loop · {}", self.parts())
    }

    /// Its parts in words.
    pub fn parts(&self) -> String {
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
        format!("{lengths} · optimizer {optimizer} ms · {steps} steps")
    }
}

/// A loop's own marks, and the phases told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// A loader waited for the signal.
    pub signal: bool,
    /// Its figures.
    pub figures: Figures,
    /// Its own marks.
    pub run: Run,
    /// The phases of the thread that trains, as zernel told them.
    pub told: Vec<Told>,
    /// When the signals were given.
    pub signals: Vec<Timestamp>,
}

/// A loop without the signal and with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// The plan.
    pub plan: Plan,
    /// The runs.
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The plan.
    pub plan: Plan,
    /// GPU idle time that the signal has removed, in percent.
    pub idle_removed_percent: Option<f64>,
    /// By how much longer the same steps took with it, in percent.
    pub slower_percent: Option<f64>,
    /// Figures of the loop without it.
    pub without_signal: Option<Figures>,
    /// And with it.
    pub with_signal: Option<Figures>,
}

/// Writes the results of loops to a file.
pub fn save(trainings: &[Training], path: &Path) -> Result<()> {
    fs::write(path, serde_json::to_vec(trainings)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads the file of [`save`] in a folder; nothing if there is none.
pub fn load(dir: &Path) -> Result<Vec<Training>> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} holds no results of training loops", path.display()))
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
    fn a_plan_is_told_in_words() {
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
            error.contains("training.json holds no results of"),
            "{error}"
        );
    }
}
