// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a runtime.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters since the runtime was attached. Each request is in one of the first five.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that zernel took.
    pub begun: u64,
    /// Requests that had no lane, as all were in use.
    pub no_lane: u64,
    /// Requests that zernel refused: the GPU is suspended, the TSG gone, a bound reached.
    pub refused: u64,
    /// Requests after the context was lost.
    pub lost: u64,
    /// Requests in a child of `fork()`.
    pub forked: u64,
    /// Calls of CUDA for requests that failed.
    pub failed_calls: u64,
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) begun: AtomicU64,
    pub(crate) no_lane: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) forked: AtomicU64,
    pub(crate) failed_calls: AtomicU64,
}

impl Counting {
    /// Their values now.
    pub(crate) fn read(&self) -> Counters {
        Counters {
            begun: self.begun.load(Relaxed),
            no_lane: self.no_lane.load(Relaxed),
            refused: self.refused.load(Relaxed),
            lost: self.lost.load(Relaxed),
            forked: self.forked.load(Relaxed),
            failed_calls: self.failed_calls.load(Relaxed),
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
