// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module's counters.

use serde::Serialize;

use crate::sys::abi;

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counters since the module was loaded, and how many there are now.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub struct Stats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl From<&abi::zernel_system_info> for Stats {
            fn from(raw: &abi::zernel_system_info) -> Self {
                Self {
                    $($field: raw.$field,)*
                }
            }
        }

        impl Stats {
            /// Names and values in the order of the ABI.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

stats! {
    /// TSGs that providers reported.
    tsgs_added,
    /// TSGs that went away.
    tsgs_removed,
    /// Those of them of which a provider said so when it was asked.
    tsgs_dead,
    /// TSGs that were not taken, for want of room or memory.
    tsgs_missed,
    /// Classes set.
    classes_set,
    /// Classes cleared.
    classes_cleared,
    /// Assignments that ended with their target.
    classes_expired,
    /// Calls refused for want of permission or quota.
    denied,
    /// Changes replaced by a later one before the worker came.
    coalesced,
    /// Settings that providers took.
    applied,
    /// Provider calls answered "later".
    retries,
    /// Provider calls that failed for good.
    errors,
    /// Attempts of a process to change its own classed TSG through the driver that were refused.
    controls_denied,
    /// Such attempts that were let through and put right.
    controls_reapplied,
    /// Times that a best-effort TSG got its turn.
    turns,
    /// Events written to streams.
    events,
    /// Events overwritten before they were read.
    events_dropped,
    /// Threads that were to be tracked and are not, for want of room or memory.
    threads_missed,
    /// Signals at which a range of a file was read ahead.
    readaheads,
    /// Bytes of these ranges, those in the page cache included.
    readahead_bytes,
    /// Ranges that the file system refused to read.
    readaheads_failed,
    /// Signals at which the range before was still being read.
    readaheads_skipped,
    /// GPUs now.
    gpus,
    /// TSGs now.
    tsgs,
    /// Assignments now.
    classes,
    /// Event streams now.
    streams,
    /// Slots that are allocated now.
    slots,
    /// Tracked threads now.
    threads,
    /// Subscriptions of signals now, those that still read included.
    subscriptions,
    /// Probes now.
    probes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn entries_follow_the_structure() {
        let mut raw = abi::zernel_system_info::zeroed();
        raw.tsgs_added = 5;
        raw.streams = 2;
        (raw.turns, raw.probes) = (3, 4);
        let entries: Vec<_> = Stats::from(&raw).entries().collect();
        assert_eq!(entries.first(), Some(&("tsgs_added", 5)));
        assert_eq!(entries.last(), Some(&("probes", 4)));
        assert_eq!(entries[25], ("streams", 2));
        assert_eq!(entries.len(), 30);
        assert_eq!((entries.len() + 1) * 8, size_of_val(&raw));
    }
}
