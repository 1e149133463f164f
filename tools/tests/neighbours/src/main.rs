// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile tenants beside a latency-critical one: its loss under each attack, the loss of other
//! calls of its user, the longest holds of locks, and the remains when the tenants are gone.

mod attacks;
mod calls;
mod check;
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
    List {
        /// Their names alone.
        #[arg(long)]
        names: bool,
    },
    /// Run the victim beside one attack, and print its row. One attack for each boot of the guest:
    /// none finds what another has left.
    Run(Run),
    /// Print the rows of a folder as one table.
    Table {
        /// Folder with the rows, each a JSON file with the name of its attack.
        folder: PathBuf,
    },
    /// Run small attacks and judge their outcomes: whether calls fail and everything is given back.
    Check {
        /// Parameters of the software GPU, which is loaded with zernel.
        #[arg(long, default_value = "")]
        load: String,
    },
    /// Make calls one after the other beside as much of everything as there can be, and print the
    /// longest holds: of sections without interrupts or preemption, or of locks, as the kernel has
    /// a meter for.
    Holds(Holds),
}

/// Options of `run`.
#[derive(Args)]
struct Run {
    /// Name of the attack, or `none`.
    attack: String,
    /// Seconds of workload B1.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of the other calls.
    #[arg(long, default_value_t = 1.0)]
    calls: f64,
    /// Write the row to this folder as JSON, at once and after each part.
    #[arg(long, value_name = "FOLDER")]
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
        Action::List { names } => list(names),
        Action::Run(options) => compare::run(&options),
        Action::Table { folder } => table::print(&folder),
        Action::Check { load } => check::run(&load),
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

fn list(names: bool) -> Result<()> {
    for attack in attacks::every() {
        match names {
            true => println!("{}", attack.name),
            false => println!("{:18} {}", attack.name, attack.about),
        }
    }
    Ok(())
}
