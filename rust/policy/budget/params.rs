// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A budget and its period, and the times that follow from them.

use crate::policy::{
    level::Level,
    refused::Refused,
    units::Ns, //
};

/// Replenishments that can be pending. They are at least a 60th of a period apart, two of them
/// that are closer being merged at the time of the later, and none is pending for longer than a
/// period: there is always room.
pub(super) const PIECES: usize = 61;

/// A budget and its period.
///
/// # Invariants
///
/// The period lies within [`Params::PERIOD_RANGE`], the budget between [`Params::BUDGET_MIN`] and
/// the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    pub(super) budget: Ns,
    pub(super) period: Ns,
}

impl Params {
    /// Periods that can be asked for: 1 ms, a few slices of BE, to 10 s, the longest slice.
    pub(crate) const PERIOD_RANGE: (Ns, Ns) = (Ns(1_000_000), Ns(10_000_000_000));
    /// The least budget: 1 ms. One of nothing would be a level below BE.
    pub(crate) const BUDGET_MIN: Ns = Ns(1_000_000);

    /// No bound, for the tests.
    #[cfg(any(test, zernel_kunit))]
    pub(super) const ALL: Self = Self {
        // INVARIANT: 100 ms of 100 ms.
        budget: Ns(100_000_000),
        period: Ns(100_000_000),
    };

    /// A budget per period.
    pub(crate) fn new(budget: Ns, period: Ns) -> Result<Self, Refused> {
        let (min, max) = Self::PERIOD_RANGE;
        if period < min || period > max || budget < Self::BUDGET_MIN || budget > period {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        Ok(Self { budget, period })
    }

    /// The parameters of a level until it is tuned; `None`: it runs without a bound, as BE does.
    ///
    /// 95 % is the share of Linux' own real-time tasks (`sched_rt_runtime_us`); the period is a
    /// tenth of theirs, for a GPU request is short.
    pub(crate) fn default_of(level: Level) -> Option<Self> {
        // INVARIANT: 1 ms <= 95 ms <= 100 ms <= 10 s.
        (level != Level::BE).then_some(Self {
            budget: Ns(95_000_000),
            period: Ns(100_000_000),
        })
    }

    /// The runtime per period.
    pub(crate) fn budget(self) -> Ns {
        self.budget
    }

    /// The period.
    pub(crate) fn period(self) -> Ns {
        self.period
    }

    /// True if the budget is the whole period, so that nothing is bounded.
    pub(super) fn is_all(self) -> bool {
        self.budget >= self.period
    }

    /// The distance of replenishments, rounded up so that `PIECES - 1` of them fill a period.
    pub(super) fn grain(self) -> u64 {
        self.period.0.div_ceil(PIECES as u64 - 1).max(1)
    }

    /// A throttled level goes on when so much of the budget is back, or after so long when there is any:
    /// less is not worth two changes of a time slice.
    pub(super) fn resume(self) -> u64 {
        (self.budget.0 / 16).max(1)
    }

    /// The longest time for which BE may wait while a level goes on beyond its budget: no longer than
    /// within it.
    pub(super) fn gap(self) -> u64 {
        self.budget.0.min(self.period.0 / 2)
    }

    /// The most time beyond the budget that is saved up: the rest of a period, and no more than a quarter
    /// of the budget, so that a small one stays small.
    pub(super) fn most_credit(self) -> u64 {
        let rest = self.period.0.saturating_sub(self.budget.0);
        rest.min(self.budget.0 / 4)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_budget_params))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(n: u64) -> Ns {
        Ns(n * MS)
    }

    #[test]
    fn every_level_but_be_has_a_budget() {
        for level in Level::ALL {
            let params = Params::default_of(level);
            assert_eq!(params.is_none(), level == Level::BE);
            if let Some(p) = params {
                assert_eq!((p.budget(), p.period()), (ms(95), ms(100)));
                assert_eq!(Params::new(p.budget(), p.period()), Ok(p));
            }
        }
    }

    #[test]
    fn nothing_and_more_than_all_are_refused() {
        let bad = [
            (Ns::ZERO, ms(100)),
            (Ns(MS - 1), ms(100)),
            (ms(101), ms(100)),
            (ms(1), Ns(MS - 1)),
            (ms(1), ms(10_001)),
            (Ns(u64::MAX), Ns(u64::MAX)),
        ];
        for (budget, period) in bad {
            assert_eq!(Params::new(budget, period), Err(Refused::OutOfRange));
        }
        assert!(Params::new(ms(1), ms(1)).is_ok());
        assert!(Params::new(ms(10_000), ms(10_000)).is_ok());
    }
}
