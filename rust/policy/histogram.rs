// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Histograms of durations: exact counts, quantiles with a bounded relative error.

use super::{
    buckets::Scale,
    units::{Ns, Ppm}, //
};

/// The width of the narrowest bucket is 2 to this power, in ns.
const UNIT_BITS: u32 = 5;

/// A histogram of latencies: 1 µs to 17 s (2^34 ns) with an error of at most 1.6 %, 6.4 KiB.
///
/// 32 buckets per octave are 1/32 of their start wide at most, and a quantile is told as the middle
/// of a bucket: half of that. Below 1 µs the error is 16 ns. Times above 17 s are counted in the
/// last bucket.
pub(crate) type Latencies = Histogram<5, 800>;

/// A histogram with `2^SUB_BITS` buckets per octave, `BUCKETS` in all.
///
/// # Invariants
///
/// - All-zero bytes are a valid and empty histogram, so that one may be made in zeroed memory
///   without ever lying on a stack.
/// - `count` is the sum of `counts`, until one of them sticks at the largest number.
/// - If `count` is 0, so is every other field.
#[derive(Debug)]
pub(crate) struct Histogram<const SUB_BITS: u32, const BUCKETS: usize> {
    counts: [u64; BUCKETS],
    count: u64,
    sum: Ns,
    min: Ns,
    max: Ns,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the simulation and the tests on the host ask")]
pub(crate) struct Bucket {
    /// Its shortest duration.
    pub(crate) lower: Ns,
    /// The next bucket begins this much later.
    pub(crate) width: Ns,
    /// Durations in it.
    pub(crate) count: u64,
}

impl<const SUB_BITS: u32, const BUCKETS: usize> Histogram<SUB_BITS, BUCKETS> {
    const SCALE: Scale = Scale::new(UNIT_BITS, SUB_BITS, BUCKETS);

    /// Width of the narrowest buckets.
    #[allow(dead_code, reason = "the module tells it")]
    pub(crate) const UNIT: Ns = Ns(1 << UNIT_BITS);
    /// Buckets from one doubling of the width to the next; twice as many have the narrowest width.
    #[allow(dead_code, reason = "the module tells it")]
    pub(crate) const PER_OCTAVE: u32 = 1 << SUB_BITS;

    /// A histogram of nothing.
    // INVARIANT: Every field is 0.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) const EMPTY: Self = Self {
        counts: [0; BUCKETS],
        count: 0,
        sum: Ns::ZERO,
        min: Ns::ZERO,
        max: Ns::ZERO,
    };

    /// Counts a duration.
    pub(crate) fn record(&mut self, value: Ns) {
        if let Some(count) = self.counts.get_mut(Self::SCALE.index(value)) {
            *count = count.saturating_add(1);
        }
        self.widen(value, value);
        // INVARIANT: One more in `counts`, one more here.
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
    }

    /// Forgets everything.
    #[allow(dead_code, reason = "the module sums up one after the other")]
    pub(crate) fn clear(&mut self) {
        // INVARIANT: Every field is 0.
        self.counts.fill(0);
        (self.count, self.sum) = (0, Ns::ZERO);
        (self.min, self.max) = (Ns::ZERO, Ns::ZERO);
    }

    /// Counts everything that `other` counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.widen(other.min, other.max);
        // INVARIANT: As many more as in `counts`.
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Durations that were counted.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, exact unless it is the longest duration there is.
    pub(crate) fn sum(&self) -> Ns {
        self.sum
    }

    /// Their mean, rounded down; `None` if there are none.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn mean(&self) -> Option<Ns> {
        self.sum.0.checked_div(self.count).map(Ns)
    }

    /// The shortest, exact; `None` if there are none.
    pub(crate) fn min(&self) -> Option<Ns> {
        (self.count > 0).then_some(self.min)
    }

    /// The longest, exact; `None` if there are none.
    pub(crate) fn max(&self) -> Option<Ns> {
        (self.count > 0).then_some(self.max)
    }

    /// The shortest duration that at least this share of all is not longer than, told as the
    /// middle of its bucket; `None` if there are none.
    ///
    /// A share of 0 is the shortest of all; of 1,000,000 or more the longest, both exact.
    pub(crate) fn quantile(&self, share: Ppm) -> Option<Ns> {
        if share >= Ppm::ONE {
            return self.max();
        }
        let rank = share.of_rounded_up(self.count);
        if rank == 0 {
            return self.min();
        }
        let mut below = 0u64;
        let index = self.counts.iter().position(|&count| {
            below = below.saturating_add(count);
            below >= rank
        })?;
        // The last bucket has no end, so its middle says nothing.
        if index.saturating_add(1) >= BUCKETS {
            return Some(self.max);
        }
        let middle = Self::SCALE.midpoint(index);
        Some(middle.max(self.min).min(self.max))
    }

    /// As [`Self::quantile`], of the durations that were counted since this was as `before`.
    pub(crate) fn quantile_since(&self, before: &Self, share: Ppm) -> Option<Ns> {
        let since = |(count, before): (&u64, &u64)| count.saturating_sub(*before);
        let counts = || self.counts.iter().zip(&before.counts).map(since);
        let all = counts().fold(0, u64::saturating_add);
        // The shortest of all is in the first bucket that is not empty.
        let rank = share.of_rounded_up(all).max(1);
        let mut below = 0u64;
        let index = counts().position(|count| {
            below = below.saturating_add(count);
            below >= rank
        })?;
        let middle = match index.saturating_add(1) >= BUCKETS {
            true => self.max,
            false => Self::SCALE.midpoint(index),
        };
        Some(middle.max(self.min).min(self.max))
    }

    /// Every bucket, the shortest durations first. The last one has no end in truth.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.counts
            .iter()
            .enumerate()
            .map(|(index, &count)| Bucket {
                lower: Self::SCALE.lower(index),
                width: Self::SCALE.width(index),
                count,
            })
    }

    /// Durations in each bucket, the shortest first.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Takes note of the shortest and longest of some durations that are about to be counted.
    fn widen(&mut self, min: Ns, max: Ns) {
        self.min = match self.count {
            0 => min,
            _ => self.min.min(min),
        };
        self.max = self.max.max(max);
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_histogram))]
mod tests {
    use super::*;

    /// Two buckets per octave up to 2^26 ns, 67 ms: small enough for a stack.
    type Coarse = Histogram<1, 42>;

    #[test]
    fn empty_has_no_figures() {
        let h = Coarse::EMPTY;
        assert_eq!(h.count(), 0);
        assert_eq!(h.sum(), Ns::ZERO);
        assert_eq!(h.mean(), None);
        assert_eq!(h.min(), None);
        assert_eq!(h.max(), None);
        assert_eq!(h.quantile(Ppm(500_000)), None);
        assert_eq!(h.quantile(Ppm(0)), None);
        assert_eq!(h.quantile(Ppm::ONE), None);
    }

    #[test]
    fn one_value_is_every_quantile() {
        let mut h = Coarse::EMPTY;
        h.record(Ns(12_345));
        for share in [0, 1, 500_000, 999_999, 1_000_000, u32::MAX] {
            assert_eq!(h.quantile(Ppm(share)), Some(Ns(12_345)));
        }
        assert_eq!(h.mean(), Some(Ns(12_345)));
        assert_eq!(h.min(), Some(Ns(12_345)));
        assert_eq!(h.max(), Some(Ns(12_345)));
    }

    #[test]
    fn quantiles_are_ranks() {
        let mut h = Coarse::EMPTY;
        for _ in 0..99 {
            h.record(Ns(1_000));
        }
        h.record(Ns(1_000_000));
        // The middle of 768 to 1023, and no shorter than the shortest.
        assert_eq!(h.quantile(Ppm(500_000)), Some(Ns(1_000)));
        assert_eq!(h.quantile(Ppm(990_000)), Some(Ns(1_000)));
        // The middle of 786432 to 1048575.
        assert_eq!(h.quantile(Ppm(990_001)), Some(Ns(917_504)));
        assert_eq!(h.quantile(Ppm::ONE), Some(Ns(1_000_000)));
    }

    #[test]
    fn figures_are_exact() {
        let mut h = Coarse::EMPTY;
        for value in [3, 0, 700, 5_000_000] {
            h.record(Ns(value));
        }
        assert_eq!(h.count(), 4);
        assert_eq!(h.sum(), Ns(5_000_703));
        assert_eq!(h.mean(), Some(Ns(1_250_175)));
        assert_eq!(h.min(), Some(Ns(0)));
        assert_eq!(h.max(), Some(Ns(5_000_000)));
    }

    #[test]
    fn beyond_the_last_bucket_the_longest_is_told() {
        let mut h = Coarse::EMPTY;
        h.record(Ns(1));
        h.record(Ns(u64::MAX));
        h.record(Ns(u64::MAX));
        assert_eq!(h.quantile(Ppm(600_000)), Some(Ns(u64::MAX)));
        assert_eq!(h.sum(), Ns(u64::MAX));
        assert_eq!(h.buckets().last().map(|b| b.count), Some(2));
    }

    #[test]
    fn buckets_hold_everything_once() {
        let mut h = Coarse::EMPTY;
        for value in 0..500 {
            h.record(Ns(value * 37));
        }
        let mut end = Ns::ZERO;
        let mut count = 0;
        for bucket in h.buckets() {
            assert_eq!(bucket.lower, end);
            end = bucket.lower.saturating_add(bucket.width);
            count += bucket.count;
        }
        assert_eq!(end, Ns(1 << 26));
        assert_eq!(count, h.count());
    }

    #[test]
    fn merging_is_counting_both() {
        let mut a = Histogram::<1, 20>::EMPTY;
        let mut b = Histogram::<1, 20>::EMPTY;
        a.record(Ns(500));
        a.merge(&b);
        assert_eq!(a.min(), Some(Ns(500)));
        b.merge(&a);
        assert_eq!(b.min(), Some(Ns(500)));
        b.record(Ns(7));
        a.merge(&b);
        assert_eq!(a.count(), 3);
        assert_eq!(a.sum(), Ns(1_007));
        assert_eq!(a.min(), Some(Ns(7)));
        assert_eq!(a.max(), Some(Ns(500)));
        assert_eq!(a.buckets().map(|b| b.count).sum::<u64>(), 3);
    }

    #[test]
    fn a_quantile_of_the_last_ones_alone() {
        let mut h = Coarse::EMPTY;
        let mut before = Coarse::EMPTY;
        assert_eq!(h.quantile_since(&before, Ppm(500_000)), None);
        for _ in 0..100 {
            h.record(Ns(1_000));
        }
        before.merge(&h);
        assert_eq!(h.quantile_since(&before, Ppm(500_000)), None);
        for (time, times) in [(1 << 20, 9), (1 << 25, 1)] {
            for _ in 0..times {
                h.record(Ns(time));
            }
        }
        assert_eq!(h.quantile(Ppm(500_000)), Some(Ns(1_000)));
        let since = |share| {
            h.quantile_since(&before, Ppm(share))
                .map_or(0, |time| time.0)
        };
        for share in [0, 500_000, 900_000] {
            assert!((1 << 20..1 << 21).contains(&since(share)));
        }
        for share in [900_001, 1_000_000] {
            assert_eq!(since(share), 1 << 25);
        }
    }

    #[test]
    fn latencies_fit_two_pages() {
        assert!(core::mem::size_of::<Latencies>() <= 8192);
        assert_eq!(Latencies::SCALE.lower(800), Ns(1 << 34));
    }
}
