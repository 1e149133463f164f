// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time for which users hold requests of others: half of all, as deadlines cost nothing to state.

use super::{
    entry::Hold,
    HORIZON, //
};
use crate::policy::units::Ns;

/// The time for which a user may hold requests of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Credit {
    user: u32,
    /// In ns, at this time.
    left: i64,
    at: Ns,
}

/// Those of all users that have not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Credits([Option<Credit>; Credits::ROOM]);

impl Credit {
    /// A user that held nobody for long has so much.
    const FULL: i64 = 100_000_000;
    /// Time in which a nanosecond of it comes back, as a power of two.
    const SHIFT: u32 = 1;

    fn refill(&mut self, now: Ns) {
        let passed = now.saturating_sub(self.at).0 >> Self::SHIFT;
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.left = self.left.saturating_add(passed).min(Self::FULL);
        self.at = self.at.max(now);
    }
}

impl Credits {
    /// Users that hold others at a time, or did lately. Others take nothing.
    const ROOM: usize = 32;

    /// All have all of it.
    pub(super) const fn new() -> Self {
        Self([None; Self::ROOM])
    }

    fn of(&mut self, user: u32) -> Option<&mut Credit> {
        let is_of = |credit: &Option<Credit>| credit.is_some_and(|credit| credit.user == user);
        self.0.iter_mut().find(|c| is_of(c))?.as_mut()
    }

    /// True if a user may hold requests of others from now on.
    pub(super) fn allows(&mut self, user: u32, now: Ns) -> bool {
        for place in &mut self.0 {
            if let Some(credit) = place {
                credit.refill(now);
            }
            if place.is_some_and(|credit| credit.left >= Credit::FULL) {
                *place = None;
            }
        }
        if let Some(credit) = self.of(user) {
            return credit.left > 0;
        }
        let free = self.0.iter_mut().find(|place| place.is_none());
        let Some(free) = free else {
            return false;
        };
        // Just below, so that the place is kept until it is used.
        *free = Some(Credit {
            user,
            left: Credit::FULL - 1,
            at: now,
        });
        true
    }

    /// Counts the time of a hold up to now.
    pub(super) fn count(&mut self, owner: u32, hold: &mut Hold, now: Ns) {
        let took = now.saturating_sub(hold.counted);
        hold.counted = hold.counted.max(now);
        if hold.by == owner || took == Ns::ZERO {
            return;
        }
        let took = i64::try_from(took.0).unwrap_or(i64::MAX);
        let by = hold.by;
        let place = self.0.iter_mut().find(|place| match place {
            Some(credit) => credit.user == by,
            None => true,
        });
        if let Some(place) = place {
            let credit = place.get_or_insert(Credit {
                user: by,
                left: Credit::FULL,
                at: now,
            });
            credit.refill(now);
            credit.left = credit.left.saturating_sub(took).max(-(HORIZON.0 as i64));
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_credit))]
mod tests {
    use super::*;

    const NOW: Ns = Ns(1_000);

    #[test]
    fn users_without_a_place_for_their_credit_take_nothing() {
        let mut credits = Credits::new();
        for user in 0..Credits::ROOM as u32 {
            assert!(credits.allows(user, NOW));
        }
        assert!(!credits.allows(u32::MAX, NOW));
        // Those that have all of it need none.
        assert!(credits.allows(u32::MAX, Ns(NOW.0 + 2)));
    }
}
