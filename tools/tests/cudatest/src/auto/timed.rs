// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of programs on a machine whose clock counts instructions, each a nanosecond.

use anyhow::{ensure, Context as _, Result};
use libzernel::Zernel;
use rustix::process::Signal;
use testkit::harness::Outcome;
use testkit::module::{load, unload_soon};
use testkit::wait_until;
use testkit::zernelctl::Running;

use super::costs::costs;
use super::lab::{alone, serves_with, Way, JUDGED, USUAL};

/// The most instructions that a call takes more. One that may begin a request asks the driver first.
const MOST: i64 = 200;

/// Calls cost little with the library.
pub fn costs_of_calls() -> Outcome {
    let work = ["bench", "1"];
    let with = serves_with(USUAL, &work, JUDGED)?;
    let without = alone(USUAL, &work)?.output;
    let (before, after) = (costs(&without)?, costs(&with)?);
    ensure!(before.len() == 6, "{without}");
    let mut dear = Vec::new();
    for (name, (before, _)) in &before {
        let (after, _) = after.get(name).context("a cost is missing")?;
        let more = after - before;
        eprintln!("# {name}: {before} instructions, and {more} with the library");
        if more > MOST {
            dear.push((name, more));
        }
    }
    ensure!(dear.is_empty(), "{dear:?}");
    Ok(())
}

/// Mean and longest time of a server with options, in nanoseconds, beside a job.
fn latency(options: &[&str], count: u32, bytes: u32) -> Result<(u64, u64)> {
    let own = |options: &[&str], work: &[&str]| -> Result<Running> {
        let arguments = Way::run(USUAL, options, work);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Running::start(&arguments)
    };
    let server = own(
        options,
        &["latency", &count.to_string(), &bytes.to_string()],
    )?;
    server.wait_text("served")?;
    let (_, output) = server.end()?;
    let line = output.lines().find(|line| line.starts_with("mean "));
    let mut words = line.with_context(|| output.clone())?.split(' ');
    let mut number = || -> Result<u64> { Ok(words.nth(1).context("no number")?.parse()?) };
    Ok((number()?, number()?))
}

/// Requests that pay, or do not, beside a job of class BE that keeps the GPU busy: mean times in
/// nanoseconds of a server with copies of so many bytes, by its class alone and with requests.
fn compared(bytes: u32) -> Result<(u64, u64)> {
    const COUNT: u32 = 400;
    let classes = latency(&[], COUNT, bytes)?;
    let requests = latency(&["--requests", "auto"], COUNT, bytes)?;
    eprintln!("# {bytes} bytes: classes {classes:?} ns, requests {requests:?} ns");
    Ok((classes.0, requests.0))
}

/// Beside such a job.
fn beside_a_job(run: impl FnOnce() -> Outcome) -> Outcome {
    let arguments = [
        "run",
        "--class",
        "be",
        "--",
        "/zernel/bin/auto-program",
        "name",
        "busy",
    ];
    let job = Running::start(&arguments)?;
    job.wait_text("busy")?;
    let outcome = run();
    job.signal(Signal::KILL)?;
    job.end()?;
    outcome
}

/// A program whose requests do not pay loses those that its sites are tried with, and no more. A begin
/// is dear on the software GPU, and its usual switch is short.
pub fn no_loss() -> Outcome {
    /// Percent of the mean.
    const TRIED: u64 = 2;
    beside_a_job(|| {
        for bytes in [0, 4 << 10, 256 << 10] {
            let (classes, requests) = compared(bytes)?;
            let most = classes + classes * TRIED / 100;
            ensure!(
                requests <= most,
                "{bytes} bytes: {classes} ns, {requests} ns"
            );
        }
        Ok(())
    })
}

/// A long switch is hidden by the copy.
pub fn gain() -> Outcome {
    unload_soon("zernel_sim")?;
    load("zernel_sim", "preset=l4")?;
    let outcome = beside_a_job(|| {
        let (classes, requests) = compared(256 << 10)?;
        ensure!(requests < classes, "{classes} ns, {requests} ns");
        Ok(())
    });
    wait_until("nothing is left", || Ok(Zernel::open()?.stats()?.tsgs == 0))?;
    // The next case loads the usual one.
    unload_soon("zernel_sim")?;
    outcome
}
