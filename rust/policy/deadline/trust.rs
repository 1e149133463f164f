// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The trust in a user's bursts.
//!
//! A burst that was told short raises a factor, by which all bursts of the user count from then on, but for no
//! longer than the longest of those: one whose length is learned by now counts as learned. The factor falls with
//! time, and with bursts that were no longer than counted with, by their time. That is the time from the end of
//! the switch to *done* on the clock, and not that of the GPU: a request that has the GPU and leaves it idle
//! proves as much as one that uses it. One that is over at once proves nothing.
//!
//! Others stretch a burst, too: the time for which they had something to run, and data that was late, double the
//! factor at most.

use super::HORIZON;
use crate::policy::units::Ns;

/// A factor, in sixteenths.
///
/// A burst of less than [`Self::LEAST`] counts as that: a small error in a short one is no lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Factor(u64);

impl Factor {
    const ONE: Self = Self(16);
    /// A microsecond that becomes a second.
    const MOST: u64 = Self::ONE.0 << 20;
    const LEAST: Ns = Ns(1_000);

    fn applied(self, burst: Ns) -> Ns {
        let burst = match self {
            Self::ONE => burst,
            _ => burst.max(Self::LEAST),
        };
        let parts = burst.min(HORIZON).0.saturating_mul(self.0);
        Ns(parts.div_ceil(Self::ONE.0)).min(HORIZON)
    }

    /// That of a burst which was told or learned as `said`.
    fn shown(said: Ns, took: Ns) -> Self {
        let took = took.min(HORIZON).0.saturating_mul(Self::ONE.0);
        let factor = took.div_ceil(said.max(Self::LEAST).0);
        Self(factor.clamp(Self::ONE.0, Self::MOST))
    }

    fn twice(self) -> Self {
        Self(self.0.saturating_mul(2).min(Self::MOST))
    }

    /// The part above one is so much less: divided by this power of two.
    fn halved(self, times: u64) -> Self {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let excess = self.0.saturating_sub(Self::ONE.0);
        Self(Self::ONE.0 + excess.checked_shr(times).unwrap_or(0))
    }

    /// The part above one is less by an eighth.
    fn proven(self) -> Self {
        let excess = self.0.saturating_sub(Self::ONE.0);
        Self(Self::ONE.0 + excess - excess.div_ceil(8))
    }
}

/// The trust in a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trust {
    factor: Factor,
    /// No burst counts for longer by the factor.
    most: Ns,
}

impl Trust {
    /// Its bursts are as told.
    pub(crate) const NEW: Self = Self {
        factor: Factor::ONE,
        most: Ns::ZERO,
    };

    /// The burst to count with where this one is told or learned.
    pub(crate) fn applied(self, burst: Ns) -> Ns {
        let burst = burst.min(HORIZON);
        self.factor.applied(burst).min(self.most).max(burst)
    }
}

/// The time of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    /// As it was told or learned.
    pub(crate) said: Ns,
    /// From the end of its switch to its end.
    pub(crate) took: Ns,
    /// So much of that may be others'.
    pub(crate) shared: Ns,
}

impl Burst {
    /// The factor that it shows, beside one that is so high.
    fn shown(&self, known: Factor) -> Factor {
        let own = Factor::shown(self.said, self.took.saturating_sub(self.shared));
        let all = Factor::shown(self.said, self.took);
        own.max(all.min(known.twice()))
    }
}

/// A user that is not trusted in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    user: u32,
    factor: Factor,
    /// The longest burst of those that it lied about.
    lie: Ns,
    /// Time of bursts that were no longer than counted with, since the factor rose or fell by it.
    proven: Ns,
    /// The last of its bursts: those before were over by then.
    noted: Ns,
    /// The factor has fallen with time up to there.
    since: Ns,
}

impl Known {
    fn trust(&self) -> Trust {
        match self.factor {
            Factor::ONE => Trust::NEW,
            factor => Trust {
                factor,
                most: self.lie,
            },
        }
    }

    /// As of now.
    fn at(mut self, now: Ns) -> Self {
        let times = now.saturating_sub(self.since).0 / HORIZON.0;
        self.factor = self.factor.halved(times);
        let passed = Ns(times.saturating_mul(HORIZON.0));
        self.since = self.since.saturating_add(passed);
        self
    }

    /// A burst that was no longer than counted with. Those of all its requests together prove no more than the
    /// time that has passed.
    fn prove(&mut self, burst: &Burst, now: Ns) {
        let used = burst.took.min(now.saturating_sub(self.noted)).min(self.lie);
        self.noted = self.noted.max(now);
        self.proven = self.proven.saturating_add(used);
        if self.proven >= self.lie {
            self.proven = self.proven.saturating_sub(self.lie);
            let shown = Factor::shown(burst.said, burst.took);
            self.factor = self.factor.proven().max(shown);
        }
    }
}

/// The users that are not trusted in full. The worst are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trusts([Option<Known>; Trusts::MOST]);

impl Trusts {
    /// Users that are remembered.
    const MOST: usize = 32;

    /// All are trusted.
    pub(crate) const NONE: Self = Self([None; Self::MOST]);

    /// The trust in a user.
    pub(crate) fn of(&self, user: u32, now: Ns) -> Trust {
        let mut known = self.0.iter().flatten();
        let found = known.find(|known| known.user == user);
        found.map_or(Trust::NEW, |known| known.at(now).trust())
    }

    /// Time has passed, and some are trusted again.
    fn pass(&mut self, now: Ns) {
        for place in &mut self.0 {
            *place = place
                .map(|known| known.at(now))
                .filter(|known| known.factor > Factor::ONE);
        }
    }

    fn known(&mut self, user: u32) -> Option<&mut Known> {
        self.0.iter_mut().flatten().find(|k| k.user == user)
    }

    /// A burst of a user that was promised. Returns true if its bursts count for longer from now on.
    pub(crate) fn note(&mut self, user: u32, burst: &Burst, now: Ns) -> bool {
        let is_lie = self.raise(user, burst, now);
        if !is_lie {
            self.note_used(user, burst, now);
        }
        is_lie
    }

    /// One took this time at least: it proves nothing. As [`Self::note`].
    pub(crate) fn note_least(&mut self, user: u32, burst: &Burst, now: Ns) -> bool {
        self.raise(user, burst, now)
    }

    /// A burst that nobody counted on is no lie, but proves its time.
    pub(crate) fn note_used(&mut self, user: u32, burst: &Burst, now: Ns) {
        self.pass(now);
        if let Some(known) = self.known(user) {
            let is_counted = burst.took <= known.trust().applied(burst.said);
            if is_counted && Factor::shown(burst.said, burst.took) < known.factor {
                known.prove(burst, now);
            }
        }
    }

    /// Returns false if the user is trusted no more than the burst shows.
    fn raise(&mut self, user: u32, burst: &Burst, now: Ns) -> bool {
        self.pass(now);
        let took = burst.took.min(HORIZON);
        let fresh = |factor| Known {
            user,
            factor,
            lie: took,
            proven: Ns::ZERO,
            noted: now,
            since: now,
        };
        if let Some(known) = self.known(user) {
            let shown = burst.shown(known.factor);
            let lie = took.max(known.lie);
            if shown == Factor::ONE {
                return false;
            }
            if shown >= known.factor {
                *known = Known {
                    lie,
                    ..fresh(shown)
                };
                return true;
            }
            // It was counted with for less, as no lie was that long.
            let is_longer = took > known.trust().applied(burst.said);
            if is_longer {
                known.lie = lie;
            }
            return is_longer;
        }
        let shown = burst.shown(Factor::ONE);
        if shown == Factor::ONE {
            return false;
        }
        // A free place, else that of the one that is trusted most.
        let factor = |place: &Option<Known>| place.map(|known| known.factor);
        let place = self.0.iter_mut().min_by_key(|place| factor(place));
        if let Some(place) = place.filter(|place| factor(place) < Some(shown)) {
            *place = Some(fresh(shown));
        }
        true
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_trust))]
mod tests {
    use super::*;

    const USER: u32 = 7;
    const MS: u64 = 1_000_000;
    const NOW: Ns = Ns(5 * MS);
    const SAID: Ns = Ns(1_000);

    /// One of nobody else's time.
    fn own(said: Ns, took: Ns) -> Burst {
        Burst {
            said,
            took,
            shared: Ns::ZERO,
        }
    }

    /// One of anybody's time.
    fn shared(said: Ns, took: Ns) -> Burst {
        Burst {
            said,
            took,
            shared: took,
        }
    }

    /// One that told 10 ms as a microsecond.
    fn liar() -> Trusts {
        let mut trusts = Trusts::NONE;
        assert!(trusts.note(USER, &own(SAID, Ns(10 * MS)), NOW));
        trusts
    }

    #[test]
    fn one_lie_is_believed() {
        let trusts = liar();
        assert_eq!(Trust::NEW.applied(SAID), SAID);
        assert_eq!(trusts.of(USER, NOW).applied(SAID), Ns(10 * MS));
        // Of another user.
        assert_eq!(trusts.of(1, NOW), Trust::NEW);
    }

    #[test]
    fn a_burst_that_is_learned_does_not_count_twice() {
        let mut trusts = Trusts::NONE;
        trusts.note(USER, &own(Ns(2 * MS), Ns(18 * MS)), NOW);
        let applied = |trusts: &Trusts, said| trusts.of(USER, NOW).applied(Ns(said));
        // Its own key has learned it. Those of others have not.
        assert_eq!(applied(&trusts, 18 * MS), Ns(18 * MS));
        assert_eq!(applied(&trusts, 20 * MS), Ns(20 * MS));
        assert_eq!(applied(&trusts, 2 * MS), Ns(18 * MS));
        assert_eq!(applied(&trusts, MS / 5), Ns(9 * MS / 5));
        // A longer lie counts for longer, be its factor as it may.
        assert!(trusts.note(USER, &own(Ns(20 * MS), Ns(30 * MS)), NOW));
        assert_eq!(applied(&trusts, 20 * MS), Ns(30 * MS));
        assert_eq!(applied(&trusts, 2 * MS), Ns(18 * MS));
        assert!(!trusts.note(USER, &own(Ns(20 * MS), Ns(30 * MS)), NOW));
    }

    #[test]
    fn the_time_of_others_doubles_the_factor_at_most() {
        let mut trusts = Trusts::NONE;
        for factor in [2, 4, 8, 16, 20, 20] {
            trusts.note_least(USER, &shared(Ns(MS), Ns(20 * MS)), NOW);
            assert_eq!(trusts.of(USER, NOW).applied(Ns(MS)), Ns(factor * MS));
        }
        trusts.note_least(1, &shared(Ns(MS), Ns(MS)), NOW);
        assert_eq!(trusts.of(1, NOW), Trust::NEW);
        // But for the time that was its own.
        let burst = Burst {
            shared: Ns(15 * MS),
            ..own(Ns(MS), Ns(20 * MS))
        };
        trusts.note(2, &burst, NOW);
        assert_eq!(trusts.of(2, NOW).applied(Ns(MS)), Ns(5 * MS));
    }

    #[test]
    fn promises_that_are_not_used_prove_nothing() {
        let mut trusts = liar();
        for _ in 0..1_000 {
            trusts.note(USER, &own(SAID, Ns::ZERO), NOW);
            trusts.note(USER, &own(Ns(10 * MS), Ns(100)), NOW);
            trusts.note_used(USER, &own(SAID, Ns::ZERO), NOW);
            trusts.note_least(USER, &own(SAID, Ns::ZERO), NOW);
        }
        assert_eq!(trusts.of(USER, NOW).applied(SAID), Ns(10 * MS));
        // Nor do many at a time prove more than the time that passes.
        let then = Ns(NOW.0 + 10 * MS);
        for _ in 0..1_000 {
            trusts.note(USER, &own(Ns(10 * MS), Ns(10 * MS)), then);
        }
        let applied = trusts.of(USER, then).applied(SAID);
        assert!(applied < Ns(9 * MS) && applied > Ns(8 * MS));
    }

    #[test]
    fn the_time_of_the_lie_is_proven_for_an_eighth() {
        let mut trusts = liar();
        let mut now = NOW;
        let mut eighths = 0;
        for step in 1..=800 {
            // In hundredths of the time of the lie.
            now = now.saturating_add(Ns(MS / 10));
            let before = trusts.of(USER, now).applied(SAID);
            match step % 2 {
                0 => {
                    trusts.note(USER, &own(SAID, Ns(MS / 10)), now);
                }
                _ => trusts.note_used(USER, &own(Ns(MS / 10), Ns(MS / 10)), now),
            }
            eighths += u32::from(trusts.of(USER, now).applied(SAID) < before);
        }
        assert!(eighths <= 8 && eighths > 0);
        // A lie that shows less does not end it, and is no less believed for it.
        trusts.note(USER, &own(SAID, Ns(10 * MS)), now);
        trusts.note(USER, &own(SAID, Ns(2 * MS)), now);
        assert_eq!(trusts.of(USER, now).applied(SAID), Ns(10 * MS));
    }

    #[test]
    fn lies_that_are_alike_are_not_believed_again() {
        let mut trusts = Trusts::NONE;
        let (took, mut now) = (Ns(500_000), NOW);
        trusts.note(USER, &own(SAID, Ns(900_000)), now);
        for _ in 0..50 {
            now = now.saturating_add(took);
            trusts.note(USER, &own(SAID, took), now);
            assert!(trusts.of(USER, now).applied(SAID) >= took);
        }
    }

    #[test]
    fn trust_comes_back_with_time() {
        let trusts = liar();
        let after = |seconds: u64| trusts.of(USER, Ns(NOW.0 + seconds * 1_000 * MS));
        assert_eq!(after(9).applied(SAID), Ns(10 * MS));
        let half = after(10).applied(SAID);
        assert!(half > Ns(5 * MS) && half < Ns(6 * MS));
        assert_eq!(after(240).applied(SAID), SAID);
        // Of any lie.
        let mut trusts = Trusts::NONE;
        trusts.note(USER, &own(SAID, HORIZON), NOW);
        let then = trusts.of(USER, Ns(NOW.0 + 250_000 * MS));
        assert_eq!(then.applied(SAID), SAID);
        trusts.note(1, &own(SAID, HORIZON), Ns(u64::MAX));
        assert!(trusts.known(USER).is_none());
    }

    #[test]
    fn what_nobody_counted_on_is_no_lie() {
        let mut trusts = Trusts::NONE;
        trusts.note_used(USER, &own(SAID, Ns(10 * MS)), NOW);
        assert_eq!(trusts.of(USER, NOW), Trust::NEW);
        trusts.note(USER, &own(SAID, Ns(2_000)), NOW);
        let trust = trusts.of(USER, NOW);
        trusts.note_used(USER, &own(SAID, Ns(10 * MS)), NOW);
        assert_eq!(trusts.of(USER, NOW), trust);
    }

    #[test]
    fn a_nanosecond_is_told_as_a_microsecond() {
        let short = Ns(1);
        assert_eq!(Factor::shown(short, Ns(900)), Factor::ONE);
        let factor = Factor::shown(short, Ns(50_000));
        assert_eq!(factor.applied(SAID), Ns(50_000));
        // As a lie it is none the better for it.
        assert_eq!(factor.applied(short), Ns(50_000));
        assert_eq!(Trust::NEW.applied(short), short);
    }

    #[test]
    fn the_least_time_lowers_no_factor() {
        let mut trusts = Trusts::NONE;
        trusts.note_least(1, &own(SAID, Ns(500_000)), NOW);
        let trust = trusts.of(1, NOW);
        assert_eq!(trust.applied(SAID), Ns(500_000));
        for least in [0, 1_000, 500_000] {
            trusts.note_least(1, &own(SAID, Ns(least)), NOW);
            assert_eq!(trusts.of(1, NOW), trust);
        }
    }

    #[test]
    fn no_burst_overflows_trust() {
        let all = [0, 1, 1_000, HORIZON.0, u64::MAX];
        let mut trusts = Trusts::NONE;
        for said in all {
            for took in all {
                for now in all {
                    let (said, took) = (Ns(said), Ns(took));
                    for burst in [shared(said, took), own(said, took), shared(took, said)] {
                        trusts.note_least(1, &burst, Ns(now));
                        trusts.note(1, &burst, Ns(now));
                        trusts.note_used(1, &burst, Ns(now));
                    }
                    let trust = trusts.of(1, Ns(now));
                    assert!(trust.applied(Ns(u64::MAX)) <= HORIZON);
                    assert!(trust.factor >= Factor::ONE && trust.factor.0 <= Factor::MOST);
                }
            }
        }
    }

    #[test]
    fn the_worst_are_remembered() {
        let mut trusts = Trusts::NONE;
        let users = 3 * Trusts::MOST as u32;
        for user in 0..users {
            let took = Ns(1_000 * u64::from(user + 2));
            trusts.note(user, &own(SAID, took), NOW);
        }
        for user in 0..users {
            let is_known = trusts.of(user, NOW) != Trust::NEW;
            assert_eq!(is_known, user >= users - Trusts::MOST as u32);
        }
        // One that is trusted again is forgotten.
        let later = Ns(NOW.0 + 12 * HORIZON.0);
        trusts.note(users, &own(SAID, Ns(2_000)), later);
        assert!(trusts.of(users, later) != Trust::NEW);
        assert_eq!(trusts.0.iter().flatten().count(), 1);
    }
}
