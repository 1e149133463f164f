// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time of a task in each phase.

use super::{
    super::units::{
        Ns,
        Permille, //
    },
    Phase,
    COUNT, //
};

/// Time per phase. Their sum is the time that was counted, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times([Ns; COUNT]);

impl Times {
    /// No time at all.
    pub(crate) const ZERO: Self = Self([Ns::ZERO; COUNT]);

    /// Time of which nothing is known.
    pub(crate) fn unknown(time: Ns) -> Self {
        let mut times = Self::ZERO;
        times.put(Phase::Unknown, time);
        times
    }

    /// Those of the phases by their numbers.
    pub(crate) fn of_phases(times: [Ns; COUNT]) -> Self {
        Self(times)
    }

    /// The time in a phase.
    pub(crate) fn of(&self, phase: Phase) -> Ns {
        self.0.get(phase.number()).copied().unwrap_or_default()
    }

    /// The time in all of them.
    pub(crate) fn sum(&self) -> Ns {
        self.0
            .iter()
            .fold(Ns::ZERO, |sum, &time| sum.saturating_add(time))
    }

    /// The share of a phase; 0 if no time was counted.
    #[allow(dead_code, reason = "programs divide themselves; the tests ask")]
    pub(crate) fn share(&self, phase: Phase) -> Permille {
        Permille::of(self.of(phase).0, self.sum().0)
    }

    /// Adds the times of another task.
    #[allow(dead_code, reason = "the tests of running sums compare")]
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, time) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(time);
        }
    }

    fn put(&mut self, phase: Phase, time: Ns) {
        if let Some(sum) = self.0.get_mut(phase.number()) {
            *sum = sum.saturating_add(time);
        }
    }
}

/// Times up to a moment. The owner knows the phase since then, as it has room for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    times: Times,
    since: Ns,
}

impl Account {
    /// Begins to count at `now`.
    pub(crate) fn new(now: Ns) -> Self {
        Self {
            times: Times::ZERO,
            since: now,
        }
    }

    /// The phase up to `now` was this one. A clock that does not advance adds nothing.
    pub(crate) fn leave(&mut self, phase: Phase, now: Ns) {
        self.times = self.at(phase, now);
        self.since = self.since.max(now);
    }

    /// Up to when it has counted.
    pub(crate) fn since(&self) -> Ns {
        self.since
    }

    /// The times up to `now`, if it is this phase.
    pub(crate) fn at(&self, phase: Phase, now: Ns) -> Times {
        let mut times = self.times;
        times.put(phase, now.saturating_sub(self.since));
        times
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_account))]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_is_in_one_phase() {
        let mut account = Account::new(Ns(100));
        account.leave(Phase::Unknown, Ns(103));
        account.leave(Phase::DataLoading, Ns(110));
        account.leave(Phase::GpuCompute, Ns(150));
        let times = account.at(Phase::DataLoading, Ns(151));
        assert_eq!(times.of(Phase::Unknown), Ns(3));
        assert_eq!(times.of(Phase::DataLoading), Ns(8));
        assert_eq!(times.of(Phase::GpuCompute), Ns(40));
        assert_eq!(times.sum(), Ns(51));
        assert_eq!(times.share(Phase::GpuCompute), Permille(784));
        assert_eq!(account.since(), Ns(150));
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_adds_nothing() {
        let mut account = Account::new(Ns(100));
        account.leave(Phase::Unknown, Ns(90));
        account.leave(Phase::GpuCompute, Ns(90));
        assert_eq!(account.at(Phase::DataLoading, Ns(95)).sum(), Ns(0));
        account.leave(Phase::DataLoading, Ns(107));
        account.leave(Phase::GpuCompute, Ns(20));
        let times = account.at(Phase::GpuCompute, Ns(107));
        assert_eq!(times.sum(), Ns(7));
        assert_eq!(times.of(Phase::DataLoading), Ns(7));
    }

    #[test]
    fn shares_of_nothing_are_nothing() {
        for phase in Phase::ALL {
            assert_eq!(Times::ZERO.share(phase), Permille(0));
        }
    }

    #[test]
    fn times_of_several_add_up() {
        let mut account = Account::new(Ns(0));
        account.leave(Phase::Unknown, Ns(5));
        let phase = Phase::OptimizerStep;
        let mut sum = account.at(phase, Ns(7));
        sum.add(&account.at(phase, Ns(u64::MAX)));
        assert_eq!(sum.of(Phase::Unknown), Ns(10));
        assert_eq!(sum.of(Phase::OptimizerStep), Ns(u64::MAX - 3));
        sum.add(&account.at(phase, Ns(u64::MAX)));
        assert_eq!(sum.of(Phase::OptimizerStep), Ns(u64::MAX));
    }
}
