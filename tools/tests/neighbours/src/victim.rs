// SPDX-License-Identifier: MIT OR Apache-2.0
//! The victim: workload B1 of alice's, with what an operator gives a latency-critical service.
//!
//! Its process has the lowest real-time priority (`RLIMIT_RTPRIO`, as of a service unit), so that
//! figures show waits for locks and interrupts, not the shares of a CPU.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use testkit::child::{Child, End};
use testkit::sys;
use zernel_report::outcome::{Mode, Outcome};

use crate::ground;

const WORKLOAD: &str = "B1";

/// Serves workload B1 for so many seconds.
pub fn serve(seconds: f64) -> Result<Outcome> {
    let folder = Path::new(ground::FOLDER);
    let child = Child::session(|| {
        // The program that starts the clients is in time, and they inherit nothing of that.
        sys::set_policy(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK)?;
        rustix::process::setpriority_process(None, -20)?;
        ground::become_victim()?;
        let mut program = Command::new("zernel-load");
        program.args(["run", WORKLOAD, "--mode", Mode::Zernel.name(), "--no-trace"]);
        program.args(["--seconds", &seconds.to_string(), "--out"]);
        program.arg(folder).stdout(std::process::Stdio::null());
        Err(std::os::unix::process::CommandExt::exec(&mut program)).context("run zernel-load")
    })?;
    let patience = Duration::from_secs_f64(seconds) + testkit::SOON;
    child.wait_ended(patience)?;
    let end = child.end()?;
    ensure!(end == End::Exit(0), "the victim ended with {end:?}");
    Outcome::load(&Outcome::path(folder, WORKLOAD, Mode::Zernel))
}
