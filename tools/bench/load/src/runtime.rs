// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the runtime of CUDA beside those of this program, on workload B1.

use std::io::{self, Write};

use anyhow::{bail, ensure, Context as _, Result};
use zernel_report::outcome::{Comparison, Mode};
use zernel_report::table;
use zernel_workload::{Deployment, Workload};

use crate::run::{self, Constants, Options};

const WORKLOAD: &str = "B1";
/// Goals of the runtime: at most so much more than requests of this program add to the mean latency
/// and to its 99th percentile, in microseconds, and so much less best-effort work, in percent.
const GOALS: [f64; 3] = [3.0, 10.0, 1.0];

/// The figures of a kind of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figures {
    alone_us: f64,
    added_us: f64,
    added_p99_us: f64,
    be_rate: f64,
}

impl Figures {
    fn measure(workload: &Workload, cuda: bool) -> Result<Self> {
        let runs = [Mode::Alone, Mode::Zernel].map(|mode| {
            let options = Options {
                mode,
                deployment: Deployment::PerClient,
                constants: Constants::PUBLISHED,
                costs: None,
                seed: 1,
                trace: false,
                cuda,
                breakdown: false,
                compute: false,
            };
            run::run(workload, options, &mut |_| {})
        });
        let runs: Vec<_> = runs.into_iter().collect::<Result<_>>()?;
        let rows = table::rows(&Comparison {
            workload: workload.name.clone(),
            runs,
        });
        let [alone, zernel] = rows.as_slice() else {
            bail!("a run has no figures");
        };
        Ok(Self {
            alone_us: alone.lc.mean_ns / 1e3,
            added_us: zernel.lc_added_us.context("there is a run alone")?,
            added_p99_us: zernel.lc_added_at_us.context("there is a run alone")?[1],
            be_rate: zernel.be_rate,
        })
    }

    /// Each of the goals: its name, what the runtime adds or takes, and what it may.
    fn beside(&self, own: &Self) -> [(&'static str, f64, f64); 3] {
        let lost = 100.0 * (own.be_rate - self.be_rate) / own.be_rate;
        [
            ("mean_us", self.added_us - own.added_us, GOALS[0]),
            ("p99_us", self.added_p99_us - own.added_p99_us, GOALS[1]),
            ("best_effort_percent", lost, GOALS[2]),
        ]
    }
}

/// Runs both, and prints them; `ktap`: as the results of a test.
///
/// Errors: a goal is missed.
pub fn run(seconds: f64, ktap: bool) -> Result<()> {
    let workload = Workload::load(WORKLOAD, "zernel-load run --help")?.lasting(seconds)?;
    let own = Figures::measure(&workload, false)?;
    let runtime = Figures::measure(&workload, true)?;
    let goals = runtime.beside(&own);
    let mut out = io::stdout().lock();
    let mark = if ktap { "# " } else { "" };
    if ktap {
        writeln!(out, "KTAP version 1\n1..{}", goals.len())?;
    }
    writeln!(
        out,
        "{mark}{WORKLOAD}, {seconds} s      alone, µs  added, µs  p99, µs  best effort, /s"
    )?;
    for (name, one) in [("zernel-load", own), ("runtime", runtime)] {
        let Figures {
            alone_us,
            added_us,
            added_p99_us,
            be_rate,
        } = one;
        writeln!(
            out,
            "{mark}{name:<14} {alone_us:10.1} {added_us:10.1} {added_p99_us:8.1} {be_rate:16.2}"
        )?;
    }
    let mut missed = 0;
    for ((name, found, goal), number) in goals.into_iter().zip(1..) {
        let good = if found <= goal { "ok" } else { "not ok" };
        missed += u32::from(found > goal);
        if ktap {
            writeln!(out, "# {name}: {found:.2} more, {goal} at most")?;
            writeln!(out, "{good} {number} {name}")?;
        } else {
            writeln!(out, "{name}: {found:.2} more, {goal} at most: {good}")?;
        }
    }
    ensure!(
        missed == 0,
        "{missed} of the goals are missed, see 'not ok' above"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_beside_this_program() {
        let own = Figures {
            alone_us: 2_490.0,
            added_us: 10.0,
            added_p99_us: 20.0,
            be_rate: 100.0,
        };
        let runtime = Figures {
            alone_us: 3_000.0,
            added_us: 12.5,
            added_p99_us: 31.0,
            be_rate: 99.5,
        };
        let found = runtime
            .beside(&own)
            .map(|(_, found, goal)| (found, found <= goal));
        assert_eq!(found, [(2.5, true), (11.0, false), (0.5, true)]);
    }
}
