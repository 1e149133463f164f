// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The users of an order of deadlines: the time that each of them may have.

use super::HORIZON;
use crate::policy::{
    level::{
        self,
        Level, //
    },
    units::Ns, //
};

/// The users that asked for promises last, of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked([Option<(u32, Ns)>; Asked::MOST]);

impl Asked {
    /// Users that are remembered, so that each has this part of the time at least.
    const MOST: usize = 8;

    fn ask(&mut self, user: u32, now: Ns) -> u64 {
        // Its own place, else a free one, else that of the first to ask.
        let rank = |place: &Option<(u32, Ns)>| match place {
            Some((other, _)) if *other == user => (0, Ns::ZERO),
            None => (1, Ns::ZERO),
            Some((_, at)) => (2, *at),
        };
        if let Some(place) = self.0.iter_mut().min_by_key(|place| rank(place)) {
            *place = Some((user, now));
        }
        let known = self.0.iter().flatten();
        let recent = known.filter(|(_, at)| now.saturating_sub(*at) <= HORIZON);
        recent.fold(0, |users: u64, _| users.saturating_add(1))
    }
}

/// The users that asked for promises last. Those of a level share its time, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Askers([Asked; level::COUNT]);

impl Askers {
    /// None.
    pub(super) const NONE: Self = Self([Asked([None; Asked::MOST]); level::COUNT]);

    /// A user asks. Returns how many have within [`HORIZON`], with this one.
    pub(super) fn ask(&mut self, level: Level, user: u32, now: Ns) -> u64 {
        let of_level = self.0.get_mut(level.number() as usize);
        of_level.map_or(1, |asked| asked.ask(user, now))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_users))]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_remembered() {
        let mut askers = Askers::NONE;
        let mut ask = |user, now| askers.ask(Level::LC, user, Ns(now));
        assert_eq!(ask(1, 0), 1);
        assert_eq!(ask(1, 1), 1);
        assert_eq!(ask(2, 2), 2);
        assert_eq!(ask(1, HORIZON.0 + 2), 2);
        assert_eq!(ask(1, HORIZON.0 + 3), 1);
        assert_eq!(ask(3, HORIZON.0 + 4), 2);
        assert_eq!(ask(2, HORIZON.0 + 5), 3);
    }

    #[test]
    fn other_levels_share_nothing() {
        let mut askers = Askers::NONE;
        for (user, level) in (0..).zip(Level::ALL) {
            assert_eq!(askers.ask(level, user, Ns(1)), 1);
        }
    }

    #[test]
    fn the_last_users_are_counted() {
        let mut askers = Askers::NONE;
        for user in 0..3 * Asked::MOST as u32 {
            let users = askers.ask(Level::LC, user, Ns(u64::from(user)));
            assert_eq!(users, u64::from(user + 1).min(Asked::MOST as u64));
        }
    }
}
