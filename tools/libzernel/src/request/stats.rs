// SPDX-License-Identifier: GPL-2.0
//! Statistics of requests: what became of them, and how long they took.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytemuck::Zeroable;
use rustix::io::Errno;
use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::sys::{abi, v0 as calls};
use crate::{tsg, Call, Error, Level, Result};

/// Whose requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// Those of a TSG.
    Tsg(tsg::Id),
    /// Those that began while this level was in force.
    Level(Level),
    /// All of them.
    All,
}

impl Of {
    fn encode(self) -> abi::zernel_v0_request_stats {
        let (tsg, level) = match self {
            Self::Tsg(id) => (id.as_u64(), 0),
            Self::Level(level) => (0, u32::from(level.number())),
            Self::All => (0, abi::ZERNEL_V0_LEVEL_NONE),
        };
        abi::zernel_v0_request_stats {
            tsg,
            level,
            ..abi::zernel_v0_request_stats::zeroed()
        }
    }
}

macro_rules! request_stats {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// What became of requests; times in nanoseconds.
        ///
        /// `requests` is the sum of `done`, `cancelled`, `expired`, `closed`, `gone`, `suspended`
        /// and `in_flight`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct RequestStats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl From<&abi::zernel_v0_request_stats> for RequestStats {
            fn from(raw: &abi::zernel_v0_request_stats) -> Self {
                Self {
                    $($field: raw.$field,)*
                }
            }
        }

        impl RequestStats {
            /// Names and values in the order of the ABI.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field),)*].into_iter()
            }
        }
    };
}

request_stats! {
    /// Begun.
    requests,
    /// Done.
    done,
    /// Cancelled by the caller, or by the next one before they were ready.
    cancelled,
    /// Leases that ended before the data was ready.
    expired,
    /// Ended by the end of their page, file or process, or of the module.
    closed,
    /// Ended by the end of their TSG.
    gone,
    /// Ended by the suspend of the GPU.
    suspended,
    /// Triggers that zernel stored.
    triggers,
    /// Data that was ready after the GPU was.
    early,
    /// By so much in all: the GPU was idle.
    early_ns,
    /// Data that was ready before the GPU was.
    late,
    /// By so much in all: added to latency.
    late_ns,
    /// Requests that took longer than they should.
    slo_violations,
    /// From begin to done, of all that are done, in all.
    latency_ns,
    /// The shortest of them.
    min_ns,
    /// The longest of them.
    max_ns,
    /// Their median, exact to 3 %.
    p50_ns,
    /// Their 99th percentile, likewise.
    p99_ns,
    /// Their 99.9th percentile, likewise.
    p999_ns,
    /// What a switch to the TSG takes, as far as learned; 0 unless one was asked for.
    switch_ns,
    /// Begun and not over.
    in_flight,
    /// TSGs that were taken off the GPU for requests without a holder; 0 of a TSG, as the next four.
    preempted,
    /// Those among them for which the GPU had not answered in time.
    preempt_timeouts,
    /// TSGs that were not taken off, for want of memory.
    preempt_no_memory,
    /// TSGs that were not, because the GPU does not respond.
    preempt_unresponsive,
    /// TSGs that were not, because of the state that the GPU was in.
    preempt_invalid,
    /// Times that the budget of the level was spent on a GPU; 0 of a TSG.
    throttles,
    /// GPU time that best-effort work lost beyond the kernels of the requests: from each trigger
    /// until the switch was over and the data ready.
    lost_ns,
}

impl RequestStats {
    pub(crate) fn read(fd: BorrowedFd<'_>, of: Of, buckets: &mut [u64]) -> Result<(Self, usize)> {
        if of == Of::Tsg(tsg::Id::new(0)) {
            // No TSG has it, and to the kernel it stands for a level.
            return Err(Error::call(Call::RequestStats)(Errno::NOENT));
        }
        let mut raw = of.encode();
        let filled =
            calls::request_stats(fd, &mut raw, buckets).map_err(Error::call(Call::RequestStats))?;
        Ok((Self::from(&raw), filled))
    }

    /// Those that are over.
    pub fn over(&self) -> u64 {
        self.done + self.cancelled + self.expired + self.closed + self.gone + self.suspended
    }

    /// Mean latency of those that are done, in nanoseconds.
    pub fn mean_ns(&self) -> Option<u64> {
        self.latency_ns.checked_div(self.done)
    }
}

/// A histogram of latencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

/// A bucket of a [`Histogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest latency in it.
    pub from: Duration,
    /// The shortest latency that is in the next one.
    pub to: Duration,
    /// How many there are in it.
    pub count: u64,
}

impl Histogram {
    /// Width of the narrowest buckets in nanoseconds.
    const UNIT_NS: u64 = 32;
    /// Buckets of that width, and of each power of two above.
    const PER_OCTAVE: usize = 32;
    /// More than there are: all 64 bits.
    pub(crate) const MOST_BUCKETS: usize = 64 * Self::PER_OCTAVE;

    pub(crate) fn new(counts: Vec<u64>) -> Self {
        Self { counts }
    }

    /// All buckets, the shortest latencies first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + use<'_> {
        self.counts
            .iter()
            .enumerate()
            .map(|(index, &count)| Bucket {
                from: Self::lower(index),
                to: Self::lower(index + 1),
                count,
            })
    }

    /// Latencies in all of it.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The shortest latency in a bucket; what no clock can tell is as long as can be said.
    fn lower(index: usize) -> Duration {
        let (octave, within) = match index / Self::PER_OCTAVE {
            0 => (0, index),
            octave => (octave - 1, index % Self::PER_OCTAVE + Self::PER_OCTAVE),
        };
        let units = (within as u128) << octave.min(64);
        let ns = units * u128::from(Self::UNIT_NS);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// As a list of the buckets that are not empty.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for bucket in self.buckets().filter(|bucket| bucket.count > 0) {
            list.serialize_element(&bucket)?;
        }
        list.end()
    }
}

impl Serialize for Bucket {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let ns = crate::time::saturating_ns;
        let mut fields = serializer.serialize_struct("Bucket", 3)?;
        fields.serialize_field("from_ns", &ns(self.from))?;
        fields.serialize_field("to_ns", &ns(self.to))?;
        fields.serialize_field("count", &self.count)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn targets_encode_as_the_header_says() {
        let pair = |of: Of| (of.encode().tsg, of.encode().level);
        assert_eq!(pair(Of::Tsg(tsg::Id::new(5))), (5, 0));
        assert_eq!(pair(Of::Level(Level::LC)), (0, 0));
        assert_eq!(pair(Of::Level(Level::BE)), (0, 7));
        assert_eq!(pair(Of::All), (0, u32::MAX));
    }

    #[test]
    fn no_tsg_has_the_number_0() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsFd::as_fd(&null);
        let read = |id| RequestStats::read(fd, Of::Tsg(tsg::Id::new(id)), &mut []);
        assert_eq!(read(0).unwrap_err().errno(), Some(Errno::NOENT));
        assert_eq!(read(1).unwrap_err().errno(), Some(Errno::NOTTY));
    }

    #[test]
    fn entries_follow_the_structure() {
        let mut raw = abi::zernel_v0_request_stats::zeroed();
        (raw.requests, raw.done, raw.cancelled) = (9, 3, 2);
        (raw.latency_ns, raw.in_flight, raw.lost_ns) = (300, 4, 5);
        let stats = RequestStats::from(&raw);
        let entries: Vec<_> = stats.entries().collect();
        assert_eq!(entries.first(), Some(&("requests", 9)));
        assert_eq!(entries.last(), Some(&("lost_ns", 5)));
        assert_eq!(entries.len(), 28);
        assert_eq!(stats.requests, stats.over() + stats.in_flight);
        assert_eq!(stats.mean_ns(), Some(100));
        assert_eq!(RequestStats::default().mean_ns(), None);
    }

    #[test]
    fn buckets_are_those_of_the_header() {
        let unit = Duration::from_nanos(Histogram::UNIT_NS);
        for (index, units) in [(0, 0), (1, 1), (31, 31), (32, 32), (33, 33), (63, 63)] {
            assert_eq!(Histogram::lower(index), unit * units, "bucket {index}");
        }
        for (index, units) in [(64, 64), (65, 66), (95, 126), (96, 128), (97, 132)] {
            assert_eq!(Histogram::lower(index), unit * units, "bucket {index}");
        }
    }

    proptest! {
        #[test]
        fn buckets_join_and_are_narrow(index in 32usize..1_500) {
            let bucket = (Histogram::lower(index), Histogram::lower(index + 1));
            prop_assert!(bucket.0 < bucket.1);
            prop_assert!((bucket.1 - bucket.0) * 32 <= bucket.0);
        }
    }

    #[test]
    fn nothing_overflows() {
        assert_eq!(
            Histogram::lower(usize::MAX - 1),
            Duration::from_nanos(u64::MAX)
        );
        let all = Histogram::new(vec![1; Histogram::MOST_BUCKETS]);
        assert_eq!(all.count(), Histogram::MOST_BUCKETS as u64);
        assert!(all.buckets().all(|bucket| bucket.from <= bucket.to));
    }

    #[test]
    fn json_leaves_empty_buckets_out() {
        let json = serde_json::to_value(Histogram::new(vec![0, 3, 0])).unwrap();
        assert_eq!(json.as_array().map(Vec::len), Some(1));
        assert_eq!(json[0]["from_ns"], Histogram::UNIT_NS);
        assert_eq!(json[0]["to_ns"], 2 * Histogram::UNIT_NS);
        assert_eq!(json[0]["count"], 3);
    }
}
