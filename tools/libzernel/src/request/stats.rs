// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of requests: their outcomes and times.

use std::os::fd::AsFd;
use std::time::Duration;

use bytemuck::Zeroable;
use rustix::io::Errno;
use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::list::ALL;
use crate::sys::{abi, zernel as calls};
use crate::{gpu, tsg, Call, Error, Level, Result, Zernel};

/// The owner of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// Those of a TSG.
    Tsg(tsg::Id),
    /// Those that began while this level was in force, on all GPUs.
    Level(Level),
    /// Those that began while a level was in force, or none, on one GPU.
    LevelOn(gpu::Id, Option<Level>),
    /// All of them.
    All,
}

impl Of {
    /// GPU and level of the entry of a list of levels; `None` for a TSG.
    fn place(self) -> Option<(u64, u32)> {
        let number = |level: Option<Level>| {
            level.map_or(abi::ZERNEL_LEVEL_NONE, |level| level.number().into())
        };
        match self {
            Self::Tsg(_) => None,
            Self::Level(level) => Some((0, number(Some(level)))),
            Self::LevelOn(gpu, level) => Some((gpu.as_u64(), number(level))),
            Self::All => Some((0, number(None))),
        }
    }
}

/// The target of a TSG.
fn target_of(id: tsg::Id) -> abi::zernel_target {
    abi::zernel_target {
        kind: abi::ZERNEL_TARGET_TSG,
        flags: 0,
        id: id.as_u64(),
    }
}

macro_rules! request_stats {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The outcomes of requests; times in nanoseconds.
        ///
        /// `begun` is the sum of `done`, `cancelled`, `expired`, `closed`, `gone`, `suspended`,
        /// `otherwise` and `in_flight`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
        pub struct RequestStats {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl From<&abi::zernel_request_info> for RequestStats {
            fn from(raw: &abi::zernel_request_info) -> Self {
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
    begun,
    /// Done.
    done,
    /// Cancelled by the caller, or by the next one before they were ready.
    cancelled,
    /// Leases that ended before the data was ready.
    expired,
    /// Ended by the end of their file or process, or of the module.
    closed,
    /// Ended by the end of their TSG.
    gone,
    /// Ended by the suspend of the GPU.
    suspended,
    /// Ended in a way that is none of these.
    otherwise,
    /// Begun and not over.
    in_flight,
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
    /// GPU time that best-effort work lost beyond the kernels of the requests: from each trigger
    /// until the switch was over and the data ready.
    lost_ns,
    /// Of `done`, those that took longer than they should.
    violations,
    /// From begin to done, of all that are done, in all.
    latency_ns,
    /// The shortest of them.
    latency_min_ns,
    /// The longest of them.
    latency_max_ns,
    /// Their median, exact to 1.6 %.
    latency_p50_ns,
    /// Their 99th percentile, likewise.
    latency_p99_ns,
    /// Their 99.9th percentile, likewise.
    latency_p999_ns,
    /// TSGs that were taken off the GPU for requests without a holder; 0 of a TSG, as the next four.
    preempt_done,
    /// Those among them for which the GPU had not answered in time.
    preempt_timeouts,
    /// TSGs that were not taken off, for want of memory.
    preempt_no_memory,
    /// TSGs that were not, because the GPU does not respond.
    preempt_unresponsive,
    /// TSGs that were not, because of the state that the GPU was in.
    preempt_invalid,
    /// Of `begun`, those whose deadline was promised.
    accepted,
    /// Requests that did not begin, as their deadline could not be promised.
    refused,
    /// Of `accepted`, those that were not over by their deadline.
    missed,
}

impl RequestStats {
    /// Reads them.
    pub(crate) fn read(zernel: &Zernel, of: Of) -> Result<Self> {
        Ok(Self::from(&Self::entry(zernel, of)?))
    }

    /// The entry of a list.
    fn entry(zernel: &Zernel, of: Of) -> Result<abi::zernel_request_info> {
        let not_there = || Error::call(Call::ListRequests)(Errno::NOENT);
        let mut found = match of {
            Of::Tsg(id) => zernel.entries(
                Call::ListRequests,
                abi::ZERNEL_LIST_TSG_REQUESTS,
                target_of(id),
            ),
            _ => zernel.entries(Call::ListRequests, abi::ZERNEL_LIST_LEVEL_REQUESTS, ALL),
        };
        let is_asked = |raw: &abi::zernel_request_info| {
            of.place().is_none_or(|place| place == (raw.gpu, raw.level))
        };
        found
            .find(|raw| raw.as_ref().map_or(true, is_asked))
            .unwrap_or_else(|| Err(not_there()))
    }

    /// Those that are over.
    pub fn over(&self) -> u64 {
        self.done
            + self.cancelled
            + self.expired
            + self.closed
            + self.gone
            + self.suspended
            + self.otherwise
    }

    /// Mean latency of those that are done, in nanoseconds.
    pub fn mean_ns(&self) -> Option<u64> {
        self.latency_ns.checked_div(self.done)
    }
}

/// Durations that have a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durations {
    /// From begin to done.
    Latency,
    /// From a trigger until the TSG has the engine.
    Preemption,
}

/// A histogram of durations, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    /// Width of the narrowest buckets.
    unit_ns: u64,
    /// Buckets from one doubling of the width to the next; twice as many are the narrowest.
    octave: usize,
    /// Durations in all of it.
    pub samples: u64,
    /// All of them together, in nanoseconds.
    pub sum_ns: u64,
    /// The shortest, in nanoseconds.
    pub min_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

/// A bucket of a [`Histogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The shortest duration in it.
    pub from: Duration,
    /// The shortest duration that is in the next one.
    pub to: Duration,
    /// Durations in it.
    pub count: u64,
}

impl Histogram {
    /// Reads the histogram of a target.
    fn read_target(zernel: &Zernel, target: abi::zernel_target, kind: u32) -> Result<Self> {
        let mut raw = abi::zernel_histogram {
            target,
            kind,
            ..abi::zernel_histogram::zeroed()
        };
        let fails = Error::call(Call::Histogram);
        calls::histogram(zernel.as_fd(), &mut raw, &mut []).map_err(&fails)?;
        let mut counts = vec![0; raw.count as usize];
        let filled = calls::histogram(zernel.as_fd(), &mut raw, &mut counts).map_err(&fails)?;
        counts.truncate(filled);
        Self::new(counts, &raw)
    }

    /// Reads that of durations of requests.
    pub(crate) fn read(zernel: &Zernel, of: Of, durations: Durations) -> Result<Self> {
        let target = match of {
            Of::Tsg(id) => target_of(id),
            _ => abi::zernel_target {
                kind: abi::ZERNEL_TARGET_LEVEL,
                flags: 0,
                id: RequestStats::entry(zernel, of)?.id,
            },
        };
        let kind = match durations {
            Durations::Latency => abi::ZERNEL_HISTOGRAM_LATENCY,
            Durations::Preemption => abi::ZERNEL_HISTOGRAM_PREEMPTION,
        };
        Self::read_target(zernel, target, kind)
    }

    /// Reads that of the context switches of a GPU.
    pub(crate) fn read_switches(zernel: &Zernel, gpu: gpu::Id) -> Result<Self> {
        let target = abi::zernel_target {
            kind: abi::ZERNEL_TARGET_GPU,
            flags: 0,
            id: gpu.as_u64(),
        };
        Self::read_target(zernel, target, abi::ZERNEL_HISTOGRAM_SWITCH)
    }

    fn new(counts: Vec<u64>, raw: &abi::zernel_histogram) -> Result<Self> {
        if raw.unit_ns == 0 || raw.octave == 0 {
            return Err(Error::Malformed("a histogram whose buckets have no width"));
        }
        Ok(Self {
            counts,
            unit_ns: raw.unit_ns.into(),
            octave: raw.octave as usize,
            samples: raw.samples,
            sum_ns: raw.sum_ns,
            min_ns: raw.min_ns,
            max_ns: raw.max_ns,
        })
    }

    /// All buckets, the shortest durations first. The last one has all that is longer, too.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + use<'_> {
        self.counts
            .iter()
            .enumerate()
            .map(|(index, &count)| Bucket {
                from: self.lower(index),
                to: self.lower(index + 1),
                count,
            })
    }

    /// Durations in all buckets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The shortest duration that a share of all, in parts of a million, is not longer than, told
    /// as the middle of its bucket; `None` if there are none.
    pub fn quantile(&self, share_ppm: u32) -> Option<Duration> {
        let all = u128::from(self.count());
        let rank = (all * u128::from(share_ppm)).div_ceil(1_000_000).max(1);
        let mut so_far = 0;
        let (at, bucket) = self.buckets().enumerate().find(|(_, bucket)| {
            so_far += u128::from(bucket.count);
            so_far >= rank
        })?;
        let (min, max) = (self.min_ns, self.max_ns.max(self.min_ns));
        let middle = match at + 1 == self.counts.len() {
            true => max,
            false => crate::time::saturating_ns(bucket.from + (bucket.to - bucket.from) / 2),
        };
        Some(Duration::from_nanos(middle.clamp(min, max)))
    }

    /// The shortest duration in a bucket, clamped to the longest possible one.
    fn lower(&self, index: usize) -> Duration {
        let (octave, within) = match index / self.octave {
            0 => (0, index),
            octave => (octave - 1, index % self.octave + self.octave),
        };
        let units = (within as u128) << octave.min(64);
        let ns = units * u128::from(self.unit_ns);
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

    /// That of the module today: 800 buckets.
    fn histogram(counts: Vec<u64>) -> Histogram {
        let raw = abi::zernel_histogram {
            unit_ns: 32,
            octave: 32,
            max_ns: u64::MAX,
            ..abi::zernel_histogram::zeroed()
        };
        Histogram::new(counts, &raw).unwrap()
    }

    #[test]
    fn every_question_has_a_place_in_a_list() {
        assert_eq!(Of::Tsg(tsg::Id::new(5)).place(), None);
        assert_eq!(Of::Level(Level::LC).place(), Some((0, 0)));
        assert_eq!(Of::All.place(), Some((0, u32::MAX)));
        let gpu = gpu::Id::new(9);
        assert_eq!(Of::LevelOn(gpu, Some(Level::BE)).place(), Some((9, 7)));
        assert_eq!(Of::LevelOn(gpu, None).place(), Some((9, u32::MAX)));
    }

    #[test]
    fn entries_follow_the_structure() {
        let mut raw = abi::zernel_request_info::zeroed();
        (raw.begun, raw.done, raw.cancelled) = (9, 3, 2);
        (raw.latency_ns, raw.in_flight, raw.missed) = (300, 4, 5);
        let stats = RequestStats::from(&raw);
        let entries: Vec<_> = stats.entries().collect();
        assert_eq!(entries.first(), Some(&("begun", 9)));
        assert_eq!(entries.last(), Some(&("missed", 5)));
        assert_eq!(24 + entries.len() * 8, size_of_val(&raw));
        assert_eq!(stats.begun, stats.over() + stats.in_flight);
        assert_eq!(stats.mean_ns(), Some(100));
        assert_eq!(RequestStats::default().mean_ns(), None);
    }

    #[test]
    fn buckets_are_those_of_the_header() {
        let h = histogram(vec![]);
        let unit = Duration::from_nanos(32);
        for (index, units) in [(0, 0), (1, 1), (31, 31), (32, 32), (33, 33), (63, 63)] {
            assert_eq!(h.lower(index), unit * units, "bucket {index}");
        }
        for (index, units) in [(64, 64), (65, 66), (95, 126), (96, 128), (97, 132)] {
            assert_eq!(h.lower(index), unit * units, "bucket {index}");
        }
    }

    proptest! {
        #[test]
        fn buckets_join_and_are_narrow(index in 32usize..1_500) {
            let h = histogram(vec![]);
            let bucket = (h.lower(index), h.lower(index + 1));
            prop_assert!(bucket.0 < bucket.1);
            prop_assert!((bucket.1 - bucket.0) * 32 <= bucket.0);
        }
    }

    #[test]
    fn nothing_overflows() {
        let all = histogram(vec![1; 2_048]);
        assert_eq!(all.lower(usize::MAX - 1), Duration::from_nanos(u64::MAX));
        assert_eq!(all.count(), 2_048);
        assert!(all.buckets().all(|bucket| bucket.from <= bucket.to));
        assert!(all.quantile(1_000_000) >= all.quantile(0));
    }

    #[test]
    fn a_histogram_without_width_is_refused() {
        assert!(Histogram::new(vec![], &abi::zernel_histogram::zeroed()).is_err());
    }

    #[test]
    fn quantiles_are_middles_of_buckets() {
        assert_eq!(histogram(vec![0; 800]).quantile(500_000), None);
        let mut h = histogram(vec![0, 98, 0, 2]);
        (h.min_ns, h.max_ns) = (40, 100);
        let ns = |share| h.quantile(share).map(|time| time.as_nanos());
        assert_eq!(ns(500_000), Some(48));
        assert_eq!(ns(980_000), Some(48));
        // The last bucket has no end: the longest of all.
        assert_eq!(ns(980_001), Some(100));
        assert_eq!(ns(0), Some(48));
    }

    #[test]
    fn json_leaves_empty_buckets_out() {
        let json = serde_json::to_value(histogram(vec![0, 3, 0])).unwrap();
        assert_eq!(json.as_array().map(Vec::len), Some(1));
        assert_eq!(json[0]["from_ns"], 32);
        assert_eq!(json[0]["to_ns"], 64);
        assert_eq!(json[0]["count"], 3);
    }
}
