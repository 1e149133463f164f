// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A request that has a place in the order of deadlines.

use crate::policy::{
    level::Level,
    units::Ns, //
};

/// The requests that wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    /// The run list of their TSGs.
    pub(crate) runlist: u32,
    /// Their level.
    pub(crate) level: Level,
}

/// The need of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// The time by which it is to be done.
    pub(crate) deadline: Ns,
    /// The time of its trigger, at the earliest.
    pub(crate) due: Ns,
    /// The cost of its switch.
    pub(crate) switch: Ns,
    /// Its time on the GPU from then to its end, as told or learned; 0: not known.
    pub(crate) burst: Ns,
}

/// Why a request gets no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Refused {
    /// There is no place.
    NoRoom,
    /// Its user has as many places as it may.
    OverQuota,
    /// It would miss its deadline, or another that has a promise would. The earliest deadline that would
    /// do; `None`: no later one would now.
    Late(Option<Ns>),
}

/// The part of a request in preemption: it has stated a deadline, and began with this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    /// The name of its TSG.
    pub(super) tsg: u64,
    /// Times that it was held.
    pub(super) holds: u8,
}

/// A request that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    /// The end of its lease.
    pub(super) until: Ns,
    /// The user of the request that has the GPU meanwhile, or had it last.
    pub(super) by: u32,
}

/// A request with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) lane: Lane,
    pub(super) user: u32,
    pub(super) claim: Claim,
    /// Its time on the GPU, from its trigger to its end, as it is counted with.
    pub(super) demand: Ns,
    pub(super) is_promised: bool,
    /// The deadline that was asked for, where that of its claim, which orders it, is earlier.
    pub(super) asked: Ns,
    pub(super) part: Part,
    /// When it got the GPU, if it has it.
    pub(super) since: Ns,
    /// The time for which its level was shared up to then.
    pub(super) company: Ns,
    /// It is looked at as long as it has it.
    pub(super) is_watched: bool,
    /// Its part in preemption, if it has one.
    pub(super) terms: Option<Terms>,
}

/// Its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl Entry {
    /// True if it has the GPU, and others wait for it.
    pub(super) fn has_gpu(&self, now: Ns) -> bool {
        self.busy_until(now).is_some()
    }

    /// True if it is one of a lane, and of a TSG.
    pub(super) fn is_of(&self, lane: Lane, tsg: u64) -> bool {
        self.lane == lane && self.terms.is_some_and(|terms| terms.tsg == tsg)
    }

    /// The end of the time that it said.
    pub(super) fn planned(&self) -> Ns {
        self.since.saturating_add(self.demand)
    }

    /// Until when others wait for it, if they do.
    pub(super) fn busy_until(&self, now: Ns) -> Option<Ns> {
        let Part::Runs(until) = self.part else {
            return None;
        };
        let until = match self.is_promised {
            true => self.planned().min(until),
            false => until,
        };
        (until > now).then_some(until)
    }

    /// Until when requests of its own user wait for it, if it has had the time that it said and is not over.
    pub(super) fn overdue_until(&self, now: Ns) -> Option<Ns> {
        match self.part {
            Part::Runs(until) => {
                let is_overdue = self.is_promised && self.planned() <= now && now < until;
                is_overdue.then_some(until)
            }
            _ => None,
        }
    }

    /// The time that it needs yet: beyond the time that it said, as long again as it has had.
    pub(super) fn left(&self, now: Ns) -> Ns {
        let Part::Runs(until) = self.part else {
            return self.demand;
        };
        let planned = self.planned();
        let left = match planned > now {
            true => planned.saturating_sub(now),
            false => now.saturating_sub(self.since),
        };
        left.min(until.saturating_sub(now))
    }
}
