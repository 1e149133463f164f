// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of the README of the signal beside queues of batches.

use serde::{Deserialize, Serialize};

use super::rounded;
use crate::queues::{Compared, Figures};
use crate::training::Lengths;

/// The training loops whose batches come at the signal, or from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queues {
    /// One loop at the signal, with a queue of one batch, and with a deep one.
    pub(super) signal: Loader,
    pub(super) shallow: Loader,
    pub(super) deep: Loader,
    /// Batches of the deep one.
    pub(super) depth: usize,
    /// Loops that share a store, and the time until each has its first batch.
    pub(super) jobs: usize,
    pub(super) signal_first_ms: f64,
    pub(super) deep_first_ms: f64,
    /// A loop of random times, and one whose loads are longer than its computations.
    pub(super) random: Beside,
    pub(super) long: Beside,
}

/// Steps a second with the signal, and with the queue that does the most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Beside {
    pub(super) signal: f64,
    pub(super) queue: f64,
    pub(super) depth: usize,
}

/// Figures of a loop by its loader.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Loader {
    pub(super) steps_per_s: f64,
    pub(super) held: f64,
    pub(super) age_ms: f64,
}

impl Loader {
    fn of(figures: &Figures) -> Self {
        Self {
            steps_per_s: rounded(figures.steps_per_s, 1),
            held: rounded(figures.held.mean, 1),
            age_ms: rounded(figures.age_ms.mean, 0),
        }
    }
}

impl Queues {
    /// The time with queues until each loop has its first batch. The order of so many reads is chance, so
    /// seconds are whole.
    pub(super) fn deep_first(&self) -> String {
        match self.deep_first_ms {
            ms if ms < 500.0 => format!("{ms:.0} ms"),
            ms => format!("about {:.0} s", ms / 1e3),
        }
    }

    /// Of the settings of the demo: one loop, one of random times, and several.
    pub(super) fn of(all: &[Compared]) -> Option<Self> {
        let find = |is_it: &dyn Fn(&Compared) -> bool| all.iter().find(|one| is_it(one));
        let one = find(&|one| one.setting.jobs == 1 && one.hides())?;
        let several = find(&|one| one.setting.jobs > 1)?;
        let is_fixed = |one: &Compared| matches!(one.setting.plan.lengths, Lengths::Fixed { .. });
        let random = find(&|one| !is_fixed(one))?;
        let long = find(&|one| is_fixed(one) && !one.hides())?;
        let (_, shallow) = one.queues().min_by_key(|(depth, _)| *depth)?;
        let deepest = |one: &Compared| {
            let deepest = one.queues().max_by_key(|(depth, _)| *depth);
            deepest.map(|(depth, figures)| (depth, *figures))
        };
        let (depth, deep) = deepest(one)?;
        Some(Self {
            signal: Loader::of(one.signal()?),
            shallow: Loader::of(shallow),
            deep: Loader::of(&deep),
            depth,
            jobs: several.setting.jobs,
            signal_first_ms: rounded(several.signal()?.first_ms, 0),
            deep_first_ms: rounded(deepest(several)?.1.first_ms, 0),
            random: Beside::of(random)?,
            long: Beside::of(long)?,
        })
    }
}

impl Beside {
    fn of(compared: &Compared) -> Option<Self> {
        let (depth, fastest) = compared.fastest()?;
        Some(Self {
            signal: rounded(compared.signal()?.steps_per_s, 1),
            queue: rounded(fastest.steps_per_s, 1),
            depth,
        })
    }
}
