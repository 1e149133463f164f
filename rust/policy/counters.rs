// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Counters of requests: ends, latencies, and the cost of early and late triggers.

use super::{
    histogram::Latencies,
    preempt::Verdict,
    request::record::{
        Cause,
        Record, //
    },
    units::Ns,
};

/// Counters of requests, which only grow.
///
/// # Invariants
///
/// - All-zero bytes are counters that counted nothing, so that they may be made in zeroed memory
///   without ever lying on a stack.
/// - `begun` is not less than the sum of how requests ended.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Requests that began.
    pub(crate) begun: u64,
    /// Triggers that zernel stored.
    pub(crate) triggers: u64,
    /// Done.
    pub(crate) done: u64,
    /// Given up, or not ready when the next one began.
    pub(crate) cancelled: u64,
    /// Not ready within the lease.
    pub(crate) expired: u64,
    /// Ended by the end of their page, file or process, or of the module.
    pub(crate) closed: u64,
    /// Ended by the end of their TSG.
    pub(crate) gone: u64,
    /// Ended by the suspend of the GPU.
    pub(crate) suspended: u64,
    /// The GPU waited for the data.
    pub(crate) early: u64,
    /// For so long in all.
    pub(crate) early_time: Ns,
    /// The data waited for the GPU.
    pub(crate) late: u64,
    /// For so long in all.
    pub(crate) late_time: Ns,
    /// The GPU was taken and ran nobody's kernels, for so long in all.
    pub(crate) lost_time: Ns,
    /// Took longer than was asked for.
    pub(crate) slo_violations: u64,
    /// TSGs that were taken off the GPU.
    pub(crate) preempted: u64,
    /// The same, though the GPU had not answered in time.
    pub(crate) preempt_timeouts: u64,
    /// TSGs that were not, for want of memory.
    pub(crate) preempt_no_memory: u64,
    /// TSGs that were not, because the GPU does not respond.
    pub(crate) preempt_unresponsive: u64,
    /// TSGs that were not, because of the state that the GPU was in.
    pub(crate) preempt_invalid: u64,
    /// Deadlines that were promised.
    pub(crate) accepted: u64,
    /// Requests that did not begin, as their deadline could not be promised.
    pub(crate) refused: u64,
    /// Promised deadlines by which the request was not over.
    pub(crate) missed: u64,
    /// From begin to done, of done requests.
    pub(crate) latency: Latencies,
}

/// The fate of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It was given.
    Accepted,
    /// It was not.
    Refused,
    /// It was not kept.
    Missed,
}

/// Events of a slot's requests that are not counted yet. A request is counted when nobody waits for
/// it: not while it begins or is triggered.
#[derive(Debug, Default)]
pub(crate) struct Uncounted {
    /// Requests that began.
    pub(crate) begun: u32,
    /// For how many a trigger was stored.
    pub(crate) triggered: u32,
    /// One is over.
    pub(crate) over: Option<Record>,
}

impl Uncounted {
    /// True if nothing is left to count.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun == 0 && self.triggered == 0 && self.over.is_none()
    }

    /// It was counted.
    pub(crate) fn clear(&mut self) {
        self.begun = 0;
        self.triggered = 0;
        self.over = None;
    }
}

impl Counters {
    /// Counters that counted nothing.
    // INVARIANT: Every byte is 0.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) const EMPTY: Self = Self {
        begun: 0,
        triggers: 0,
        done: 0,
        cancelled: 0,
        expired: 0,
        closed: 0,
        gone: 0,
        suspended: 0,
        early: 0,
        early_time: Ns::ZERO,
        late: 0,
        late_time: Ns::ZERO,
        lost_time: Ns::ZERO,
        slo_violations: 0,
        preempted: 0,
        preempt_timeouts: 0,
        preempt_no_memory: 0,
        preempt_unresponsive: 0,
        preempt_invalid: 0,
        accepted: 0,
        refused: 0,
        missed: 0,
        latency: Latencies::EMPTY,
    };

    /// Forgets everything.
    #[allow(dead_code, reason = "the module sums up one after the other")]
    pub(crate) fn clear(&mut self) {
        let counters = [
            &mut self.begun,
            &mut self.triggers,
            &mut self.done,
            &mut self.cancelled,
            &mut self.expired,
            &mut self.closed,
            &mut self.gone,
            &mut self.suspended,
            &mut self.early,
            &mut self.early_time.0,
            &mut self.late,
            &mut self.late_time.0,
            &mut self.lost_time.0,
            &mut self.slo_violations,
            &mut self.preempted,
            &mut self.preempt_timeouts,
            &mut self.preempt_no_memory,
            &mut self.preempt_unresponsive,
            &mut self.preempt_invalid,
            &mut self.accepted,
            &mut self.refused,
            &mut self.missed,
        ];
        for counter in counters {
            *counter = 0;
        }
        self.latency.clear();
    }

    /// Counts an event.
    pub(crate) fn count(&mut self, what: &Uncounted) {
        // INVARIANT: Before the end of it.
        self.begun = self.begun.saturating_add(what.begun.into());
        self.triggers = self.triggers.saturating_add(what.triggered.into());
        if let Some(record) = &what.over {
            self.end(record);
        }
    }

    /// A TSG was to be taken off the GPU.
    pub(crate) fn preempt(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Done => &mut self.preempted,
            Verdict::TimedOut => &mut self.preempt_timeouts,
            Verdict::OutOfMemory => &mut self.preempt_no_memory,
            Verdict::NotResponding => &mut self.preempt_unresponsive,
            Verdict::InvalidState | Verdict::Refused => &mut self.preempt_invalid,
        };
        *count = count.saturating_add(1);
    }

    /// A deadline was asked for, or promised and missed.
    pub(crate) fn promise(&mut self, fate: Promise) {
        let count = match fate {
            Promise::Accepted => &mut self.accepted,
            Promise::Refused => &mut self.refused,
            Promise::Missed => &mut self.missed,
        };
        *count = count.saturating_add(1);
    }

    /// A request is over.
    fn end(&mut self, record: &Record) {
        // INVARIANT: It began.
        let ended = match record.cause {
            Cause::Done => &mut self.done,
            Cause::Cancelled | Cause::Superseded => &mut self.cancelled,
            Cause::Expired => &mut self.expired,
            Cause::Closed => &mut self.closed,
            Cause::TsgGone => &mut self.gone,
            Cause::Suspended => &mut self.suspended,
        };
        *ended = ended.saturating_add(1);
        self.early = self
            .early
            .saturating_add(u64::from(record.early > Ns::ZERO));
        self.early_time = self.early_time.saturating_add(record.early);
        self.late = self.late.saturating_add(u64::from(record.late > Ns::ZERO));
        self.late_time = self.late_time.saturating_add(record.late);
        self.lost_time = self.lost_time.saturating_add(record.lost);
        self.slo_violations = self
            .slo_violations
            .saturating_add(u64::from(record.violates_slo()));
        if let Some(latency) = record.latency() {
            self.latency.record(latency);
        }
    }

    /// Requests that are not over.
    pub(crate) fn in_flight(&self) -> u64 {
        let ended = [
            self.done,
            self.cancelled,
            self.expired,
            self.closed,
            self.gone,
            self.suspended,
        ];
        ended
            .into_iter()
            .fold(self.begun, |left, ended| left.saturating_sub(ended))
    }

    /// Counts everything that `other` counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        let pairs = [
            (&mut self.begun, other.begun),
            (&mut self.triggers, other.triggers),
            (&mut self.done, other.done),
            (&mut self.cancelled, other.cancelled),
            (&mut self.expired, other.expired),
            (&mut self.closed, other.closed),
            (&mut self.gone, other.gone),
            (&mut self.suspended, other.suspended),
            (&mut self.early, other.early),
            (&mut self.early_time.0, other.early_time.0),
            (&mut self.late, other.late),
            (&mut self.late_time.0, other.late_time.0),
            (&mut self.lost_time.0, other.lost_time.0),
            (&mut self.slo_violations, other.slo_violations),
            (&mut self.preempted, other.preempted),
            (&mut self.preempt_timeouts, other.preempt_timeouts),
            (&mut self.preempt_no_memory, other.preempt_no_memory),
            (&mut self.preempt_unresponsive, other.preempt_unresponsive),
            (&mut self.preempt_invalid, other.preempt_invalid),
            (&mut self.accepted, other.accepted),
            (&mut self.refused, other.refused),
            (&mut self.missed, other.missed),
        ];
        for (mine, theirs) in pairs {
            *mine = mine.saturating_add(theirs);
        }
        self.latency.merge(&other.latency);
    }
}

// Too large for the stack of a KUnit case.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::request::words::Number;

    const BEGUN: Uncounted = Uncounted {
        begun: 1,
        triggered: 0,
        over: None,
    };

    fn over(record: Record) -> Uncounted {
        Uncounted {
            over: Some(record),
            ..Uncounted::default()
        }
    }

    #[test]
    fn nothing_is_empty() {
        assert!(Uncounted::default().is_empty());
        let triggered = Uncounted {
            triggered: 1,
            ..Uncounted::default()
        };
        for something in [BEGUN, triggered, over(record(Cause::Done))] {
            assert!(!something.is_empty());
            let mut counted = something;
            counted.clear();
            assert!(counted.is_empty());
        }
    }

    fn record(cause: Cause) -> Record {
        Record {
            number: Number::ONE,
            cause,
            begin: Ns(1_000),
            trigger: None,
            ready: None,
            done: (cause == Cause::Done).then_some(Ns(501_000)),
            implied: false,
            end: Ns(501_000),
            predicted: Ns::ZERO,
            early: Ns::ZERO,
            late: Ns::ZERO,
            lost: Ns::ZERO,
            slo: None,
            trial: None,
        }
    }

    #[test]
    fn every_cause_is_counted_once() {
        let mut t = Counters::EMPTY;
        let causes = [
            Cause::Done,
            Cause::Cancelled,
            Cause::Superseded,
            Cause::Expired,
            Cause::Closed,
            Cause::TsgGone,
            Cause::Suspended,
        ];
        for (left, cause) in causes.into_iter().enumerate() {
            t.count(&BEGUN);
            assert_eq!(t.in_flight(), 1, "{cause:?}");
            t.count(&over(record(cause)));
            assert_eq!(t.in_flight(), 0, "{left}");
        }
        assert_eq!((t.begun, t.done, t.cancelled, t.expired), (7, 1, 2, 1));
        assert_eq!((t.closed, t.gone, t.suspended), (1, 1, 1));
        assert_eq!(t.latency.count(), 1);
        assert_eq!(t.latency.max(), Some(Ns(500_000)));
    }

    #[test]
    fn every_preemption_is_counted_once() {
        let mut t = Counters::EMPTY;
        for verdict in [
            Verdict::Done,
            Verdict::TimedOut,
            Verdict::OutOfMemory,
            Verdict::NotResponding,
            Verdict::InvalidState,
            Verdict::Refused,
        ] {
            t.preempt(verdict);
        }
        t.preempt(Verdict::Done);
        assert_eq!((t.preempted, t.preempt_timeouts), (2, 1));
        assert_eq!((t.preempt_no_memory, t.preempt_unresponsive), (1, 1));
        assert_eq!(t.preempt_invalid, 2);
    }

    #[test]
    fn every_promise_is_counted_once() {
        let mut t = Counters::EMPTY;
        t.promise(Promise::Refused);
        for _ in 0..3 {
            t.promise(Promise::Accepted);
        }
        t.promise(Promise::Missed);
        t.promise(Promise::Missed);
        let mut sum = Counters::EMPTY;
        sum.merge(&t);
        assert_eq!((sum.accepted, sum.refused, sum.missed), (3, 1, 2));
        sum.clear();
        assert_eq!((sum.accepted, sum.refused, sum.missed), (0, 0, 0));
    }

    #[test]
    fn being_wrong_is_counted_with_its_cost() {
        let mut t = Counters::EMPTY;
        t.count(&over(Record {
            early: Ns(7),
            lost: Ns(17),
            ..record(Cause::Done)
        }));
        t.count(&over(Record {
            late: Ns(11),
            lost: Ns(10),
            slo: Some(Ns(499_999)),
            ..record(Cause::Done)
        }));
        t.count(&over(Record {
            slo: Some(Ns(500_000)),
            ..record(Cause::Done)
        }));
        assert_eq!((t.early, t.early_time), (1, Ns(7)));
        assert_eq!((t.late, t.late_time), (1, Ns(11)));
        assert_eq!(t.lost_time, Ns(27));
        assert_eq!(t.slo_violations, 1);
    }

    #[test]
    fn merging_adds_everything() {
        let mut t = Counters::EMPTY;
        t.count(&Uncounted {
            begun: 1,
            triggered: 1,
            over: Some(Record {
                lost: Ns(3),
                ..record(Cause::Done)
            }),
        });
        t.count(&BEGUN);
        t.count(&Uncounted::default());
        let mut sum = Counters::EMPTY;
        sum.merge(&t);
        sum.merge(&t);
        assert_eq!((sum.begun, sum.triggers, sum.done), (4, 2, 2));
        assert_eq!(sum.in_flight(), 2);
        assert_eq!(sum.lost_time, Ns(6));
        assert_eq!(sum.latency.count(), 2);
        sum.clear();
        assert_eq!(format!("{sum:?}"), format!("{:?}", Counters::EMPTY));
    }
}
