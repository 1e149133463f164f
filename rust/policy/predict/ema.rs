// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The next preparation takes as long as the last ones did in the mean.

use super::{
    Costs,
    Predictor,
    LONGEST, //
};
use crate::policy::units::{
    Ns,
    Permille, //
};

/// The exponential moving average: level += alpha * (took - level).
///
/// History is bounded by the weights: an observation that is n others old counts for
/// alpha * (1 - alpha)^n, so with the default alpha everything older than 13 counts for less than
/// a hundredth together. Until 1 / alpha observations are there it is the plain mean, so that the
/// first one does not count for more than the others.
#[derive(Clone, Debug)]
pub(crate) struct Ema {
    level: Ns,
    alpha: Permille,
    /// Observations; sticks at its largest, where the plain mean has long been left.
    seen: u16,
}

impl Ema {
    /// The weight of the newest observation unless another is asked for.
    pub(crate) const ALPHA: Permille = Permille(300);

    /// Nothing is known. More than 1000 ‰ count as 1000.
    pub(crate) const fn new(alpha: Permille) -> Self {
        Self {
            level: Ns::ZERO,
            alpha,
            seen: 0,
        }
    }
}

impl Predictor for Ema {
    fn observe(&mut self, took: Ns) {
        let took = took.min(LONGEST).0;
        self.seen = self.seen.saturating_add(1);
        let plain = 1000u64.checked_div(u64::from(self.seen)).unwrap_or(1000);
        let new = u64::from(self.alpha.0).max(plain).min(1000);
        let old = 1000u64.saturating_sub(new);
        // Below 2^34 * 1000 < 2^44 each.
        let sum = took
            .saturating_mul(new)
            .saturating_add(self.level.0.saturating_mul(old));
        self.level = Ns(sum / 1000);
    }

    fn predict(&self, _costs: Costs) -> Option<Ns> {
        (self.seen > 0).then_some(self.level)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_ema))]
mod tests {
    use super::*;

    fn told(ema: &Ema) -> Option<Ns> {
        ema.predict(Costs::default())
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(told(&Ema::new(Ema::ALPHA)), None);
    }

    #[test]
    fn first_ones_count_the_same() {
        let mut ema = Ema::new(Ema::ALPHA);
        ema.observe(Ns(100_000));
        assert_eq!(told(&ema), Some(Ns(100_000)));
        ema.observe(Ns(200_000));
        assert_eq!(told(&ema), Some(Ns(150_000)));
        ema.observe(Ns(150_000));
        assert_eq!(told(&ema), Some(Ns(150_000)));
    }

    #[test]
    fn newest_counts_for_alpha_later() {
        let mut ema = Ema::new(Ema::ALPHA);
        for _ in 0..10 {
            ema.observe(Ns(100_000));
        }
        ema.observe(Ns(200_000));
        assert_eq!(told(&ema), Some(Ns(130_000)));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut ema = Ema::new(Ema::ALPHA);
        ema.observe(Ns(1_000_000_000));
        for _ in 0..100 {
            ema.observe(Ns(100_000));
        }
        // Rounding down can stop it one short of the last step.
        let t = told(&ema).unwrap_or_default();
        assert!(t <= Ns(100_003) && t >= Ns(99_997));
    }

    #[test]
    fn any_input_is_bounded() {
        for alpha in [0, 1, 1000, u32::MAX] {
            let mut ema = Ema::new(Permille(alpha));
            for took in [0, u64::MAX, u64::MAX, 0, 1, u64::MAX] {
                ema.observe(Ns(took));
                assert!(told(&ema).is_some());
                assert!(told(&ema) <= Some(LONGEST));
            }
        }
    }
}
