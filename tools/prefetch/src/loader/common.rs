// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common knowledge of a loader and its driver: the batches ahead, and the pace of either.

use std::time::Duration;

use libzernel::loader::Pace as Source;
use tokio::sync::Notify;

use super::Settings;
use crate::pace::Pace;
use crate::sync::{lock, Mutex};

/// The counts of a loader, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches that were handed over, faults included.
    pub batches: u64,
    /// Of these, faults.
    pub faults: u64,
    /// Bytes of samples.
    pub bytes: u64,
    /// Batches that were not there when they were asked for.
    pub late: u64,
    /// The time for which the consumer waited for these.
    pub waited: Duration,
    /// Prefetch signals that came.
    pub signals: u64,
    /// Batches that are to be loaded ahead now.
    pub depth: usize,
}

/// The knowledge of both.
#[derive(Debug)]
pub(super) struct Common {
    state: Mutex<State>,
    /// It is notified when a batch was handed over, or a load has ended.
    changed: Notify,
    settings: Settings,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) counters: Counters,
    pub(super) pace: Pace,
    /// Batches that were begun and not handed over.
    pub(super) ahead: usize,
}

impl Common {
    /// No batch was begun.
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            settings,
        }
    }

    /// The counts of now, with the source of the depth and the batches ahead.
    pub(super) fn counters(&self) -> (Counters, Source, usize) {
        let state = lock(&self.state);
        let source = match self.settings.paced {
            true => state.pace.source(),
            false => Source::Fixed,
        };
        let depth = self.depth_in(&state);
        let counters = Counters {
            depth,
            ..state.counters
        };
        (counters, source, state.ahead)
    }

    fn depth_in(&self, state: &State) -> usize {
        match self.settings.paced {
            true => state.pace.depth(self.settings.depth),
            false => self.settings.depth.max(1),
        }
    }

    /// Waits until one more batch may be begun.
    pub(super) async fn enter(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = lock(&self.state);
                if state.ahead < self.depth_in(&state) {
                    state.ahead += 1;
                    return;
                }
            }
            changed.await;
        }
    }

    /// Something has changed that the driver may wait for.
    pub(super) fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut lock(&self.state));
        // There is one who waits.
        self.changed.notify_one();
    }
}
