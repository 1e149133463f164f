// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The GPU time of a request after its switch, learned per key.
//!
//! Mean and mean deviation are those of TCP's retransmission timer (Jacobson, Karels: *Congestion avoidance
//! and control*, 1988; RFC 6298): gains of 1/8 and 1/4, and the mean and four deviations as the bound. One
//! burst that is longer than the bound raises it to that burst at once.

use super::HORIZON;
use crate::policy::units::Ns;

/// The bursts of a key. No burst counts for longer than [`HORIZON`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bursts {
    /// Their mean; 0: none was seen.
    mean: Ns,
    /// Their mean deviation from it.
    deviation: Ns,
}

impl Bursts {
    /// None was seen.
    pub(crate) const NEW: Self = Self {
        mean: Ns::ZERO,
        deviation: Ns::ZERO,
    };

    /// One more, of this time from the end of the switch to done.
    pub(crate) fn observe(&mut self, took: Ns) {
        // As 0 stands for none.
        let took = took.clamp(Ns(1), HORIZON);
        if self.mean == Ns::ZERO {
            *self = Self {
                mean: took,
                deviation: Ns(took.0 / 2),
            };
            return;
        }
        let error = Ns(took.0.abs_diff(self.mean.0));
        self.deviation = follow(self.deviation, error, 4);
        self.mean = follow(self.mean, took, 8).max(Ns(1));
    }

    /// One took this time at least. It says nothing of those that are shorter, nor where none was seen.
    pub(crate) fn observe_least(&mut self, least: Ns) {
        if self.bound().is_some_and(|bound| least > bound) {
            self.observe(least);
        }
    }

    /// The time that a burst seldom exceeds: the mean and four mean deviations. `None`: none was seen.
    pub(crate) fn bound(&self) -> Option<Ns> {
        let spread = Ns(self.deviation.0.saturating_mul(4));
        (self.mean > Ns::ZERO).then(|| self.mean.saturating_add(spread).min(HORIZON))
    }
}

/// `old`, moved towards `new` by a part of the way, rounded up where that is longer.
fn follow(old: Ns, new: Ns, part: u64) -> Ns {
    match new > old {
        true => old.saturating_add(Ns((new.0 - old.0).div_ceil(part))),
        false => old.saturating_sub(Ns((old.0 - new.0) / part)),
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_burst))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_without_a_burst() {
        assert_eq!(Bursts::NEW.bound(), None);
    }

    #[test]
    fn the_first_counts_threefold() {
        let mut bursts = Bursts::NEW;
        bursts.observe(Ns(1_000));
        assert_eq!(bursts.bound(), Some(Ns(3_000)));
        for _ in 0..100 {
            bursts.observe(Ns(1_000));
        }
        // A deviation of less than four is no longer divided.
        assert!(bursts.bound() <= Some(Ns(1_012)));
    }

    #[test]
    fn a_long_one_is_covered_at_once() {
        let mut bursts = Bursts::NEW;
        for took in [1_000, 1_000, 1_001, 50_000, 7, 1_000_000, 1] {
            let before = bursts.bound();
            bursts.observe(Ns(took));
            let is_longer = before.is_none_or(|bound| Ns(took) > bound);
            assert!(!is_longer || bursts.bound() >= Some(Ns(took)));
        }
    }

    #[test]
    fn no_burst_is_beyond_the_horizon() {
        let mut bursts = Bursts::NEW;
        for took in [u64::MAX, 0, u64::MAX, 1, HORIZON.0] {
            bursts.observe(Ns(took));
            assert!(bursts.bound().is_some_and(|bound| bound <= HORIZON));
        }
    }

    #[test]
    fn the_least_time_makes_nothing_shorter() {
        let mut bursts = Bursts::NEW;
        bursts.observe_least(Ns(5_000));
        assert_eq!(bursts.bound(), None);
        bursts.observe(Ns(1_000));
        let bound = bursts.bound();
        bursts.observe_least(Ns(3_000));
        assert_eq!(bursts.bound(), bound);
        bursts.observe_least(Ns(5_000));
        assert!(bursts.bound() >= Some(Ns(5_000)));
    }
}
