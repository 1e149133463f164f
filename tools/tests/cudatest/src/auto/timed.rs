// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of programs on a machine whose clock counts instructions, each a nanosecond.

use anyhow::{ensure, Context as _, Result};
use rustix::process::Signal;
use testkit::harness::Outcome;
use testkit::zernelctl::Running;

use super::costs::costs;
use super::lab::{alone, serves, Way, USUAL};

/// The most instructions that a call takes more. One that may begin a request asks the driver first.
const MOST: i64 = 200;

/// Calls cost little with the library.
pub fn costs_of_calls() -> Outcome {
    let work = ["bench", "1"];
    let (without, with) = (alone(USUAL, &work)?.output, serves(USUAL, &work)?);
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

/// A program without copies, or with small ones, loses nothing by requests that cannot pay. Large ones
/// do not pay on the software GPU, whose begins take long: their times are told alone.
pub fn no_loss() -> Outcome {
    const COUNT: u32 = 400;
    /// Percent of the mean: requests of sites that are tried.
    const NOISE: u64 = 2;
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
    let mut told = Vec::new();
    for (bytes, is_bounded) in [(0, true), (4 << 10, true), (256 << 10, false)] {
        let classes = latency(&[], COUNT, bytes)?;
        let requests = latency(&["--requests", "auto"], COUNT, bytes)?;
        eprintln!("# {bytes} bytes: classes {classes:?} ns, requests {requests:?} ns");
        if is_bounded {
            told.push((bytes, classes.0, requests.0));
        }
    }
    job.signal(Signal::KILL)?;
    job.end()?;
    for (bytes, classes, requests) in &told {
        let most = classes + classes * NOISE / 100;
        ensure!(*requests <= most, "{bytes} bytes: {told:?}");
    }
    Ok(())
}
