// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Changes: the newest preparations against the known distribution.
//!
//! Two tests on ranks, so that no distribution need be assumed:
//!
//! - [`OUTSIDE`] in a row are all longer, or all shorter, than everything known before. One that is
//!   drawn from the same distribution as n others is by chance 1 / (n + 1); three are
//!   6 / ((n + 1) (n + 2) (n + 3)), 1 of 50,000 for n = 65.
//! - The known distribution is cut in two, as near to its middle as buckets allow, and a run falls
//!   on one side. If that side had the share p, a run of k is by chance p^k; 1 of 4,096 is too
//!   little, which with equal sides is a run of 12.
//!
//! Both compare with the distribution before the run, which a run must not explain away.

use super::bucket::Place;

/// This many in a row beyond everything known.
const OUTSIDE: u8 = 3;

/// One, as a share.
const ONE: u32 = 1 << 16;
/// A run less likely than that is none by chance.
const UNLIKELY: u32 = ONE / 4096;
/// No side counts as less likely: a first time may still come, and come twice.
const LEAST_SHARE: u32 = ONE / 16;

/// The knowledge at the start of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Nothing shorter was.
    pub(super) shortest: Place,
    /// Nothing longer was.
    pub(super) longest: Place,
    /// The first bucket of the upper side.
    cut: u8,
    /// The share of the upper side.
    upper: u32,
}

impl Known {
    /// No use before the first run.
    const NOTHING: Self = Self {
        shortest: Place::FIRST,
        longest: Place::FIRST,
        cut: 0,
        upper: 0,
    };

    /// The range between these two, with `weights` of the buckets from the first one's on.
    pub(super) fn new(
        shortest: Place,
        longest: Place,
        weights: impl Iterator<Item = u16>,
        total: u32,
    ) -> Self {
        // The cut, the weight below it, and its distance from half.
        let (mut cut, mut lower, mut distance) = (shortest.bucket, 0, total);
        let mut below = 0u32;
        let mut bucket = shortest.bucket;
        for weight in weights {
            let difference = below.saturating_mul(2).abs_diff(total);
            if difference < distance {
                (cut, lower, distance) = (bucket, below, difference);
            }
            below = below.saturating_add(weight.into());
            bucket = bucket.saturating_add(1);
        }
        // The total of all weights is below 2^16: see `super::MOST`.
        let upper = total.saturating_sub(lower).saturating_mul(ONE);
        Self {
            shortest,
            longest,
            cut,
            upper: upper.checked_div(total).unwrap_or(0),
        }
    }

    fn is_upper(&self, place: Place) -> bool {
        place.bucket >= self.cut
    }

    /// The share of a side.
    fn share(&self, upper: bool) -> u32 {
        let share = match upper {
            true => self.upper,
            false => ONE.saturating_sub(self.upper),
        };
        share.max(LEAST_SHARE)
    }
}

/// The current run on one side of the known distribution.
#[derive(Debug)]
pub(super) struct Watch {
    known: Known,
    /// The probability of the run if nothing has changed.
    chance: u32,
    /// On the upper side.
    upper: bool,
    /// Observations in the run; 0 if there is none.
    length: u8,
    /// The newest of them that are beyond everything known.
    outside: u8,
}

impl Watch {
    /// No run.
    pub(super) const NONE: Self = Self {
        known: Known::NOTHING,
        chance: ONE,
        upper: false,
        length: 0,
        outside: 0,
    };

    /// A run that begins with this observation, not yet in the known distribution.
    pub(super) fn new(place: Place, known: Known) -> Self {
        Self {
            upper: known.is_upper(place),
            known,
            ..Self::NONE
        }
    }

    /// True if this observation is not in the run, so that another has to begin.
    pub(super) fn ends_with(&self, place: Place) -> bool {
        self.length == 0 || self.known.is_upper(place) != self.upper
    }

    /// Adds to the run. If that shows a change, returns the number of newest observations after it,
    /// and ends the run.
    pub(super) fn observe(&mut self, place: Place) -> Option<u8> {
        self.length = self.length.saturating_add(1);
        // Shares are at most 2^16.
        self.chance = self.chance.saturating_mul(self.known.share(self.upper)) / ONE;
        self.outside = match (self.known.shortest..=self.known.longest).contains(&place) {
            true => 0,
            false => self.outside.saturating_add(1),
        };
        let newest = if self.outside >= OUTSIDE {
            OUTSIDE
        } else if self.chance <= UNLIKELY {
            self.length
        } else {
            return None;
        };
        *self = Self::NONE;
        Some(newest)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_quantile_change)
)]
mod tests {
    use super::*;

    fn place(bucket: u8, offset: u8) -> Place {
        Place { bucket, offset }
    }

    /// Buckets 10 to 13 with these weights, and everything within them.
    fn known(weights: [u16; 4]) -> Known {
        let total = weights.iter().map(|&w| u32::from(w)).sum();
        Known::new(place(10, 0), place(13, 255), weights.into_iter(), total)
    }

    fn observe(watch: &mut Watch, known: Known, place: Place) -> Option<u8> {
        if watch.ends_with(place) {
            *watch = Watch::new(place, known);
        }
        watch.observe(place)
    }

    /// The observation with a change, and its result.
    fn told(known: Known, places: impl Iterator<Item = Place>) -> Option<(usize, u8)> {
        let mut watch = Watch::NONE;
        places
            .enumerate()
            .find_map(|(n, place)| Some((n + 1, observe(&mut watch, known, place)?)))
    }

    fn always(place: Place) -> impl Iterator<Item = Place> {
        (0..200).map(move |_| place)
    }

    #[test]
    fn cut_is_in_the_middle() {
        assert_eq!(
            (known([1, 1, 1, 1]).cut, known([1, 1, 1, 1]).upper),
            (12, ONE / 2)
        );
        assert_eq!(
            (known([6, 1, 1, 0]).cut, known([6, 1, 1, 0]).upper),
            (11, ONE / 4)
        );
        assert_eq!(
            (known([1, 0, 0, 3]).cut, known([1, 0, 0, 3]).upper),
            (11, ONE * 3 / 4)
        );
        assert_eq!(
            (known([5, 0, 0, 0]).cut, known([5, 0, 0, 0]).upper),
            (10, ONE)
        );
    }

    #[test]
    fn run_on_one_side_is_told() {
        let even = known([100, 100, 100, 100]);
        assert_eq!(told(even, always(place(12, 5))), Some((12, 12)));
        assert_eq!(told(even, always(place(11, 5))), Some((12, 12)));
    }

    #[test]
    fn the_likelier_side_takes_longer() {
        let uneven = known([15, 0, 0, 85]);
        // 0.85^51.2 is 1 of 4,096; every step rounds down a little.
        assert_eq!(told(uneven, always(place(13, 5))), Some((50, 50)));
        assert_eq!(told(uneven, always(place(10, 5))), Some((5, 5)));
        assert_eq!(told(known([0, 0, 0, 100]), always(place(13, 5))), None);
    }

    #[test]
    fn outside_is_told_after_three() {
        let even = known([100, 100, 100, 100]);
        assert_eq!(told(even, always(place(9, 255))), Some((3, 3)));
        assert_eq!(told(even, always(place(14, 0))), Some((3, 3)));
    }

    #[test]
    fn what_goes_both_ways_is_never_told() {
        let even = known([100, 100, 100, 100]);
        let both = [place(9, 0), place(9, 0), place(14, 0), place(14, 0)];
        assert_eq!(told(even, both.into_iter().cycle().take(200)), None);
    }

    #[test]
    fn run_starts_again_after_it_was_told() {
        let even = known([100, 100, 100, 100]);
        let mut watch = Watch::NONE;
        for n in 1..=30 {
            let newest = observe(&mut watch, even, place(20, 0));
            assert_eq!(newest, (n % 3 == 0).then_some(3));
        }
    }

    #[test]
    fn nothing_known_is_bounded() {
        let nothing = Known::new(Place::FIRST, Place::FIRST, [].into_iter(), 0);
        assert_eq!(told(nothing, always(Place::FIRST)), Some((3, 3)));
    }
}
