// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo: three workloads, each alone, with default slices and with zernel; training loops without
//! the prefetch signal and with it, and beside queues of batches.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use zernel_report::figures::LEGEND;
use zernel_report::outcome::{Comparison, Mode};
use zernel_report::readme::Summary;
use zernel_report::training::{self as loops, Plan, Training};
use zernel_report::{queues, table};
use zernel_workload::{Deployment, Workload};

use crate::run::{self, Constants, Options};
use crate::training;

/// The workloads, and how many seconds of each are run: of A and C half of the published time,
/// which changes no figure, as they are periodic.
const WORKLOADS: [(&str, f64); 3] = [("A", 30.0), ("B1", 5.0), ("C", 30.0)];

/// The mode of each.
const MODES: [Mode; 3] = [Mode::Alone, Mode::Default, Mode::Zernel];

/// The training loops.
const LOOPS: [Plan; 2] = [Plan::FIXED, Plan::RANDOM];

/// Seed of all random numbers.
const SEED: u64 = 1;

/// Runs the demo, writes its results to `dir` and prints its tables.
pub fn run(dir: &Path, scale: f64) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut line = ProgressLine::new(WORKLOADS.len() * MODES.len() + 2);
    let mut rows = Vec::new();
    for (name, seconds) in WORKLOADS {
        let mut workload = Workload::built_in(name).context("the demo's workload is built in")?;
        workload.seconds = seconds * scale;
        let mut comparison = Comparison {
            workload: name.to_owned(),
            runs: Vec::new(),
        };
        for mode in MODES {
            line.next(&format!("workload {name}: {mode}"));
            let options = Options {
                mode,
                deployment: Deployment::PerClient,
                constants: Constants::PUBLISHED,
                costs: None,
                seed: SEED,
                trace: true,
                cuda: false,
                breakdown: false,
                compute: false,
            };
            let outcome = run::run(&workload, options, &mut |passed| {
                line.show(passed, workload.duration());
            })
            .with_context(|| format!("workload {name}, {mode}"))?;
            line.show(workload.duration(), workload.duration());
            outcome.save(dir)?;
            comparison.runs.push(outcome);
        }
        line.clear();
        rows.extend(table::rows(&comparison));
        println!("{}", table::render(&comparison));
    }
    print!("{}", LEGEND);
    line.next("training loops");
    let trainings = training::run_all(&LOOPS.map(|plan| plan.scaled(scale)))?;
    line.clear();
    let trainings = trainings.unwrap_or_else(|missing| {
        println!("{missing}: training loops are left out");
        Vec::new()
    });
    print!("{}", loops::tables(&trainings));
    loops::save(&trainings, &dir.join(loops::FILE))?;
    line.next("training loops beside queues");
    let beside_queues = training::compare(training::Extent::Demo, scale, |_| ())?;
    line.clear();
    // Where the kernel lacks a part it has been told.
    let beside_queues = beside_queues.unwrap_or_default();
    print!("{}", queues::tables(&beside_queues));
    queues::save(&beside_queues, dir)?;
    let summary = Summary {
        rows,
        training: trainings.iter().map(Training::summary).collect(),
        queues: beside_queues,
    };
    summary.save(dir)
}

/// A line that tells how far the demo is: redrawn in place on a terminal, else one per run.
struct ProgressLine {
    steps: usize,
    step: usize,
    what: String,
    terminal: bool,
}

impl ProgressLine {
    fn new(steps: usize) -> Self {
        Self {
            steps,
            step: 0,
            what: String::new(),
            terminal: io::stdout().is_terminal(),
        }
    }

    fn next(&mut self, what: &str) {
        self.step += 1;
        self.what = format!("[{}/{}] {what}", self.step, self.steps);
        if self.terminal {
            self.draw(", starting");
        } else {
            println!("{}", self.what);
        }
    }

    fn show(&self, passed: Duration, all: Duration) {
        let (passed, all) = (passed.as_secs_f64(), all.as_secs_f64());
        self.draw(&format!(", {passed:.1} of {all:.1} s"));
    }

    fn draw(&self, more: &str) {
        if self.terminal {
            print!("\r\x1b[K{}{more}", self.what);
            // A progress line that cannot be shown is not worth stopping for.
            let _ = io::stdout().flush();
        }
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[K");
        }
    }
}
