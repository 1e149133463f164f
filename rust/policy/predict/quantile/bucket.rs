// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The memory of the preparations in one bucket, finer than the bucket is wide.

use crate::policy::{
    buckets::Scale,
    predict::LONGEST,
    units::Ns, //
};
use core::cmp::Ordering;

/// Four units of 256 ns, then 24 octaves up to [`LONGEST`].
pub(super) const BUCKETS: usize = 100;
const SCALE: Scale = Scale::new(8, 2, BUCKETS);

/// A duration as its bucket and 256ths of the bucket's width; ordered as durations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) bucket: u8,
    pub(super) offset: u8,
}

impl Place {
    /// Nothing at all.
    pub(super) const FIRST: Self = Self {
        bucket: 0,
        offset: 0,
    };

    /// The place of a duration; longer ones than [`LONGEST`] are at its place.
    pub(super) fn of(took: Ns) -> Self {
        let took = took.min(LONGEST);
        let bucket = SCALE.index(took);
        // Below 2^32, as no bucket is wider.
        let offset = took.saturating_sub(SCALE.lower(bucket)).0 << 8;
        let offset = offset.checked_div(SCALE.width(bucket).0).unwrap_or(0);
        Self {
            bucket: u8::try_from(bucket).unwrap_or(u8::MAX),
            offset: u8::try_from(offset).unwrap_or(u8::MAX),
        }
    }

    /// The shortest duration at this place.
    pub(super) fn time(self) -> Ns {
        let bucket = usize::from(self.bucket);
        let within = SCALE.width(bucket).0.saturating_mul(self.offset.into()) >> 8;
        SCALE.lower(bucket).saturating_add(Ns(within))
    }
}

/// The observations in one bucket. Without weight the other fields say nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    pub(super) weight: u16,
    /// The mean offset.
    mean: u8,
    /// Twice the mean deviation from it: half the width of an even spread.
    reach: u8,
}

impl Bucket {
    /// Nothing fell into it.
    pub(super) const EMPTY: Self = Self {
        weight: 0,
        mean: 0,
        reach: 0,
    };

    /// Adds an observation.
    pub(super) fn add(&mut self, offset: u8, weight: u16) {
        if self.weight == 0 {
            *self = Self {
                weight,
                mean: offset,
                reach: 0,
            };
            return;
        }
        self.weight = self.weight.saturating_add(weight);
        let deviation = offset.abs_diff(self.mean).saturating_mul(2);
        self.reach = towards(self.reach, deviation, weight, self.weight);
        self.mean = towards(self.mean, offset, weight, self.weight);
    }

    /// The least offset that is no surprise: twice as far from the mean as an even spread reaches,
    /// and for a normal distribution at 3.2 standard deviations.
    pub(super) fn shortest(&self) -> u8 {
        self.mean.saturating_sub(self.reach.saturating_mul(2))
    }

    /// The largest offset that is no surprise.
    pub(super) fn longest(&self) -> u8 {
        self.mean.saturating_add(self.reach.saturating_mul(2))
    }

    /// The offset that `part` of the weight lies below.
    pub(super) fn offset(&self, part: u32) -> u8 {
        let whole = i32::from(self.weight).max(1);
        let part = i32::try_from(part).unwrap_or(whole).min(whole);
        // From -reach at nothing to +reach at all of it; below 2^8 * 2^17.
        let way = part.saturating_mul(2).saturating_sub(whole);
        let way = i32::from(self.reach).saturating_mul(way);
        let offset = i32::from(self.mean).saturating_add(way.checked_div(whole).unwrap_or(0));
        u8::try_from(offset.clamp(0, 255)).unwrap_or(u8::MAX)
    }
}

/// `weight / all` of the way, but at least one step, so that it arrives.
fn towards(from: u8, to: u8, weight: u16, all: u16) -> u8 {
    let way = u32::from(from.abs_diff(to)).saturating_mul(weight.into());
    let step = u8::try_from(way.div_ceil(u32::from(all).max(1))).unwrap_or(u8::MAX);
    match from.cmp(&to) {
        Ordering::Less => from.saturating_add(step).min(to),
        _ => from.saturating_sub(step).max(to),
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_quantile_bucket)
)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_with_the_longest() {
        assert_eq!(SCALE.lower(BUCKETS), LONGEST.saturating_add(Ns(1)));
    }

    #[test]
    fn places_are_close_and_ordered() {
        let mut last = Place::of(Ns(0));
        for bits in 1..34 {
            for odd in [1, 3, 5, 7] {
                let took = Ns((odd << bits) >> 2);
                let place = Place::of(took);
                if took > last.time() {
                    assert!(place >= last);
                }
                let error = took.saturating_sub(place.time());
                assert!(place.time() <= took);
                assert!(error.0 <= took.0 / 1000 + 1);
                last = place;
            }
        }
        assert_eq!(Place::of(Ns(u64::MAX)), Place::of(LONGEST));
    }

    #[test]
    fn constant_is_exact() {
        let mut bucket = Bucket::EMPTY;
        for _ in 0..50 {
            bucket.add(77, 1000);
        }
        for part in [0, 1, 25_000, 50_000, u32::MAX] {
            assert_eq!(bucket.offset(part), 77);
        }
        assert_eq!((bucket.shortest(), bucket.longest()), (77, 77));
    }

    #[test]
    fn even_spread_is_spread_evenly() {
        let mut bucket = Bucket::EMPTY;
        for n in 0..60u8 {
            // 40 to 100, in an order without a trend.
            bucket.add(40 + (u16::from(n) * 23 % 61) as u8, 1000);
        }
        let at = |tenths: u32| i32::from(bucket.offset(6_000 * tenths));
        assert!((at(1) - 46).abs() < 8);
        assert!((at(5) - 70).abs() < 8);
        assert!((at(9) - 94).abs() < 8);
        assert!(bucket.shortest() <= 40 && bucket.longest() >= 100);
    }

    #[test]
    fn moves_with_what_falls_into_it() {
        let mut bucket = Bucket::EMPTY;
        bucket.add(0, 1000);
        for _ in 0..500 {
            bucket.weight /= 2;
            bucket.add(255, 1000);
        }
        assert_eq!(bucket.offset(0), 255);
    }

    #[test]
    fn any_weight_is_bounded() {
        let mut bucket = Bucket::EMPTY;
        for (offset, weight) in [(255, u16::MAX), (0, u16::MAX), (255, 0), (0, 1)] {
            bucket.add(offset, weight);
            assert!(bucket.offset(0) <= bucket.offset(u32::MAX));
        }
        assert_eq!(bucket.weight, u16::MAX);
    }
}
