// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables of slices that follow the slack of a TSG.

use super::{
    slice,
    Refused, //
};
use crate::policy::{
    slices::slack::Terms,
    units::{
        Permille,
        Us, //
    }, //
};

/// The tunables of slices that follow slacks.
///
/// # Invariants
///
/// Slices lie within [`slice::RANGE`], shares are [`Slack::MOST_BELOW`] at most, the credit is
/// [`Slack::MOST_CREDIT`] at most, and the quantum lies within [`Slack::QUANTUM_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slack(pub(super) Terms);

impl Slack {
    /// The values before anybody tunes.
    pub(crate) fn new() -> Self {
        // INVARIANT: They are in their ranges.
        Self(Terms::USUAL)
    }

    /// Thresholds: ten times what remains.
    pub(crate) const MOST_BELOW: Permille = Permille(10_000);
    /// Credit: the longest slice.
    pub(crate) const MOST_CREDIT: Us = slice::RANGE.1;
    /// Quanta: 500 µs, some switches of an A100, to 1 s.
    pub(crate) const QUANTUM_RANGE: (Us, Us) = (Us(500), Us(1_000_000));

    /// All of them.
    pub(crate) fn terms(&self) -> Terms {
        self.0
    }

    /// Changes [`Self::terms`].
    ///
    /// # Errors
    ///
    /// `OutOfRange`; nothing has changed then.
    pub(crate) fn set_terms(&mut self, terms: Terms) -> Result<(), Refused> {
        for slice in [terms.late, terms.soon, terms.early] {
            slice::in_range(slice)?;
        }
        let (least, most) = Self::QUANTUM_RANGE;
        let is_in = terms.late_below.max(terms.soon_below) <= Self::MOST_BELOW
            && terms.credit <= Self::MOST_CREDIT
            && (least..=most).contains(&terms.quantum);
        if !is_in {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.0 = terms;
        Ok(())
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_tunables_slack))]
mod tests {
    use super::*;
    use crate::policy::{
        slices::Policy,
        tunables::Tunables, //
    };

    #[test]
    fn each_has_a_range() {
        let usual = Terms::USUAL;
        let mut slack = Slack::new();
        let bad = [
            Terms {
                late: Us(10_000_001),
                ..usual
            },
            Terms {
                soon: Us(9),
                ..usual
            },
            Terms {
                early: Us(0),
                ..usual
            },
            Terms {
                late_below: Permille(10_001),
                ..usual
            },
            Terms {
                soon_below: Permille(u32::MAX),
                ..usual
            },
            Terms {
                credit: Us(10_000_001),
                ..usual
            },
            Terms {
                quantum: Us(499),
                ..usual
            },
            Terms {
                quantum: Us(1_000_001),
                ..usual
            },
        ];
        for terms in bad {
            assert_eq!(slack.set_terms(terms), Err(Refused::OutOfRange));
            assert_eq!(slack.terms(), usual);
        }
        let new = Terms {
            late: Us(10),
            soon: Us(10_000_000),
            early: Us(10),
            late_below: Permille(10_000),
            soon_below: Permille(0),
            credit: Us(0),
            quantum: Us(500),
        };
        assert_eq!(slack.set_terms(new), Ok(()));
        assert_eq!(slack.terms(), new);
    }

    #[test]
    fn they_count_where_that_is_chosen() {
        let mut t = Tunables::new();
        assert_eq!(t.slack(), None);
        t.slices_mut().set_policy(Policy::Slack);
        assert_eq!(t.slack(), Some(Terms::USUAL));
        t.set_enabled(false);
        assert_eq!(t.slack(), None);
    }
}
