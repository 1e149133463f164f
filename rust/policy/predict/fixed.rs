// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Every preparation takes the same, known time.

use super::{
    Costs,
    Predictor, //
};
use crate::policy::units::Ns;

/// Predicts a given duration and ignores observations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed(pub(crate) Ns);

impl Default for Fixed {
    /// 200 µs: the constant of GPreempt (USENIX ATC'25).
    fn default() -> Self {
        Self(Ns(200_000))
    }
}

impl Predictor for Fixed {
    fn observe(&mut self, _took: Ns) {}

    fn predict(&self, _costs: Costs) -> Option<Ns> {
        Some(self.0)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_fixed))]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_it() {
        let mut fixed = Fixed(Ns(7));
        fixed.observe(Ns(1_000));
        assert_eq!(fixed.predict(Costs::default()), Some(Ns(7)));
        assert_eq!(Fixed::default(), Fixed(Ns(200_000)));
    }
}
