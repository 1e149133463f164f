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
    /// Steps a second of a loop of random times, and the most that a queue does.
    pub(super) random_signal: f64,
    pub(super) random_fastest: f64,
    pub(super) random_depth: usize,
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
    /// Of the settings of the demo: one loop, one of random times, and several.
    pub(super) fn of(all: &[Compared]) -> Option<Self> {
        let find = |jobs: fn(usize) -> bool, is_fixed: bool| {
            all.iter().find(|one| {
                let lengths = one.setting.plan.lengths;
                let fixed = matches!(lengths, Lengths::Fixed { .. });
                jobs(one.setting.jobs) && fixed == is_fixed
            })
        };
        let by_depth = |one: &Compared| {
            let mut queues: Vec<_> = one.queues().map(|(depth, one)| (depth, *one)).collect();
            queues.sort_unstable_by_key(|(depth, _)| *depth);
            queues
        };
        let (one, random) = (
            find(|jobs| jobs == 1, true)?,
            find(|jobs| jobs == 1, false)?,
        );
        let several = find(|jobs| jobs > 1, true)?;
        let queues = by_depth(one);
        let ((_, shallow), (depth, deep)) = (queues.first()?, queues.last()?);
        let steps = |one: &(usize, Figures)| one.1.steps_per_s;
        let fastest = by_depth(random)
            .into_iter()
            .max_by(|one, other| steps(one).total_cmp(&steps(other)))?;
        Some(Self {
            signal: Loader::of(one.signal()?),
            shallow: Loader::of(shallow),
            deep: Loader::of(deep),
            depth: *depth,
            jobs: several.setting.jobs,
            signal_first_ms: rounded(several.signal()?.first_ms, 0),
            deep_first_ms: rounded(by_depth(several).last()?.1.first_ms, 0),
            random_signal: rounded(random.signal()?.steps_per_s, 2),
            random_fastest: rounded(fastest.1.steps_per_s, 2),
            random_depth: fastest.0,
        })
    }
}
