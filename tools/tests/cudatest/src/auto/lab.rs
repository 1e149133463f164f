// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs, and what zernel counts of them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Of, RequestStats};
use libzernel::Zernel;

/// The library, where `zernelctl` finds it.
pub const LIBRARY: &str = "/zernel/lib/zernel/libzernel-auto.so";

/// A program, and the way in which it reaches the driver.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub program: &'static str,
    pub way: &'static str,
}

/// All of them.
pub const WAYS: [Way; 8] = [
    of("auto-linked", "linked"),
    of("auto-linked-thread", "linked"),
    of("auto-program", "symbol"),
    of("auto-program-thread", "symbol"),
    of("auto-program", "name"),
    of("auto-program-thread", "name"),
    of("auto-program", "name11"),
    of("auto-program-thread", "name11"),
];

/// The usual one: as libcudart reaches it.
pub const USUAL: Way = of("auto-program", "name");

const fn of(program: &'static str, way: &'static str) -> Way {
    Way { program, way }
}

impl Way {
    /// Its path.
    pub fn path(self) -> String {
        format!("/zernel/bin/{}", self.program)
    }

    /// The command line of `zernelctl` that runs work with requests.
    pub fn with_requests(self, work: &[&str]) -> Vec<String> {
        self.run(&["--requests", "auto"], work)
    }

    /// The command line of `zernelctl` that runs work with further options.
    pub fn run(self, options: &[&str], work: &[&str]) -> Vec<String> {
        let path = self.path();
        let start = ["run", "--class", "lc"];
        let end = ["--", path.as_str(), self.way];
        let words = start.iter().chain(options).chain(&end).chain(work);
        words.map(|&word| word.to_owned()).collect()
    }
}

/// The outcome of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub code: Option<i32>,
    pub output: String,
    pub errors: String,
}

/// No call site is judged.
pub const ALL_SITES: (&str, &str) = ("ZERNEL_AUTO", "sites=all");

/// Sites are judged, as by themselves.
pub const JUDGED: (&str, &str) = ("ZERNEL_AUTO", "");

/// Runs `zernelctl`, with variables of the environment. Each begin is a request, unless the variables
/// say something else.
pub fn zernelctl(arguments: &[String], variables: &[(&str, &str)]) -> Result<Outcome> {
    let mut command = Command::new("/zernel/bin/zernelctl");
    command.args(arguments).stdin(Stdio::null());
    outcome(command.envs([ALL_SITES]).envs(variables.iter().copied()))
}

/// Runs a program as it is.
pub fn alone(way: Way, work: &[&str]) -> Result<Outcome> {
    let mut command = Command::new(way.path());
    outcome(command.arg(way.way).args(work).stdin(Stdio::null()))
}

fn outcome(command: &mut Command) -> Result<Outcome> {
    let output = command
        .output()
        .with_context(|| format!("start {command:?}"))?;
    let text = |bytes| String::from_utf8(bytes).context("it prints text");
    Ok(Outcome {
        code: output.status.code(),
        output: text(output.stdout)?,
        errors: text(output.stderr)?,
    })
}

/// Runs work with a request for each begin, which goes well and says nothing; what it printed.
pub fn serves(way: Way, work: &[&str]) -> Result<String> {
    serves_with(way, work, ALL_SITES)
}

/// Runs work with requests and a variable, likewise.
pub fn serves_with(way: Way, work: &[&str], variable: (&str, &str)) -> Result<String> {
    let outcome = zernelctl(&way.with_requests(work), &[variable])?;
    let went_well = outcome.code == Some(0) && outcome.errors.is_empty();
    ensure!(went_well, "{way:?} {work:?}: {outcome:?}");
    Ok(outcome.output)
}

/// The requests of all so far.
pub fn stats() -> Result<RequestStats> {
    Ok(Zernel::open()?.request_stats(Of::All)?)
}

/// The counts that something adds.
pub fn added(run: impl FnOnce() -> Result<()>) -> Result<BTreeMap<&'static str, u64>> {
    let before = stats()?;
    run()?;
    let after = stats()?;
    let pairs = before.entries().zip(after.entries());
    let added = pairs.map(|((name, before), (_, after))| (name, after.wrapping_sub(before)));
    Ok(added.collect())
}

/// Begins, without those of requests that were begun anew, and results. One whose trigger would
/// have waited too long is cancelled and begins once more.
pub fn kept(counts: &BTreeMap<&'static str, u64>) -> (u64, u64) {
    (counts["begun"] - counts["cancelled"], counts["done"])
}
