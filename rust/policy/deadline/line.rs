// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The requests of a GPU in the order of their deadlines: the one that goes next.
//!
//! Requests wait for others of their *lane* alone, a level on a run list: a level above is served before
//! by the GPU itself, and one below never gets time from it. In a lane the earliest deadline goes when no
//! other has the GPU: earliest deadline first without preemption (Jeffay, Stanat, Martel: *On
//! non-preemptive scheduling of periodic and sporadic tasks*, 1991). A request has the GPU from its trigger
//! to its end, but for no longer than its lease: one that is stuck holds nobody up for longer.
//!
//! The places are few, and a user has a part of them. A request without one is not ordered: it goes when
//! it is due, as all do otherwise.
//!
//! A request that asks for it gets its place by a promise ([`admission`]): its deadline is met. It has the GPU
//! for no longer than it said, so that one that lies is not waited for.

use super::{
    admission::{
        self,
        Ask,
        Askers,
        Job,
        Now, //
    },
    burst::Trusts,
    credit::Credits,
    entry::{
        Entry,
        Part, //
    },
};
use crate::policy::units::Ns;

pub(crate) use super::entry::{Claim, Lane, Refused};

/// A place in a [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place(pub(super) usize);

impl Place {
    /// Its number, below [`Line::ROOM`].
    pub(crate) const fn number(self) -> usize {
        self.0
    }
}

/// The requests of a GPU that have a place.
///
/// # Invariants
///
/// The first `count` of `sorted` are the numbers of the places that are taken, in the order of deadlines;
/// of equal ones the first to come is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    pub(super) entries: [Option<Entry>; Line::ROOM],
    sorted: [u8; Line::ROOM],
    count: usize,
    askers: Askers,
    trusts: Trusts,
    pub(super) credits: Credits,
}

impl Line {
    /// Places.
    pub(crate) const ROOM: usize = 64;
    /// Places of a user, at most.
    pub(crate) const PER_USER: usize = 32;

    /// Nobody has a place.
    pub(crate) const fn new() -> Self {
        // INVARIANT: None is taken.
        Self {
            entries: [None; Self::ROOM],
            sorted: [0; Self::ROOM],
            count: 0,
            askers: Askers::NONE,
            trusts: Trusts::NONE,
            credits: Credits::new(),
        }
    }

    /// A place for a request of a user; `None`: there is no room.
    pub(crate) fn join(&mut self, lane: Lane, user: u32, claim: Claim) -> Option<Place> {
        let place = self.free_place(user, 0).ok()?;
        let demand = claim.switch.saturating_add(claim.burst);
        self.take(place, lane, user, claim, demand, false)
    }

    /// A place with a promise for a request of a user, if its deadline and all that were promised are
    /// met. `replaced`: the place of a request that is over as this one begins.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub(crate) fn admit(
        &mut self,
        lane: Lane,
        user: u32,
        claim: Claim,
        replaced: Option<Place>,
        now: Ns,
    ) -> Result<Place, Refused> {
        let is_shared = self.askers.ask(user, now);
        let place = self.free_place(user, usize::from(replaced.is_some()))?;
        let burst = self.trusts.of(user).applied(claim.burst);
        let ask = Ask {
            user,
            deadline: claim.deadline,
            due: claim.due,
            demand: claim.switch.saturating_add(burst),
        };
        let state = Now {
            at: now,
            free: self.free_from(lane, replaced, now),
            is_shared,
        };
        admission::test(&ask, &state, self.count, |at| self.job(at, lane, replaced))
            .map_err(Refused::Late)?;
        self.take(place, lane, user, claim, ask.demand, true)
            .ok_or(Refused::NoRoom)
    }

    /// A place that is free. `spare`: so many of the user's will be, too.
    fn free_place(&self, user: u32, spare: usize) -> Result<usize, Refused> {
        let mut free = None;
        let mut own = 0_usize;
        for (place, entry) in self.entries.iter().enumerate() {
            match entry {
                Some(entry) if entry.user == user => own += 1,
                Some(_) => {}
                None if free.is_none() => free = Some(place),
                None => {}
            }
        }
        if own.saturating_sub(spare) >= Self::PER_USER {
            return Err(Refused::OverQuota);
        }
        free.ok_or(Refused::NoRoom)
    }

    fn take(
        &mut self,
        place: usize,
        lane: Lane,
        user: u32,
        claim: Claim,
        demand: Ns,
        is_promised: bool,
    ) -> Option<Place> {
        let number = u8::try_from(place).ok()?;
        let at = self
            .in_order()
            .position(|(_, entry)| entry.claim.deadline > claim.deadline)
            .unwrap_or(self.count);
        let moved = self.sorted.get_mut(at..=self.count)?;
        moved.rotate_right(1);
        *moved.first_mut()? = number;
        // INVARIANT: Behind all with its deadline, or an earlier one.
        self.count += 1;
        *self.entries.get_mut(place)? = Some(Entry {
            lane,
            user,
            claim,
            demand,
            is_promised,
            part: Part::Apart,
            since: Ns::ZERO,
            terms: None,
        });
        Some(Place(place))
    }

    /// A request is over, after a burst of this time if that is known, and gives its place back. Returns
    /// its lane.
    pub(crate) fn over(&mut self, place: Place, burst: Option<Ns>, now: Ns) -> Option<Lane> {
        // Should it be held: the time of that is charged to its end.
        self.count(now);
        if let (Some(took), Some(Some(entry))) = (burst, self.entries.get(place.0)) {
            if entry.is_promised {
                self.trusts.note(entry.user, entry.claim.burst, took);
            }
        }
        self.leave(place)
    }

    /// A request that has not begun gives its place back. Returns its lane.
    pub(crate) fn leave(&mut self, place: Place) -> Option<Lane> {
        let entry = self.entries.get_mut(place.0)?.take()?;
        let taken = self.sorted.get_mut(..self.count)?;
        let at = taken
            .iter()
            .position(|&other| usize::from(other) == place.0);
        if let Some(later) = at.and_then(|at| taken.get_mut(at..)) {
            // INVARIANT: The others keep their order.
            later.rotate_left(1);
            self.count -= 1;
        }
        Some(entry.lane)
    }

    /// All of them in the order of deadlines.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (Place, &Entry)> {
        self.sorted
            .iter()
            .take(self.count)
            .map(|&place| Place(usize::from(place)))
            .filter_map(|place| Some((place, self.entries.get(place.0)?.as_ref()?)))
    }

    /// The request with this number in the order of deadlines, if it is one of the lane that was not
    /// triggered yet.
    fn job(&self, at: usize, lane: Lane, replaced: Option<Place>) -> Option<Job> {
        let place = usize::from(*self.sorted.get(at)?);
        let entry = self.entries.get(place)?.as_ref()?;
        let is_other = entry.lane != lane || replaced == Some(Place(place));
        if is_other || matches!(entry.part, Part::Runs(_)) {
            return None;
        }
        Some(Job {
            user: entry.user,
            deadline: entry.claim.deadline,
            due: entry.claim.due,
            demand: entry.demand,
            is_promised: entry.is_promised,
            waits: entry.part == Part::Waits,
        })
    }

    /// When the GPU is free for a lane: after those that have it, and all of a more urgent level.
    fn free_from(&self, lane: Lane, replaced: Option<Place>, now: Ns) -> Ns {
        let before = self.in_order().filter(|(place, entry)| {
            let goes_first = match entry.lane.level == lane.level {
                true => matches!(entry.part, Part::Runs(_)),
                false => entry.lane.level.is_above(lane.level),
            };
            goes_first && entry.lane.runlist == lane.runlist && replaced != Some(*place)
        });
        before.fold(now, |free, (_, entry)| free.saturating_add(entry.left(now)))
    }

    fn set(&mut self, place: Place, part: Part) -> Option<Lane> {
        let entry = self.entries.get_mut(place.0)?.as_mut()?;
        match (&mut entry.part, part) {
            // Its own events do not give the GPU back.
            (Part::Held(hold), Part::Runs(until)) => hold.until = until,
            (old, _) => *old = part,
        }
        Some(entry.lane)
    }

    /// A request is not due, or over. Returns its lane.
    pub(crate) fn rests(&mut self, place: Place) -> Option<Lane> {
        self.set(place, Part::Apart)
    }

    /// A request waits for its turn. Returns its lane.
    pub(crate) fn waits(&mut self, place: Place) -> Option<Lane> {
        self.set(place, Part::Waits)
    }

    /// A request has the GPU, until then at the latest. Returns its lane.
    pub(crate) fn runs(&mut self, place: Place, until: Ns, now: Ns) -> Option<Lane> {
        let entry = self.entries.get_mut(place.0)?.as_mut()?;
        if !matches!(entry.part, Part::Runs(_) | Part::Held(_)) {
            entry.since = now;
        }
        self.set(place, Part::Runs(until))
    }

    /// Those of a lane in the order of deadlines.
    pub(super) fn of(&self, lane: Lane) -> impl Iterator<Item = (Place, &Entry)> {
        self.in_order().filter(move |(_, entry)| entry.lane == lane)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_line))]
mod tests {
    use super::*;
    use crate::policy::{
        deadline::fresh::fresh,
        level::Level, //
    };

    const LANE: Lane = Lane {
        runlist: 0,
        level: Level::LC,
    };
    const NOW: Ns = Ns(1_000);

    fn claim(deadline: u64, demand: u64) -> Claim {
        Claim {
            deadline: Ns(deadline),
            due: NOW,
            switch: Ns(demand / 5),
            burst: Ns(demand - demand / 5),
        }
    }

    /// A request that waits.
    fn waiting(line: &mut Line, lane: Lane, user: u32, deadline: u64) -> Option<Place> {
        let place = line.join(lane, user, claim(deadline, 0))?;
        line.waits(place);
        Some(place)
    }

    #[test]
    fn the_earliest_deadline_goes_first() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let places = [300, 100, 200, 100].map(|at| waiting(&mut line, LANE, 1, at));
        // Of equal ones the first to come.
        for at in [1, 3, 2, 0] {
            let next = line.next(LANE, NOW);
            assert_eq!(next, places.get(at).copied().flatten());
            assert!(next.is_some_and(|place| line.leave(place) == Some(LANE)));
        }
        assert_eq!(line.next(LANE, NOW), None);
    }

    #[test]
    fn one_has_the_gpu_at_a_time() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = waiting(&mut line, LANE, 1, 100);
        let second = waiting(&mut line, LANE, 1, 50);
        if let Some(first) = first {
            line.runs(first, Ns(2_000), NOW);
        }
        assert_eq!(line.next(LANE, NOW), None);
        assert_eq!(line.busy_until(LANE, NOW), Some(Ns(2_000)));
        assert_eq!(line.runner(LANE, 0), first);
        assert_eq!(line.runner(LANE, 1), None);
        // For its lease.
        assert_eq!(line.next(LANE, Ns(2_000)), second);
        // To its end.
        first.map(|first| line.rests(first));
        assert_eq!(line.next(LANE, NOW), second);
    }

    #[test]
    fn other_lanes_are_not_waited_for() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let others = [
            Lane {
                runlist: 1,
                level: Level::LC,
            },
            Lane {
                runlist: 0,
                level: Level::DEFAULT,
            },
        ];
        for lane in others {
            if let Some(place) = waiting(&mut line, lane, 1, 0) {
                line.runs(place, Ns(u64::MAX), NOW);
            }
        }
        let own = waiting(&mut line, LANE, 1, u64::MAX);
        assert_eq!(line.next(LANE, NOW), own);
    }

    #[test]
    fn a_user_has_a_part_of_the_places() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        for _ in 0..Line::PER_USER {
            assert!(waiting(&mut line, LANE, 1, 0).is_some());
        }
        assert_eq!(waiting(&mut line, LANE, 1, 0), None);
        for _ in Line::PER_USER..Line::ROOM {
            assert!(waiting(&mut line, LANE, 2, 0).is_some());
        }
        assert_eq!(waiting(&mut line, LANE, 3, 0), None);
        let first = line.next(LANE, NOW);
        assert!(first.is_some_and(|place| line.leave(place).is_some()));
        assert_eq!(waiting(&mut line, LANE, 3, 0), first);
    }

    #[test]
    fn a_place_that_nobody_has_says_nothing() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        for place in [Place(0), Place(Line::ROOM), Place(usize::MAX)] {
            assert_eq!(line.leave(place), None);
            assert_eq!(line.waits(place), None);
            assert_eq!(line.runs(place, NOW, NOW), None);
        }
        assert_eq!(line.next(LANE, NOW), None);
    }

    /// A request that has the GPU, and needs it for so long.
    fn running(line: &mut Line, user: u32, demand: u64) -> Result<Place, Refused> {
        let place = line.admit(LANE, user, claim(100_000, demand), None, NOW)?;
        line.runs(place, Ns(50_000), NOW);
        Ok(place)
    }

    #[test]
    fn a_promise_counts_what_is_there() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = running(&mut line, 1, 5_000);
        assert!(first.is_ok());
        let mut ask = |demand, replaced| {
            let asked = claim(NOW.0 + 10_000, demand);
            let place = line.admit(LANE, 1, asked, replaced, NOW);
            place.map(|place| line.leave(place).is_some())
        };
        assert_eq!(ask(5_000, None), Ok(true));
        let late = Refused::Late(Some(Ns(NOW.0 + 10_001)));
        assert_eq!(ask(5_001, None), Err(late));
        // It is over as the other begins.
        assert_eq!(ask(10_000, first.ok()), Ok(true));
    }

    #[test]
    fn nobody_waits_for_one_that_lied() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = running(&mut line, 1, 5_000);
        let next = waiting(&mut line, LANE, 1, 200_000);
        assert_eq!(line.busy_until(LANE, NOW), Some(Ns(6_000)));
        assert_eq!(line.next(LANE, Ns(5_999)), None);
        assert_eq!(line.next(LANE, Ns(6_000)), next);
        // As long again as it has had, and for its lease at most.
        for (at, left) in [(6_000, 5_000), (20_000, 19_000), (45_000, 5_000)] {
            assert_eq!(line.free_from(LANE, None, Ns(at)), Ns(at + left));
            assert_eq!(line.free_from(LANE, first.ok(), Ns(at)), Ns(at));
        }
    }

    #[test]
    fn a_lie_is_believed_once() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let lied = line.admit(LANE, 1, claim(100_000, 50), None, NOW);
        assert!(lied.is_ok_and(|place| line.over(place, Some(Ns(40_000)), NOW) == Some(LANE)));
        let asked = claim(NOW.0 + 40_000, 50);
        let late = Refused::Late(Some(Ns(NOW.0 + 40_010)));
        assert_eq!(line.admit(LANE, 1, asked, None, NOW), Err(late));
        // Of another user.
        assert!(line.admit(LANE, 2, claim(100_000, 50), None, NOW).is_ok());
    }

    #[test]
    fn a_more_urgent_level_goes_first() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        assert!(line
            .admit(LANE, 1, claim(100_000, 5_000), None, NOW)
            .is_ok());
        let below = Lane {
            level: Level::DEFAULT,
            ..LANE
        };
        let asked = claim(NOW.0 + 8_000, 4_000);
        let late = Refused::Late(Some(Ns(NOW.0 + 9_000)));
        assert_eq!(line.admit(below, 1, asked, None, NOW), Err(late));
        let other = Lane {
            runlist: 1,
            ..below
        };
        assert!(line.admit(other, 1, asked, None, NOW).is_ok());
    }

    #[test]
    fn a_promise_takes_a_place() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let asked = claim(u64::MAX, 0);
        let mut last = None;
        for _ in 0..Line::PER_USER {
            last = line.admit(LANE, 1, asked, None, NOW).ok();
            assert!(last.is_some());
        }
        let again = line.admit(LANE, 1, asked, None, NOW);
        assert_eq!(again, Err(Refused::OverQuota));
        // Beside the one that it replaces.
        let instead = line.admit(LANE, 1, asked, last, NOW);
        assert!(instead.is_ok_and(|place| line.leave(place).is_some()));
        for _ in Line::PER_USER..Line::ROOM {
            assert!(line.admit(LANE, 2, asked, None, NOW).is_ok());
        }
        let none = line.admit(LANE, 3, asked, None, NOW);
        assert_eq!(none, Err(Refused::NoRoom));
    }
}
