// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The gate of a request: a word that the pieces of its work count down, and that tells of a failure.
//!
//! Anybody who has the page writes to it. It is looked at while the request waits for its data, and no
//! more from then on: a word that becomes anything else later changes nothing.

use super::{
    record::Cause,
    words::{
        Gate,
        Observed, //
    },
    Actions,
    Slot,
    State, //
};
use crate::policy::units::Ns;

impl Slot {
    /// Takes up its gate, behind the stores that name it: who says that the data is ready, or that the
    /// request is done, knows better.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_gate<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        let waits_for_data = matches!(
            self.state,
            State::Armed | State::Waiting { ready: None } | State::Taken { .. }
        );
        if !waits_for_data {
            return;
        }
        match Gate::of(seen.gate) {
            Gate::Pending => {}
            Gate::Open => {
                // A time before the begin is an earlier request's.
                let claimed = Some(seen.ready_ns).filter(|&at| at >= self.begin);
                let ready = claimed.unwrap_or(now).min(now);
                self.set_ready::<ORDER>(now, ready, seen, actions);
            }
            Gate::Failed => self.withdraw::<ORDER>(now, Cause::Cancelled, actions),
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_gate))]
mod tests {
    use super::*;
    use crate::policy::request::{
        succession::Succession,
        trial::Look,
        words::Number,
        Error,
        Plan, //
    };
    use crate::policy::switch_cost::Phase;

    /// Begins at 1000; trigger at 1200, lease to 2200.
    const PLAN: Plan = Plan {
        trigger_at: Ns(1_200),
        lease: Ns(1_000),
        predicted: Ns(280),
        cost: Ns(80),
        slo: None,
        holder: true,
        look: Look::Never,
        phase: Phase::Settled,
        gate: true,
        ordered: false,
    };
    const NUMBER: Option<Number> = Some(Number::ONE);

    /// The words of a process that has stored nothing but its gate.
    fn gate(word: u64) -> Observed {
        Observed {
            gate: word,
            ..Observed::default()
        }
    }

    /// A request that was triggered, if `taken`.
    fn begun(taken: bool, plan: Plan) -> Slot {
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &gate(2), plan);
        if taken {
            slot.poll(Ns(1_200), &gate(1));
        }
        slot
    }

    fn cause(actions: &Actions) -> Option<Cause> {
        actions.over.map(|record| record.cause)
    }

    #[test]
    fn a_gate_is_open_at_0_alone() {
        assert_eq!(Gate::of(0), Gate::Open);
        for pending in [1, 2, 1 << 32, (1 << 63) - 1] {
            assert_eq!(Gate::of(pending), Gate::Pending);
            assert_eq!(Gate::of(pending | 1 << 63), Gate::Failed);
        }
        assert_eq!(Gate::of(1 << 63), Gate::Failed);
        // A unit too many was given back.
        assert_eq!(Gate::of(0u64.wrapping_sub(1)), Gate::Failed);
    }

    #[test]
    fn a_gate_that_opens_is_ready() {
        for taken in [false, true] {
            let mut slot = begun(taken, PLAN);
            let actions = slot.poll(Ns(1_250), &gate(0));
            let expected = Actions {
                release: NUMBER,
                trigger: NUMBER.filter(|_| !taken),
                ..Actions::default()
            };
            assert_eq!(actions, expected);
            // It is no more looked at.
            for word in [1, 1 << 63, u64::MAX, 0] {
                assert_eq!(slot.poll(Ns(9_000), &gate(word)), Actions::default());
            }
            let over = slot.end(Ns(9_001), &gate(u64::MAX), Cause::Closed).over;
            assert!(over.is_some_and(|r| r.ready == Some(Ns(1_250)) && r.cause == Cause::Closed));
        }
    }

    #[test]
    fn a_gate_that_fails_gives_the_gpu_back() {
        for (taken, word) in [
            (false, 1 << 63),
            (false, u64::MAX),
            (true, 1 << 63 | 7),
            (true, u64::MAX),
        ] {
            let mut slot = begun(taken, PLAN);
            let actions = slot.poll(Ns(1_250), &gate(word));
            assert_eq!(cause(&actions), Some(Cause::Cancelled));
            assert_eq!(actions.release, NUMBER);
            assert_eq!(actions.trigger, NUMBER.filter(|_| !taken));
            assert_eq!(actions.alarm, None);
            assert_eq!(slot.state(), State::Idle);
            // Nothing takes that back.
            assert_eq!(slot.poll(Ns(1_260), &gate(0)), Actions::default());
            let late = slot.ready(Number::ONE, Ns(1_270), &gate(0));
            assert_eq!(late, Err(Error::Stale));
        }
    }

    #[test]
    fn a_gate_that_is_pending_has_a_lease() {
        let mut slot = begun(true, PLAN);
        for word in [1, (1 << 63) - 1] {
            assert_eq!(slot.poll(Ns(2_199), &gate(word)).alarm, Some(Ns(2_200)));
        }
        let actions = slot.poll(Ns(2_200), &gate(1));
        assert_eq!(cause(&actions), Some(Cause::Expired));
    }

    #[test]
    fn a_gate_without_the_wish_is_none() {
        let plan = Plan {
            gate: false,
            ..PLAN
        };
        for word in [0, 1 << 63, u64::MAX] {
            let mut slot = begun(true, plan);
            assert_eq!(slot.poll(Ns(1_300), &gate(word)).alarm, Some(Ns(2_200)));
            assert!(matches!(slot.state(), State::Taken { .. }));
        }
    }

    #[test]
    fn a_gate_that_is_open_at_begin_is_ready_then() {
        let mut slot = Slot::new();
        let (number, actions) = slot.begin(Ns(1_000), &gate(0), PLAN);
        assert_eq!((actions.release, actions.trigger), (NUMBER, NUMBER));
        assert_eq!((Some(number), actions.alarm), (NUMBER, None));
        assert!(slot.runs());
        // As one behind another that was not ready.
        let mut requests = Succession::new();
        let mut actions = Actions::default();
        requests.begin(Number::ONE, Ns(1_000), &gate(1), &PLAN, &mut actions);
        let next = Number::ONE.next();
        let mut actions = Actions::default();
        requests.begin(next, Ns(1_100), &gate(0), &PLAN, &mut actions);
        assert_eq!(actions.release, Some(next));
        assert_eq!(actions.trigger, Some(next));
        assert!(actions.over.is_some());
    }

    #[test]
    fn a_gate_that_has_failed_at_begin_takes_nothing() {
        for trigger_at in [900, 1_200] {
            let plan = Plan {
                trigger_at: Ns(trigger_at),
                ..PLAN
            };
            let mut slot = Slot::new();
            let (_, actions) = slot.begin(Ns(1_000), &gate(1 << 63), plan);
            let expected = Actions {
                alarm: Some(Ns(1_000)),
                ..Actions::default()
            };
            assert_eq!(actions, expected);
            let mut mended = slot;
            let actions = slot.poll(Ns(1_000), &gate(1 << 63));
            assert_eq!((actions.release, actions.trigger), (NUMBER, NUMBER));
            assert_eq!(cause(&actions), Some(Cause::Cancelled));
            // Or it is mended by then, and due.
            let actions = mended.poll(Ns(1_001), &gate(1));
            assert_eq!((actions.release, actions.trigger), (None, NUMBER));
            assert_eq!(actions.alarm, Some(Ns(2_001)));
        }
    }

    #[test]
    fn who_names_the_request_knows_better() -> Result<(), Error> {
        let failed = gate(1 << 63);
        let mut slot = begun(true, PLAN);
        let released = Observed {
            release: 1,
            trigger: 1,
            ready_ns: Ns(1_230),
            ..failed
        };
        assert_eq!(slot.poll(Ns(1_300), &released), Actions::default());
        assert!(slot.runs());
        let mut slot = begun(true, PLAN);
        let actions = slot.ready(Number::ONE, Ns(1_300), &failed)?;
        assert_eq!((actions.release, actions.over), (NUMBER, None));
        let mut slot = begun(true, PLAN);
        let actions = slot.done(Number::ONE, Ns(1_300), &failed)?;
        assert_eq!(cause(&actions), Some(Cause::Done));
        let mut slot = begun(true, PLAN);
        let actions = slot.cancel(Number::ONE, Ns(1_300), &failed)?;
        assert_eq!(cause(&actions), Some(Cause::Cancelled));
        Ok(())
    }

    #[test]
    fn the_time_of_an_earlier_request_is_none() {
        for (claimed, ready) in [
            (0, 1_300),
            (999, 1_300),
            (1_000, 1_000),
            (1_250, 1_250),
            (1_300, 1_300),
            (u64::MAX, 1_300),
        ] {
            let mut slot = begun(true, PLAN);
            let open = Observed {
                ready_ns: Ns(claimed),
                ..gate(0)
            };
            slot.poll(Ns(1_300), &open);
            let over = slot.end(Ns(1_400), &open, Cause::Closed).over;
            assert_eq!(over.and_then(|record| record.ready), Some(Ns(ready)));
        }
    }

    #[test]
    fn the_word_of_the_next_one_says_nothing_of_the_one_before() {
        for (word, taken, gate_of_next) in [
            (0, false, true),
            (0, true, true),
            (0, true, false),
            (1 << 63, true, true),
        ] {
            let mut requests = Succession::new();
            let mut actions = Actions::default();
            requests.begin(Number::ONE, Ns(1_000), &gate(1), &PLAN, &mut actions);
            if taken {
                requests.poll(Ns(1_200), &gate(1));
            }
            // By a begin, and by the binding before it.
            let mut bound = requests;
            let retired = bound.retire(Ns(1_500), &gate(word));
            let next = Number::ONE.next();
            let plan = Plan {
                gate: gate_of_next,
                trigger_at: Ns(9_000),
                ..PLAN
            };
            let mut begun = Actions::default();
            requests.begin(next, Ns(1_500), &gate(word), &plan, &mut begun);
            for actions in [retired, begun] {
                assert_eq!(cause(&actions), Some(Cause::Superseded));
                assert!(actions.over.is_some_and(|record| record.ready.is_none()));
                assert!(actions.release.is_some());
            }
            assert!(!requests.is_behind());
        }
    }
}
