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

    /// One after the other, those that have the GPU; the first has a number of `from` or above.
    pub(crate) fn runner(&self, lane: Lane, from: usize) -> Option<Place> {
        let runs = |entry: &Entry| entry.lane == lane && matches!(entry.part, Part::Runs(_));
        self.entries
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, entry)| entry.as_ref().is_some_and(runs))
            .map(|(place, _)| Place(place))
    }
}
