// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time for which users hold requests of others: half of all, as deadlines cost nothing to state.

use super::HORIZON;
use crate::policy::units::Ns;

/// The time for which a user may hold requests of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Credit {
    user: u32,
    /// In halves of a nanosecond, so that none is lost however often it is counted.
    left: i64,
}

/// Those of all users that have not all of it.
///
/// # Invariants
///
/// No user has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Credits {
    users: [Option<Credit>; Credits::ROOM],
    /// All are counted up to there.
    at: Ns,
}

impl Credits {
    /// Users that hold others at a time, or did lately. Others take nothing.
    const ROOM: usize = 32;
    /// A user that held nobody for long has so much: 100 ms.
    const FULL: i64 = 200_000_000;
    /// A user takes the GPU with so much, for two switches and calls of the provider to be worth it: 10 ms.
    const TAKES: i64 = 20_000_000;
    /// No time is longer: sums of such have room.
    const LONGEST: u64 = 1 << 60;
    /// No debt is greater.
    const LEAST: i64 = -2 * (HORIZON.0 as i64);

    /// All have all of it.
    pub(super) const fn new() -> Self {
        // INVARIANT: There is none.
        Self {
            users: [None; Self::ROOM],
            at: Ns::ZERO,
        }
    }

    fn known(&self, user: u32) -> Option<&Credit> {
        self.users.iter().flatten().find(|c| c.user == user)
    }

    /// That of a user, which has a place from now on; `None`: there is none.
    fn of(&mut self, user: u32) -> Option<&mut Credit> {
        let is_of = |credit: &Option<Credit>| credit.is_some_and(|credit| credit.user == user);
        let own = self.users.iter().position(is_of);
        // INVARIANT: A free place is taken where the user has none.
        let place = own.or_else(|| self.users.iter().position(Option::is_none))?;
        // Just below all of it, so that the place is kept until it is used.
        let fresh = Credit {
            user,
            left: Self::FULL - 1,
        };
        Some(self.users.get_mut(place)?.get_or_insert(fresh))
    }

    /// True if a user may hold requests of others for longer, as of [`Self::pass`].
    pub(super) fn may_hold(&mut self, user: u32) -> bool {
        self.of(user).is_some_and(|credit| credit.left > 0)
    }

    /// True if a user may hold requests of others from now on, likewise.
    pub(super) fn may_take(&mut self, user: u32) -> bool {
        self.of(user)
            .is_some_and(|credit| credit.left >= Self::TAKES)
    }

    /// Time has passed. `holds`: the user of each TSG of others that was held meanwhile, which pays for that. Half
    /// of the time comes back afterwards, as what is beyond all of it is lost: the price of a hold is the
    /// same in one piece and in many.
    pub(super) fn pass(&mut self, holds: impl Iterator<Item = u32>, now: Ns) {
        let passed = now.saturating_sub(self.at).0.min(Self::LONGEST) as i64;
        self.at = self.at.max(now);
        if passed == 0 {
            return;
        }
        for user in holds {
            if let Some(credit) = self.of(user) {
                credit.left = credit.left.saturating_sub(2 * passed);
            }
        }
        for place in &mut self.users {
            if let Some(credit) = place {
                let left = credit.left.saturating_add(passed);
                credit.left = left.max(Self::LEAST);
            }
            if place.is_some_and(|credit| credit.left >= Self::FULL) {
                *place = None;
            }
        }
    }

    /// When a user that holds so many TSGs of others has nothing left.
    pub(super) fn spent_at(&self, user: u32, holds: usize) -> Option<Ns> {
        let rate = u64::try_from(holds).ok()?.checked_mul(2)?.checked_sub(1)?;
        let left = self.known(user).map_or(Self::FULL, |credit| credit.left);
        let left = u64::try_from(left).unwrap_or(0);
        Some(self.at.saturating_add(Ns(left.div_ceil(rate))))
    }

    /// Credit in ns; the greater part where a user has two, which nobody has.
    #[cfg(any(test, zernel_kunit))]
    pub(super) fn left(&self, user: u32) -> i64 {
        let known = self.users.iter().flatten().filter(|c| c.user == user);
        known.map(|c| c.left).max().unwrap_or(Self::FULL) / 2
    }

    /// True if no user has two.
    #[cfg(any(test, zernel_kunit))]
    pub(super) fn is_sound(&self) -> bool {
        let all = || self.users.iter().flatten();
        all().all(|one| all().filter(|other| other.user == one.user).count() == 1)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_credit))]
mod tests {
    use super::*;

    const NOW: Ns = Ns(1_000);
    const MS: u64 = 1_000_000;

    /// A user holds another one's TSG up to then.
    fn hold(credits: &mut Credits, user: u32, now: Ns) {
        credits.pass([user].into_iter(), now);
    }

    /// Nobody holds any.
    fn rest(credits: &mut Credits, now: Ns) {
        credits.pass([].into_iter(), now);
    }

    #[test]
    fn users_without_a_place_for_their_credit_take_nothing() {
        let mut credits = Credits::new();
        rest(&mut credits, NOW);
        for user in 0..Credits::ROOM as u32 {
            assert!(credits.may_take(user));
        }
        assert!(!credits.may_take(u32::MAX) && !credits.may_hold(u32::MAX));
        // Those that have all of it need none.
        rest(&mut credits, Ns(NOW.0 + 1));
        assert!(credits.may_take(u32::MAX));
    }

    #[test]
    fn a_debt_outlasts_a_place_that_is_free_before_it() {
        let mut credits = Credits::new();
        rest(&mut credits, NOW);
        assert!(credits.may_take(1));
        hold(&mut credits, 1, Ns(10 * MS));
        assert!(credits.may_take(2));
        hold(&mut credits, 2, Ns(310 * MS));
        assert_eq!(credits.left(1), 100_000_000);
        assert_eq!(credits.left(2), -50_000_000);
        hold(&mut credits, 2, Ns(310 * MS + 1_000));
        assert!(!credits.may_hold(2) && !credits.may_take(2));
        assert!(credits.is_sound());
        assert_eq!(credits.left(2), -50_000_500);
    }

    #[test]
    fn a_hold_costs_the_same_in_one_piece_and_in_many() {
        for pieces in [1, 7, 1_000, 300_000] {
            let mut credits = Credits::new();
            assert!(credits.may_take(1));
            for piece in 1..=pieces {
                hold(&mut credits, 1, Ns(300 * MS * piece / pieces));
            }
            assert_eq!(credits.left(1), 100_000_000 - 150_000_000);
        }
    }

    #[test]
    fn credit_is_spent_when_it_says() {
        for holds in 1..5 {
            let mut credits = Credits::new();
            rest(&mut credits, NOW);
            assert!(credits.may_take(1));
            let at = credits.spent_at(1, holds).unwrap_or_default();
            for (now, expected) in [(at.0 - 1, true), (at.0, false)] {
                credits.pass([1; 4].into_iter().take(holds), Ns(now));
                assert_eq!(credits.may_hold(1), expected);
            }
        }
        assert_eq!(Credits::new().spent_at(1, 0), None);
    }

    #[test]
    fn no_debt_is_beyond_the_horizon() {
        let mut credits = Credits::new();
        assert!(credits.may_take(1));
        hold(&mut credits, 1, Ns(u64::MAX));
        assert_eq!(credits.left(1), -(HORIZON.0 as i64));
        hold(&mut credits, 1, Ns(u64::MAX));
        assert!(!credits.may_hold(1));
    }
}
