// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The demand of the requests of a lane, as a request that asks for a promise finds it.

use crate::policy::units::Ns;

/// A request that was not triggered yet, in the order of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Its user.
    pub(crate) user: u32,
    /// The time by which it is to be done.
    pub(crate) deadline: Ns,
    /// The time of its trigger, at the earliest.
    pub(crate) due: Ns,
    /// Its time on the GPU, from its trigger to its end.
    pub(crate) demand: Ns,
    /// It was admitted.
    pub(crate) is_promised: bool,
    /// It is due, and waits.
    pub(crate) waits: bool,
}

/// A request that asks for a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Its user.
    pub(crate) user: u32,
    /// The time by which it wants to be done.
    pub(crate) deadline: Ns,
    /// The time of its trigger, at the earliest.
    pub(crate) due: Ns,
    /// Its time on the GPU, from its trigger to its end.
    pub(crate) demand: Ns,
}

/// The GPU as a request finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// The time.
    pub(crate) at: Ns,
    /// The time from which the GPU is free for its lane.
    pub(crate) free: Ns,
    /// The users that ask, with its own.
    pub(crate) users: u64,
}

impl Now {
    /// Half of the time to a deadline.
    pub(super) fn half(&self, deadline: Ns) -> Ns {
        Ns(deadline.saturating_sub(self.at).0 / 2)
    }

    /// The time of which so much is the half.
    pub(super) fn twice(&self, time: Ns) -> Ns {
        self.at.saturating_add(time).saturating_add(time)
    }

    /// A user's share of the time to a deadline.
    pub(super) fn share(&self, deadline: Ns) -> Ns {
        Ns(deadline.saturating_sub(self.at).0 / self.users.max(1))
    }

    /// The time to which a user's share is so much.
    pub(super) fn shared(&self, time: Ns) -> Ns {
        self.at
            .saturating_add(Ns(time.0.saturating_mul(self.users)))
    }
}

/// The demand of the requests up to one of them.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// The end of those that count in full.
    pub(super) end: Ns,
    /// The demand of those that hold no promise, and are another user's.
    pub(super) open: Ns,
    /// The promised demand of the user that asks.
    pub(super) own: Ns,
}

impl Load {
    pub(super) fn add(&mut self, job: &Job, ask: &Ask) {
        if job.is_open(ask) {
            self.open = self.open.saturating_add(job.demand);
            return;
        }
        self.end = self.end.max(job.due).saturating_add(job.demand);
        if job.is_own(ask) {
            self.own = self.own.saturating_add(job.demand);
        }
    }

    /// Takes the last one away again, but for the end.
    pub(super) fn take(&mut self, job: &Job, ask: &Ask) {
        if job.is_open(ask) {
            self.open = self.open.saturating_sub(job.demand);
        }
        if job.is_own(ask) {
            self.own = self.own.saturating_sub(job.demand);
        }
    }

    /// The end, with a part of what is open, by this deadline.
    pub(super) fn end_by(&self, deadline: Ns, now: &Now) -> Ns {
        self.end.saturating_add(self.open.min(now.half(deadline)))
    }

    /// The earliest deadline by which one behind them ends, where it does at `end` but for what is open.
    pub(super) fn least(&self, end: Ns, now: &Now) -> Ns {
        let in_full = end.saturating_add(self.open);
        in_full.min(now.twice(end.saturating_sub(now.at)))
    }
}

impl Job {
    /// It holds no promise, and is another user's.
    pub(super) fn is_open(&self, ask: &Ask) -> bool {
        !self.is_promised && self.user != ask.user
    }

    /// It holds a promise to the user that asks.
    pub(super) fn is_own(&self, ask: &Ask) -> bool {
        self.is_promised && self.user == ask.user
    }
}
