// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The GPU time of a request after its switch: learned per key, and the trust in a user's bursts.
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

/// The factor by which a user's bursts are longer than told and learned, in sixteenths.
///
/// It rises to the worst at once, and falls by an eighth of the way to that of each burst that is not as much
/// longer. So a tenant with a new key for each lie has one of them believed, and one whose lies are alike
/// has no other. A burst of less than [`Self::LEAST`] counts as that: a small error in a short one is no lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trust(u64);

impl Trust {
    const ONE: u64 = 16;
    /// A microsecond that becomes a second.
    const MOST: u64 = Self::ONE << 20;
    const LEAST: Ns = Ns(1_000);

    /// Its bursts are as told.
    pub(crate) const NEW: Self = Self(Self::ONE);

    /// The factor.
    fn sixteenths(self) -> u64 {
        self.0
    }

    /// The burst to count with where this one is told or learned.
    pub(crate) fn applied(self, burst: Ns) -> Ns {
        let burst = match self {
            Self::NEW => burst,
            _ => burst.max(Self::LEAST),
        };
        let parts = burst.min(HORIZON).0.saturating_mul(self.0);
        Ns(parts.div_ceil(Self::ONE)).min(HORIZON)
    }

    /// After a burst that was told or learned as `said`.
    #[must_use]
    pub(crate) fn after(self, said: Ns, took: Ns) -> Self {
        let took = took.min(HORIZON).0.saturating_mul(Self::ONE);
        let factor = took.div_ceil(said.max(Self::LEAST).0).min(Self::MOST);
        let factor = factor.max(Self::ONE);
        Self(match factor >= self.0 {
            true => factor,
            false => self.0 - (self.0 - factor).div_ceil(8),
        })
    }
}

/// The users that are not trusted in full. The worst are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trusts([Option<(u32, Trust)>; Trusts::MOST]);

impl Trusts {
    /// Users that are remembered.
    const MOST: usize = 32;

    /// All are trusted.
    pub(crate) const NONE: Self = Self([None; Self::MOST]);

    /// The trust in a user.
    pub(crate) fn of(&self, user: u32) -> Trust {
        let mut known = self.0.iter().flatten();
        let found = known.find(|(other, _)| *other == user);
        found.map_or(Trust::NEW, |(_, trust)| *trust)
    }

    /// A burst of a user took this time at least: it lowers no trust that was lower.
    pub(crate) fn note_least(&mut self, user: u32, said: Ns, least: Ns) {
        let trust = self.of(user);
        if trust.after(said, least).sixteenths() > trust.sixteenths() {
            self.note(user, said, least);
        }
    }

    /// A burst of a user, which was told or learned as `said`.
    pub(crate) fn note(&mut self, user: u32, said: Ns, took: Ns) {
        let trust = self.of(user).after(said, took);
        let is_its = |place: &Option<(u32, Trust)>| place.is_some_and(|(other, _)| other == user);
        let own = self.0.iter_mut().find(|place| is_its(place));
        if trust == Trust::NEW {
            if let Some(place) = own {
                *place = None;
            }
            return;
        }
        // Its own, else a free one, else that of the one that is trusted most.
        let factor = |place: &Option<(u32, Trust)>| match place {
            _ if is_its(place) => 0,
            None => 1,
            Some((_, trust)) => trust.sixteenths(),
        };
        let place = self.0.iter_mut().min_by_key(|place| factor(place));
        if let Some(place) = place {
            if factor(place) < trust.sixteenths() {
                *place = Some((user, trust));
            }
        }
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
    fn one_lie_is_believed() {
        let told = Ns(1_000);
        let trust = Trust::NEW.after(told, Ns(500_000));
        assert_eq!(Trust::NEW.applied(told), told);
        assert_eq!(trust.applied(told), Ns(500_000));
        // With another key, too, and for twenty requests.
        let mut trust = trust;
        for _ in 0..20 {
            assert!(trust.applied(told) > Ns(30_000));
            trust = trust.after(told, told);
        }
        for _ in 0..60 {
            trust = trust.after(told, told);
        }
        assert_eq!(trust, Trust::NEW);
    }

    #[test]
    fn lies_that_are_alike_are_not_believed_again() {
        let (told, took) = (Ns(1_000), Ns(500_000));
        let mut trust = Trust::NEW;
        for _ in 0..50 {
            trust = trust.after(told, took);
            assert_eq!(trust.applied(told), took);
        }
        // A worse one between them does not hide them.
        trust = trust.after(told, Ns(900_000));
        for _ in 0..50 {
            trust = trust.after(told, took);
            assert!(trust.applied(told) >= took);
        }
    }

    #[test]
    fn a_nanosecond_is_told_as_a_microsecond() {
        let short = Ns(1);
        assert_eq!(Trust::NEW.after(short, Ns(900)), Trust::NEW);
        let trust = Trust::NEW.after(short, Ns(50_000));
        assert_eq!(trust.applied(Ns(1_000)), Ns(50_000));
        // As a lie it is none the better for it.
        assert_eq!(trust.applied(short), Ns(50_000));
        assert_eq!(Trust::NEW.applied(short), short);
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
        let mut trusts = Trusts::NONE;
        trusts.note_least(1, Ns(1_000), Ns(500_000));
        let trust = trusts.of(1);
        assert_eq!(trust.applied(Ns(1_000)), Ns(500_000));
        for least in [0, 1_000, 500_000] {
            trusts.note_least(1, Ns(1_000), Ns(least));
            assert_eq!(trusts.of(1), trust);
        }
    }

    #[test]
    fn no_burst_overflows_trust() {
        for said in [0, 1, u64::MAX] {
            for took in [0, 1, u64::MAX] {
                let trust = Trust::NEW.after(Ns(said), Ns(took));
                assert!(trust.applied(Ns(u64::MAX)) <= HORIZON);
                assert!((Trust::ONE..=Trust::MOST).contains(&trust.sixteenths()));
            }
        }
    }

    #[test]
    fn the_worst_are_remembered() {
        let mut trusts = Trusts::NONE;
        let users = 3 * Trusts::MOST as u32;
        for user in 0..users {
            trusts.note(user, Ns(1_000), Ns(1_000 * u64::from(user + 2)));
        }
        for user in 0..users {
            let is_known = trusts.of(user) != Trust::NEW;
            assert_eq!(is_known, user >= users - Trusts::MOST as u32);
        }
        // One that is trusted again is forgotten.
        for _ in 0..200 {
            trusts.note(users - 1, Ns(1_000), Ns(1_000));
        }
        assert_eq!(trusts.of(users - 1), Trust::NEW);
        trusts.note(users, Ns(1_000), Ns(2_000));
        assert!(trusts.of(users) != Trust::NEW);
    }
}
