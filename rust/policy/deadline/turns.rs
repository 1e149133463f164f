// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Questions to the order of deadlines about a lane: who goes next, and who is waited for.

use super::{
    entry::{
        Entry,
        Part, //
    },
    line::{
        Lane,
        Line,
        Place, //
    },
};
use crate::policy::units::Ns;

impl Line {
    /// The one that waits with the earliest deadline.
    pub(crate) fn first(&self, lane: Lane) -> Option<Place> {
        self.in_order()
            .find(|(_, entry)| entry.lane == lane && entry.part == Part::Waits)
            .map(|(place, _)| place)
    }

    /// Until when those that wait do so at most; `None`: the GPU is free for them.
    pub(crate) fn busy_until(&self, lane: Lane, now: Ns) -> Option<Ns> {
        self.of(lane)
            .filter_map(|(_, entry)| entry.busy_until(now))
            .max()
    }

    /// The request whose turn it is, without preemption.
    #[cfg(any(test, zernel_kunit))]
    pub(crate) fn next(&self, lane: Lane, now: Ns) -> Option<Place> {
        match self.busy_until(lane, now) {
            None => self.first(lane),
            Some(_) => None,
        }
    }

    /// True if a request of a lane is held: it waits, too, for those that have the GPU.
    pub(crate) fn is_held(&self, lane: Lane) -> bool {
        self.of(lane)
            .any(|(_, entry)| matches!(entry.part, Part::Held(_)))
    }

    /// A lane in which a request is held for one that nobody looks at.
    pub(crate) fn overlooked(&self) -> Option<Lane> {
        let held = self.held_tsgs();
        let mut lanes = held.all().map(|tsg| tsg.lane);
        lanes.find(|lane| self.unwatched(*lane).is_some())
    }

    /// One that has the GPU, and that nobody looks at while others wait.
    pub(crate) fn unwatched(&self, lane: Lane) -> Option<Place> {
        let is_unwatched = |entry: &Entry| matches!(entry.part, Part::Runs(_)) && !entry.is_watched;
        let mut of = self.of(lane);
        of.find(|(_, entry)| is_unwatched(entry))
            .map(|(place, _)| place)
    }

    /// It is looked at from now on, as long as it has the GPU.
    pub(crate) fn is_watched(&mut self, place: Place) {
        if let Some(Some(entry)) = self.entries.get_mut(place.number()) {
            entry.is_watched = true;
        }
    }
}
