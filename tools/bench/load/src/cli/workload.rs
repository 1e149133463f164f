// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `run`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use clap::Args as ClapArgs;
use zernel_report::breakdown::Breakdown;
use zernel_report::outcome::{Comparison, Mode, Outcome};
use zernel_workload::{Deployment, Role, Workload};

use super::{print, seconds, workload_name};
use crate::run::{self, Constants, Options};

#[derive(Debug, ClapArgs)]
#[command(allow_negative_numbers = true)]
pub(super) struct RunArgs {
    /// Name of a built-in workload, or path of a YAML file.
    #[arg(value_parser = workload_name, required_unless_present = "file")]
    workload: Option<String>,
    /// The workload as an option.
    #[arg(long = "workload", value_name = "FILE", value_parser = workload_name,
          conflicts_with = "workload")]
    file: Option<String>,
    /// The clients that run, and their slices; several can be given.
    #[arg(long, value_enum, default_values_t = Mode::ALL)]
    mode: Vec<Mode>,
    /// Clients that share a process, and so a TSG.
    #[arg(long, value_enum, default_value_t = Deployment::PerClient)]
    deployment: Deployment,
    /// Time of a preparation that mode gpreempt assumes.
    #[arg(long, value_name = "US", default_value_t = Constants::PUBLISHED.preparation_us)]
    preparation_us: u64,
    /// Time of a switch that mode gpreempt assumes.
    #[arg(long, value_name = "US", default_value_t = Constants::PUBLISHED.switch_us)]
    switch_us: u64,
    /// Duration of each run in seconds, instead of the workload's.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write WORKLOAD-MODE.json files to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Record no window of the execution, which takes CAP_PERFMON, for these files.
    #[arg(long)]
    no_trace: bool,
    /// Latency-critical clients are programs of CUDA, whose requests are those of its runtime.
    #[arg(long)]
    runtime: bool,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Tell of LC requests the time in each component, and the causes of the slowest.
    ///
    /// Their time stamps are in the files of --out, too. Each takes the client and the software GPU a
    /// little time.
    #[arg(long, conflicts_with_all = ["json", "runtime"])]
    breakdown: bool,
    /// LC clients prepare by computing, not by waiting: what interrupts them makes them later.
    #[arg(long, conflicts_with = "runtime")]
    compute: bool,
}

impl RunArgs {
    /// Runs the workload.
    pub(super) fn run(&self) -> Result<()> {
        let name = self.workload.as_ref().or(self.file.as_ref());
        let mut workload = Workload::load(
            name.context("the workload is missing; name one")?,
            "zernel-load run --help",
        )?;
        if let Some(seconds) = self.seconds {
            workload = workload.lasting(seconds)?;
        }
        if self.runtime {
            let lc = workload.clients.iter().filter(|one| one.role == Role::Lc);
            for client in lc {
                crate::cuda::check(client)?;
            }
        }
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        ensure!(
            !self.breakdown || self.deployment == Deployment::PerClient,
            "--breakdown takes a process for each client: --deployment per-client"
        );
        ensure!(
            !self.compute || !self.mode.contains(&Mode::Gpreempt),
            "--compute leaves a client no time to trigger: name other modes than gpreempt"
        );
        let mut comparison = Comparison {
            workload: workload.name.clone(),
            runs: Vec::new(),
        };
        for &mode in &self.mode {
            let options = Options {
                mode,
                deployment: self.deployment,
                constants: Constants {
                    preparation_us: self.preparation_us,
                    switch_us: self.switch_us,
                },
                costs: None,
                seed: self.seed,
                trace: self.out.is_some() && !self.no_trace,
                cuda: self.runtime,
                breakdown: self.breakdown,
                compute: self.compute,
            };
            let outcome = run::run(&workload, options, &mut |_| {})?;
            if let Some(dir) = &self.out {
                outcome.save(dir)?;
            }
            comparison.runs.push(outcome);
        }
        let comparison = [comparison];
        print(&comparison, self.json)?;
        if self.breakdown {
            let [comparison] = &comparison;
            comparison.runs.iter().try_for_each(print_breakdown)?;
        }
        Ok(())
    }
}

/// Tells where the time of the LC requests of a run went.
fn print_breakdown(run: &Outcome) -> Result<()> {
    let mut out = io::stdout().lock();
    for client in &run.clients {
        if client.spec.role == Role::Lc {
            let requests = client.stamps.len();
            let network = client.spec.network.name();
            writeln!(
                out,
                "{}, {}: {requests} requests of {network}",
                run.workload, run.mode
            )?;
            write!(out, "{}", Breakdown::new(&client.stamps).render())?;
        }
    }
    Ok(())
}
