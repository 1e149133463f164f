// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line, and what of it the cases want to know.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};

/// Test the modules in /lib/modules/zernel. Needs root and a machine to spare.
///
/// Suites that begin with `simrm.` need an nvidia.ko with the software resource manager, those
/// that begin with `fakegpu.` one with the real one, and those that begin with `stock.` the former
/// without hooks, and zernel_nvidia_stock.ko.
#[derive(Parser)]
pub struct Options {
    /// Print the names of the cases and do nothing.
    #[arg(long)]
    pub list: bool,
    /// Run only the cases whose SUITE.CASE contains this; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub only: Vec<String>,
    /// Repeat nothing for more than two minutes, for a slow machine.
    #[arg(long)]
    pub short: bool,
    /// Seed of random numbers; each run prints its own.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Random operations of the racing threads.
    #[arg(long, default_value_t = 100_000)]
    pub operations: u64,
    /// The action instead of running the cases.
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// The other actions.
#[derive(Subcommand)]
pub enum Action {
    /// Measure the cost of calls of the driver, and write it as JSON.
    Bench(Bench),
    /// Show measurements beside each other.
    Table(Table),
}

/// Options of a measurement.
#[derive(Args)]
pub struct Bench {
    /// Repetitions of each call.
    #[arg(long, default_value_t = 200)]
    pub repeat: u32,
    /// Name of the measurement.
    #[arg(long)]
    pub label: String,
    /// Give the TSGs of this process a class for some of the calls.
    #[arg(long)]
    pub classed: bool,
    /// Measure looks at TSGs and records of context switches instead. Needs all modules, and
    /// records=1.
    #[arg(long, conflicts_with_all = ["classed", "repeat"])]
    pub observation: bool,
}

/// Measurements to show; the others are compared with the first. Fails if one is beyond its bound.
#[derive(Args)]
pub struct Table {
    /// A file with a measurement on each line.
    pub file: PathBuf,
}

static SEED: OnceLock<u64> = OnceLock::new();
static OPERATIONS: OnceLock<u64> = OnceLock::new();

/// Keeps what the cases ask for.
pub fn keep(options: &Options) {
    let clock = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64 & 0xffff_ffff)
    };
    SEED.get_or_init(|| options.seed.unwrap_or_else(clock));
    OPERATIONS.get_or_init(|| options.operations);
}

/// First number of what is random.
pub fn seed() -> u64 {
    SEED.get().copied().unwrap_or(1)
}

/// Random operations of the racing threads.
pub fn operations() -> u64 {
    OPERATIONS.get().copied().unwrap_or(100_000)
}
