// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows GPUs and their work, and sets classes and tunables.

mod cgroup;
mod class;
mod cli;
mod exit;
mod list;
mod loaders;
mod output;
mod phases;
mod prefetch;
mod preload;
mod probe;
mod requests;
mod run;
mod status;
mod symbols;
mod track;
mod tune;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = cli::Args::parse();
    match args.run() {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
