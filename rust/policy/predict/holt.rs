// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The next preparation goes on from the last ones as they went on from each other.

use super::{
    Costs,
    Predictor,
    LONGEST, //
};
use crate::policy::units::{
    Ns,
    Permille, //
};

/// Fraction bits of level and trend, so that slow trends are not rounded away.
const FRACTION: u32 = 8;

/// [`LONGEST`] as a level.
const MOST: i64 = (LONGEST.0 << FRACTION) as i64;

/// Double exponential smoothing (C. C. Holt, 1957).
///
/// ```text
/// level' = alpha * took + (1 - alpha) * (level + trend)
/// trend' = beta * (level' - level) + (1 - beta) * trend
/// ```
///
/// and it tells level + trend, never below 0 and never above [`LONGEST`].
///
/// # Invariants
///
/// `level` is 0 to [`MOST`], `trend` is -[`MOST`] to [`MOST`].
#[derive(Debug)]
pub(crate) struct Holt {
    level: i64,
    trend: i64,
    /// At most 1000.
    alpha: u16,
    /// At most 1000.
    beta: u16,
    known: bool,
}

impl Holt {
    /// The weight of the newest observation in the level unless another is asked for.
    pub(crate) const ALPHA: Permille = Permille(300);
    /// The weight of the newest step in the trend unless another is asked for. A third of alpha: a
    /// trend is told from jitter only over more observations than a level needs.
    pub(crate) const BETA: Permille = Permille(100);

    /// Nothing is known. More than 1000 ‰ count as 1000.
    pub(crate) const fn new(alpha: Permille, beta: Permille) -> Self {
        Self {
            level: 0,
            trend: 0,
            alpha: at_most_all(alpha),
            beta: at_most_all(beta),
            known: false,
        }
    }
}

const fn at_most_all(share: Permille) -> u16 {
    if share.0 > 1000 {
        1000
    } else {
        share.0 as u16
    }
}

/// `share` ‰ of the way from `from` to `to`.
fn between(from: i64, to: i64, share: u16) -> i64 {
    // At most 2^44 apart, times 1000.
    let step = to
        .saturating_sub(from)
        .saturating_mul(i64::from(share))
        .saturating_div(1000);
    from.saturating_add(step)
}

impl Predictor for Holt {
    fn observe(&mut self, took: Ns) {
        let took = i64::try_from(took.min(LONGEST).0 << FRACTION).unwrap_or(MOST);
        if !self.known {
            self.level = took;
            self.known = true;
            return;
        }
        let expected = self.level.saturating_add(self.trend);
        // INVARIANT: Clamped.
        let level = between(expected, took, self.alpha).clamp(0, MOST);
        let step = level.saturating_sub(self.level);
        // INVARIANT: Between a trend in bounds and a difference of levels, so in bounds.
        self.trend = between(self.trend, step, self.beta);
        self.level = level;
    }

    fn predict(&self, _costs: Costs) -> Option<Ns> {
        let told = self.level.saturating_add(self.trend).clamp(0, MOST);
        let told = u64::try_from(told).unwrap_or(0) >> FRACTION;
        self.known.then_some(Ns(told))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_holt))]
mod tests {
    use super::*;

    fn told(holt: &Holt) -> Option<Ns> {
        holt.predict(Costs::default())
    }

    #[test]
    fn first_observation_is_the_level() {
        let mut holt = Holt::new(Holt::ALPHA, Holt::BETA);
        assert_eq!(told(&holt), None);
        holt.observe(Ns(100_000));
        assert_eq!(told(&holt), Some(Ns(100_000)));
    }

    #[test]
    fn constant_stays() {
        let mut holt = Holt::new(Holt::ALPHA, Holt::BETA);
        for _ in 0..50 {
            holt.observe(Ns(123_456));
            assert_eq!(told(&holt), Some(Ns(123_456)));
        }
    }

    #[test]
    fn straight_trend_is_followed_without_lag() {
        let mut holt = Holt::new(Holt::ALPHA, Holt::BETA);
        for n in 0..300 {
            holt.observe(Ns(100_000 + n * 500));
        }
        let t = told(&holt).unwrap_or_default();
        let next = Ns(250_000);
        assert!(t.saturating_sub(next) < Ns(100) && next.saturating_sub(t) < Ns(100));
    }

    #[test]
    fn never_below_nothing() {
        let mut holt = Holt::new(Permille(1000), Permille(1000));
        for took in [1_000_000, 500_000, 0, 0] {
            holt.observe(Ns(took));
            assert!(told(&holt) <= Some(Ns(1_000_000)));
        }
        assert_eq!(told(&holt), Some(Ns(0)));
    }

    #[test]
    fn any_input_is_bounded() {
        for share in [0, 1, 1000, u32::MAX] {
            let mut holt = Holt::new(Permille(share), Permille(share));
            for took in [0, u64::MAX, u64::MAX, 0, 1, u64::MAX, 0, 0] {
                holt.observe(Ns(took));
                assert!(told(&holt).is_some());
                assert!(told(&holt) <= Some(LONGEST));
            }
        }
    }
}
