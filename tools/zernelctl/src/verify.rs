// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gpu verify`: checks of a real GPU and its driver.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::{Args as ClapArgs, ValueEnum};
use libzernel::tunable::Tunables;
use libzernel::{gpu, Zernel};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use serde::Serialize;
use zernel_verify::check::Check;
use zernel_verify::keep::{Keep, Out};
use zernel_verify::ready;
use zernel_verify::report::{Outcome, Report, Verdict};
use zernel_verify::settings::{self, Guard, Settings};
use zernel_verify::{find_gpu, named, open_work, Choice, CHECKS};

use crate::exit;
use crate::output;

/// The kind of work that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// By the GPU: the software GPU, or CUDA.
    Auto,
    /// The software GPU, /dev/zernel-sim.
    Sim,
    /// CUDA's driver library, libcuda.so.1.
    Cuda,
}

impl From<Work> for Choice {
    fn from(work: Work) -> Self {
        match work {
            Work::Auto => Self::Auto,
            Work::Sim => Self::Sim,
            Work::Cuda => Self::Cuda,
        }
    }
}

/// The command line.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The GPU, by its id in `gpu list`; the first one by default.
    #[arg(long, value_name = "ID", value_parser = gpu_id)]
    gpu: Option<gpu::Id>,
    /// Check beside the compute TSGs of others, on any GPU: they feel it.
    #[arg(long)]
    beside_others: bool,
    /// Work for the GPU.
    #[arg(long, value_enum, default_value_t = Work::Auto)]
    work: Work,
    /// Only these checks.
    #[arg(long, value_name = "CHECK", num_args = 1.., value_parser = check)]
    only: Vec<&'static Check>,
    /// Write the report to this file as JSON, too.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// List the checks, with the longest time of each, and do nothing.
    #[arg(long, conflicts_with_all = ["gpu", "beside_others", "work", "out"])]
    list: bool,
}

fn gpu_id(text: &str) -> Result<gpu::Id, String> {
    let id = text.parse().map(gpu::Id::new);
    id.map_err(|_| format!("'{text}' is not a GPU id: it takes a decimal number"))
}

fn check(name: &str) -> Result<&'static Check, String> {
    named(name).ok_or_else(|| format!("no check '{name}': zernelctl gpu verify --list shows all"))
}

impl Args {
    fn checks(&self) -> Vec<&'static Check> {
        let is_chosen =
            |check: &&Check| self.only.is_empty() || self.only.iter().any(|c| c.name == check.name);
        CHECKS.iter().filter(is_chosen).collect()
    }

    /// Runs the checks and prints the report.
    pub fn run(&self, device: &Path, sysfs: &Path, json: bool) -> Result<ExitCode> {
        let checks = self.checks();
        if self.list {
            list(&checks, json)?;
            return Ok(ExitCode::SUCCESS);
        }
        let zernel = Zernel::open_at(device)?;
        let settings = Arc::new(Settings::new(Tunables::open_at(sysfs)?));
        let gpu = find_gpu(&zernel, self.gpu)?;
        lock(&zernel)?;
        ready::admit(&zernel, &settings, &checks, self.beside_others)?;
        let work = open_work(device, &gpu, self.work.into())?;
        // After all that refuses, which leaves an older report alone.
        let out = self.out.as_deref().map(Out::create).transpose()?;
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!(
                "zernelctl: not root: checks that set tunables, raise a class or read debugfs and \
                 traces are left out"
            );
        }
        let keep = Arc::new(Keep::new(out));
        settings::watch(&settings, &keep, json, print)?;
        let _guard = Guard(&settings);
        let step = |report: &Report, next: Option<&Check>| {
            if let (true, Some(outcome)) = (keep.step(report, next), report.checks.last()) {
                progress(outcome);
            }
        };
        zernel_verify::run(device, &gpu, &*work, &settings, &checks, step)?;
        let put_back = settings.put_back();
        let Some(report) = keep.whole() else {
            // A signal came first: the process ends by it.
            loop {
                std::thread::park();
            }
        };
        let written = keep.write(&report);
        let printed = print(&report, json);
        put_back?;
        written?;
        printed?;
        Ok(ExitCode::from(code(&report, is_root)))
    }
}

fn print(report: &Report, json: bool) -> Result<()> {
    match json {
        true => output::json(report),
        false => output::text(&report.text()),
    }
}

/// Keeps a second one off: both would change the same tunables. The lock ends with the file.
fn lock(zernel: &Zernel) -> Result<()> {
    match flock(zernel, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => anyhow::bail!("another zernelctl gpu verify runs"),
        Err(errno) => Err(errno).context("cannot lock the device of zernel"),
    }
}

/// Tells of a check that has ended, to people who wait.
fn progress(outcome: &Outcome) {
    let line = format!("{}: {}\n", outcome.name, outcome.verdict.name());
    // Nobody may be left to tell.
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

fn code(report: &Report, is_root: bool) -> u8 {
    let is_here = |outcome: &Outcome| outcome.verdict != Verdict::NotHere;
    match report.is_good() {
        true if report.checks.iter().any(is_here) => 0,
        true if !is_root => exit::NOT_PERMITTED,
        _ => exit::FAILED,
    }
}

/// A line of the list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    asks: &'static str,
    seconds: u64,
}

fn list(checks: &[&Check], json: bool) -> Result<()> {
    let listed: Vec<_> = checks
        .iter()
        .map(|check| Listed {
            name: check.name,
            asks: check.asks,
            seconds: check.seconds,
        })
        .collect();
    if json {
        return output::json(&listed);
    }
    let seconds: u64 = listed.iter().map(|check| check.seconds).sum();
    let rows = listed.iter().map(|check| {
        vec![
            check.name.to_owned(),
            format!("{} s", check.seconds),
            check.asks.to_owned(),
        ]
    });
    let header = ["CHECK", "AT MOST", "ASKS"];
    output::text(&output::table(header, |name| name == "AT MOST", rows))?;
    output::text(&format!("\nTogether they take {seconds} s at most."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_run_in_their_own_order() {
        let args = Args {
            gpu: None,
            beside_others: false,
            work: Work::Auto,
            only: ["slice", "clock"].map(|name| check(name).unwrap()).into(),
            out: None,
            list: false,
        };
        let names: Vec<_> = args.checks().iter().map(|check| check.name).collect();
        assert_eq!(names, ["clock", "slice"]);
    }

    #[test]
    fn values_that_are_none_are_told_in_a_sentence() {
        let error = gpu_id("0x1").unwrap_err();
        assert_eq!(error, "'0x1' is not a GPU id: it takes a decimal number");
        let error = check("speed").unwrap_err();
        assert!(error.starts_with("no check 'speed': "), "{error}");
    }
}
