// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The use of a task's time: it had a CPU, waited for one, or slept for a cause.
//!
//! The scheduler tells when a task leaves its CPU and when it has one again. That it was woken up in
//! between is known from then on only: until it has a CPU a sleep goes on.

use super::super::units::Ns;

/// Why a task sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It waits for a block device or its like.
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
    #[cfg(any(test, zernel_kunit))]
    pub(crate) const ALL: [Self; CAUSES] = [
        Self::Io,
        Self::Futex,
        Self::Poll,
        Self::ReadWrite,
        Self::Ioctl,
        Self::Other,
    ];

    /// The cause with a number, without a look at a table: it is asked for at each switch.
    #[inline]
    pub(crate) fn new(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Io,
            1 => Self::Futex,
            2 => Self::Poll,
            3 => Self::ReadWrite,
            4 => Self::Ioctl,
            5 => Self::Other,
            _ => return None,
        })
    }

    /// Its number.
    pub(crate) const fn number(self) -> usize {
        self as usize
    }
}

/// A count, and the time of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Times that it began.
    pub(crate) count: u64,
    /// For how long.
    pub(crate) time: Ns,
}

// In the scheduler: no checks where nothing can overflow. Times are of parts of one span of 64 bits
// that do not overlap, and a count grows less often than once in a nanosecond.
impl Sum {
    const NONE: Self = Self {
        count: 0,
        time: Ns::ZERO,
    };

    fn begin(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    fn last(&mut self, time: Ns) {
        self.time = Ns(self.time.0.wrapping_add(time.0));
    }
}

/// The times of a task since it is tracked. They add up to that, to the nanosecond.
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
    /// Nothing.
    const NONE: Self = Self {
        bursts: Sum::NONE,
        queued: Sum::NONE,
        sleeps: [Sum::NONE; CAUSES],
    };

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
}

/// The activity of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It has a CPU.
    Running,
    /// It had to leave its CPU and could go on.
    Queued,
    /// It sleeps.
    Asleep(Cause),
    /// It is not looked at any more: no time passes.
    Nothing,
}

/// The record of one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    doing: Doing,
    since: Ns,
    /// Times of activities that have ended.
    totals: Totals,
    /// The CPU time of all bursts before the one that goes on, or that was the last.
    before: Ns,
    /// The burst before the sleep that goes on, or that was the last.
    last_burst: Ns,
}

impl Activity {
    /// Of a task that is not looked at yet.
    pub(crate) const NONE: Self = Self {
        doing: Doing::Nothing,
        since: Ns::ZERO,
        totals: Totals::NONE,
        before: Ns::ZERO,
        last_burst: Ns::ZERO,
    };

    /// Of a task that has a CPU now.
    pub(crate) fn new(now: Ns) -> Self {
        let mut this = Self::NONE;
        this.doing = Doing::Running;
        this.since = now;
        this.totals.bursts.begin();
        this
    }

    /// True if it was looked at, at any time but 0.
    pub(crate) fn has_begun(&self) -> bool {
        self.since > Ns::ZERO
    }

    /// It leaves its CPU, to sleep for `cause`; without one it could go on.
    pub(crate) fn leave(&mut self, now: Ns, cause: Option<Cause>) {
        // As it is when the scheduler says so; `pass` would ask for the rest first.
        if matches!(self.doing, Doing::Running) {
            let time = self.advance(now);
            self.totals.bursts.last(time);
        } else {
            self.pass(now, Ns::ZERO);
        }
        match cause {
            Some(cause) => {
                self.last_burst = self.burst_so_far();
                self.before = self.totals.bursts.time;
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
        if let Doing::Asleep(cause) = self.doing {
            self.totals.bursts.begin();
            if queued > Ns::ZERO {
                self.totals.queued.begin();
            }
            let time = self.advance(now);
            self.wake(cause, time, queued);
        } else {
            self.pass(now, queued);
        }
        self.doing = Doing::Running;
    }

    /// It is not looked at any more.
    pub(crate) fn end(&mut self, now: Ns) {
        self.pass(now, Ns::ZERO);
        self.doing = Doing::Nothing;
    }

    /// When it was first looked at.
    pub(crate) fn began(&self) -> Ns {
        self.since.saturating_sub(self.totals.time())
    }

    /// When it was ended, if it was.
    pub(crate) fn ended(&self) -> Option<Ns> {
        (self.doing == Doing::Nothing).then_some(self.since)
    }

    /// The present activity, and the time since it began at `now`.
    pub(crate) fn present(&self, now: Ns) -> (Doing, Ns) {
        match self.doing {
            Doing::Nothing => (self.doing, Ns::ZERO),
            doing => (doing, now.saturating_sub(self.since)),
        }
    }

    /// The activities before the present one. They never decrease, as [`Self::totals`] can: nobody
    /// knows yet when a sleeping task was woken.
    pub(crate) fn past(&self) -> Totals {
        self.totals
    }

    /// The totals up to `now`.
    pub(crate) fn totals(&self, now: Ns) -> Totals {
        let mut copy = *self;
        copy.pass(now, Ns::ZERO);
        copy.totals
    }

    /// The CPU time of the burst that goes on at `now`; nothing while it sleeps.
    pub(crate) fn burst(&self, now: Ns) -> Ns {
        match self.doing {
            Doing::Running => {
                let present = now.saturating_sub(self.since);
                self.burst_so_far().saturating_add(present)
            }
            Doing::Queued => self.burst_so_far(),
            Doing::Asleep(_) | Doing::Nothing => Ns::ZERO,
        }
    }

    /// The CPU time of the burst up to the last change of activity.
    fn burst_so_far(&self) -> Ns {
        self.totals.bursts.time.saturating_sub(self.before)
    }

    /// The CPU time of the last burst that a sleep has ended.
    pub(crate) fn last_burst(&self) -> Ns {
        self.last_burst
    }

    /// Counts the time up to `now`, `queued` of it apart.
    fn pass(&mut self, now: Ns, queued: Ns) {
        let time = self.advance(now);
        match self.doing {
            Doing::Running => self.totals.bursts.last(time),
            Doing::Queued => self.totals.queued.last(time),
            Doing::Nothing => {}
            Doing::Asleep(cause) => self.wake(cause, time, queued),
        }
    }

    /// The time since then. A clock that stands or turns back adds nothing.
    fn advance(&mut self, now: Ns) -> Ns {
        let time = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        time
    }

    /// So much of a sleep is over, and so much of that was a wait for a CPU.
    fn wake(&mut self, cause: Cause, time: Ns, queued: Ns) {
        let queued = queued.min(time);
        self.totals.queued.last(queued);
        if let Some(sum) = self.totals.sleeps.get_mut(cause.number()) {
            sum.last(Ns(time.0.wrapping_sub(queued.0)));
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
    fn causes_are_at_their_numbers() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(Cause::new(at as u32), Some(cause));
            assert_eq!(cause.number(), at);
        }
    }

    #[test]
    fn nobody_has_looked_at_first() {
        assert!(!Activity::NONE.has_begun());
        assert!(Activity::new(Ns(1)).has_begun());
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
        assert_eq!(task.present(Ns(500)).0, Doing::Asleep(Cause::Futex));
        task.enter(Ns(500), Ns(0));
        assert_eq!((task.burst(Ns(501)), task.last_burst()), (Ns(1), Ns(40)));
        assert_eq!(task.present(Ns(501)).0, Doing::Running);
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
    fn what_is_past_never_decreases() {
        let mut task = Activity::new(Ns(0));
        task.leave(Ns(10), Some(Cause::Io));
        assert_eq!(task.present(Ns(60)), (Doing::Asleep(Cause::Io), Ns(50)));
        assert_eq!(task.past().time(), Ns(10));
        task.enter(Ns(110), Ns(30));
        assert_eq!(task.past().slept(Cause::Io), sum(1, 70));
        assert_eq!(task.present(Ns(115)), (Doing::Running, Ns(5)));
    }

    #[test]
    fn nothing_is_counted_after_the_end() {
        let mut task = Activity::new(Ns(0));
        task.leave(Ns(10), Some(Cause::Poll));
        task.end(Ns(30));
        assert_eq!(task.began(), Ns(0));
        assert_eq!(task.present(Ns(99)), (Doing::Nothing, Ns(0)));
        assert_eq!(task.past(), task.totals(Ns(99)));
        assert_eq!(task.past().time(), Ns(30));
        assert_eq!(task.burst(Ns(99)), Ns(0));
        assert_eq!(task.ended(), Some(Ns(30)));
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
