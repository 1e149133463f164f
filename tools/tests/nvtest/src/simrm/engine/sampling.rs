// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of channels that zernel reads.

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use zernel_verify::debugfs;

use super::plan::{Plan, LONG};
use crate::lab::TURNS;
use crate::rm::{truth, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.sampling",
    &[case(
        "a_number_that_others_got_is_read_no_more",
        a_number_that_others_got_is_read_no_more,
    )],
    TURNS,
);

/// Channels that are looked at at a time.
const MOST: usize = 15;

/// On the engine.
const ON_ENG: u32 = 1 << 7;

/// Words of the first channels of the TSG with so many, as zernel reads them.
fn words(channels: usize) -> Result<Vec<u32>> {
    let lines = debugfs::lines("registers")?;
    let its = |line: &&debugfs::Line| {
        let count = line.number("channels").ok().flatten();
        count == i64::try_from(channels).ok()
    };
    let line = lines.iter().find(its);
    let line = line.with_context(|| format!("no TSG with {channels} channels"))?;
    let words = line.text("words").context("zernel reads no channel")?;
    let number = |word: &str| u32::from_str_radix(word.trim_start_matches("0x"), 16);
    Ok(words.split(',').map(number).collect::<Result<_, _>>()?)
}

/// Of a TSG whose channels are all idle.
fn are_idle(channels: usize) -> Outcome {
    let words = words(channels)?;
    check_eq!(words.len(), channels.min(MOST));
    ensure!(words.iter().all(|word| word & ON_ENG == 0), "{words:x?}");
    Ok(())
}

/// Channels of a TSG go, and each number goes to a channel of another one, which runs.
fn a_number_that_others_got_is_read_no_more() -> Outcome {
    const ATTACHED: usize = 4;
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, ATTACHED)?;
    let numbers = || -> Result<Vec<u32>> { Ok(truth::tsg(plan.runtime.client, plan.tsg)?.chids) };
    let mut later = Vec::new();
    for _ in 0..14 {
        later.push(plan.runtime.channel(plan.tsg)?);
    }
    let mut others = Vec::new();
    for count in (ATTACHED + 1..=ATTACHED + later.len()).rev() {
        are_idle(count)?;
        // In the middle of those that are left, in the first part and behind it.
        let gone = later.len() / 2;
        let number = numbers()?[ATTACHED + gone];
        plan.runtime.free(later.remove(gone))?;
        let other = Plan::new(&sim, Spec::USUAL, 1)?;
        let got = truth::tsg(other.runtime.client, other.tsg)?.chids;
        check_eq!(got, [number], "the number that became free");
        other.submit(0, &[Item::work(LONG)])?;
        others.push(other);
        are_idle(count - 1)?;
    }
    let running = words(1)?;
    ensure!(running.len() == 1, "{running:x?}");
    Ok(())
}
