// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of one slot, by hand: each one is the story of a request.

#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request))]
mod tests {
    use crate::policy::{
        request::{
            record::{
                Cause,
                Record, //
            },
            trial::Look,
            words::{
                Number,
                Observed, //
            },
            Actions,
            Error,
            Plan,
            Slot,
            State, //
        },
        switch_cost::{
            Phase,
            Switched, //
        },
        units::Ns, //
    };

    /// Begins at 1000; trigger at 1200, switched at 1280, lease to 2200.
    const PLAN: Plan = Plan {
        trigger_at: Ns(1_200),
        lease: Ns(1_000),
        predicted: Ns(280),
        cost: Ns(80),
        slo: Some(Ns(5_000)),
        holder: true,
        look: Look::AtDue,
        phase: Phase::Settled,
        gate: false,
        ordered: false,
    };

    const N: u32 = 1;
    const NUMBER: Option<Number> = Some(Number::ONE);
    const NOTHING: Observed = Observed {
        done: 0,
        done_ns: Ns::ZERO,
        trigger: 0,
        release: 0,
        gate: 0,
        ready_ns: Ns::ZERO,
        held: 0,
    };
    const TRIGGERED: Observed = Observed {
        trigger: N,
        ..NOTHING
    };

    fn ready_at(now: u64) -> Observed {
        Observed {
            release: N,
            ready_ns: Ns(now),
            ..TRIGGERED
        }
    }

    fn armed(plan: Plan) -> Slot {
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &NOTHING, plan);
        slot
    }

    fn taken() -> Slot {
        let mut slot = armed(PLAN);
        slot.poll(Ns(1_200), &NOTHING);
        slot
    }

    fn cause(actions: &Actions) -> Option<Cause> {
        actions.over.map(|record| record.cause)
    }

    fn outcome(actions: &Actions) -> Option<Switched> {
        actions.sample.and_then(|trial| trial.outcome(None))
    }

    /// True if nothing is to be done, and the words tell nothing of the switch.
    fn says_nothing(actions: &Actions) -> bool {
        let rest = Actions {
            sample: None,
            ..*actions
        };
        rest == Actions::default() && outcome(actions).is_none()
    }

    fn given_back(actions: &Actions) -> bool {
        actions.release == NUMBER && actions.alarm.is_none()
    }

    #[test]
    fn begin_arms_the_timer_and_stores_nothing() {
        let mut slot = Slot::new();
        let (number, actions) = slot.begin(Ns(1_000), &NOTHING, PLAN);
        assert_eq!(number, Number::ONE);
        assert_eq!(slot.active(), NUMBER);
        let expected = Actions {
            alarm: Some(Ns(1_200)),
            ..Actions::default()
        };
        assert_eq!(actions, expected);
    }

    #[test]
    fn a_request_that_is_due_takes_the_gpu_at_once() {
        let mut slot = Slot::new();
        let due = Plan {
            trigger_at: Ns(900),
            ..PLAN
        };
        let (_, actions) = slot.begin(Ns(1_000), &NOTHING, due);
        assert_eq!(actions.trigger, NUMBER);
        assert_eq!(actions.alarm, Some(Ns(1_080)));
    }

    #[test]
    fn the_timer_takes_the_gpu_then_samples_then_ends_the_lease() {
        let mut slot = armed(PLAN);
        let actions = slot.poll(Ns(1_200), &NOTHING);
        assert_eq!(actions.trigger, NUMBER);
        assert_eq!(actions.release, None);
        assert_eq!(actions.alarm, Some(Ns(1_280)));
        let actions = slot.poll(
            Ns(1_281),
            &Observed {
                held: N,
                ..TRIGGERED
            },
        );
        assert_eq!(outcome(&actions), Some(Switched::InTime));
        assert_eq!(actions.trigger, None);
        assert_eq!(actions.alarm, Some(Ns(2_200)));
        let actions = slot.poll(Ns(2_200), &TRIGGERED);
        assert!(given_back(&actions));
        assert_eq!(cause(&actions), Some(Cause::Expired));
        assert_eq!(actions.over.map(|r| r.early), Some(Ns(920)));
        assert_eq!(slot.state(), State::Idle);
    }

    #[test]
    fn a_stale_timer_does_nothing() {
        let mut slot = armed(PLAN);
        let early = slot.poll(Ns(1_199), &NOTHING);
        assert_eq!(early.trigger, None);
        assert_eq!(early.alarm, Some(Ns(1_200)));
        slot.poll(Ns(1_200), &NOTHING);
        let again = slot.poll(Ns(1_201), &TRIGGERED);
        assert_eq!(again.trigger, None);
        assert_eq!(again.alarm, Some(Ns(1_280)));
        slot.end(Ns(1_202), &TRIGGERED, Cause::Closed);
        assert_eq!(slot.poll(Ns(5_000), &TRIGGERED), Actions::default());
    }

    #[test]
    fn only_a_prompt_sample_counts() {
        let unheld = taken().poll(Ns(1_290), &TRIGGERED);
        assert_eq!(outcome(&unheld), Some(Switched::NotYet));
        let late = taken().poll(Ns(1_291), &TRIGGERED);
        assert_eq!(outcome(&late), None);
        assert_eq!(late.alarm, Some(Ns(2_200)));
    }

    #[test]
    fn ready_by_store_is_found_with_its_time() -> Result<(), Error> {
        let mut slot = taken();
        let actions = slot.poll(Ns(1_500), &ready_at(1_400));
        assert!(says_nothing(&actions));
        let actions = slot.done(Number::ONE, Ns(1_900), &ready_at(1_400))?;
        let expected = Record {
            number: Number::ONE,
            cause: Cause::Done,
            begin: Ns(1_000),
            trigger: Some(Ns(1_200)),
            ready: Some(Ns(1_400)),
            done: Some(Ns(1_900)),
            implied: false,
            end: Ns(1_900),
            predicted: Ns(280),
            early: Ns(120),
            late: Ns::ZERO,
            lost: Ns(200),
            slo: Some(Ns(5_000)),
            trial: None,
        };
        assert_eq!(actions.over, Some(expected));
        Ok(())
    }

    #[test]
    fn ready_ends_the_lease() {
        let mut slot = taken();
        let actions = slot.ready(Number::ONE, Ns(1_285), &TRIGGERED);
        let expected = Actions {
            release: NUMBER,
            alarm: Some(Ns(1_280)),
            ..Actions::default()
        };
        assert!(actions.is_ok_and(|a| a == expected));
        assert!(says_nothing(&slot.poll(Ns(9_000), &ready_at(1_285))));
    }

    #[test]
    fn the_switch_is_looked_at_after_ready_too() {
        for (held, seen) in [(0, Switched::NotYet), (N, Switched::InTime)] {
            let mut slot = taken();
            let early = slot.poll(Ns(1_279), &ready_at(1_250));
            assert_eq!((early.sample, early.alarm), (None, Some(Ns(1_280))));
            let words = Observed {
                held,
                ..ready_at(1_250)
            };
            let actions = slot.poll(Ns(1_280), &words);
            assert_eq!((outcome(&actions), actions.alarm), (Some(seen), None));
            assert_eq!(slot.poll(Ns(1_281), &words), Actions::default());
        }
        // Once it is over only if it has run by then.
        for (held, now, seen) in [
            (0, 1_270, None),
            (N, 1_270, Some(Switched::InTime)),
            (N, 1_281, None),
        ] {
            let mut slot = taken();
            let words = Observed { held, ..TRIGGERED };
            let actions = slot.done(Number::ONE, Ns(now), &words);
            assert!(actions.is_ok_and(|a| outcome(&a) == seen));
            assert_eq!(slot.poll(Ns(1_282), &words), Actions::default());
        }
        // The same by store, which the timer finds.
        let mut slot = taken();
        let words = Observed {
            held: N,
            done: N,
            done_ns: Ns(1_270),
            ..ready_at(1_250)
        };
        let actions = slot.poll(Ns(1_280), &words);
        assert_eq!(outcome(&actions), Some(Switched::InTime));
        assert_eq!(cause(&actions), Some(Cause::Done));
    }

    #[test]
    fn ready_before_the_trigger_triggers_once() {
        let mut slot = armed(PLAN);
        let actions = slot.ready(Number::ONE, Ns(1_100), &NOTHING);
        assert!(actions.is_ok_and(|a| given_back(&a) && a.trigger == NUMBER));
        assert_eq!(slot.poll(Ns(1_200), &ready_at(0)), Actions::default());
        let end = slot.end(Ns(1_300), &ready_at(0), Cause::Closed);
        assert_eq!(
            end.over.map(|r| (r.early, r.late)),
            Some((Ns::ZERO, Ns(80)))
        );
    }

    #[test]
    fn a_release_without_its_trigger_is_triggered() {
        let release_only = Observed {
            trigger: 0,
            ..ready_at(1_100)
        };
        let actions = armed(PLAN).poll(Ns(1_150), &release_only);
        assert_eq!((actions.release, actions.trigger), (None, NUMBER));
    }

    #[test]
    fn done_without_ready_frees_the_holder() {
        let done = Observed {
            done: N,
            done_ns: Ns(1_900),
            ..TRIGGERED
        };
        let actions = taken().poll(Ns(2_000), &done);
        assert!(given_back(&actions));
        let record = actions.over.map(|r| (r.cause, r.ready, r.done));
        assert_eq!(
            record,
            Some((Cause::Done, Some(Ns(1_900)), Some(Ns(1_900))))
        );
        let actions = armed(PLAN).done(Number::ONE, Ns(1_100), &NOTHING);
        assert!(actions.is_ok_and(|a| given_back(&a) && a.trigger == NUMBER));
    }

    #[test]
    fn what_takes_the_request_away_gives_the_gpu_back() {
        for why in [Cause::Closed, Cause::TsgGone, Cause::Suspended] {
            let before = armed(PLAN).end(Ns(1_100), &NOTHING, why);
            assert!(given_back(&before) && before.trigger == NUMBER);
            assert_eq!(cause(&before), Some(why));
            let after = taken().end(Ns(1_210), &TRIGGERED, why);
            assert!(given_back(&after) && after.trigger.is_none());
            assert_eq!(cause(&after), Some(why));
        }
    }

    #[test]
    fn what_was_done_before_the_end_counts_as_done() {
        let done = Observed {
            done: N,
            done_ns: Ns(1_500),
            ..ready_at(1_300)
        };
        let actions = taken().end(Ns(1_600), &done, Cause::Closed);
        assert_eq!(cause(&actions), Some(Cause::Done));
    }

    #[test]
    fn the_next_begin_ends_the_request() {
        let mut slot = taken();
        let (next, actions) = slot.begin(Ns(1_300), &TRIGGERED, PLAN);
        assert_eq!(next, Number::ONE.next());
        assert_eq!(cause(&actions), Some(Cause::Superseded));
        // The new one is due already; its trigger reaches the old one too.
        assert_eq!((actions.release, actions.trigger), (NUMBER, Some(next)));
        let mut slot = taken();
        let (_, actions) = slot.begin(Ns(1_900), &ready_at(1_300), PLAN);
        let record = actions.over.map(|r| (r.cause, r.implied, r.latency()));
        assert_eq!(record, Some((Cause::Done, true, Some(Ns(900)))));
    }

    #[test]
    fn calls_for_another_request_change_nothing() {
        let mut slot = taken();
        let before = slot;
        let other = Number::ONE.next();
        assert_eq!(slot.ready(other, Ns(1_300), &TRIGGERED), Err(Error::Stale));
        assert_eq!(slot.done(other, Ns(1_300), &TRIGGERED), Err(Error::Stale));
        assert_eq!(slot.cancel(other, Ns(1_300), &TRIGGERED), Err(Error::Stale));
        assert_eq!(slot, before);
        let actions = slot.cancel(Number::ONE, Ns(1_300), &TRIGGERED);
        assert!(actions.is_ok_and(|a| cause(&a) == Some(Cause::Cancelled)));
        assert_eq!(
            slot.ready(Number::ONE, Ns(1_300), &TRIGGERED),
            Err(Error::Stale)
        );
    }

    #[test]
    fn claimed_times_are_brought_between_begin_and_now() {
        let mut slot = armed(PLAN);
        slot.poll(Ns(1_500), &ready_at(u64::MAX));
        let done = Observed {
            done: N,
            done_ns: Ns(3),
            ..ready_at(3)
        };
        let actions = slot.poll(Ns(1_600), &done);
        let record = actions.over.map(|r| (r.ready, r.done));
        assert_eq!(record, Some((Some(Ns(1_500)), Some(Ns(1_500)))));
        let actions = taken().poll(Ns(1_600), &done);
        let record = actions.over.map(|r| (r.ready, r.done));
        assert_eq!(record, Some((Some(Ns(1_000)), Some(Ns(1_000)))));
    }

    #[test]
    fn a_trigger_by_the_process_counts_from_begin() {
        let mut slot = armed(PLAN);
        let actions = slot.poll(Ns(1_100), &TRIGGERED);
        assert_eq!((actions.trigger, actions.alarm), (None, Some(Ns(2_000))));
        let actions = slot.poll(Ns(2_000), &TRIGGERED);
        assert_eq!(cause(&actions), Some(Cause::Expired));
    }

    #[test]
    fn only_a_request_without_a_holder_keeps_others_off() {
        let mut slot = armed(Plan {
            holder: false,
            ..PLAN
        });
        assert!(!slot.holds());
        let actions = slot.poll(Ns(1_200), &NOTHING);
        assert!(slot.holds());
        assert_eq!(slot.holds_until(), Ns(2_200));
        assert_eq!(actions.alarm, Some(Ns(2_200)));
        assert!(slot.ready(Number::ONE, Ns(1_300), &TRIGGERED).is_ok());
        assert!(!slot.holds());
        assert!(!taken().holds());
    }

    #[test]
    fn what_a_process_triggers_is_not_before_its_begin() {
        let mut slot = armed(PLAN);
        let early = Observed {
            trigger: N,
            release: N,
            ..NOTHING
        };
        assert_eq!(slot.poll(Ns(1_100), &early).over, None);
        let actions = slot.end(Ns(1_150), &early, Cause::Closed);
        let times = actions.over.map(|r| (r.trigger, r.ready, r.early));
        assert_eq!(times, Some((Some(Ns(1_000)), Some(Ns(1_000)), Ns(0))));
    }

    #[test]
    fn a_clock_that_goes_back_does_no_harm() {
        let mut slot = taken();
        assert_eq!(slot.poll(Ns(0), &TRIGGERED).alarm, Some(Ns(1_280)));
        assert!(slot.ready(Number::ONE, Ns(0), &TRIGGERED).is_ok());
        let actions = slot.end(Ns(0), &ready_at(0), Cause::Cancelled);
        assert_eq!(actions.over.map(|r| r.end), Some(Ns(1_000)));
    }

    #[test]
    fn plans_for_ever_do_not_overflow() {
        let mut slot = armed(Plan {
            trigger_at: Ns(0),
            lease: Ns(u64::MAX),
            cost: Ns(u64::MAX),
            ..PLAN
        });
        assert_eq!(slot.poll(Ns(5_000), &TRIGGERED).alarm, Some(Ns(u64::MAX)));
        let actions = slot.poll(Ns(u64::MAX), &TRIGGERED);
        assert_eq!(cause(&actions), Some(Cause::Expired));
    }
}
