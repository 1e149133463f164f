// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The places of a GPU that each user may have, of those that are few.

use super::entry::Refused;
use crate::policy::level::Level;

/// The places that a user and all have where it wants one more.
///
/// Half of them are for levels above that of TSGs without a class. A user may have as many as it leaves free
/// for others, so that some together never have all (the dynamic threshold of Choudhury, Hahne: *Dynamic queue
/// length thresholds for shared-memory packet switches*, 1998).
pub(crate) struct Quota {
    is_high: bool,
    user: u32,
    own: usize,
    low: usize,
    all: usize,
}

impl Quota {
    /// None is taken, for a user that wants one at a level.
    pub(crate) fn new(level: Level, user: u32) -> Self {
        Self {
            is_high: is_high(level),
            user,
            own: 0,
            low: 0,
            all: 0,
        }
    }

    /// One that is taken by a user at a level.
    pub(crate) fn count(&mut self, level: Level, user: u32) {
        let is_low = !is_high(level);
        self.all = self.all.saturating_add(1);
        self.low = self.low.saturating_add(usize::from(is_low));
        let is_own = user == self.user && (is_low || self.is_high);
        self.own = self.own.saturating_add(usize::from(is_own));
    }

    /// One more, of `room`, where so many of the user's own are given back for it.
    ///
    /// # Errors
    ///
    /// [`Refused::NoRoom`], [`Refused::OverQuota`].
    pub(crate) fn may_take(&self, room: usize, given_back: usize) -> Result<(), Refused> {
        let left = room.saturating_sub(self.all);
        let free = match self.is_high {
            true => left,
            false => (room / 2).saturating_sub(self.low).min(left),
        };
        let own = self.own.saturating_sub(given_back);
        match free.saturating_add(given_back) {
            0 => Err(Refused::NoRoom),
            free if own < free => Ok(()),
            _ => Err(Refused::OverQuota),
        }
    }
}

fn is_high(level: Level) -> bool {
    level.is_above(Level::DEFAULT)
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_quota))]
mod tests {
    use super::*;

    const ROOM: usize = 64;

    /// That of user 1 at a level where others are taken: level, user, number.
    fn quota(level: Level, taken: &[(Level, u32, usize)]) -> Quota {
        let mut quota = Quota::new(level, 1);
        for (level, user, number) in taken {
            for _ in 0..*number {
                quota.count(*level, *user);
            }
        }
        quota
    }

    /// The answer to one more.
    fn ask(level: Level, taken: &[(Level, u32, usize)]) -> Result<(), Refused> {
        quota(level, taken).may_take(ROOM, 0)
    }

    /// So many the user gets, one after the other.
    fn some(level: Level, taken: &[(Level, u32, usize)]) -> usize {
        let mut quota = quota(level, taken);
        let one_more = |_: &usize| {
            let may = quota.may_take(ROOM, 0);
            quota.count(level, 1);
            may.is_ok()
        };
        (0..2 * ROOM).take_while(one_more).count()
    }

    #[test]
    fn a_user_leaves_as_many_as_it_has() {
        assert_eq!(some(Level::LC, &[]), 32);
        assert_eq!(some(Level::DEFAULT, &[]), 16);
        assert_eq!(some(Level::LC, &[(Level::LC, 2, 32)]), 16);
        assert_eq!(some(Level::DEFAULT, &[(Level::DEFAULT, 2, 16)]), 8);
    }

    #[test]
    fn half_is_for_levels_above() {
        // Many users have all that there is for those without a class.
        let low = [(Level::DEFAULT, 2, 16), (Level::BE, 3, 16)];
        assert_eq!(ask(Level::DEFAULT, &low), Err(Refused::NoRoom));
        assert_eq!(some(Level::LC, &low), 16);
        // The other way round nothing is reserved.
        let high = [(Level::LC, 2, 32), (Level::LC, 3, 32)];
        assert_eq!(ask(Level::DEFAULT, &high), Err(Refused::NoRoom));
    }

    #[test]
    fn low_ones_count_for_high_ones_of_a_user() {
        assert_eq!(some(Level::LC, &[(Level::BE, 1, 16)]), 16);
        // Not the other way round: what was given by a class is no burden on what has none.
        assert_eq!(some(Level::DEFAULT, &[(Level::LC, 1, 20)]), 16);
        assert_eq!(
            ask(Level::LC, &[(Level::LC, 1, 32)]),
            Err(Refused::OverQuota)
        );
        assert_eq!(ask(Level::LC, &[(Level::LC, 2, 32)]), Ok(()));
    }

    #[test]
    fn those_given_back_are_free() {
        let mut quota = Quota::new(Level::LC, 1);
        for _ in 0..ROOM {
            quota.count(Level::LC, 1);
        }
        assert_eq!(quota.may_take(ROOM, 0), Err(Refused::NoRoom));
        assert_eq!(quota.may_take(ROOM, 1), Err(Refused::OverQuota));
        assert_eq!(quota.may_take(ROOM, 33), Ok(()));
    }
}
