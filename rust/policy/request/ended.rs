// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The end of a request that had a place in the order of deadlines: its burst, and the moment that its
//! deadline is compared with.

use super::{
    record::{
        Cause,
        Ended,
        Record, //
    },
    words::Number,
    Slot,
    State, //
};
use crate::policy::units::Ns;

impl Slot {
    /// The end of the last request that had a place, if it was this one.
    pub(crate) fn ended(&self, number: Number) -> Option<Ended> {
        self.ended.filter(|ended| ended.number == number)
    }

    /// A request that has the GPU was looked at, and is not done.
    #[cold]
    #[inline(never)]
    pub(super) fn see_not_done(&mut self, now: Ns) {
        if matches!(self.state, State::Taken { .. } | State::Running { .. }) {
            self.not_done = now;
        }
    }

    /// Keeps the end of a request that had a place.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_end(&mut self, record: &Record) {
        if !self.plan.ordered {
            return;
        }
        // A process that stores its end tells the time of that, which was behind the last look.
        let done = record.done.map(|done| done.max(self.not_done));
        let at = done.map_or(record.end, |done| done.min(record.end));
        let is_known = record.cause == Cause::Done && !record.implied;
        let is_late = match record.cause {
            Cause::Expired | Cause::TsgGone | Cause::Suspended => true,
            Cause::Done | Cause::Cancelled | Cause::Superseded | Cause::Closed => false,
        };
        let switched = record
            .trigger
            .map(|trigger| trigger.saturating_add(self.plan.cost));
        let had = switched.map(|switched| at.saturating_sub(switched));
        self.ended = Some(Ended {
            number: record.number,
            at,
            burst: had.filter(|_| is_known),
            least: had.filter(|_| !is_known && !is_late),
            late: had.filter(|_| is_late),
        });
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_ended))]
mod tests {
    use super::{
        super::{
            words::Observed,
            Plan, //
        },
        *, //
    };

    /// A request that was triggered at 5,000.
    fn triggered() -> Slot {
        let plan = Plan {
            trigger_at: Ns(1_200),
            lease: Ns(200_000),
            cost: Ns(80),
            holder: true,
            ordered: true,
            ..Plan::default()
        };
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &Observed::default(), plan);
        slot.poll(Ns(1_200), &Observed::default());
        slot.grant(Number::ONE, Ns(5_000), &Observed::default());
        slot
    }

    #[test]
    fn its_end_tells_its_burst() {
        let mut slot = triggered();
        assert!(slot
            .ready(Number::ONE, Ns(5_020), &Observed::default())
            .is_ok());
        assert!(slot
            .done(Number::ONE, Ns(6_080), &Observed::default())
            .is_ok());
        let ended = Ended {
            number: Number::ONE,
            at: Ns(6_080),
            burst: Some(Ns(1_000)),
            least: None,
            late: None,
        };
        assert_eq!(slot.ended(Number::ONE), Some(ended));
        assert_eq!(slot.ended(Number::ONE.next()), None);
        // It may go on after this.
        let mut given_up = triggered();
        assert!(given_up
            .cancel(Number::ONE, Ns(6_000), &Observed::default())
            .is_ok());
        let ended = given_up.ended(Number::ONE);
        assert!(ended.is_some_and(|ended| ended.burst.is_none()));
        assert_eq!(ended.and_then(|ended| ended.least), Some(Ns(920)));
        let mut stuck = triggered();
        stuck.poll(Ns(205_000), &Observed::default());
        let ended = stuck.ended(Number::ONE);
        assert_eq!(ended.and_then(|ended| ended.late), Some(Ns(199_920)));
        assert!(ended.is_some_and(|ended| (ended.burst, ended.least) == (None, None)));
    }

    #[test]
    fn a_time_that_its_process_tells_is_behind_the_last_look() {
        // It is stored at 106,000, that it was done at 5,090.
        let stored = Observed {
            done: 1,
            done_ns: Ns(5_090),
            ..Observed::default()
        };
        for (looks, at) in [(&[][..], 5_090), (&[50_000, 105_000], 105_000)] {
            let mut slot = triggered();
            assert!(slot
                .ready(Number::ONE, Ns(5_020), &Observed::default())
                .is_ok());
            for look in looks {
                slot.poll(Ns(*look), &Observed::default());
            }
            slot.poll(Ns(106_000), &stored);
            let ended = slot.ended(Number::ONE);
            assert_eq!(ended.map(|ended| ended.at), Some(Ns(at)));
            let burst = Ns(at - 5_080);
            assert_eq!(ended.and_then(|ended| ended.burst), Some(burst));
        }
    }

    #[test]
    fn what_took_its_gpu_is_not_its_burst() {
        for cause in [Cause::Suspended, Cause::TsgGone, Cause::Closed] {
            let mut slot = triggered();
            slot.end(Ns(9_080), &Observed::default(), cause);
            let ended = slot.ended(Number::ONE);
            let told = ended.map(|ended| (ended.burst, ended.least, ended.late));
            let expected = match cause {
                Cause::Closed => (None, Some(Ns(4_000)), None),
                _ => (None, None, Some(Ns(4_000))),
            };
            assert_eq!(told, Some(expected));
        }
    }

    #[test]
    fn the_next_one_tells_how_long_it_was_at_least() {
        let (mut ready, mut held) = (triggered(), triggered());
        assert!(ready
            .ready(Number::ONE, Ns(5_020), &Observed::default())
            .is_ok());
        for slot in [&mut ready, &mut held] {
            let seen = Observed {
                trigger: 1,
                ..Observed::default()
            };
            let plan = Plan {
                ordered: true,
                trigger_at: Ns(9_000),
                ..Plan::default()
            };
            slot.begin(Ns(7_080), &seen, plan);
            let ended = Ended {
                number: Number::ONE,
                at: Ns(7_080),
                burst: None,
                least: Some(Ns(2_000)),
                late: None,
            };
            assert_eq!(slot.ended(Number::ONE), Some(ended));
            // It is gone as the next one ends.
            slot.end(Ns(8_000), &seen, Cause::Closed);
            assert_eq!(slot.ended(Number::ONE), None);
        }
    }

    #[test]
    fn one_that_was_not_triggered_tells_nothing() {
        let plan = Plan {
            trigger_at: Ns(9_000),
            ordered: true,
            ..Plan::default()
        };
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &Observed::default(), plan);
        slot.end(Ns(8_000), &Observed::default(), Cause::Cancelled);
        let ended = slot.ended(Number::ONE);
        assert!(ended.is_some_and(|ended| (ended.burst, ended.least) == (None, None)));
    }
}
