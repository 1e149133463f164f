// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The requests of a GPU in the order of their deadlines: the one that goes next.
//!
//! Requests wait for others of their *lane* alone, a level on a run list: a level above is served before
//! by the GPU itself, and one below never gets time from it. In a lane the earliest deadline goes when no
//! other has the GPU: earliest deadline first without preemption (Jeffay, Stanat, Martel: *On
//! non-preemptive scheduling of periodic and sporadic tasks*, 1991). A request has the GPU from its trigger
//! to its end, but for no longer than its lease: one that is stuck holds nobody up for longer.
//!
//! The places are few, and users have a part of them each. A request without one is not ordered: it goes when
//! it is due, as all do otherwise.
//!
//! A request that asks for it gets its place by a promise ([`admission`]): its deadline is met. It has the GPU
//! for no longer than it said, so that one that lies is waited for by none but its own user's.

use super::{
    admission::{
        self,
        Ask,
        Job,
        Now, //
    },
    company::Company,
    credit::Credits,
    entry::{
        Entry,
        Part, //
    },
    quota::Quota,
    trust::Trusts,
    users::Askers, //
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
    pub(super) trusts: Trusts,
    pub(super) company: Company,
    pub(super) credits: Credits,
}

impl Line {
    /// Places.
    pub(crate) const ROOM: usize = 64;

    /// Nobody has a place.
    ///
    /// A constant, as one that is built where it is used takes the kernel's stack twice.
    // INVARIANT: None is taken.
    pub(crate) const EMPTY: Self = Self {
        entries: [None; Self::ROOM],
        sorted: [0; Self::ROOM],
        count: 0,
        askers: Askers::NONE,
        trusts: Trusts::NONE,
        company: Company::NONE,
        credits: Credits::new(),
    };

    /// A place for a request of a user; `None`: there is no room.
    pub(crate) fn join(&mut self, lane: Lane, user: u32, claim: Claim) -> Option<Place> {
        let place = self.free_place(lane, user, 0).ok()?;
        let demand = claim.switch.saturating_add(claim.burst);
        self.take(place, lane, user, (claim, claim.deadline), demand, false)
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
        let place = self.free_place(lane, user, usize::from(replaced.is_some()))?;
        let burst = self.trusts.of(user, now).applied(claim.burst);
        let ask = Ask {
            user,
            deadline: claim.deadline,
            due: claim.due,
            demand: claim.switch.saturating_add(burst),
        };
        let state = Now {
            at: now,
            free: self.free_from(lane, replaced, now),
            users: self.askers.ask(lane.level, user, now),
        };
        let job = |at| self.job(at, lane, replaced, now);
        let before = admission::test(&ask, &state, self.count, job).map_err(Refused::Late)?;
        let placed = Claim {
            deadline: before,
            ..claim
        };
        self.take(
            place,
            lane,
            user,
            (placed, claim.deadline),
            ask.demand,
            true,
        )
        .ok_or(Refused::NoRoom)
    }

    /// A place that is free. `spare`: so many of the user's will be, too.
    fn free_place(&self, lane: Lane, user: u32, spare: usize) -> Result<usize, Refused> {
        let mut quota = Quota::new(lane.level, user);
        for entry in self.entries.iter().flatten() {
            quota.count(entry.lane.level, entry.user);
        }
        quota.may_take(Self::ROOM, spare)?;
        let free = self.entries.iter().position(Option::is_none);
        free.ok_or(Refused::NoRoom)
    }

    pub(super) fn take(
        &mut self,
        place: usize,
        lane: Lane,
        user: u32,
        (claim, asked): (Claim, Ns),
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
            asked,
            part: Part::Apart,
            since: Ns::ZERO,
            company: Ns::ZERO,
            is_watched: false,
            terms: None,
        });
        Some(Place(place))
    }

    /// A request is over, after a burst of this time if that is known, and gives its place back. Returns
    /// its lane.
    pub(crate) fn over(&mut self, place: Place, burst: Option<Ns>, now: Ns) -> Option<Lane> {
        // Should it be held: the time of that is charged to its end.
        self.count(now);
        let burst = burst.filter(|_| !self.was_held(place));
        if let (Some(took), Some(entry)) = (burst, self.entry(place)) {
            let burst = self.burst_of(&entry, took, now);
            match entry.is_promised {
                true if self.trusts.note(entry.user, &burst, now) => self.follow(entry.user, now),
                true => {}
                // It may be learned; else nothing was said.
                false if burst.said > Ns::ZERO => self.trusts.note_used(entry.user, &burst, now),
                false => {}
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

    pub(super) fn entry(&self, place: Place) -> Option<Entry> {
        self.entries.get(place.0).copied().flatten()
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
    fn job(&self, at: usize, lane: Lane, replaced: Option<Place>, now: Ns) -> Option<Job> {
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
            // One that was missed holds nobody up.
            is_promised: entry.is_promised && entry.asked > now,
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
            entry.company = self.company.of(entry.lane.level, now);
            entry.is_watched = false;
        }
        self.set(place, Part::Runs(until))
    }

    /// Those of a lane in the order of deadlines.
    pub(super) fn of(&self, lane: Lane) -> impl Iterator<Item = (Place, &Entry)> {
        self.in_order().filter(move |(_, entry)| entry.lane == lane)
    }
}

#[cfg(any(test, zernel_kunit))]
mod promises;

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_line))]
mod tests {
    use super::*;
    use crate::policy::{
        deadline::fresh::{
            claim,
            fresh,
            LANE,
            NOW, //
        },
        level::Level, //
    };

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
        assert_eq!(line.unwatched(LANE), first);
        if let Some(first) = first {
            line.is_watched(first);
        }
        assert_eq!(line.unwatched(LANE), None);
        // For its lease.
        assert_eq!(line.next(LANE, Ns(2_000)), second);
        // To its end.
        first.map(|first| line.rests(first));
        assert_eq!(line.next(LANE, NOW), second);
        first.map(|first| line.runs(first, Ns(2_000), NOW));
        assert_eq!(line.unwatched(LANE), first);
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
    fn users_have_a_part_of_the_places() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let low = Lane {
            level: Level::DEFAULT,
            ..LANE
        };
        let mut fill = |lane, user| {
            let mut places = 0;
            while waiting(&mut line, lane, user, 0).is_some() {
                places += 1;
            }
            places
        };
        // As many as each leaves free, and half for levels above.
        assert_eq!([1, 2, 3].map(|user| fill(low, user)), [16, 8, 4]);
        assert_eq!([4, 1, 5].map(|user| fill(LANE, user)), [18, 1, 9]);
        let last: usize = (6..70).map(|user| fill(LANE, user) + fill(low, user)).sum();
        assert_eq!(last, Line::ROOM - 56);
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
}
