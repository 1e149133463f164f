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
        let waits = |entry: &Entry| entry.part == Part::Waits && self.may_go(entry, now);
        match self.busy_until(lane, now) {
            None => self.of(lane).find(|(_, entry)| waits(entry)),
            Some(_) => None,
        }
        .map(|(place, _)| place)
    }

    /// False if a request waits for one of its own user that has had the time that it said.
    pub(super) fn may_go(&self, entry: &Entry, now: Ns) -> bool {
        let is_own = |other: &Entry| other.user == entry.user && other.overdue_until(now).is_some();
        !self.of(entry.lane).any(|(_, other)| is_own(other))
    }

    /// When the first one that waits is to ask again; `None`: at once, as the GPU is free for one of them.
    pub(crate) fn asks_at(&self, lane: Lane, now: Ns) -> Option<Ns> {
        let waits = |entry: &Entry| entry.part == Part::Waits;
        let may_go = |entry: &Entry| waits(entry) && self.may_go(entry, now);
        self.busy_until(lane, now)
            .or_else(|| match self.of(lane).any(|(_, entry)| may_go(entry)) {
                true => None,
                false => self
                    .of(lane)
                    .filter_map(|(_, entry)| entry.overdue_until(now))
                    .min(),
            })
    }

    /// True if a request has, or had, its turn.
    pub(crate) fn has_run(&self, place: Place) -> bool {
        let entry = self.entry(place);
        entry.is_some_and(|entry| matches!(entry.part, Part::Runs(_) | Part::Held(_)))
    }

    /// The end of the time that a promised request which has the GPU was counted with.
    pub(crate) fn promised_end(&self, place: Place) -> Option<Ns> {
        let entry = self.entry(place).filter(|entry| entry.is_promised)?;
        Some(entry.planned())
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
