// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of a loader, where others see them: written anew every second, so that a loader that waits
//! for its store shows that, and no batch takes longer for it.

use std::sync::Arc;
use std::time::Duration;

use libzernel::loader::{Publication, Record};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::common::Common;
use super::{units, Settings, UNIT};
use crate::prefetcher::Prefetcher;
use crate::sync::{AtomicU64, Ordering};

/// From one record to the next.
const EVERY: Duration = Duration::from_secs(1);

/// The loaders of this process that were published.
static LOADERS: AtomicU64 = AtomicU64::new(0);

/// The task that publishes. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Published(JoinHandle<()>);

impl Drop for Published {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The sources of a record.
struct Counted {
    number: u64,
    prefetcher: Prefetcher,
    settings: Settings,
    common: Arc<Common>,
    bytes: Arc<Semaphore>,
}

impl Published {
    /// Publishes from now on. `None`: the system gives no memory for it, without which the loader is as
    /// good.
    pub(super) fn start(
        prefetcher: &Prefetcher,
        settings: Settings,
        common: Arc<Common>,
        bytes: Arc<Semaphore>,
    ) -> Option<Self> {
        let place = Publication::new().ok()?;
        let counted = Counted {
            number: LOADERS.fetch_add(1, Ordering::Relaxed) + 1,
            prefetcher: prefetcher.clone(),
            settings,
            common,
            bytes,
        };
        place.write(&counted.record()).ok()?;
        let task = prefetcher.runtime().spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                if place.write(&counted.record()).is_err() {
                    return;
                }
            }
        });
        Some(Self(task))
    }
}

impl Counted {
    fn record(&self) -> Record {
        let (counters, pace, ahead) = self.common.counters();
        let counts = self.prefetcher.source().counts();
        let all = u64::from(units(self.settings.bytes));
        let free = self.bytes.available_permits() as u64;
        Record {
            number: self.number,
            depth: counters.depth as u64,
            depth_max: self.settings.depth.max(1) as u64,
            ahead: ahead as u64,
            pace,
            batches: counters.batches,
            faults: counters.faults,
            late: counters.late,
            waited_ns: u64::try_from(counters.waited.as_nanos()).unwrap_or(u64::MAX),
            signals: counters.signals,
            bytes: counters.bytes,
            bytes_ahead: all.saturating_sub(free) * UNIT,
            bytes_max: self.settings.bytes,
            metadata_bytes: self.prefetcher.used(),
            requests: counts.requests,
            retries: counts.retries,
            hedges: counts.hedges,
            read_bytes: counts.bytes,
        }
    }
}
