// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the runtime and of the stand-in for CUDA: runs the cases and reports them as KTAP.

mod auto;
mod fakecuda;
mod lab;
mod languages;
mod runtime;
mod standin;
mod sys;

use std::process::ExitCode;

use clap::Parser;
use testkit::harness::{self, Suite};

/// Every suite, in the order in which they run.
const SUITES: &[Suite] = &[
    fakecuda::device::SUITE,
    fakecuda::context::SUITE,
    fakecuda::stream::SUITE,
    fakecuda::memory::SUITE,
    fakecuda::orders::SUITE,
    fakecuda::words::SUITE,
    fakecuda::stall::SUITE,
    fakecuda::limits::SUITE,
    fakecuda::graph::SUITE,
    fakecuda::capture::SUITE,
    fakecuda::fault::SUITE,
    standin::SUITE,
    runtime::SUITE,
    runtime::gpu_word::SUITE,
    runtime::killed::SUITE,
    auto::SUITE,
    auto::TIMED,
    languages::SUITE,
    fakecuda::device::WITHOUT,
];

/// Suites that run when they are named alone: for a machine whose clock counts instructions.
const NAMED: [&str; 1] = ["timed."];

/// Tests of the runtime and of the stand-in for CUDA, to be run in a guest. The suite timed runs when
/// it is named.
#[derive(Debug, Parser)]
struct Options {
    /// Run only cases whose names contain one of these texts.
    #[arg(long)]
    only: Vec<String>,
    /// Leave out cases whose names contain one of these texts.
    #[arg(long)]
    skip: Vec<String>,
    /// Repeat nothing for more than two minutes, once a twentieth is done.
    #[arg(long)]
    short: bool,
    /// Print the names of the cases.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let any = |patterns: &[String], name: &str| patterns.iter().any(|part| name.contains(part));
    let chosen = |name: &str| {
        let is_meant = match NAMED.iter().any(|suite| name.starts_with(suite)) {
            true => any(&options.only, name),
            false => options.only.is_empty() || any(&options.only, name),
        };
        is_meant && !any(&options.skip, name)
    };
    if options.list {
        harness::list(SUITES, chosen);
        return ExitCode::SUCCESS;
    }
    if options.short {
        testkit::run_short();
    }
    match harness::run(SUITES, chosen) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zernel-cudatest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
