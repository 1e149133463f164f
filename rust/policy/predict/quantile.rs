// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The next preparation is one more draw from those observed lately: the critical fractile of them.
//!
//! # Memory
//!
//! Observations fade: one that is n others old has the weight (32/33)^n, about e^(-n/33). All
//! weights together are worth (sum w)^2 / sum w^2 = 65 equal ones, so the share below the told time
//! is wrong by sqrt(F (1 - F) / 65): by 3.7 % for F = 10 %. After a change the old ones keep
//! (32/33)^50 = 21 % of the weight 50 requests later, which is enough for the default F unless
//! nearly half of them lie below the new fractile. Such changes, and most others much sooner, are
//! told by [`change`]; then only the newest observations are kept.
//!
//! # Form
//!
//! Weights are kept per bucket: four per octave, 256 ns to 17 s. A bucket also has the mean of its
//! observations and twice the mean deviation from it, both smoothed by weight; its observations
//! count as spread evenly over mean ± that, which is exact for an even spread and for a constant.

mod bucket;
mod change;

use super::{
    Costs,
    Predictor, //
};
use crate::policy::units::{
    Ns,
    Ppm, //
};
use bucket::{
    Bucket,
    Place,
    BUCKETS, //
};
use change::{
    Known,
    Watch, //
};

/// The weight of the first observation.
const FIRST: u16 = 960;
/// Where weights are halved. All of them in one bucket are 33 * 1920 = 63,360 at most: 16 bits.
const MOST: u16 = 2 * FIRST;
/// Every observation weighs 1/32 more than the one before it.
const GROWTH_BITS: u32 = 5;

/// The number of the newest observations that can outlive a change: a change to the less even of
/// two equal sides shows after 12.
const RECENT: usize = 12;

/// Decayed buckets of one key, and the state that shows when they are out of date.
///
/// # Invariants
///
/// - `total` is the sum of the weights.
/// - No bucket outside `first..=last` has weight.
#[derive(Debug)]
pub(crate) struct Quantile {
    buckets: [Bucket; BUCKETS],
    total: u32,
    /// The weight of the next observation.
    weight: u16,
    first: u8,
    last: u8,
    watch: Watch,
    /// The newest observations, the newest first.
    recent: [Place; RECENT],
}

impl Quantile {
    /// Nothing is known.
    // INVARIANT: There is no weight anywhere.
    pub(crate) const NEW: Self = Self {
        buckets: [Bucket::EMPTY; BUCKETS],
        total: 0,
        weight: FIRST,
        first: u8::MAX,
        last: 0,
        watch: Watch::NONE,
        recent: [Place::FIRST; RECENT],
    };

    /// Adds an observation to its bucket.
    fn add(&mut self, place: Place) {
        if self.weight >= MOST {
            self.halve();
        }
        if let Some(bucket) = self.buckets.get_mut(usize::from(place.bucket)) {
            bucket.add(place.offset, self.weight);
            // INVARIANT: As much as in the bucket, which cannot be full: see `MOST`.
            self.total = self.total.saturating_add(self.weight.into());
            self.first = self.first.min(place.bucket);
            self.last = self.last.max(place.bucket);
        }
        self.weight = self.weight.saturating_add(self.weight >> GROWTH_BITS);
    }

    /// Halves every weight, which changes nothing between them, and forgets the faintest.
    fn halve(&mut self) {
        self.weight /= 2;
        self.total = 0;
        let (mut first, mut last) = (u8::MAX, 0);
        for (index, bucket) in (0u8..).zip(&mut self.buckets) {
            bucket.weight /= 2;
            if bucket.weight > 0 {
                self.total = self.total.saturating_add(bucket.weight.into());
                first = first.min(index);
                last = index;
            }
        }
        // INVARIANT: All buckets were looked at.
        (self.first, self.last) = (first, last);
    }

    /// Forgets all but the newest observations.
    fn keep(&mut self, newest: u8) {
        self.buckets.fill(Bucket::EMPTY);
        // INVARIANT: There is no weight anywhere.
        self.total = 0;
        (self.first, self.last) = (u8::MAX, 0);
        self.weight = FIRST;
        let recent = self.recent;
        for place in recent.iter().take(newest.into()).rev() {
            self.add(*place);
        }
    }

    /// The buckets from the first to the last with weight; none if there is none.
    fn weighty(&self) -> &[Bucket] {
        let range = usize::from(self.first)..=usize::from(self.last);
        self.buckets.get(range).unwrap_or_default()
    }

    /// The present knowledge.
    fn known(&self) -> Known {
        let buckets = self.weighty();
        let shortest = Place {
            bucket: self.first,
            offset: buckets.first().map_or(0, Bucket::shortest),
        };
        let longest = Place {
            bucket: self.last,
            offset: buckets.last().map_or(0, Bucket::longest),
        };
        let weights = buckets.iter().map(|bucket| bucket.weight);
        Known::new(shortest, longest, weights, self.total)
    }

    /// The place that `part` of all the weight lies below.
    fn at(&self, part: u32) -> Place {
        let mut left = part;
        let mut index = self.first;
        for bucket in self.weighty() {
            let weight = u32::from(bucket.weight);
            // The last one has weight, and takes the rest.
            if left < weight || index >= self.last {
                return Place {
                    bucket: index,
                    offset: bucket.offset(left),
                };
            }
            left = left.saturating_sub(weight);
            index = index.saturating_add(1);
        }
        Place::FIRST
    }
}

impl Predictor for Quantile {
    fn observe(&mut self, took: Ns) {
        let place = Place::of(took);
        self.recent.copy_within(..RECENT - 1, 1);
        if let Some(newest) = self.recent.first_mut() {
            *newest = place;
        }
        if self.total == 0 {
            return self.add(place);
        }
        if self.watch.ends_with(place) {
            self.watch = Watch::new(place, self.known());
        }
        match self.watch.observe(place) {
            Some(newest) => self.keep(newest),
            None => self.add(place),
        }
    }

    /// The time that `early / (early + late)` of the observations lie below.
    ///
    /// Half an observation is taken off. The i-th shortest of n is not reached by the next one
    /// with probability i / (n + 1), and its own weight lies around i - 1/2: with F n - 1/2 that is
    /// F n / (n + 1), below F the more the fewer there are. So little knowledge errs towards being
    /// early, and of few observations the shortest is told.
    fn predict(&self, costs: Costs) -> Option<Ns> {
        if self.total == 0 {
            return None;
        }
        let share = u64::from(self.total).saturating_mul(costs.fractile().0.into());
        let share = share.checked_div(Ppm::ONE.0.into()).unwrap_or(0);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        Some(
            self.at(share.saturating_sub(u32::from(self.weight / 2)))
                .time(),
        )
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_quantile))]
mod tests {
    use super::*;
    use crate::policy::predict::LONGEST;

    const MEDIAN: Costs = Costs { early: 1, late: 1 };
    const LONG: Costs = Costs { early: 9, late: 1 };

    fn told(quantile: &Quantile, costs: Costs) -> Ns {
        quantile.predict(costs).unwrap_or_default()
    }

    /// True if `t` is `exact`, or shorter by less than a thousandth.
    fn is_just_below(t: Ns, exact: Ns) -> bool {
        t <= exact && exact.saturating_sub(t) <= Ns(exact.0 / 1000 + 1)
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(Quantile::NEW.predict(MEDIAN), None);
    }

    #[test]
    fn one_observation_is_all_there_is() {
        let mut quantile = Quantile::NEW;
        quantile.observe(Ns(200_000));
        for costs in [Costs::default(), MEDIAN, LONG] {
            assert!(is_just_below(told(&quantile, costs), Ns(200_000)));
        }
    }

    #[test]
    fn of_few_the_shortest_is_told() {
        let mut quantile = Quantile::NEW;
        quantile.observe(Ns(400_000));
        for took in [80_000, 390_000] {
            quantile.observe(Ns(took));
            assert!(is_just_below(told(&quantile, Costs::default()), Ns(80_000)));
        }
        assert!(told(&quantile, LONG) >= Ns(380_000));
    }

    #[test]
    fn constant_is_told() {
        for took in [0, 1, 999, 12_345, 196_608, 229_375, 1_000_000_000] {
            let mut quantile = Quantile::NEW;
            for _ in 0..200 {
                quantile.observe(Ns(took));
            }
            for costs in [Costs::default(), MEDIAN, LONG] {
                assert!(is_just_below(told(&quantile, costs), Ns(took)));
            }
        }
    }

    #[test]
    fn each_of_two_modes_is_told_exactly() {
        let mut quantile = Quantile::NEW;
        for n in 0..200 {
            quantile.observe(Ns([80_000, 400_000][n % 2]));
        }
        assert!(is_just_below(told(&quantile, Costs::default()), Ns(80_000)));
        assert!(is_just_below(told(&quantile, LONG), Ns(400_000)));
    }

    #[test]
    fn step_is_noticed_after_three() {
        let mut quantile = Quantile::NEW;
        for (from, to) in [(100_000, 400_000), (400_000, 90_000)] {
            for _ in 0..100 {
                quantile.observe(Ns(from));
            }
            for _ in 0..3 {
                quantile.observe(Ns(to));
            }
            assert!(is_just_below(told(&quantile, Costs::default()), Ns(to)));
            assert!(is_just_below(told(&quantile, LONG), Ns(to)));
        }
    }

    #[test]
    fn settling_within_what_is_known_is_noticed_after_twelve() {
        let mut quantile = Quantile::NEW;
        for n in 0..200 {
            quantile.observe(Ns(50_000 + n * 61 % 450 * 1_000));
        }
        for _ in 0..12 {
            quantile.observe(Ns(350_000));
        }
        assert!(is_just_below(
            told(&quantile, Costs::default()),
            Ns(350_000)
        ));
    }

    #[test]
    fn outlier_changes_little() {
        let mut quantile = Quantile::NEW;
        for _ in 0..200 {
            quantile.observe(Ns(200_000));
        }
        quantile.observe(Ns(5_000_000_000));
        quantile.observe(Ns(1));
        assert!(is_just_below(
            told(&quantile, Costs::default()),
            Ns(200_000)
        ));
        assert!(is_just_below(told(&quantile, MEDIAN), Ns(200_000)));
    }

    #[test]
    fn any_input_is_bounded() {
        let mut quantile = Quantile::NEW;
        for n in 0u32..500 {
            quantile.observe(Ns(
                [0, u64::MAX, 1 << (n % 64), u64::from(n)][n as usize * 7 % 4]
            ));
            for costs in [Costs::default(), MEDIAN, LONG] {
                assert!(told(&quantile, costs) <= LONGEST);
            }
            let weights = quantile.buckets.iter().map(|b| u32::from(b.weight));
            assert_eq!(quantile.total, weights.sum::<u32>());
        }
    }
}
