// SPDX-License-Identifier: GPL-2.0
//! What a task did with its time: had a CPU, waited for one, or slept, and why.
//!
//! The scheduler tells when a task leaves its CPU and when it has one again. That it was woken up in
//! between is known from then on only: until it has a CPU a sleep goes on.

use super::super::units::{
    Ns,
    Permille, //
};

/// Why a task sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It waits for a block device or what counts as one.
    Io,
    /// In a call of the futex family: for another thread.
    Futex,
    /// In poll, select, epoll and their like: for any of several files.
    Poll,
    /// In read, write and their like: for one file.
    ReadWrite,
    /// In ioctl: for a driver.
    Ioctl,
    /// For anything else.
    Other,
}

/// Number of causes.
pub(crate) const CAUSES: usize = 6;

impl Cause {
    /// Every cause, at its number.
    pub(crate) const ALL: [Self; CAUSES] = [
        Self::Io,
        Self::Futex,
        Self::Poll,
        Self::ReadWrite,
        Self::Ioctl,
        Self::Other,
    ];

    /// Its number.
    pub(crate) const fn number(self) -> usize {
        self as usize
    }

    /// Its name for people and programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Futex => "futex",
            Self::Poll => "poll",
            Self::ReadWrite => "read_write",
            Self::Ioctl => "ioctl",
            Self::Other => "other",
        }
    }
}

/// How often, and for how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// How often it began.
    pub(crate) count: u64,
    /// For how long.
    pub(crate) time: Ns,
}

impl Sum {
    fn begin(&mut self) {
        self.count = self.count.saturating_add(1);
    }

    fn last(&mut self, time: Ns) {
        self.time = self.time.saturating_add(time);
    }
}

/// What a task did since it is tracked. The times add up to that, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// CPU bursts: from one sleep to the next, without the time for which it waited for a CPU.
    pub(crate) bursts: Sum,
    /// It could run and had no CPU.
    pub(crate) queued: Sum,
    /// Sleeps, by the number of their cause.
    pub(crate) sleeps: [Sum; CAUSES],
}

impl Totals {
    /// Sleeps of one cause.
    pub(crate) fn slept(&self, cause: Cause) -> Sum {
        self.sleeps.get(cause.number()).copied().unwrap_or_default()
    }

    /// All of the time.
    pub(crate) fn time(&self) -> Ns {
        self.sleeps.iter().fold(
            self.bursts.time.saturating_add(self.queued.time),
            |sum, s| sum.saturating_add(s.time),
        )
    }

    /// The share of the time since `before` for which it slept for this cause; 0 if there was none.
    pub(crate) fn share_since(&self, before: &Self, cause: Cause) -> Permille {
        let slept = self.slept(cause).time;
        Permille::of(
            slept.saturating_sub(before.slept(cause).time).0,
            self.time().saturating_sub(before.time()).0,
        )
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It has a CPU.
    Running,
    /// It had to leave its CPU and could go on.
    Queued,
    /// It sleeps.
    Asleep(Cause),
}

/// The record of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    doing: Doing,
    since: Ns,
    /// What has ended.
    totals: Totals,
    /// CPU time since it woke up last, before `since`.
    burst: Ns,
    /// The burst before the sleep that goes on, or that was the last.
    last_burst: Ns,
}

impl Activity {
    /// Of a task that has a CPU now.
    pub(crate) fn new(now: Ns) -> Self {
        let mut totals = Totals::default();
        totals.bursts.begin();
        Self {
            doing: Doing::Running,
            since: now,
            totals,
            burst: Ns::ZERO,
            last_burst: Ns::ZERO,
        }
    }

    /// It leaves its CPU, to sleep for `cause`; without one it could go on.
    pub(crate) fn leave(&mut self, now: Ns, cause: Option<Cause>) {
        self.pass(now, Ns::ZERO);
        match cause {
            Some(cause) => {
                self.last_burst = self.burst;
                self.burst = Ns::ZERO;
                if let Some(sum) = self.totals.sleeps.get_mut(cause.number()) {
                    sum.begin();
                }
                self.doing = Doing::Asleep(cause);
            }
            None => {
                self.totals.queued.begin();
                self.doing = Doing::Queued;
            }
        }
    }

    /// It has a CPU, for which it waited for `queued` of the time since it left the last one.
    pub(crate) fn enter(&mut self, now: Ns, queued: Ns) {
        if matches!(self.doing, Doing::Asleep(_)) {
            self.totals.bursts.begin();
            if queued > Ns::ZERO {
                self.totals.queued.begin();
            }
        }
        self.pass(now, queued);
        self.doing = Doing::Running;
    }

    /// What it did up to `now`.
    pub(crate) fn totals(&self, now: Ns) -> Totals {
        let mut copy = *self;
        copy.pass(now, Ns::ZERO);
        copy.totals
    }

    /// The CPU time of the burst that goes on at `now`; nothing while it sleeps.
    pub(crate) fn burst(&self, now: Ns) -> Ns {
        match self.doing {
            Doing::Running => self.burst.saturating_add(now.saturating_sub(self.since)),
            Doing::Queued => self.burst,
            Doing::Asleep(_) => Ns::ZERO,
        }
    }

    /// The CPU time of the last burst that a sleep has ended.
    pub(crate) fn last_burst(&self) -> Ns {
        self.last_burst
    }

    /// Why it sleeps, if it does.
    pub(crate) fn sleeps_for(&self) -> Option<Cause> {
        match self.doing {
            Doing::Asleep(cause) => Some(cause),
            Doing::Running | Doing::Queued => None,
        }
    }

    /// Counts the time up to `now`, `queued` of it apart. A clock that stands or turns back adds
    /// nothing.
    fn pass(&mut self, now: Ns, queued: Ns) {
        let time = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        match self.doing {
            Doing::Running => {
                self.totals.bursts.last(time);
                self.burst = self.burst.saturating_add(time);
            }
            Doing::Queued => self.totals.queued.last(time),
            Doing::Asleep(cause) => {
                let queued = queued.min(time);
                self.totals.queued.last(queued);
                if let Some(sum) = self.totals.sleeps.get_mut(cause.number()) {
                    sum.last(time.saturating_sub(queued));
                }
            }
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_activity))]
mod tests {
    use super::*;

    fn sum(count: u64, time: u64) -> Sum {
        Sum {
            count,
            time: Ns(time),
        }
    }

    #[test]
    fn names_and_numbers_differ() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause.number(), at);
            let named = Cause::ALL.into_iter().filter(|c| c.name() == cause.name());
            assert_eq!(named.count(), 1);
        }
    }

    #[test]
    fn a_burst_goes_on_until_a_sleep() {
        let mut task = Activity::new(Ns(100));
        assert_eq!(task.burst(Ns(130)), Ns(30));
        task.leave(Ns(130), None);
        assert_eq!(task.burst(Ns(150)), Ns(30));
        task.enter(Ns(170), Ns(40));
        assert_eq!(task.burst(Ns(175)), Ns(35));
        task.leave(Ns(180), Some(Cause::Futex));
        assert_eq!((task.burst(Ns(500)), task.last_burst()), (Ns(0), Ns(40)));
        assert_eq!(task.sleeps_for(), Some(Cause::Futex));
        task.enter(Ns(500), Ns(0));
        assert_eq!((task.burst(Ns(501)), task.last_burst()), (Ns(1), Ns(40)));
        assert_eq!(task.sleeps_for(), None);
        let totals = task.totals(Ns(501));
        assert_eq!(totals.bursts, sum(2, 41));
        assert_eq!(totals.queued, sum(1, 40));
        assert_eq!(totals.slept(Cause::Futex), sum(1, 320));
        assert_eq!(totals.time(), Ns(401));
    }

    #[test]
    fn a_sleeper_that_was_woken_waits_for_a_cpu() {
        let mut task = Activity::new(Ns(0));
        task.leave(Ns(10), Some(Cause::Io));
        // Nobody has told yet that it was woken.
        assert_eq!(task.totals(Ns(60)).slept(Cause::Io), sum(1, 50));
        task.enter(Ns(110), Ns(30));
        let totals = task.totals(Ns(110));
        assert_eq!(totals.slept(Cause::Io), sum(1, 70));
        assert_eq!(totals.queued, sum(1, 30));
        // It cannot have waited for longer than it was away.
        task.leave(Ns(120), Some(Cause::Poll));
        task.enter(Ns(125), Ns(u64::MAX));
        assert_eq!(task.totals(Ns(125)).slept(Cause::Poll), sum(1, 0));
        assert_eq!(task.totals(Ns(125)).queued, sum(2, 35));
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let mut task = Activity::new(Ns(0));
        let start = task.totals(Ns(0));
        assert_eq!(start.share_since(&start, Cause::Io), Permille(0));
        task.leave(Ns(700), Some(Cause::Io));
        task.enter(Ns(1_000), Ns(0));
        let now = task.totals(Ns(1_000));
        assert_eq!(now.share_since(&start, Cause::Io), Permille(300));
        assert_eq!(now.share_since(&start, Cause::Poll), Permille(0));
        let later = task.totals(Ns(2_000));
        assert_eq!(later.share_since(&start, Cause::Io), Permille(150));
        assert_eq!(later.share_since(&now, Cause::Io), Permille(0));
    }

    #[test]
    fn a_clock_that_stands_or_turns_back_adds_nothing() {
        let mut task = Activity::new(Ns(100));
        task.leave(Ns(90), Some(Cause::Ioctl));
        task.enter(Ns(80), Ns(10));
        task.leave(Ns(100), None);
        assert_eq!(task.totals(Ns(50)).time(), Ns(0));
        assert_eq!(task.totals(Ns(101)).time(), Ns(1));
        assert_eq!(task.burst(Ns(u64::MAX)), Ns(0));
    }
}
