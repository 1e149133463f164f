// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays workloads on the model of a GPU, under one policy or another, in simulated time: the
//! files of `rust/model/` and `rust/policy/` themselves, without a kernel and without a clock.

mod bound;
mod cli;
mod deadlines;
mod edf;
mod machine;
mod policies;
// Not everything that the kernel modules use is used here.
#[allow(dead_code)]
#[allow(clippy::assertions_on_constants, clippy::too_many_arguments)]
#[path = "../../../../rust/model/mod.rs"]
mod model;
mod outcome;
#[allow(dead_code, clippy::assertions_on_constants)]
#[path = "../../../../rust/policy"]
mod policy {
    pub(crate) mod attribute;
    pub(crate) mod backoff;
    pub(crate) mod buckets;
    pub(crate) mod budget;
    pub(crate) mod class;
    pub(crate) mod control;
    pub(crate) mod deadline;
    pub(crate) mod histogram;
    pub(crate) mod level;
    pub(crate) mod nice;
    pub(crate) mod phase;
    pub(crate) mod predict;
    pub(crate) mod prefetch;
    pub(crate) mod refused;
    pub(crate) mod request;
    pub(crate) mod rotation;
    pub(crate) mod slices;
    pub(crate) mod switch_cost;
    pub(crate) mod tunables;
    pub(crate) mod units;
    pub(crate) mod weight;
}
#[cfg(test)]
mod properties;
mod queues;
mod sim;
mod sweep;
mod table;
mod world;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::run(cli::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The reader of the output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
