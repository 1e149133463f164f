// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures of a loop.

use libzernel::phase::Prefetch;
use serde::{Deserialize, Serialize};
use zernel_train::{Agreement, Run};

/// Figures of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Steps.
    pub steps: usize,
    /// Of them a second.
    pub steps_per_s: f64,
    /// From the first computation to the last: time in which the GPU had nothing to do, in percent,
    /// by its own count.
    pub gpu_idle_percent: f64,
    /// Batches that were loaded because of the signal.
    pub signalled: usize,
    /// Signals that were given.
    pub signals: u64,
    /// After which the batch was there before the computation was over.
    pub early: u64,
    /// After which it was not.
    pub late: u64,
    /// After which nothing was loaded.
    pub useless: u64,
    /// Agreement of the phases told with the loop's own marks.
    pub agreement: Agreement,
    /// Phases that came and went unseen by who watched.
    pub missed: u64,
}

impl Figures {
    /// Those of a run.
    pub fn of(run: &Run, agreement: Agreement, missed: u64, prefetch: &Prefetch) -> Self {
        let steps = run.computations.len();
        Self {
            steps,
            steps_per_s: steps as f64 / run.took().as_secs_f64().max(1e-9),
            gpu_idle_percent: run.engine.idle_percent(),
            signalled: run.signalled,
            signals: prefetch.signals,
            early: prefetch.early,
            late: prefetch.late,
            useless: prefetch.useless,
            agreement,
            missed,
        }
    }
}
