// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load generator for zernel's software GPU: latency-critical and best-effort clients, each a
//! process of its own, and the figures, tables and plots of their results.

mod bench;
mod child;
mod cli;
mod client;
mod cuda;
mod demo;
mod hint;
mod kernels;
mod run;
mod runtime;
mod spin;
mod stamps;
mod suite;
mod sys;
mod training;
mod worker;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::run(cli::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("zernel-load: {error:#}");
            ExitCode::from(code(&error))
        }
    }
}

/// The exit code that goes with an error; `cli::EXIT_CODES` tells them.
fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref().map(libzernel::Error::cause) {
        Some(libzernel::Cause::NoDevice) => 5,
        _ => 1,
    }
}

/// The reader of the output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
