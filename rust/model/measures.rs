// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Units of the model: nanoseconds, picoseconds of work, microseconds and permille.

/// A point in time or a duration, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ns(pub(crate) u64);

impl Ns {
    /// No time at all.
    pub(crate) const ZERO: Self = Self(0);
    /// Later than anything that happens: "never".
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// This much later; sticks at [`Ns::NEVER`].
    pub(crate) const fn plus(self, by: Self) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// Time passed since `earlier`; zero if that is later.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// A time slice, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Us(pub(crate) u32);

impl Us {
    /// The same duration in nanoseconds. Exact: 2^32 µs fit.
    pub(crate) const fn ns(self) -> Ns {
        Ns((self.0 as u64).saturating_mul(1_000))
    }
}

/// A share of an engine in thousandths: 1 to 1000 for one item, more for a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permille(pub(crate) u32);

impl Permille {
    /// The whole engine.
    pub(crate) const FULL: Self = Self(1_000);

    /// The sum of two shares.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// An amount of work: the time that it takes alone, in picoseconds.
///
/// Picoseconds keep the rounding of shared progress below a thousandth of a nanosecond per
/// change of the set of running channels. One hour of work times the largest sum of demands
/// (16 channels, 16,000 ‰) still fits in 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ps(pub(crate) u64);

impl Ps {
    /// Nothing left to do.
    pub(crate) const ZERO: Self = Self(0);

    /// Work that takes `duration` alone.
    pub(crate) const fn of(duration: Ns) -> Self {
        Self(duration.0.saturating_mul(1_000))
    }

    /// The rest after `done`; never below zero.
    pub(crate) const fn less(self, done: Self) -> Self {
        Self(self.0.saturating_sub(done.0))
    }

    /// Work done in `time` while demands sum up to `total`: all of it up to the full engine, else
    /// in proportion, rounded down.
    pub(crate) const fn done_in(time: Ns, total: Permille) -> Self {
        if total.0 <= Permille::FULL.0 {
            return Self::of(time);
        }
        Self(
            match time.0.saturating_mul(1_000_000).checked_div(total.0 as u64) {
                Some(ps) => ps,
                None => 0,
            },
        )
    }

    /// Time until this work is done while demands sum up to `total`, rounded up, so that
    /// [`Ps::done_in`] of it is at least `self`.
    pub(crate) const fn time_at(self, total: Permille) -> Ns {
        if total.0 <= Permille::FULL.0 {
            return Ns(self.0.div_ceil(1_000));
        }
        Ns(self.0.saturating_mul(total.0 as u64).div_ceil(1_000_000))
    }

    /// The next multiple of `block` at or above this amount.
    pub(crate) const fn next_multiple(self, block: Self) -> Self {
        match self.0.checked_next_multiple_of(block.0) {
            Some(next) => Self(next),
            None => self,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_measures))]
mod tests {
    use super::*;

    #[test]
    fn alone_or_below_full_demand_runs_at_full_speed() {
        assert_eq!(Ps::done_in(Ns(7), Permille(1_000)), Ps(7_000));
        assert_eq!(Ps::done_in(Ns(7), Permille(3)), Ps(7_000));
        assert_eq!(Ps(7_001).time_at(Permille(1_000)), Ns(8));
    }

    #[test]
    fn shared_progress_is_proportional_and_rounded_down() {
        assert_eq!(Ps::done_in(Ns(1_000), Permille(2_000)), Ps(500_000));
        assert_eq!(Ps::done_in(Ns(1), Permille(3_000)), Ps(333));
    }

    #[test]
    fn work_is_done_at_the_time_told() {
        let mut total = 1;
        while total < 16_000 {
            let work = Ps(123_457);
            assert!(Ps::done_in(work.time_at(Permille(total)), Permille(total)) >= work);
            total += 37;
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Ns::NEVER.plus(Ns(1)), Ns::NEVER);
        assert_eq!(Ns(1).since(Ns(2)), Ns::ZERO);
        assert_eq!(Us(u32::MAX).ns(), Ns(4_294_967_295_000));
        assert_eq!(Ps(5).next_multiple(Ps(0)), Ps(5));
        assert_eq!(
            Ps(u64::MAX).time_at(Permille(16_000)),
            Ns(18_446_744_073_710)
        );
    }
}
