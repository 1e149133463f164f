// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The margin by which the GPU shall be free earlier than a point estimate: the classic rule, for
//! comparison.

use super::LONGEST;
use crate::policy::units::{
    Ns,
    Permille, //
};

/// A margin that grows while estimates are bad and shrinks while they are good.
///
/// After each observation: × 1.1 if |took - estimate| / estimate > 20 %, × 0.9 if < 5 %, within
/// [`Margin::LEAST`] and [`Margin::MOST`].
///
/// # Invariants
///
/// It lies within these bounds.
#[derive(Debug)]
pub(crate) struct Margin {
    ns: u32,
}

impl Margin {
    /// 1 µs: the time to write a flag that the GPU sees; nothing shorter makes a difference.
    pub(crate) const LEAST: Ns = Ns(1_000);
    /// 500 µs: an estimate that is always wrong leaves the GPU idle for no longer than that.
    pub(crate) const MOST: Ns = Ns(500_000);
    /// 20 µs, the usual start: a tenth of the fixed predictor's 200 µs.
    pub(crate) const USUAL: Ns = Ns(20_000);

    /// The error above which the margin grows, as a share of the estimate.
    const BAD: Permille = Permille(200);
    /// The error below which it shrinks.
    const GOOD: Permille = Permille(50);

    /// One that starts with this value, or with the nearest within the bounds.
    pub(crate) fn new(start: Ns) -> Self {
        let ns = start.0.clamp(Self::LEAST.0, Self::MOST.0);
        // INVARIANT: Just clamped, and the upper bound fits.
        Self { ns: ns as u32 }
    }

    /// Learns how wrong an estimate was; there is nothing to learn if there was none.
    pub(crate) fn observe(&mut self, estimate: Option<Ns>, took: Ns) {
        let Some(estimate) = estimate else { return };
        let estimate = estimate.min(LONGEST).0;
        // Below 2^44, as the shares below; so an estimate of 0 needs no division.
        let error = took.min(LONGEST).0.abs_diff(estimate).saturating_mul(1000);
        let tenths = if error > estimate.saturating_mul(u64::from(Self::BAD.0)) {
            11
        } else if error < estimate.saturating_mul(u64::from(Self::GOOD.0)) {
            9
        } else {
            10
        };
        let margin = u64::from(self.ns).saturating_mul(tenths) / 10;
        *self = Self::new(Ns(margin));
    }

    /// The estimate less the margin, not below 0.
    pub(crate) fn taken_off(&self, estimate: Option<Ns>) -> Option<Ns> {
        estimate.map(|t| t.saturating_sub(Ns(u64::from(self.ns))))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_margin))]
mod tests {
    use super::*;

    const ESTIMATE: Option<Ns> = Some(Ns(1_000_000));

    fn new() -> Margin {
        Margin::new(Margin::USUAL)
    }

    /// The margin after one observation.
    fn after(took: u64) -> u32 {
        let mut margin = new();
        margin.observe(ESTIMATE, Ns(took));
        margin.ns
    }

    #[test]
    fn grows_with_bad_estimates_of_either_sign() {
        assert_eq!(after(1_200_001), 22_000);
        assert_eq!(after(799_999), 22_000);
        assert_eq!(after(0), 22_000);
        assert_eq!(after(u64::MAX), 22_000);
    }

    #[test]
    fn stays_with_fair_estimates() {
        for took in [1_200_000, 1_050_000, 950_000, 800_000] {
            assert_eq!(after(took), 20_000);
        }
    }

    #[test]
    fn shrinks_with_good_estimates() {
        for took in [1_049_999, 1_000_000, 950_001] {
            assert_eq!(after(took), 18_000);
        }
    }

    #[test]
    fn stays_within_its_bounds() {
        let mut margin = new();
        for _ in 0..100 {
            margin.observe(ESTIMATE, Ns(u64::MAX));
        }
        assert_eq!(margin.taken_off(ESTIMATE), Some(Ns(500_000)));
        for _ in 0..100 {
            margin.observe(ESTIMATE, Ns(1_000_000));
        }
        assert_eq!(margin.taken_off(ESTIMATE), Some(Ns(999_000)));
    }

    #[test]
    fn starts_within_its_bounds() {
        let start = |ns| Margin::new(Ns(ns)).ns;
        assert_eq!((start(0), start(999)), (1_000, 1_000));
        assert_eq!((start(50_000), start(500_000)), (50_000, 500_000));
        assert_eq!((start(500_001), start(u64::MAX)), (500_000, 500_000));
    }

    #[test]
    fn is_taken_off_what_there_is() {
        assert_eq!(new().taken_off(Some(Ns(50_000))), Some(Ns(30_000)));
        assert_eq!(new().taken_off(Some(Ns(5))), Some(Ns(0)));
        assert_eq!(new().taken_off(None), None);
    }

    #[test]
    fn no_estimate_teaches_nothing() {
        let mut margin = new();
        margin.observe(None, Ns(5));
        assert_eq!(margin.ns, new().ns);
    }

    #[test]
    fn estimate_of_nothing_is_bad_or_fair() {
        let mut margin = new();
        margin.observe(Some(Ns(0)), Ns(0));
        assert_eq!(margin.ns, 20_000);
        margin.observe(Some(Ns(0)), Ns(1));
        assert_eq!(margin.ns, 22_000);
    }
}
