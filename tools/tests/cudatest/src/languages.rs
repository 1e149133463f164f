// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runtime in other languages: programs with cases, beside this one, that end with 0 if all is
//! well. Each is linked with the shared library and with the static one, which runs all but the long
//! cases.

use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use testkit::harness::{case, Outcome, Suite};

use crate::lab::{lease, LOADED};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "languages",
    &[
        case("c_requests", || run("zernel-test-c", &["requests"])),
        case("c_bad_input", || c("bad_input")),
        case("c_two_runtimes", || c("two_runtimes")),
        case("c_fork", || c("fork")),
        case("c_inert", || c("inert")),
        case("cpp_requests", || run("zernel-test-cpp", &["requests"])),
        case("cpp_lifetimes", || cpp("lifetimes")),
        case("cpp_scheduler", || cpp("scheduler")),
        case("cpp_scheduler_inline", || cpp("scheduler_inline")),
        case("cpp_shutdown", || cpp("shutdown")),
        case("cpp_fork", || cpp("fork")),
        case("cpp_lost", || cpp("lost")),
        case("cpp_inert", || cpp("inert")),
        case("cpp_bad_input", || cpp("bad_input")),
    ],
    LOADED,
);

/// Runs a program, with a lease that no pause of a loaded host ends.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    lease("5000000")?;
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program has a folder")?;
    let status = Command::new(folder.join(program)).args(arguments).status();
    let status = status.with_context(|| format!("{program} cannot be run"))?;
    ensure!(status.success(), "{program} {arguments:?}: {status}");
    Ok(())
}

fn c(name: &str) -> Outcome {
    run("zernel-test-c", &[name])?;
    run("zernel-test-c-static", &[name])
}

fn cpp(name: &str) -> Outcome {
    run("zernel-test-cpp", &[name])?;
    run("zernel-test-cpp-static", &[name])
}
