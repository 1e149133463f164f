// SPDX-License-Identifier: GPL-2.0
//! The module's counters.

use serde::Serialize;

use crate::sys::abi;

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => {
        /// Counters since the module was loaded, and how many there are now.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub struct Stats {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl From<&abi::zernel_v0_stats> for Stats {
            fn from(raw: &abi::zernel_v0_stats) -> Self {
                Self {
                    $($field: raw.$field,)*
                }
            }
        }

        impl Stats {
            /// Names and values in the order of the ABI.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), u64::from(self.$field)),)*].into_iter()
            }
        }
    };
}

stats! {
    /// TSGs that providers reported.
    tsgs_added: u64,
    /// TSGs that went away.
    tsgs_removed: u64,
    /// Classes set.
    classes_set: u64,
    /// Classes cleared.
    classes_cleared: u64,
    /// Assignments that ended with their target.
    classes_expired: u64,
    /// Calls refused for want of permission or quota.
    denied: u64,
    /// Changes replaced by a later one before the worker came.
    coalesced: u64,
    /// Settings that providers took.
    applied: u64,
    /// Provider calls answered "not now".
    retries: u64,
    /// Provider calls that failed for good.
    errors: u64,
    /// TSGs dropped because their provider said that they are gone.
    dead: u64,
    /// Events written to streams.
    events: u64,
    /// Events overwritten before they were read.
    events_dropped: u64,
    /// GPUs now.
    gpus: u32,
    /// TSGs now.
    tsgs: u32,
    /// Assignments now.
    assignments: u32,
    /// Event streams now.
    streams: u32,
    /// Attempts of a process to change its own classed TSG through the driver that were refused.
    controls_denied: u64,
    /// Such attempts that were let through and put right.
    controls_reapplied: u64,
    /// Times that a best-effort TSG was let on in its turn.
    turns: u64,
    /// Tracked threads now.
    threads: u64,
    /// Threads that were to be tracked because of who made them, and are not.
    threads_missed: u64,
    /// Subscriptions of prefetch signals now.
    subscriptions: u64,
    /// Signals at which a range of a file was read ahead.
    readaheads: u64,
    /// Bytes of the ranges that were, what was in the page cache included.
    readahead_bytes: u64,
    /// Ranges that the file system refused to read.
    readaheads_failed: u64,
    /// Signals at which the range before was still being read.
    readaheads_skipped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn entries_follow_the_structure() {
        let mut raw = abi::zernel_v0_stats::zeroed();
        raw.tsgs_added = 5;
        raw.streams = 2;
        (raw.turns, raw.readaheads_skipped) = (3, 4);
        let entries: Vec<_> = Stats::from(&raw).entries().collect();
        assert_eq!(entries.first(), Some(&("tsgs_added", 5)));
        assert_eq!(entries.last(), Some(&("readaheads_skipped", 4)));
        assert_eq!(entries[16], ("streams", 2));
        assert_eq!(entries.len(), 27);
    }
}
