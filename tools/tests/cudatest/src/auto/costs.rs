// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of calls with the library and without.

use std::collections::BTreeMap;

use anyhow::{ensure, Context as _, Result};
use testkit::check_eq;
use testkit::harness::Outcome;

use super::lab::{alone, serves, USUAL};

/// Nanoseconds and instructions of each call.
fn costs(output: &str) -> Result<BTreeMap<&str, (i64, i64)>> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("cost "));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().context("no name")?;
            let mut number = || {
                words
                    .next()
                    .context("no number")?
                    .parse()
                    .context("a number")
            };
            Ok((name, (number()?, number()?)))
        })
        .collect()
}

pub fn costs_of_calls() -> Outcome {
    /// So many that an emulated processor and a busy host do not matter.
    const MOST_NS: i64 = 3_000;
    let work = ["bench", "300"];
    let (without, with) = (alone(USUAL, &work)?.output, serves(USUAL, &work)?);
    let (before, after) = (costs(&without)?, costs(&with)?);
    check_eq!(before.len(), 6, "{without}");
    for (name, (ns, instructions)) in &before {
        let (ns_after, instructions_after) = *after.get(name).context("a cost is missing")?;
        eprintln!(
            "# {name}: {ns} ns, with the library {ns_after} ns ({:+}); instructions {instructions} \
             and {instructions_after} ({:+})",
            ns_after - ns,
            instructions_after - instructions
        );
        ensure!(ns_after - ns < MOST_NS, "{name}: {ns} and {ns_after} ns");
    }
    let allocations = |output: &str| {
        let line = output.lines().find(|line| line.starts_with("allocations "));
        line.map(str::to_owned)
    };
    check_eq!(allocations(&with).as_deref(), Some("allocations 0 of 300"));
    check_eq!(
        allocations(&without).as_deref(),
        Some("allocations 0 of -1")
    );
    Ok(())
}
