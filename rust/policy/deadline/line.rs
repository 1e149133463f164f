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

use super::preemptive::{
    Credits,
    Hold,
    Terms, //
};
use crate::policy::{
    level::Level,
    units::Ns, //
};

/// The requests that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// The run list of their TSGs.
    pub(crate) runlist: u32,
    /// Their level.
    pub(crate) level: Level,
}

/// A request with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) lane: Lane,
    pub(super) user: u32,
    pub(super) deadline: Ns,
    /// The order of arrival decides among equal deadlines.
    pub(super) arrival: u64,
    pub(super) part: Part,
    /// Its part in preemption, if it has one.
    pub(super) terms: Option<Terms>,
}

/// Its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It is not due, or over.
    Apart,
    /// It waits for its turn.
    Waits,
    /// It has the GPU, until then at the latest.
    Runs(Ns),
    /// It was taken from the GPU, until the end of the same lease at the latest.
    Held(Hold),
}

/// A place in a [`Line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(super) usize);

impl Place {
    /// Its number, below [`Line::ROOM`].
    pub(crate) const fn number(self) -> usize {
        self.0
    }
}

/// The requests of a GPU that have a place.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) entries: [Option<Entry>; Line::ROOM],
    pub(super) credits: Credits,
    arrivals: u64,
}

impl Line {
    /// Places.
    pub(crate) const ROOM: usize = 64;
    /// Places of a user, at most.
    pub(crate) const PER_USER: usize = 32;

    /// Nobody has a place.
    pub(crate) const fn new() -> Self {
        Self {
            entries: [None; Self::ROOM],
            credits: Credits::new(),
            arrivals: 0,
        }
    }

    /// A place for a request of a user with this deadline; `None`: there is no room.
    pub(crate) fn join(&mut self, lane: Lane, user: u32, deadline: Ns) -> Option<Place> {
        let mut free = None;
        let mut own = 0;
        for (place, entry) in self.entries.iter().enumerate() {
            match entry {
                Some(entry) if entry.user == user => own += 1,
                Some(_) => {}
                None if free.is_none() => free = Some(place),
                None => {}
            }
        }
        let place = free.filter(|_| own < Self::PER_USER)?;
        self.arrivals = self.arrivals.wrapping_add(1);
        *self.entries.get_mut(place)? = Some(Entry {
            lane,
            user,
            deadline,
            arrival: self.arrivals,
            part: Part::Apart,
            terms: None,
        });
        Some(Place(place))
    }

    /// A request gives its place back. Returns its lane.
    pub(crate) fn leave(&mut self, place: Place) -> Option<Lane> {
        let entry = self.entries.get_mut(place.0)?.take();
        entry.map(|entry| entry.lane)
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
    pub(crate) fn runs(&mut self, place: Place, until: Ns) -> Option<Lane> {
        self.set(place, Part::Runs(until))
    }

    pub(super) fn of(&self, lane: Lane) -> impl Iterator<Item = (Place, &Entry)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(move |(place, entry)| Some((Place(place), entry.as_ref()?)))
            .filter(move |(_, entry)| entry.lane == lane)
    }

    /// The one that waits with the earliest deadline.
    pub(crate) fn first(&self, lane: Lane) -> Option<Place> {
        self.of(lane)
            .filter(|(_, entry)| entry.part == Part::Waits)
            .min_by_key(|(_, entry)| (entry.deadline, entry.arrival))
            .map(|(place, _)| place)
    }

    /// Until when those that wait do so at most; `None`: the GPU is free for them.
    pub(crate) fn busy_until(&self, lane: Lane, now: Ns) -> Option<Ns> {
        self.of(lane)
            .filter_map(|(_, entry)| match entry.part {
                Part::Runs(until) if until > now => Some(until),
                _ => None,
            })
            .max()
    }

    /// The request whose turn it is, without preemption.
    #[allow(dead_code, reason = "the tests on the host ask")]
    pub(crate) fn next(&self, lane: Lane, now: Ns) -> Option<Place> {
        match self.busy_until(lane, now) {
            None => self.first(lane),
            Some(_) => None,
        }
    }

    /// One after the other, those that have the GPU; the first has a number of `from` or above.
    pub(crate) fn runner(&self, lane: Lane, from: usize) -> Option<Place> {
        self.of(lane)
            .find(|(place, entry)| place.0 >= from && matches!(entry.part, Part::Runs(_)))
            .map(|(place, _)| place)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_deadline_line))]
mod tests {
    use super::*;

    const LANE: Lane = Lane {
        runlist: 0,
        level: Level::LC,
    };
    const NOW: Ns = Ns(1_000);

    /// A request that waits.
    fn waiting(line: &mut Line, lane: Lane, user: u32, deadline: u64) -> Option<Place> {
        let place = line.join(lane, user, Ns(deadline))?;
        line.waits(place);
        Some(place)
    }

    #[test]
    fn the_earliest_deadline_goes_first() {
        let mut line = Line::new();
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
        let mut line = Line::new();
        let first = waiting(&mut line, LANE, 1, 100);
        let second = waiting(&mut line, LANE, 1, 50);
        if let Some(first) = first {
            line.runs(first, Ns(2_000));
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
        let mut line = Line::new();
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
                line.runs(place, Ns(u64::MAX));
            }
        }
        let own = waiting(&mut line, LANE, 1, u64::MAX);
        assert_eq!(line.next(LANE, NOW), own);
    }

    #[test]
    fn a_user_has_a_part_of_the_places() {
        let mut line = Line::new();
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
        let mut line = Line::new();
        for place in [Place(0), Place(Line::ROOM), Place(usize::MAX)] {
            assert_eq!(line.leave(place), None);
            assert_eq!(line.waits(place), None);
            assert_eq!(line.runs(place, NOW), None);
        }
        assert_eq!(line.next(LANE, NOW), None);
    }
}
