// SPDX-License-Identifier: GPL-2.0
//! Reads a file ahead, a range for each signal.

use super::quota::{
    self,
    Charge, //
};
use crate::{
    glue::{
        detached::{
            Detached,
            Job, //
        },
        readahead::Source,
    },
    policy::prefetch::ranges::Ranges,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex, //
    },
};

/// A file that is read ahead. It counts for its user until a read-ahead that is under way is over.
pub(crate) struct Reader {
    source: Source,
    ranges: Pin<KBox<Mutex<Ranges>>>,
    ended: Atomic<bool>,
    _charge: Charge,
}

impl Reader {
    /// One that reads these ranges.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        source: Source,
        ranges: Ranges,
        charge: Charge,
    ) -> Result<Arc<Detached<Self>>> {
        Detached::new(Self {
            source,
            ranges: KBox::pin_init(new_mutex!(ranges, "zernel_ranges"), GFP_KERNEL_ACCOUNT)?,
            ended: Atomic::new(false),
            _charge: charge,
        })
    }

    /// Nothing more is to be read.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}

/// The range that was read.
pub(crate) struct Read {
    bytes: u64,
    failed: bool,
}

impl Job for Reader {
    type Done = Read;

    fn run(&self) -> Read {
        let range = self.ranges.lock().next();
        let mut left = range.within(self.source.size());
        let (mut bytes, mut failed) = (0u64, false);
        while !self.ended.load(Relaxed) && !failed {
            let Some(part) = left.take(self.source.most(left.offset)) else {
                break;
            };
            match self.source.read(part) {
                Ok(()) => bytes = bytes.saturating_add(part.length),
                Err(_) => failed = true,
            }
        }
        Read { bytes, failed }
    }

    fn tell(done: Read) {
        quota::count(|counters| {
            counters.bytes = counters.bytes.saturating_add(done.bytes);
            counters.failed += u64::from(done.failed);
        });
    }
}
