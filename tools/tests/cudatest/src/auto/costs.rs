// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of calls with the library and without.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use testkit::check_eq;
use testkit::harness::Outcome;

use super::lab::{alone, serves, USUAL};

/// Nanoseconds and instructions of each call.
pub fn costs(output: &str) -> Result<BTreeMap<&str, (i64, i64)>> {
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

/// Nothing is allocated for calls or requests, once there were some.
pub fn allocations() -> Outcome {
    let work = ["bench", "300"];
    let (without, with) = (alone(USUAL, &work)?.output, serves(USUAL, &work)?);
    check_eq!(costs(&with)?.len(), costs(&without)?.len(), "{without}");
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
