// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Programs that share a GPU: a hold keeps the requests of the others waiting, too.
//!
//! The cost of being early is then another one, as it is tuned. A request shares its GPU if one of
//! another TSG began less than [`Begins::APART`] before it.

use super::Costs;
use crate::policy::units::Ns;

/// The begins on a GPU, of TSGs whose holds keep others waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The TSG that began last, by a number that is not 0; 0: none.
    pub(crate) last: u64,
    /// When that was.
    pub(crate) at: Ns,
    /// When another one began last; 0: never.
    pub(crate) other: Ns,
}

impl Begins {
    /// TSGs whose begins are further apart share nothing: 1 s.
    pub(crate) const APART: Ns = Ns(1_000_000_000);

    /// A request of this TSG begins. True if it shares the GPU.
    pub(crate) fn begin(&mut self, tsg: u64, now: Ns) -> bool {
        if self.last != tsg {
            // Times of two CPUs may come in the wrong order.
            self.other = match self.last {
                0 => self.other,
                _ => self.at.max(self.other),
            };
            self.last = tsg;
        }
        self.at = now;
        self.other > Ns::ZERO && now.saturating_sub(self.other) < Self::APART
    }
}

impl Costs {
    /// The same where being early has this cost.
    pub(crate) fn with_early(self, early: u32) -> Self {
        Self { early, ..self }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_predict_sharing))]
mod tests {
    use super::*;
    use crate::policy::predict::{
        quantile::Quantile,
        Predictor, //
    };

    const S: u64 = 1_000_000_000;

    #[test]
    fn one_tsg_never_shares() {
        let mut begins = Begins::default();
        for n in 0..100 {
            assert!(!begins.begin(7, Ns(n * S / 100)));
        }
        assert_eq!(begins.other, Ns::ZERO);
    }

    #[test]
    fn tsgs_share_until_one_is_alone_for_a_second() {
        let mut begins = Begins::default();
        assert!(!begins.begin(3, Ns(S)));
        assert!(!begins.begin(3, Ns(5 * S)));
        assert!(begins.begin(4, Ns(5 * S + 1)));
        assert!(begins.begin(4, Ns(6 * S - 1)));
        assert!(!begins.begin(4, Ns(6 * S)));
        // Nobody was there for a second.
        assert!(!begins.begin(3, Ns(9 * S)));
        assert!(begins.begin(4, Ns(9 * S + 5)));
        assert!(begins.begin(3, Ns(9 * S + 6)));
    }

    #[test]
    fn the_newest_of_all_others_counts() {
        let mut begins = Begins::default();
        begins.begin(1, Ns(S));
        begins.begin(2, Ns(S + 1));
        for n in 2..10 {
            begins.begin(1, Ns(S + n));
        }
        assert!(begins.begin(3, Ns(S + 9 + S - 1)));
        assert!(!begins.begin(3, Ns(S + 9 + S)));
    }

    #[test]
    fn times_in_the_wrong_order_are_close() {
        let mut begins = Begins::default();
        begins.begin(1, Ns(5 * S));
        assert!(begins.begin(2, Ns(5 * S - 10)));
        assert!(begins.begin(1, Ns(5 * S + 10)));
        assert_eq!(begins.other, Ns(5 * S));
    }

    #[test]
    fn the_dearer_it_is_to_be_early_the_later_the_prediction() {
        let mut times = Quantile::NEW;
        for n in 0..200u64 {
            times.observe(Ns(20_000 + n * 119 % 200 * 4_000));
        }
        let costs = Costs::default();
        let mut last = Ns::ZERO;
        for early in [0, 1, 6, 12, 48, 1_000_000] {
            let costs = costs.with_early(early);
            assert_eq!(costs.late, Costs::default().late);
            let told = times.predict(costs).unwrap_or_default();
            assert!(told >= last);
            last = told;
        }
        assert!(last > Ns(500_000));
        assert_eq!(costs.with_early(costs.early), costs);
    }
}
