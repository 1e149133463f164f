// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The trust in a user's bursts.
//!
//! A burst that was told short raises a factor, by which all bursts of the user count from then on. It falls
//! with time, and with GPU time that bursts are seen to have had: a request that has none proves nothing. A
//! burst that was late as its data was is no lie.

use super::HORIZON;
use crate::policy::units::Ns;

/// The factor by which a user's bursts are longer than told and learned, in sixteenths.
///
/// A burst of less than [`Self::LEAST`] counts as that: a small error in a short one is no lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Trust(u64);

impl Trust {
    const ONE: u64 = 16;
    /// A microsecond that becomes a second.
    const MOST: u64 = Self::ONE << 20;
    const LEAST: Ns = Ns(1_000);

    /// Its bursts are as told.
    pub(crate) const NEW: Self = Self(Self::ONE);

    /// The burst to count with where this one is told or learned.
    pub(crate) fn applied(self, burst: Ns) -> Ns {
        let burst = match self {
            Self::NEW => burst,
            _ => burst.max(Self::LEAST),
        };
        let parts = burst.min(HORIZON).0.saturating_mul(self.0);
        Ns(parts.div_ceil(Self::ONE)).min(HORIZON)
    }

    /// That of a burst which was told or learned as `said`.
    fn shown(said: Ns, took: Ns) -> Self {
        let took = took.min(HORIZON).0.saturating_mul(Self::ONE);
        let factor = took.div_ceil(said.max(Self::LEAST).0);
        Self(factor.clamp(Self::ONE, Self::MOST))
    }

    fn twice(self) -> Self {
        Self(self.0.saturating_mul(2).min(Self::MOST))
    }

    /// The part above one is so much less: divided by this power of two.
    fn halved(self, times: u64) -> Self {
        let times = u32::try_from(times).unwrap_or(u32::MAX);
        let excess = self.0.saturating_sub(Self::ONE);
        Self(Self::ONE + excess.checked_shr(times).unwrap_or(0))
    }

    /// The part above one is less by an eighth.
    fn proven(self) -> Self {
        let excess = self.0.saturating_sub(Self::ONE);
        Self(Self::ONE + excess - excess.div_ceil(8))
    }
}

/// A user that is not trusted in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Known {
    user: u32,
    trust: Trust,
    /// The longest burst of those that it lied about.
    lie: Ns,
    /// GPU time of bursts that were no longer than counted with, since the factor rose or fell by it.
    proven: Ns,
    /// The last of its bursts: those before had the GPU up to then at most.
    noted: Ns,
    /// The factor has fallen with time up to there.
    since: Ns,
}

impl Known {
    /// As of now.
    fn at(mut self, now: Ns) -> Self {
        let times = now.saturating_sub(self.since).0 / HORIZON.0;
        self.trust = self.trust.halved(times);
        let passed = Ns(times.saturating_mul(HORIZON.0));
        self.since = self.since.saturating_add(passed);
        self
    }

    /// A burst that was no longer than counted with. Those of all its requests together prove no more than the
    /// time that has passed.
    fn prove(&mut self, shown: Trust, took: Ns, now: Ns) {
        let used = took.min(now.saturating_sub(self.noted)).min(self.lie);
        self.noted = self.noted.max(now);
        self.proven = self.proven.saturating_add(used);
        if self.proven >= self.lie {
            self.proven = self.proven.saturating_sub(self.lie);
            self.trust = self.trust.proven().max(shown);
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
        found.map_or(Trust::NEW, |known| known.at(now).trust)
    }

    /// Time has passed, and some are trusted again.
    fn pass(&mut self, now: Ns) {
        for place in &mut self.0 {
            *place = place
                .map(|known| known.at(now))
                .filter(|known| known.trust > Trust::NEW);
        }
    }

    fn known(&mut self, user: u32) -> Option<&mut Known> {
        self.0.iter_mut().flatten().find(|k| k.user == user)
    }

    /// A burst of a user that was promised, and told or learned as `said`.
    pub(crate) fn note(&mut self, user: u32, said: Ns, took: Ns, now: Ns) {
        if !self.raise(user, Trust::shown(said, took), took, now) {
            self.note_used(user, said, took, now);
        }
    }

    /// One took this time at least: it proves nothing.
    pub(crate) fn note_least(&mut self, user: u32, said: Ns, least: Ns, now: Ns) {
        self.raise(user, Trust::shown(said, least), least, now);
    }

    /// One held the GPU for so long, for data that did not come. That is no lie, but not for nothing either: it
    /// doubles the factor at most.
    pub(crate) fn note_late(&mut self, user: u32, said: Ns, held: Ns, now: Ns) {
        let most = self.of(user, now).twice();
        self.raise(user, Trust::shown(said, held).min(most), held, now);
    }

    /// A burst that nobody counted on is no lie, but proves GPU time.
    pub(crate) fn note_used(&mut self, user: u32, said: Ns, took: Ns, now: Ns) {
        let shown = Trust::shown(said, took);
        self.pass(now);
        if let Some(known) = self.known(user) {
            if shown < known.trust {
                known.prove(shown, took, now);
            }
        }
    }

    /// A burst that shows this. Returns false if the user is trusted no more than that.
    fn raise(&mut self, user: u32, shown: Trust, took: Ns, now: Ns) -> bool {
        self.pass(now);
        let fresh = Known {
            user,
            trust: shown,
            lie: took,
            proven: Ns::ZERO,
            noted: now,
            since: now,
        };
        if let Some(known) = self.known(user) {
            let is_worse = shown >= known.trust;
            if is_worse {
                *known = Known {
                    lie: took.max(known.lie),
                    ..fresh
                };
            }
            return is_worse;
        }
        if shown == Trust::NEW {
            return false;
        }
        // A free place, else that of the one that is trusted most.
        let trust = |place: &Option<Known>| place.map(|known| known.trust);
        let place = self.0.iter_mut().min_by_key(|place| trust(place));
        if let Some(place) = place.filter(|place| trust(place) < Some(shown)) {
            *place = Some(fresh);
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

    /// One that told 10 ms as a microsecond.
    fn liar() -> Trusts {
        let mut trusts = Trusts::NONE;
        trusts.note(USER, SAID, Ns(10 * MS), NOW);
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
    fn promises_that_are_not_used_prove_nothing() {
        let mut trusts = liar();
        for _ in 0..1_000 {
            trusts.note(USER, SAID, Ns::ZERO, NOW);
            trusts.note(USER, Ns(10 * MS), Ns(100), NOW);
            trusts.note_used(USER, SAID, Ns::ZERO, NOW);
            trusts.note_least(USER, SAID, Ns::ZERO, NOW);
        }
        assert_eq!(trusts.of(USER, NOW).applied(SAID), Ns(10 * MS));
        // Nor do many at a time prove more than the time that passes.
        let then = Ns(NOW.0 + 10 * MS);
        for _ in 0..1_000 {
            trusts.note(USER, Ns(10 * MS), Ns(10 * MS), then);
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
            let before = trusts.of(USER, now);
            match step % 2 {
                0 => trusts.note(USER, SAID, Ns(MS / 10), now),
                _ => trusts.note_used(USER, Ns(MS / 10), Ns(MS / 10), now),
            }
            eighths += u32::from(trusts.of(USER, now) < before);
        }
        assert!(eighths <= 8 && eighths > 0);
        // A lie that shows less does not end it, and is no less believed for it.
        trusts.note(USER, SAID, Ns(10 * MS), now);
        trusts.note(USER, SAID, Ns(2 * MS), now);
        assert_eq!(trusts.of(USER, now).applied(SAID), Ns(10 * MS));
    }

    #[test]
    fn lies_that_are_alike_are_not_believed_again() {
        let mut trusts = Trusts::NONE;
        let (took, mut now) = (Ns(500_000), NOW);
        trusts.note(USER, SAID, Ns(900_000), now);
        for _ in 0..50 {
            now = now.saturating_add(took);
            trusts.note(USER, SAID, took, now);
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
        assert_eq!(after(240), Trust::NEW);
        // Of any lie.
        let mut trusts = Trusts::NONE;
        trusts.note(USER, SAID, HORIZON, NOW);
        assert_eq!(trusts.of(USER, Ns(NOW.0 + 250_000 * MS)), Trust::NEW);
        trusts.note(1, SAID, HORIZON, Ns(u64::MAX));
        assert!(trusts.known(USER).is_none());
    }

    #[test]
    fn late_data_doubles_the_factor_at_most() {
        let mut trusts = Trusts::NONE;
        for factor in [2, 4, 8, 16, 20, 20] {
            trusts.note_late(USER, Ns(MS), Ns(20 * MS), NOW);
            assert_eq!(trusts.of(USER, NOW).applied(Ns(MS)), Ns(factor * MS));
        }
        trusts.note_late(1, Ns(MS), Ns(MS), NOW);
        assert_eq!(trusts.of(1, NOW), Trust::NEW);
    }

    #[test]
    fn what_nobody_counted_on_is_no_lie() {
        let mut trusts = Trusts::NONE;
        trusts.note_used(USER, SAID, Ns(10 * MS), NOW);
        assert_eq!(trusts.of(USER, NOW), Trust::NEW);
        trusts.note(USER, SAID, Ns(2_000), NOW);
        let trust = trusts.of(USER, NOW);
        trusts.note_used(USER, SAID, Ns(10 * MS), NOW);
        assert_eq!(trusts.of(USER, NOW), trust);
    }

    #[test]
    fn a_nanosecond_is_told_as_a_microsecond() {
        let short = Ns(1);
        assert_eq!(Trust::shown(short, Ns(900)), Trust::NEW);
        let trust = Trust::shown(short, Ns(50_000));
        assert_eq!(trust.applied(SAID), Ns(50_000));
        // As a lie it is none the better for it.
        assert_eq!(trust.applied(short), Ns(50_000));
        assert_eq!(Trust::NEW.applied(short), short);
    }

    #[test]
    fn the_least_time_lowers_no_factor() {
        let mut trusts = Trusts::NONE;
        trusts.note_least(1, SAID, Ns(500_000), NOW);
        let trust = trusts.of(1, NOW);
        assert_eq!(trust.applied(SAID), Ns(500_000));
        for least in [0, 1_000, 500_000] {
            trusts.note_least(1, SAID, Ns(least), NOW);
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
                    trusts.note_late(1, Ns(said), Ns(took), Ns(now));
                    trusts.note(1, Ns(said), Ns(took), Ns(now));
                    trusts.note_used(1, Ns(said), Ns(took), Ns(now));
                    let trust = trusts.of(1, Ns(now));
                    assert!(trust.applied(Ns(u64::MAX)) <= HORIZON);
                    assert!(trust >= Trust::NEW && trust.0 <= Trust::MOST);
                }
            }
        }
    }

    #[test]
    fn the_worst_are_remembered() {
        let mut trusts = Trusts::NONE;
        let users = 3 * Trusts::MOST as u32;
        for user in 0..users {
            trusts.note(user, SAID, Ns(1_000 * u64::from(user + 2)), NOW);
        }
        for user in 0..users {
            let is_known = trusts.of(user, NOW) != Trust::NEW;
            assert_eq!(is_known, user >= users - Trusts::MOST as u32);
        }
        // One that is trusted again is forgotten.
        let later = Ns(NOW.0 + 12 * HORIZON.0);
        trusts.note(users, SAID, Ns(2_000), later);
        assert!(trusts.of(users, later) != Trust::NEW);
        assert_eq!(trusts.0.iter().flatten().count(), 1);
    }
}
