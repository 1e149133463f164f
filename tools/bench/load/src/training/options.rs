// SPDX-License-Identifier: GPL-2.0
//! The command line of a training loop.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{ensure, Result};
use clap::Args;
use zernel_report::training::{goals, render, save, Lengths, Plan, LEGEND};

use super::{run, From};

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Number of steps.
    #[arg(long, value_name = "COUNT", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(2..=100_000))]
    steps: u32,
    /// Time to load a batch, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    load: u64,
    /// Time that the GPU computes, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 180,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    compute: u64,
    /// CPU time between two computations, in milliseconds; phases tell of what is
    /// below 5.
    #[arg(long, value_name = "MS", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    optimizer: u64,
    /// Load and compute for random times of 1 to 200 ms.
    #[arg(long, conflicts_with_all = ["load", "compute"])]
    random: bool,
    /// Seed of the random times.
    #[arg(long, default_value_t = 1, requires = "random")]
    seed: u64,
    /// Only the loop whose loader waits for the signal.
    #[arg(long)]
    prefetch: bool,
    /// Only the loop without it.
    #[arg(long, conflicts_with = "prefetch")]
    no_prefetch: bool,
    /// Read batches from a throttled block device that is made for it, which takes root and the
    /// kernel's null_blk: the default.
    #[arg(long)]
    disk: bool,
    /// Read batches from this file or block device, past the page cache.
    #[arg(long, value_name = "PATH", conflicts_with = "disk")]
    file: Option<PathBuf>,
    /// Also write what came of it, with the time lines, as JSON to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Tell whether it shows what it is to show, and fail if not.
    #[arg(long)]
    check: bool,
}

impl TrainArgs {
    fn plan(&self) -> Plan {
        Plan {
            steps: self.steps as usize,
            lengths: match self.random {
                true => Lengths::Random { seed: self.seed },
                false => Lengths::Fixed {
                    load_ms: self.load,
                    compute_ms: self.compute,
                },
            },
            optimizer_ms: self.optimizer,
        }
    }

    /// Runs the loop, and prints what came of it.
    pub fn run(&self) -> Result<()> {
        let signals: &[bool] = match (self.prefetch, self.no_prefetch) {
            (true, _) => &[true],
            (_, true) => &[false],
            _ => &[false, true],
        };
        let from = self.file.clone().map_or(From::Disk, From::File);
        let training = run(self.plan(), signals, &from)?;
        if let Some(path) = &self.out {
            save(std::slice::from_ref(&training), path)?;
        }
        let mut out = io::stdout().lock();
        if !self.check {
            return Ok(write!(out, "{}\n{LEGEND}", render(&training))?);
        }
        let goals = goals(&training);
        for goal in &goals {
            let good = if goal.good { "ok" } else { "not ok" };
            writeln!(out, "{good} - {}: {}", goal.what, goal.found)?;
        }
        ensure!(
            goals.iter().all(|goal| goal.good),
            "the loop does not show what it is to show"
        );
        Ok(())
    }
}
