// SPDX-License-Identifier: GPL-2.0
//! Places for records: how many there are, and how many threads got none.

use crate::glue::module::this_module;
use kernel::{
    bindings,
    sync::atomic::{
        ordering::{
            Full,
            Relaxed, //
        },
        Atomic, //
    },
};

/// Most records at a time, those of threads that have still to let theirs go included.
pub(crate) const MAX: u32 = 1 << 17;

/// Records that the record reaper has not been through.
static LIVE: Atomic<u32> = Atomic::new(0);

/// Threads that were to be tracked and are not, because there was no memory or no room.
static MISSED: Atomic<u64> = Atomic::new(0);

/// The number of records.
pub(crate) fn live() -> u32 {
    LIVE.load(Relaxed)
}

/// The number of threads that were missed.
pub(crate) fn missed() -> u64 {
    MISSED.load(Relaxed)
}

/// One more thread was missed.
pub(crate) fn miss() {
    MISSED.fetch_add(1, Relaxed);
}

/// A reference to the module and a place among [`MAX`] records.
pub(super) struct Place(());

impl Place {
    pub(super) fn take() -> Option<Self> {
        // The module may be on its way out: the cgroup sync and the record reaper run until it is.
        // SAFETY: The module's code runs, so it is there.
        let there = unsafe { bindings::try_module_get(this_module()) };
        if LIVE.fetch_add(1, Full) >= MAX || !there {
            LIVE.fetch_sub(1, Full);
            if there {
                // SAFETY: Just taken.
                unsafe { bindings::module_put(this_module()) };
            }
            return None;
        }
        Some(Self(()))
    }

    /// Gives one back that was taken when a record was made.
    pub(super) fn give_back() {
        drop(Self(()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Full);
        // SAFETY: Taken in `take`. The end of the module waits for every caller: it has a file
        // open, is a thread with a record, runs in task work, or on the workqueue.
        unsafe { bindings::module_put(this_module()) };
    }
}
