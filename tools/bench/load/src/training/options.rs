// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command lines of training loops.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{ensure, Context as _, Result};
use clap::Args;
use zernel_report::queues;
use zernel_report::training::{goals, render, save, Lengths, Plan, LEGEND};

use super::{compare, run, Extent, From};
use crate::cli::scale;

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
    /// Time of a computation on the GPU, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 180,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    compute: u64,
    /// CPU time of an optimizer step, in milliseconds; zernel recognises steps below 5.
    #[arg(long, value_name = "MS", default_value_t = 4,
          value_parser = clap::value_parser!(u64).range(0..=1_000))]
    optimizer: u64,
    /// Draw the times of loading and computing at random, from 1 to 200 ms.
    #[arg(long, conflicts_with_all = ["load", "compute"])]
    random: bool,
    /// Seed of the random times.
    #[arg(long, default_value_t = 1, requires = "random")]
    seed: u64,
    /// Run only the loop with the prefetch signal.
    #[arg(long)]
    prefetch: bool,
    /// Run only the loop without the signal.
    #[arg(long, conflicts_with = "prefetch")]
    no_prefetch: bool,
    /// Read batches from a throttled block device, made for the run: the default. Needs root and the
    /// kernel's null_blk.
    #[arg(long)]
    disk: bool,
    /// Read batches from this file or block device, past the page cache.
    #[arg(long, value_name = "PATH", conflicts_with = "disk")]
    file: Option<PathBuf>,
    /// Write the result, with the time lines, as JSON to this file, too.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Check the goals, and fail if one is missed.
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

    /// Runs the loop, and prints the result.
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
            "a goal of the loop is missed, see 'not ok' above"
        );
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct QueuesArgs {
    /// Factor of the number of steps.
    #[arg(long, default_value_t = 1.0, value_parser = scale)]
    scale: f64,
    /// The demo's part of it: no prefetch, the signal, queues of 1, 4 and 16.
    #[arg(long)]
    few: bool,
    /// Write the figures to queues.json in this folder, too.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl QueuesArgs {
    /// Runs the loops, and prints the tables.
    pub fn run(&self) -> Result<()> {
        let extent = match self.few {
            true => Extent::Demo,
            false => Extent::Full,
        };
        let all = compare(extent, self.scale, |what| eprintln!("{what}"))??;
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
            queues::save(&all, dir)?;
        }
        Ok(write!(io::stdout().lock(), "{}", queues::tables(&all))?)
    }
}
