// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures from latencies: exact mean, percentiles from an HDR histogram.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant digits of histograms: percentiles are exact to 0.1 %.
const DIGITS: u8 = 3;

/// Summary of a set of latencies, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Their number.
    pub count: u64,
    /// Mean, exact.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest, exact.
    pub max_ns: u64,
}

/// An HDR histogram as pairs of value and count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets {
    /// Significant digits.
    pub digits: u8,
    /// Highest value in nanoseconds that counts in a bucket, and how many do.
    pub counts_ns: Vec<(u64, u64)>,
}

/// A histogram of latencies.
#[derive(Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Latencies {
    /// Counts `latencies`.
    pub fn new(latencies: impl Iterator<Item = Duration>) -> Self {
        let mut all = Self {
            histogram: Histogram::new(DIGITS).expect("a fixed, valid number of digits"),
            sum_ns: 0,
            max_ns: 0,
        };
        for latency in latencies {
            let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            all.histogram.record(ns).expect("it grows as values ask");
            all.sum_ns += u128::from(ns);
            all.max_ns = all.max_ns.max(ns);
        }
        all
    }

    /// Their summary; zeroes if there are none.
    pub fn summary(&self) -> Summary {
        let count = self.histogram.len();
        if count == 0 {
            return Summary::default();
        }
        let quantile = |quantile| self.histogram.value_at_quantile(quantile).min(self.max_ns);
        Summary {
            count,
            mean_ns: self.sum_ns as f64 / count as f64,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.max_ns,
        }
    }

    /// The filled buckets.
    pub fn buckets(&self) -> Buckets {
        Buckets {
            digits: DIGITS,
            counts_ns: self
                .histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}

/// Median and maximum of samples; zeroes if there are none.
pub fn median_and_max(samples: &mut [u64]) -> (u64, u64) {
    samples.sort_unstable();
    let median = samples.get(samples.len() / 2).copied().unwrap_or(0);
    (median, samples.last().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn none_come_to_nothing() {
        let none = Latencies::new(std::iter::empty());
        assert_eq!(none.summary(), Summary::default());
        assert!(none.buckets().counts_ns.is_empty());
        assert_eq!(median_and_max(&mut []), (0, 0));
    }

    #[test]
    fn percentiles_are_where_they_should_be() {
        let all = Latencies::new((1..=1000).map(Duration::from_micros));
        let summary = all.summary();
        let near = |ns: u64, us: f64| (ns as f64 / 1e3 / us - 1.0).abs() < 0.0015;
        assert!(near(summary.p50_ns, 500.0), "{summary:?}");
        assert!(near(summary.p99_ns, 990.0), "{summary:?}");
        assert!(near(summary.p999_ns, 999.0), "{summary:?}");
        assert_eq!(summary.max_ns, 1_000_000);
        assert_eq!(summary.mean_ns, 500_500.0);
    }

    #[test]
    fn median_of_an_even_count_is_the_upper() {
        assert_eq!(median_and_max(&mut [4, 1, 3, 2]), (3, 4));
    }

    proptest! {
        #[test]
        fn buckets_hold_everything(ns in prop::collection::vec(1u64..10_000_000_000, 1..200)) {
            let all = Latencies::new(ns.iter().copied().map(Duration::from_nanos));
            let counted: u64 = all.buckets().counts_ns.iter().map(|&(_, count)| count).sum();
            prop_assert_eq!(counted, ns.len() as u64);
            let summary = all.summary();
            prop_assert!(summary.p50_ns <= summary.p99_ns);
            prop_assert!(summary.p999_ns <= summary.max_ns);
            prop_assert_eq!(Some(&summary.max_ns), ns.iter().max());
        }
    }
}
