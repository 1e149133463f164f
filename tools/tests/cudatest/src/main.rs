// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the stand-in for `libcuda.so.1` on the software GPU: runs the cases and reports them as
//! KTAP. They load the library as programs of CUDA do, and know nothing of its inside.

mod context;
mod device;
mod fault;
mod graph;
mod lab;
mod memory;
mod stall;
mod stream;
mod sys;
mod words;

use std::process::ExitCode;

use clap::Parser;
use testkit::harness::{self, Suite};

/// Every suite, in the order in which they run.
const SUITES: &[Suite] = &[
    device::SUITE,
    device::WITHOUT,
    context::SUITE,
    stream::SUITE,
    memory::SUITE,
    words::SUITE,
    stall::SUITE,
    graph::SUITE,
    fault::SUITE,
];

/// Test libcuda.so.1, which is to be the stand-in. Needs root, the modules in /lib/modules/zernel and
/// a machine to spare.
#[derive(Parser)]
struct Options {
    /// Print the names of the cases and do nothing.
    #[arg(long)]
    list: bool,
    /// Run only the cases whose SUITE.CASE contains this; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Repeat nothing for more than two minutes, for a slow machine.
    #[arg(long)]
    short: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let chosen = |name: &str| {
        options.only.is_empty() || options.only.iter().any(|pattern| name.contains(pattern))
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
