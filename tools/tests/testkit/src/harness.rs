// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs suites of cases, each case in a process of its own, and reports them as KTAP.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use crate::child::Child;
use crate::sys;

/// A case that takes longer says so.
const SLOW: Duration = Duration::from_secs(5);

/// A case that takes longer hangs, however slow the machine.
const DEADLINE: Duration = Duration::from_secs(3000);

/// The result of a case; an error is a failure, unless it is a [`Skip`].
pub type Outcome = Result<()>;

/// The kernel cannot offer what a case needs. Everything else is a failure.
#[derive(Debug)]
pub struct Skip(pub &'static str);

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Skip {}

/// A test. It runs in a process of its own, as root, as the leader of a new session; what it
/// leaves running is killed.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    run: fn() -> Outcome,
}

/// A case.
pub const fn case(name: &'static str, run: fn() -> Outcome) -> Case {
    Case { name, run }
}

/// The surroundings of each case of a suite.
#[derive(Clone, Copy)]
pub struct Surroundings {
    /// Makes what a case finds.
    pub prepare: fn() -> Result<()>,
    /// Puts things back after a case and fails if something is left of it. A case that failed
    /// already is not blamed for what it left.
    pub settle: fn() -> Result<()>,
}

/// The cases of one file.
#[derive(Clone, Copy)]
pub struct Suite {
    name: &'static str,
    cases: &'static [Case],
    surroundings: Surroundings,
}

impl Suite {
    /// A suite.
    pub const fn new(
        name: &'static str,
        cases: &'static [Case],
        surroundings: Surroundings,
    ) -> Self {
        Self {
            name,
            cases,
            surroundings,
        }
    }

    /// The same suite in other surroundings.
    pub const fn surrounded_by(self, surroundings: Surroundings) -> Self {
        Self {
            surroundings,
            ..self
        }
    }

    fn chosen(&self, chosen: &impl Fn(&str) -> bool) -> Vec<&'static Case> {
        let name = |case: &Case| format!("{}.{}", self.name, case.name);
        self.cases
            .iter()
            .filter(|case| chosen(&name(case)))
            .collect()
    }
}

/// Prints the names of the chosen cases.
pub fn list(suites: &[Suite], chosen: impl Fn(&str) -> bool) {
    for suite in suites {
        for case in suite.chosen(&chosen) {
            println!("{}.{}", suite.name, case.name);
        }
    }
}

/// Runs the chosen cases; says whether none failed. That nothing is chosen is an error.
pub fn run(suites: &[Suite], chosen: impl Fn(&str) -> bool) -> Result<bool> {
    let chosen: Vec<_> = suites
        .iter()
        .map(|suite| (suite, suite.chosen(&chosen)))
        .filter(|(_, cases)| !cases.is_empty())
        .collect();
    if chosen.is_empty() {
        bail!("no case has such a name");
    }
    sys::become_subreaper()?;
    say(format_args!("KTAP version 1\n1..{}", chosen.len()));
    let mut good = true;
    for (number, (suite, cases)) in chosen.iter().enumerate() {
        let passed = run_suite(suite, cases);
        say(format_args!(
            "{} {} {}",
            verdict(passed),
            number + 1,
            suite.name
        ));
        good &= passed;
    }
    Ok(good)
}

fn run_suite(suite: &Suite, cases: &[&Case]) -> bool {
    say(format_args!("    KTAP version 1"));
    say(format_args!("    # Subtest: {}", suite.name));
    say(format_args!("    1..{}", cases.len()));
    let mut good = true;
    for (number, case) in cases.iter().enumerate() {
        let number = number + 1;
        match run_case(suite, case) {
            Ok(()) => say(format_args!("    ok {number} {}", case.name)),
            Err(error) if error.is::<Skip>() => {
                say(format_args!("    ok {number} {} # SKIP {error}", case.name));
            }
            Err(error) => {
                good = false;
                for line in format!("{error:#}").lines() {
                    say(format_args!("    # {}: {line}", case.name));
                }
                say(format_args!("    not ok {number} {}", case.name));
            }
        }
    }
    good
}

/// One case: what it needs is made, it runs, and what it leaves is looked at.
fn run_case(suite: &Suite, case: &Case) -> Outcome {
    (suite.surroundings.prepare)()?;
    let begin = Instant::now();
    let child = Child::session(case.run)?;
    let outcome = child.join_within(DEADLINE);
    let took = begin.elapsed();
    if took > SLOW {
        say(format_args!("    # took {took:.1?}: {}", case.name));
    }
    sys::end_all();
    let settled = (suite.surroundings.settle)();
    outcome.and(settled)
}

fn verdict(good: bool) -> &'static str {
    if good {
        "ok"
    } else {
        "not ok"
    }
}

fn say(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
