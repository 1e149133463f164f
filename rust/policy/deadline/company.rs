// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The time for which several users have had something to run, or a level less than its slice: it is not known
//! whose the length of a burst is then.

use crate::policy::{
    level::{
        self,
        Level, //
    },
    units::Ns, //
};

/// A clock that goes at times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clock {
    total: Ns,
    /// It goes, and has since then.
    since: Option<Ns>,
}

impl Clock {
    fn at(&self, now: Ns) -> Ns {
        let more = self.since.map(|since| now.saturating_sub(since));
        self.total.saturating_add(more.unwrap_or_default())
    }
}

/// The time for which each level was not alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Company([Clock; level::COUNT]);

impl Company {
    /// All are alone.
    pub(super) const NONE: Self = Self(
        [Clock {
            total: Ns::ZERO,
            since: None,
        }; level::COUNT],
    );

    /// These levels are not alone from now on, and no others.
    pub(super) fn set(&mut self, levels: level::Set, now: Ns) {
        for (level, clock) in Level::ALL.into_iter().zip(&mut self.0) {
            let goes = levels.contains(level);
            if goes != clock.since.is_some() {
                *clock = Clock {
                    total: clock.at(now),
                    since: goes.then_some(now),
                };
            }
        }
    }

    /// The time for which a level was not alone, in all.
    pub(super) fn of(&self, level: Level, now: Ns) -> Ns {
        let clock = self.0.get(level.number() as usize);
        clock.map_or(Ns::ZERO, |clock| clock.at(now))
    }
}

/// TSGs that have something to run: are they of several users?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    count: u64,
    /// Of the numbers of their users.
    sum: u64,
    /// Of the squares of these.
    squares: u128,
}

impl Crowd {
    /// One more of a user, or one less.
    pub(crate) fn count(&mut self, user: u32, more: bool) {
        let (user, square) = (u64::from(user), u128::from(user) * u128::from(user));
        *self = match more {
            true => Self {
                count: self.count.saturating_add(1),
                sum: self.sum.saturating_add(user),
                squares: self.squares.saturating_add(square),
            },
            false => Self {
                count: self.count.saturating_sub(1),
                sum: self.sum.saturating_sub(user),
                squares: self.squares.saturating_sub(square),
            },
        };
    }

    /// With those of another crowd.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            sum: self.sum.saturating_add(other.sum),
            squares: self.squares.saturating_add(other.squares),
        }
    }

    /// They are of several users: only of equal numbers is the sum of squares no more than the square of the
    /// sum, by their count (Cauchy, Schwarz).
    pub(crate) fn is_mixed(self) -> bool {
        let sum = u128::from(self.sum);
        u128::from(self.count).saturating_mul(self.squares) > sum.saturating_mul(sum)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_company))]
mod tests {
    use super::*;

    #[test]
    fn time_in_company_is_counted() {
        let mut company = Company::NONE;
        let mut levels = level::Set::NONE;
        levels.put(Level::DEFAULT, true);
        company.set(levels, Ns(100));
        company.set(levels, Ns(120));
        assert_eq!(company.of(Level::DEFAULT, Ns(150)), Ns(50));
        assert_eq!(company.of(Level::LC, Ns(150)), Ns::ZERO);
        company.set(level::Set::NONE, Ns(160));
        assert_eq!(company.of(Level::DEFAULT, Ns(900)), Ns(60));
        company.set(levels, Ns(1_000));
        assert_eq!(company.of(Level::DEFAULT, Ns(1_001)), Ns(61));
        // A time that is earlier takes nothing away.
        assert_eq!(company.of(Level::DEFAULT, Ns(7)), Ns(60));
    }

    #[test]
    fn several_users_are_a_crowd() {
        for (one, other) in [(0, 1), (7, 8), (0, u32::MAX), (u32::MAX - 1, u32::MAX)] {
            let mut crowd = Crowd::default();
            assert!(!crowd.is_mixed());
            for _ in 0..9 {
                crowd.count(one, true);
                assert!(!crowd.is_mixed());
            }
            crowd.count(other, true);
            assert!(crowd.is_mixed());
            crowd.count(other, false);
            assert!(!crowd.is_mixed());
        }
    }

    #[test]
    fn crowds_add_up() {
        let (mut one, mut other) = (Crowd::default(), Crowd::default());
        one.count(7, true);
        other.count(7, true);
        assert!(!one.with(other).is_mixed());
        other.count(8, true);
        other.count(7, false);
        assert!(!other.is_mixed() && one.with(other).is_mixed());
        other.count(8, false);
        assert_eq!(one.with(other), one);
    }

    #[test]
    fn no_crowd_overflows() {
        let most = Crowd {
            count: u64::MAX,
            sum: u64::MAX,
            squares: u128::MAX,
        };
        let mut more = most.with(most);
        more.count(u32::MAX, true);
        assert_eq!(more, most);
        assert!(more.is_mixed() || more.sum == u64::MAX);
    }
}
