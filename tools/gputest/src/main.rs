// SPDX-License-Identifier: MIT OR Apache-2.0
//! Twelve small programs that show what a GPU and its driver do, as zernel needs it
//! (Documentation/gputest.rst).

mod gpu;
mod neighbour;
mod output;
mod programs;
mod report;
mod slot;
mod software;
mod sys;
mod witness;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use crate::gpu::{Gpu, Options};
use crate::output::{Output, Row};
use crate::programs::{Program, PROGRAMS};
use crate::report::Verdict;

/// Shows what a GPU and its driver do, as zernel needs it.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    /// Run the programs of these names alone
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write all findings to a file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Number of the device
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// The driver library
    #[arg(long, default_value = cuda::LIBRARY)]
    library: PathBuf,
    /// The library of GDRCopy, for words in memory of the GPU
    #[arg(long, default_value = cuda::GDRCOPY)]
    gdrcopy: PathBuf,
    /// A twentieth of the rounds
    #[arg(long)]
    short: bool,
    /// Report as KTAP, for the lab
    #[arg(long)]
    ktap: bool,
    /// Be the other process of a program
    #[arg(long, hide = true)]
    neighbour: bool,
    /// Have the whole GPU busy
    #[arg(long, hide = true)]
    full: bool,
    /// Time slice of the other process, in microseconds
    #[arg(long, hide = true)]
    slice: Option<u64>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let options = Options {
        library: cli.library.clone(),
        gdrcopy: cli.gdrcopy.clone(),
        device: cli.device,
        short: cli.short,
    };
    let done = match cli.neighbour {
        true => neighbour::run(&options, cli.full, cli.slice).map(|()| true),
        false => run(&cli, &options),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zernel-gputest: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the programs; true if none failed and nothing is outside of its range.
fn run(cli: &Cli, options: &Options) -> Result<bool> {
    let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    for only in &cli.only {
        anyhow::ensure!(
            names.contains(&only.as_str()),
            "no program {only}; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |program: &&Program| {
        cli.only.is_empty() || cli.only.iter().any(|only| only == program.name)
    };
    let chosen: Vec<&Program> = PROGRAMS.iter().filter(is_chosen).collect();
    let mut output = Output::new(&Gpu::new(options)?, cli.ktap.then_some(chosen.len()))?;
    for program in chosen {
        // A context of its own: what one program spoils is no matter of the next.
        let found = Gpu::new(options).and_then(|gpu| (program.run)(&gpu));
        output.add(Row::new(program, found, output.is_software));
    }
    if let Some(file) = &cli.json {
        std::fs::write(file, output.json()?)?;
    }
    Ok(output.end() && !output.has(Verdict::Failed))
}
