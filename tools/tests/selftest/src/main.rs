// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the loaded modules, from user space: runs the cases and reports them as KTAP.

mod abi;
mod block;
mod cgroup;
mod class;
mod common;
mod control;
mod events;
mod gpuwait;
mod harness;
mod life;
mod list;
mod locked;
mod permit;
mod phase;
mod prefetch;
mod quota;
mod request;
mod scale;
mod sim;
mod slices;
mod stress;
mod target;
mod trace;
mod track;
mod tunables;
mod turns;
mod verify;

use std::process::ExitCode;

use clap::Parser;
use harness::Suite;
use testkit::{check_eq, child, group, sys, zernelctl};

/// Every suite, in the order in which they run.
const SUITES: &[Suite] = &[
    abi::SUITE,
    list::SUITE,
    class::SUITE,
    permit::SUITE,
    quota::SUITE,
    target::SUITE,
    cgroup::SUITE,
    tunables::SUITE,
    trace::SUITE,
    events::SUITE,
    control::SUITE,
    request::SUITE,
    turns::SUITE,
    slices::SUITE,
    track::SUITE,
    gpuwait::SUITE,
    phase::SUITE,
    phase::TIMED,
    prefetch::SUITE,
    sim::SUITE,
    verify::SUITE,
    scale::SUITE,
    stress::SUITE,
    life::SUITE,
    locked::SUITE,
];

/// Suites that run only when they are named.
const NAMED: [&str; 2] = ["timed.", "locked."];

/// Tests the modules in /lib/modules/zernel; needs root and a machine to spare.
#[derive(Parser)]
struct Options {
    /// Print the names of the cases and do nothing.
    #[arg(long)]
    list: bool,
    /// Run only the cases whose SUITE.CASE contains this; may be given several times. Those of the
    /// suites timed, for a machine that is never late, and locked, which locks the kernel down, run
    /// only then.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Leave out the cases whose SUITE.CASE contains this; may be given several times.
    #[arg(long, value_name = "PATTERN")]
    skip: Vec<String>,
    /// Repeat nothing for more than two minutes, for a slow machine.
    #[arg(long)]
    short: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let any = |patterns: &[String], name: &str| patterns.iter().any(|p| name.contains(p));
    let chosen = |name: &str| match options.only.as_slice() {
        [] => !NAMED.iter().any(|suite| name.starts_with(suite)) && !any(&options.skip, name),
        only => any(only, name) && !any(&options.skip, name),
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
            eprintln!("zernel-selftest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
