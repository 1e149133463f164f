// SPDX-License-Identifier: GPL-2.0
//! Hostile tenants beside a latency-critical one: its loss under each attack, the loss of other
//! calls of its user, the longest holds of locks, and the remains when the tenants are gone.

mod attacks;
mod calls;
mod compare;
mod ground;
mod holds;
mod left;
mod meter;
mod table;
mod troop;
mod victim;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Measures what hostile tenants of other users take from a latency-critical one; needs root and a
/// guest to spare. Figures are comparable where the guest counts instructions.
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the attacks.
    List,
    /// Run the victim without an attack and under each, and print the table.
    Run(Run),
    /// Make calls one after the other beside as much of everything as there can be, and print the
    /// longest holds: of sections without interrupts or preemption, or of locks, as the kernel has
    /// a meter for.
    Holds(Holds),
}

/// Options of `run`.
#[derive(Args)]
struct Run {
    /// Only the attacks whose name contains this; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Seconds of workload B1 under each attack.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of the other calls under each attack.
    #[arg(long, default_value_t = 1.0)]
    calls: f64,
    /// Write the rows as JSON to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Parameters of the software GPU, which is loaded with zernel.
    #[arg(long, default_value = "")]
    load: String,
}

/// Options of `holds`.
#[derive(Args)]
struct Holds {
    /// Share of the full sizes.
    #[arg(long, default_value_t = 1.0)]
    share: f64,
    /// Write the rows as JSON to this file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Parameters of the software GPU, which is loaded with zernel.
    #[arg(long, default_value = "")]
    load: String,
}

fn main() -> ExitCode {
    let done = match Options::parse().action {
        Action::List => list(),
        Action::Run(options) => compare::run(&options),
        Action::Holds(options) => holds::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zernel-neighbours: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> Result<()> {
    for attack in attacks::ALL {
        println!("{:18} {}", attack.name, attack.about);
    }
    Ok(())
}
