// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gates of batches: the wait for metadata alone, and what a plan costs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use zernel_prefetch::prefetcher::Ahead;

use crate::load::{prefetcher, samples, Run};

/// Gates of the first epoch of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Gates {
    /// The time until the first gate is open.
    pub first: f64,
    /// The waits for all gates together.
    pub waits: f64,
    /// Gates that were not open when the batch was first looked at, behind the first two lookaheads.
    pub shut: u64,
    /// Gates that were looked at there.
    pub steady: u64,
    /// Requests.
    pub requests: u64,
    /// Times that a plan took of its processor, from the shortest on, in microseconds.
    pub plans: Vec<f64>,
}

/// Opens the gates of all batches of the first epoch, with a consumer that computes for so long.
///
/// # Errors
///
/// A fault of a batch.
pub async fn gates(run: &Run, compute: Duration) -> Result<Gates> {
    let prefetcher = prefetcher(run)?;
    let stream = prefetcher.stream()?;
    let mut batches = run.epochs.iter().take(1).flatten();
    let mut ahead: VecDeque<Ahead> = VecDeque::new();
    let mut gates = Gates::default();
    let begin = Instant::now();
    for number in 0_usize.. {
        let room = run.ahead.saturating_sub(ahead.len());
        for batch in batches.by_ref().take(room) {
            ahead.push_back(stream.submit(samples(batch)));
        }
        let Some(batch) = ahead.pop_front() else {
            break;
        };
        // All the first lookahead asks at once, and the first of the second one queue behind that.
        if number >= 2 * run.ahead {
            gates.steady += 1;
            gates.shut += u64::from(!batch.batch().is_ready());
        }
        let asked = Instant::now();
        batch.batch().ready().await?;
        gates.waits += asked.elapsed().as_secs_f64();
        if number == 0 {
            gates.first = begin.elapsed().as_secs_f64();
        }
        let before = clock_gettime(ClockId::ThreadCPUTime);
        let plan = batch.plan()?;
        let after = clock_gettime(ClockId::ThreadCPUTime);
        drop(plan);
        let ns = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
        gates.plans.push(ns as f64 / 1e3);
        drop(batch);
        tokio::time::sleep(compute).await;
    }
    gates.plans.sort_by(f64::total_cmp);
    gates.requests = prefetcher.source().counts().requests;
    Ok(gates)
}
