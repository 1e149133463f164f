// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the patched NVIDIA driver and of its provider, from user space: runs the cases and
//! reports them as KTAP.

mod bench;
mod fakegpu;
mod lab;
mod modules;
mod options;
mod rm;
mod simrm;
mod stock;

use std::process::ExitCode;

use clap::Parser;
use testkit::harness::{self, Suite};

use options::{Action, Options};

/// Every suite, in the order in which they run.
const SUITES: &[Suite] = &[
    simrm::list::SUITE,
    simrm::class::SUITE,
    simrm::control::SUITE,
    simrm::control::WITHOUT,
    simrm::schedule::SUITE,
    simrm::failure::SUITE,
    simrm::request::SUITE,
    simrm::kick::SUITE,
    simrm::sharing::SUITE,
    simrm::hostile::SUITE,
    simrm::evade::SUITE,
    simrm::life::SUITE,
    simrm::life::ORDERS,
    simrm::start::SUITE,
    simrm::suspend::SUITE,
    simrm::pin::SUITE,
    simrm::engine::SUITE,
    simrm::engine::registers::SUITE,
    simrm::engine::sampling::SUITE,
    simrm::engine::turns::SUITE,
    simrm::engine::life::SUITE,
    simrm::records::SUITE,
    simrm::verify::SUITE,
    simrm::verify::WITHOUT,
    simrm::race::SUITE,
    simrm::unplug::SUITE,
    stock::SUITE,
    stock::MODULES,
    fakegpu::SUITE,
];

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.action {
        Some(Action::Bench(what)) => bench::run(what).map(|()| true),
        Some(Action::Table(files)) => bench::table(files).map(|()| true),
        None => run(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zernel-nvtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> anyhow::Result<bool> {
    let chosen = |name: &str| {
        options.only.is_empty() || options.only.iter().any(|pattern| name.contains(pattern))
    };
    if options.list {
        harness::list(SUITES, chosen);
        return Ok(true);
    }
    options::keep(options);
    if options.short {
        testkit::run_short();
    }
    harness::run(SUITES, chosen)
}
