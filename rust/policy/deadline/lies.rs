// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Bursts that are longer than they were counted with, and the promises of their users from then on.

use super::{
    entry::{
        Entry,
        Part, //
    },
    line::{
        Claim,
        Line,
        Place, //
    },
    trust::Burst,
    HORIZON, //
};
use crate::policy::{
    level,
    units::Ns, //
};

impl Line {
    /// The burst of a request takes this time at least.
    pub(crate) fn lasts(&mut self, place: Place, least: Ns, now: Ns) {
        if let Some(entry) = self.entry(place) {
            let burst = self.burst_of(&entry, least, now);
            self.took_at_least(&entry, &burst, now);
        }
    }

    /// A request has had the GPU for so long, and its burst is not why: its data did not come, or it has lost its
    /// TSG or GPU.
    pub(crate) fn is_late(&mut self, place: Place, held: Ns, now: Ns) {
        if let Some(entry) = self.entry(place) {
            let burst = Burst {
                said: entry.claim.burst,
                took: held,
                shared: held,
            };
            self.took_at_least(&entry, &burst, now);
        }
    }

    fn took_at_least(&mut self, entry: &Entry, burst: &Burst, now: Ns) {
        if entry.is_promised && self.trusts.note_least(entry.user, burst, now) {
            self.follow(entry.user, now);
        }
    }

    pub(super) fn burst_of(&self, entry: &Entry, took: Ns, now: Ns) -> Burst {
        let shared = self.company.of(entry.lane.level, now);
        Burst {
            said: entry.claim.burst,
            took,
            shared: shared.saturating_sub(entry.company),
        }
    }

    /// The bursts of a user count for longer: so do those that were promised already, and were not triggered.
    /// One of more than twice its time has no promise any more, and goes behind others.
    pub(super) fn follow(&mut self, user: u32, now: Ns) {
        let trust = self.trusts.of(user, now);
        for number in 0..Self::ROOM {
            let Some(entry) = self.entry(Place(number)) else {
                continue;
            };
            let is_open = matches!(entry.part, Part::Apart | Part::Waits);
            if entry.user != user || !entry.is_promised || !is_open {
                continue;
            }
            let burst = trust.applied(entry.claim.burst);
            let demand = entry.claim.switch.saturating_add(burst);
            let is_kept = demand <= entry.demand.saturating_add(entry.demand);
            if !is_kept {
                let last = Claim {
                    deadline: now.saturating_add(HORIZON).max(entry.claim.deadline),
                    ..entry.claim
                };
                self.leave(Place(number));
                self.take(number, entry.lane, user, (last, entry.asked), demand, false);
            }
            if let Some(Some(new)) = self.entries.get_mut(number) {
                new.demand = demand.max(entry.demand);
                new.part = entry.part;
                new.terms = entry.terms;
            }
        }
    }

    /// These levels are shared from now on, and no others: it is not known whose the length of a burst is.
    pub(crate) fn share(&mut self, levels: level::Set, now: Ns) {
        self.company.set(levels, now);
    }
}
