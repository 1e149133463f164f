// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The look at a switch: one bit per request for the cost that is learned.

use super::{
    trial::{
        Look,
        Trial, //
    },
    words::Observed,
    Actions,
    Slot,
    State, //
};
use crate::policy::{
    switch_cost::Switched,
    units::Ns, //
};

impl Slot {
    /// A late sample says nothing: it may be late by this part of the cost, 1/8.
    const LATE_SAMPLE: u32 = 3;

    /// When the switch is to be looked at, if that is still to be done.
    #[inline]
    pub(super) fn look_at(&self) -> Option<Ns> {
        let due = self.sample?;
        Some(match self.plan.look {
            // Its lease ends the request.
            Look::Later => due.saturating_add(Trial::LATER).min(self.lease_end(due)),
            Look::AtDue | Look::Never => due,
        })
    }

    /// The end of its lease, `due` at the earliest.
    fn lease_end(&self, due: Ns) -> Ns {
        match self.state {
            State::Taken { trigger } => trigger.saturating_add(self.plan.lease).max(due),
            _ => Ns(u64::MAX),
        }
    }

    pub(super) fn sample_if_due(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        let (Some(at), Some(number)) = (self.look_at(), self.active()) else {
            return;
        };
        if now < at {
            return;
        }
        let has_run = number.is(seen.held);
        let is_prompt = now.saturating_sub(at) <= Ns(self.plan.cost.0 >> Self::LATE_SAMPLE);
        let told = match (self.plan.look, has_run) {
            // It ran at some time before.
            (Look::Later, true) => None,
            (Look::Later, false) => Some(Switched::NotYet),
            (Look::AtDue | Look::Never, true) => Some(Switched::InTime),
            (Look::AtDue | Look::Never, false) => Some(Switched::NotYet),
        };
        let told = told.filter(|_| is_prompt || self.plan.look == Look::Later);
        actions.sample = self.end_trial(has_run, told);
    }

    /// A request that is done at `done`, before the switch was to be looked at, had the switch in
    /// time. Without this, short requests would tell of slow switches alone.
    pub(super) fn sample_if_done(&mut self, done: Ns, seen: &Observed, actions: &mut Actions) {
        if let (Some(due), Some(number)) = (self.sample, self.active()) {
            if number.is(seen.held) && (done <= due || self.plan.look == Look::Later) {
                let told = (done <= due).then_some(Switched::InTime);
                actions.sample = self.end_trial(true, told);
            }
        }
    }

    /// The cost is tried no more. Returns the trial, if it was.
    #[inline]
    pub(super) fn end_trial(&mut self, has_run: bool, told: Option<Switched>) -> Option<Trial> {
        let due = self.sample.take()?;
        let (State::Taken { trigger } | State::Running { trigger, .. }) = self.state else {
            return None;
        };
        Some(Trial {
            trigger,
            due,
            phase: self.plan.phase,
            has_run,
            told,
        })
    }

    /// The switch tells nothing of the cost: others keep the GPU.
    pub(crate) fn try_no_more(&mut self) {
        self.sample = None;
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_sample))]
mod tests {
    use super::{
        super::{
            record::Cause,
            words::Number,
            Plan, //
        },
        *, //
    };
    use crate::policy::switch_cost::Phase;

    /// Begins at 1000; trigger at 1200, switched at 1280, lease to 2200.
    const PLAN: Plan = Plan {
        trigger_at: Ns(1_200),
        lease: Ns(1_000),
        predicted: Ns(280),
        cost: Ns(80),
        slo: None,
        holder: true,
        look: Look::Later,
        phase: Phase::HandingOver,
        gate: false,
        ordered: false,
    };
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
        trigger: 1,
        ..NOTHING
    };
    const READY: Observed = Observed {
        release: 1,
        ready_ns: Ns(1_250),
        ..TRIGGERED
    };
    /// When the switch is looked at.
    const LATER: Ns = Ns(1_280 + Trial::LATER.0);

    fn taken(plan: Plan) -> Slot {
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &NOTHING, plan);
        slot.poll(Ns(1_200), &NOTHING);
        slot
    }

    fn seen(actions: &Actions) -> Option<(Ns, bool, Option<Switched>)> {
        let trial = actions.sample?;
        Some((trial.due, trial.has_run, trial.told))
    }

    #[test]
    fn a_start_tells_whether_the_cost_was_right() {
        let plan = Plan {
            look: Look::AtDue,
            ..PLAN
        };
        let trial = taken(plan).poll(Ns(1_285), &TRIGGERED).sample;
        let judged = |start| trial.and_then(|trial| trial.outcome(start));
        assert_eq!(judged(Some(Ns(1_280))), Some(Switched::InTime));
        assert_eq!(judged(Some(Ns(1_281))), Some(Switched::NotYet));
        assert_eq!(judged(None), Some(Switched::NotYet));
    }

    #[test]
    fn no_timer_fires_when_the_data_is_ready_if_a_start_is_told() {
        for (held, has_run, told) in [(1, true, None), (0, false, Some(Switched::NotYet))] {
            let mut slot = taken(PLAN);
            let early = slot.poll(Ns(1_280), &READY);
            assert_eq!((early.sample, early.alarm), (None, Some(LATER)));
            let words = Observed { held, ..READY };
            // However late: the start is known.
            let actions = slot.poll(LATER.saturating_add(Ns(1_000_000)), &words);
            let trial = Trial {
                trigger: Ns(1_200),
                due: Ns(1_280),
                phase: Phase::HandingOver,
                has_run,
                told,
            };
            assert_eq!((actions.sample, actions.alarm), (Some(trial), None));
            assert_eq!(slot.poll(LATER, &words), Actions::default());
        }
    }

    #[test]
    fn the_end_of_a_request_asks_for_its_start() {
        // By a call, by a store, and by the begin of the next one.
        for (done, has_run, told) in [(1_270, true, Some(Switched::InTime)), (1_500, true, None)] {
            let held = Observed { held: 1, ..READY };
            let expected = Some((Ns(1_280), has_run, told));
            let call = taken(PLAN).done(Number::ONE, Ns(done), &held);
            assert_eq!(call.map(|actions| seen(&actions)), Ok(expected));
            let stored = Observed {
                done: 1,
                done_ns: Ns(done),
                ..held
            };
            let poll = taken(PLAN).poll(Ns(done), &stored);
            assert_eq!(seen(&poll), expected);
            let (_, begin) = taken(PLAN).begin(Ns(done), &stored, PLAN);
            let trial = begin.over.and_then(|record| record.trial);
            assert!(begin.sample.is_none() && trial.is_some_and(|trial| trial.due == Ns(1_280)));
        }
    }

    #[test]
    fn the_end_of_the_lease_is_late_enough() {
        let mut slot = taken(PLAN);
        assert_eq!(slot.poll(Ns(1_201), &TRIGGERED).alarm, Some(Ns(2_200)));
        let actions = slot.poll(Ns(2_200), &TRIGGERED);
        let not_yet = (Ns(1_280), false, Some(Switched::NotYet));
        assert_eq!(seen(&actions), Some(not_yet));
        let over = actions.over.map(|record| (record.cause, record.trial));
        assert_eq!(over, Some((Cause::Expired, None)));
    }

    #[test]
    fn a_switch_that_others_are_in_the_way_of_tells_nothing() {
        let mut slot = taken(PLAN);
        slot.try_no_more();
        let actions = slot.poll(LATER, &READY);
        assert_eq!(actions.sample, None);
        let over = slot.end(LATER, &READY, Cause::Closed).over;
        assert_eq!(over.and_then(|record| record.trial), None);
    }
}
