// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The TSGs that are held. A TSG is held as a whole, however many requests it has.

use super::{
    entry::{
        Entry,
        Part, //
    },
    line::{
        Lane,
        Line, //
    },
    preemptive::MOST,
    quota::Quota, //
};
use crate::policy::units::Ns;

/// A TSG that is held: as its first request is.
#[derive(Clone, Copy)]
pub(super) struct Tsg {
    pub(super) name: u64,
    pub(super) lane: Lane,
    owner: u32,
    /// The user for which it is held.
    pub(super) by: u32,
}

impl Tsg {
    /// That of a request that is held.
    fn of(entry: &Entry) -> Option<Self> {
        match (entry.part, entry.terms) {
            (Part::Held(hold), Some(terms)) => Some(Self {
                name: terms.tsg,
                lane: entry.lane,
                owner: entry.user,
                by: hold.by,
            }),
            _ => None,
        }
    }

    /// It is held for another user than its own.
    fn is_others(&self) -> bool {
        self.owner != self.by
    }
}

/// Those of a GPU.
pub(super) struct Tsgs([Option<Tsg>; MOST]);

impl Tsgs {
    /// Each once.
    pub(super) fn all(&self) -> impl Iterator<Item = &Tsg> {
        self.0.iter().flatten()
    }

    /// Those that are held for another user than their own.
    pub(super) fn of_others(&self) -> impl Iterator<Item = &Tsg> {
        self.all().filter(|tsg| tsg.is_others())
    }

    /// TSGs of others that are held for a user.
    pub(super) fn paid_by(&self, user: u32) -> usize {
        self.of_others().filter(|tsg| tsg.by == user).count()
    }

    /// One more, unless it is one. Returns false without room.
    fn add(&mut self, tsg: Tsg) -> bool {
        let is_its = |place: &&mut Option<Tsg>| place.is_none_or(|other| other.name == tsg.name);
        match self.0.iter_mut().find(is_its) {
            Some(place) => {
                place.get_or_insert(tsg);
                true
            }
            None => false,
        }
    }
}

impl Line {
    /// The TSGs that are held.
    pub(super) fn held_tsgs(&self) -> Tsgs {
        let mut tsgs = Tsgs([None; MOST]);
        for tsg in self.entries.iter().flatten().filter_map(Tsg::of) {
            // There is room: no more are held.
            tsgs.add(tsg);
        }
        tsgs
    }

    /// True if a user may hold all TSGs that have the GPU of a lane. They count for the users for which they
    /// are held.
    pub(super) fn may_hold(&self, lane: Lane, user: u32, now: Ns) -> bool {
        let mut held = self.held_tsgs();
        let mut quota = Quota::new(lane.level, user);
        for tsg in held.all() {
            quota.count(tsg.lane.level, tsg.by);
        }
        let runners = self.of(lane).filter(|(_, entry)| entry.has_gpu(now));
        let mut names = runners.filter_map(|(_, entry)| Some((entry.user, entry.terms?.tsg)));
        names.all(|(owner, name)| {
            if held.all().any(|tsg| tsg.name == name) {
                return true;
            }
            let may = quota.may_take(MOST, 0).is_ok();
            quota.count(lane.level, user);
            let by = user;
            may && held.add(Tsg {
                name,
                lane,
                owner,
                by,
            })
        })
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_held))]
mod tests {
    use super::*;
    use crate::policy::{
        deadline::{
            fresh::{
                fresh,
                LANE, //
            },
            line::{
                Claim,
                Place, //
            },
            preemptive::Step, //
        },
        level::Level, //
    };

    const MS: u64 = 1_000_000;
    const NOW: Ns = Ns(MS);
    const NOWHERE: Place = Place(Line::ROOM);
    const LOW: Lane = Lane {
        level: Level::DEFAULT,
        ..LANE
    };

    fn claim(deadline: u64, burst: u64) -> Claim {
        Claim {
            deadline: Ns(deadline * MS),
            due: NOW,
            switch: Ns::ZERO,
            burst: Ns(burst),
        }
    }

    /// A request of a TSG and user that waits; deadlines are in ms.
    fn waiting(line: &mut Line, lane: Lane, tsg: u64, user: u32, deadline: u64) -> Place {
        let place = line
            .join(lane, user, claim(deadline, MS))
            .unwrap_or(NOWHERE);
        line.contends(place, tsg);
        line.waits(place);
        place
    }

    /// The same with the GPU, by itself.
    fn running(line: &mut Line, lane: Lane, tsg: u64, user: u32, deadline: u64) -> Place {
        let place = waiting(line, lane, tsg, user, deadline);
        line.runs(place, Ns(u64::MAX), NOW);
        place
    }

    /// It has its turn once all others are held. Returns the number of steps to that.
    fn goes(line: &mut Line, lane: Lane, place: Place) -> Option<usize> {
        for steps in 0..=MOST {
            match line.step(lane, NOW, true) {
                Step::Go(next) if next == place => {
                    line.runs(place, Ns(u64::MAX), NOW);
                    return Some(steps);
                }
                Step::Held(_) => {}
                _ => return None,
            }
        }
        None
    }

    fn held(line: &Line) -> usize {
        line.held_tsgs().all().count()
    }

    #[test]
    fn a_tsg_is_held_as_a_whole() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        for _ in 0..=MOST {
            running(&mut line, LANE, 1, 1, 9_000);
        }
        let early = waiting(&mut line, LANE, 2, 2, 500);
        assert_eq!(goes(&mut line, LANE, early), Some(1));
        assert_eq!(held(&line), 1);
        line.over(early, None, NOW);
        assert!(matches!(line.step(LANE, NOW, true), Step::Resumed(_)));
        assert!(!line.is_held(LANE));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
    }

    #[test]
    fn a_tsg_costs_the_same_however_many_requests_it_has() {
        for requests in [1, 8] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            for _ in 0..requests {
                running(&mut line, LANE, 1, 1, 9_000);
            }
            let early = waiting(&mut line, LANE, 2, 2, 500);
            assert!(goes(&mut line, LANE, early).is_some());
            assert_eq!(line.step(LANE, NOW, true), Step::Rest);
            // 100 ms, of which half of the time is spent; to the last bit that keeps the place.
            let spent = Ns(NOW.0 + 200 * MS - 1);
            assert_eq!(line.released(NOW), (None, Some(spent)));
            assert_eq!(line.credit(2, Ns(NOW.0 + 50 * MS)), 75 * MS as i64 - 1);
        }
    }

    #[test]
    fn holds_of_a_user_leave_room_for_others() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        // A user with no class, and many TSGs, each of which takes from the last.
        let mut last = running(&mut line, LOW, 100, 1, 9_000);
        for tsg in 1..=2 {
            let next = waiting(&mut line, LOW, 100 + tsg, 1, 9_000 - tsg);
            assert_eq!(goes(&mut line, LOW, next), Some(1));
            last = next;
        }
        let next = waiting(&mut line, LOW, 200, 1, 1_000);
        assert_eq!(line.step(LOW, NOW, true), Step::Rest);
        assert_eq!(held(&line), 2);
        line.leave(next);
        // Another user takes there, and pays for all of them then.
        let other = waiting(&mut line, LOW, 300, 2, 1_000);
        assert_eq!(goes(&mut line, LOW, other), Some(1));
        assert_eq!((held(&line), line.holds(last)), (3, true));
        // Those with a class have room, a user half of what is left for it and others.
        let mut taken = 0;
        running(&mut line, LANE, 400, 3, 9_000);
        for tsg in 1..=8 {
            let next = waiting(&mut line, LANE, 400 + tsg, 3, 9_000 - tsg);
            taken += usize::from(goes(&mut line, LANE, next).is_some());
        }
        assert_eq!((taken, held(&line)), (3, 6));
    }

    #[test]
    fn no_more_are_taken_from_at_a_time_than_a_user_may_hold() {
        for (lane, most) in [(LANE, 4), (LOW, 2)] {
            for tsgs in [most, most + 1] {
                let Some(mut line) = fresh() else {
                    return assert_eq!("no memory", "");
                };
                for tsg in 0..tsgs {
                    running(&mut line, lane, 10 + tsg, 1, 9_000);
                }
                let early = waiting(&mut line, lane, 1, 2, 500);
                let expected = (tsgs == most).then_some(most as usize);
                assert_eq!(goes(&mut line, lane, early), expected);
            }
        }
    }

    #[test]
    fn a_tsg_goes_on_with_another_request_of_it() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let late = running(&mut line, LANE, 1, 1, 9_000);
        let early = waiting(&mut line, LANE, 2, 1, 500);
        assert_eq!(goes(&mut line, LANE, early), Some(1));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        let itself = running(&mut line, LANE, 1, 1, 8_000);
        assert_eq!(line.step(LANE, NOW, true), Step::Resumed(late));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        // It may be held again, with both.
        line.over(early, None, NOW);
        let next = waiting(&mut line, LANE, 3, 1, 400);
        assert_eq!(goes(&mut line, LANE, next), Some(1));
        assert!(line.holds(late) && line.holds(itself));
    }

    #[test]
    fn some_are_held_for_one_that_nobody_looks_at() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        running(&mut line, LANE, 1, 1, 9_000);
        let early = waiting(&mut line, LANE, 2, 1, 500);
        assert_eq!((line.is_held(LANE), line.overlooked()), (false, None));
        assert_eq!(goes(&mut line, LANE, early), Some(1));
        assert_eq!((line.is_held(LANE), line.is_held(LOW)), (true, false));
        assert_eq!(line.overlooked(), Some(LANE));
        line.is_watched(early);
        assert_eq!(line.overlooked(), None);
    }

    /// The demand of a burst of 1 ms of the first user.
    fn demand(line: &mut Line) -> Option<Ns> {
        let place = line.admit(LANE, 1, claim(9_000, MS), None, NOW).ok()?;
        let demand = line.entries.get(place.number())?.as_ref()?.demand;
        line.leave(place);
        Some(demand)
    }

    #[test]
    fn one_that_was_held_proves_nothing() {
        for (is_taken, expected) in [(true, 4_000_000), (false, 3_625_000)] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            // A liar, whose requests of now prove GPU time.
            if let Ok(lie) = line.admit(LANE, 1, claim(9_000, MS), None, NOW) {
                line.over(lie, Some(Ns(4 * MS)), NOW);
            }
            assert_eq!(demand(&mut line), Some(Ns(4 * MS)));
            let late = line.join(LANE, 1, claim(9_000, 2 * MS)).unwrap_or(NOWHERE);
            line.contends(late, 1);
            line.runs(late, Ns(u64::MAX), NOW);
            if is_taken {
                let early = waiting(&mut line, LANE, 2, 2, 500);
                assert_eq!(goes(&mut line, LANE, early), Some(1));
                line.over(early, None, NOW);
                assert_eq!(line.step(LANE, NOW, true), Step::Resumed(late));
            }
            assert_eq!((line.was_held(late), line.holds(late)), (is_taken, false));
            line.over(late, Some(Ns(4 * MS)), Ns(NOW.0 + 8 * MS));
            assert_eq!(demand(&mut line), Some(Ns(expected)));
        }
    }
}
