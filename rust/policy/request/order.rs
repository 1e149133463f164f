// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A request that has a place in the order of deadlines: its trigger waits for its turn.
//!
//! A request of [`Plan::ordered`](super::Plan) whose trigger is due *waits* where another would be
//! triggered. It goes by [`Slot::grant`], when its turn has come; at its deadline, as it has missed it
//! then in any case; or by a store of the process to the trigger word. So no wait is longer than the
//! time to the deadline, for anything that others do.

use super::{
    record::Cause,
    trial::Look,
    words::{
        Number,
        Observed, //
    },
    Actions,
    Slot,
    State, //
};
use crate::policy::{
    deadline::HORIZON,
    units::Ns, //
};

/// The part of a request in the order of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// None: there is no such request, or it is not due yet.
    Apart,
    /// It waits for its turn.
    Waits,
    /// It has the GPU, and others wait until then at the latest.
    Runs(Ns),
}

impl Slot {
    /// The first looks at a request that others wait for are so far apart, later ones by a part of the
    /// time since its trigger, 1/8: so others wait longer by no more than that.
    const LOOK: (Ns, u32) = (Ns(20_000), 3);

    /// The request that is not over, if it has a place in the order.
    pub(crate) fn ordered(&self) -> Option<Number> {
        self.active().filter(|_| self.plan.ordered)
    }

    /// The moment by which it is to be done, as far as the order is concerned: no later than
    /// [`HORIZON`] after its begin.
    pub(crate) fn deadline(&self) -> Ns {
        let within = self.plan.slo.unwrap_or(HORIZON).min(HORIZON);
        self.begin.saturating_add(within)
    }

    /// The time of its trigger, at the earliest, and the cost of its switch.
    pub(crate) fn due(&self) -> (Ns, Ns) {
        (self.plan.trigger_at, self.plan.cost)
    }

    /// True if the process has stated it.
    pub(crate) fn states_deadline(&self) -> bool {
        self.plan.slo.is_some()
    }

    /// Its part in the order.
    pub(crate) fn standing(&self) -> Standing {
        match self.state {
            _ if !self.plan.ordered => Standing::Apart,
            State::Idle | State::Armed => Standing::Apart,
            State::Waiting { .. } => Standing::Waits,
            State::Taken { trigger } | State::Running { trigger, .. } => {
                Standing::Runs(trigger.saturating_add(self.plan.lease))
            }
        }
    }

    /// Its turn has come, if the request is this one and still waits.
    pub(crate) fn grant(&mut self, number: Number, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        if self.ordered() == Some(number) {
            self.look::<true>(now, seen, &mut actions);
            self.go(now, &mut actions);
        }
        actions.alarm = self.alarm::<true>();
        actions
    }

    /// Waits until then before the order is asked again, if it waits.
    pub(crate) fn wait_until(&mut self, at: Ns) -> Actions {
        if matches!(self.state, State::Waiting { .. }) {
            self.next_look = at.min(self.deadline());
        }
        Actions {
            alarm: self.alarm::<true>(),
            ..Actions::default()
        }
    }

    /// Looks whether the process has stored its end, until its lease is over: others wait for it, or have counted
    /// with its end, from then on.
    pub(crate) fn watch(&mut self, from: Ns) -> Actions {
        let before = self.next_look;
        self.look_later(from);
        self.next_look = match (before, self.next_look) {
            (Ns::ZERO, look) | (look, Ns::ZERO) => look,
            (before, look) => before.min(look),
        };
        Actions {
            alarm: self.alarm::<true>(),
            ..Actions::default()
        }
    }

    /// The trigger is due, and waits; `ready`: since when its data does.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&mut self, ready: Option<Ns>) {
        self.state = State::Waiting { ready };
        self.next_look = self.deadline();
    }

    /// Its data is ready, at this time, and its trigger is its turn's or, if the process has stored it
    /// already, nobody's.
    #[cold]
    #[inline(never)]
    pub(super) fn set_ready_in_order(
        &mut self,
        number: Number,
        ready: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        if !matches!(self.state, State::Waiting { ready: Some(_) }) {
            if !number.is(seen.release) {
                actions.release = Some(number);
            }
            // INVARIANT: The release word is stored with this.
            self.wait(Some(ready));
        }
        if number.is(seen.trigger) {
            self.see_trigger();
        }
    }

    /// True if its data is ready, and it is not over.
    pub(crate) fn runs(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// It is over while it waits: its stream goes on. Returns when it was triggered, and ready.
    #[cold]
    #[inline(never)]
    pub(super) fn end_wait(
        &self,
        number: Number,
        ready: Option<Ns>,
        actions: &mut Actions,
    ) -> (Option<Ns>, Option<Ns>) {
        actions.trigger = Some(number);
        (None, ready)
    }

    /// The process has stored the trigger of the request that is not over.
    #[cold]
    #[inline(never)]
    pub(super) fn see_trigger(&mut self) {
        self.state = match self.state {
            // When is unknown; the lease must not be longer for it.
            State::Armed | State::Waiting { ready: None } => State::Taken {
                trigger: self.begin,
            },
            State::Waiting { ready: Some(ready) } => State::Running {
                trigger: ready,
                ready,
            },
            State::Idle | State::Taken { .. } | State::Running { .. } => return,
        };
        self.next_look = Ns::ZERO;
    }

    /// When the timer is to fire, where the order asks for a look.
    #[cold]
    #[inline(never)]
    pub(super) fn alarm_in_order(&self) -> Option<Ns> {
        let look = self.next_look;
        let alarm = match self.state {
            State::Idle => return None,
            State::Waiting { .. } => look,
            State::Armed => self.plan.trigger_at.min(look),
            State::Taken { trigger } => trigger.saturating_add(self.plan.lease).min(look),
            State::Running { .. } => look,
        };
        Some(self.look_at().map_or(alarm, |at| at.min(alarm)))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn retire_in_order(&mut self, now: Ns, seen: &Observed) -> Actions {
        self.retire_as::<true>(now, seen)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn poll_in_order(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        self.poll_as::<true>(now, seen, actions);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn ready_in_order(&mut self, now: Ns, seen: &Observed) -> Actions {
        self.ready_as::<true>(now, seen)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn done_in_order(&mut self, now: Ns, seen: &Observed) -> Actions {
        self.done_as::<true>(now, seen)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn end_in_order(&mut self, now: Ns, seen: &Observed, cause: Cause) -> Actions {
        self.end_as::<true>(now, seen, cause)
    }

    /// The timer fired, be it due or stale.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_order(&mut self, now: Ns, actions: &mut Actions) {
        if now < self.next_look {
            return;
        }
        match self.state {
            State::Waiting { .. } if now >= self.deadline() => self.go(now, actions),
            // The keeper of the order says anew how long.
            State::Waiting { .. } => self.next_look = self.deadline(),
            _ => self.look_later(now),
        }
    }

    fn look_later(&mut self, now: Ns) {
        let (least, part) = Self::LOOK;
        self.next_look = match self.standing() {
            Standing::Runs(until) if now < until => {
                let since = until.saturating_sub(self.plan.lease);
                let pause = Ns(now.saturating_sub(since).0 >> part).max(least);
                now.saturating_add(pause).min(until)
            }
            _ => Ns::ZERO,
        };
    }

    /// Stores the trigger of a request that waits.
    pub(super) fn go(&mut self, now: Ns, actions: &mut Actions) {
        let State::Waiting { ready } = self.state else {
            return;
        };
        // INVARIANT: It waited, so this is the only time; it is stored with this. The release word
        // has been, exactly if it is ready.
        actions.trigger = self.number;
        self.next_look = Ns::ZERO;
        self.state = match ready {
            Some(ready) => State::Running {
                trigger: now,
                ready,
            },
            None => State::Taken { trigger: now },
        };
        let looks = self.plan.holder && self.plan.look != Look::Never && ready.is_none();
        self.sample = looks.then(|| now.saturating_add(self.plan.cost));
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_order))]
mod tests {
    use super::{
        super::Plan,
        *, //
    };
    use crate::policy::switch_cost::Phase;

    /// Begins at 1,000 and is due at 1,200; its deadline is at 101,000.
    const PLAN: Plan = Plan {
        trigger_at: Ns(1_200),
        lease: Ns(200_000),
        predicted: Ns(280),
        cost: Ns(80),
        slo: Some(Ns(100_000)),
        holder: true,
        look: Look::AtDue,
        phase: Phase::Settled,
        gate: false,
        ordered: true,
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
    const ONE: Option<Number> = Some(Number::ONE);

    fn waiting(plan: Plan) -> Slot {
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &NOTHING, plan);
        assert_eq!(slot.standing(), Standing::Apart);
        let actions = slot.poll(Ns(1_200), &NOTHING);
        assert_eq!((actions.trigger, actions.release), (None, None));
        assert_eq!(actions.alarm, Some(slot.deadline()));
        assert_eq!(slot.standing(), Standing::Waits);
        slot
    }

    #[test]
    fn a_due_trigger_waits_for_its_turn() {
        let mut slot = waiting(PLAN);
        let actions = slot.grant(Number::ONE, Ns(5_000), &NOTHING);
        assert_eq!((actions.trigger, actions.release), (ONE, None));
        assert_eq!(actions.alarm, Some(Ns(5_080)));
        assert_eq!(slot.standing(), Standing::Runs(Ns(205_000)));
        // Once.
        let again = slot.grant(Number::ONE, Ns(6_000), &NOTHING);
        assert_eq!((again.trigger, again.over), (None, None));
        let other = Number::ONE.next();
        assert_eq!(
            waiting(PLAN).grant(other, Ns(2_000), &NOTHING).trigger,
            None
        );
    }

    #[test]
    fn no_wait_is_longer_than_the_deadline() {
        for (slo, at) in [
            (Some(Ns(100_000)), 101_000),
            (None, 1_000 + HORIZON.0),
            (Some(Ns(u64::MAX)), 1_000 + HORIZON.0),
        ] {
            let mut slot = waiting(Plan { slo, ..PLAN });
            // The order asks for a look that is later.
            let actions = slot.wait_until(Ns(u64::MAX));
            assert_eq!(actions.alarm, Some(Ns(at)));
            assert_eq!(slot.poll(Ns(at - 1), &NOTHING).trigger, None);
            assert_eq!(slot.poll(Ns(at), &NOTHING).trigger, ONE);
        }
    }

    #[test]
    fn the_order_is_asked_again_when_it_says() {
        let mut slot = waiting(PLAN);
        assert_eq!(slot.wait_until(Ns(7_000)).alarm, Some(Ns(7_000)));
        let actions = slot.poll(Ns(7_000), &NOTHING);
        // Never at once again, should nobody answer.
        assert_eq!((actions.trigger, actions.alarm), (None, Some(Ns(101_000))));
        assert_eq!(slot.standing(), Standing::Waits);
    }

    #[test]
    fn data_that_is_ready_waits_too() {
        let mut slot = waiting(PLAN);
        let ready = slot.ready(Number::ONE, Ns(3_000), &NOTHING);
        let told = ready.map(|actions| (actions.release, actions.trigger));
        assert_eq!(told, Ok((ONE, None)));
        let seen = Observed {
            release: 1,
            ..NOTHING
        };
        assert_eq!(slot.poll(Ns(4_000), &seen).trigger, None);
        let actions = slot.grant(Number::ONE, Ns(5_000), &seen);
        assert_eq!((actions.trigger, actions.release), (ONE, None));
        let running = State::Running {
            trigger: Ns(5_000),
            ready: Ns(3_000),
        };
        assert_eq!(slot.state(), running);
    }

    #[test]
    fn ready_before_it_is_due_waits() {
        let mut slot = Slot::new();
        slot.begin(Ns(1_000), &NOTHING, PLAN);
        let ready = slot.ready(Number::ONE, Ns(1_100), &NOTHING);
        assert_eq!(ready.map(|actions| actions.trigger), Ok(None));
        assert_eq!(slot.standing(), Standing::Waits);
    }

    #[test]
    fn a_process_that_triggers_itself_goes() {
        for release in [0, 1] {
            let mut slot = waiting(PLAN);
            let seen = Observed {
                trigger: 1,
                release,
                ready_ns: Ns(2_000),
                ..NOTHING
            };
            let actions = slot.poll(Ns(3_000), &seen);
            assert_eq!((actions.trigger, actions.release), (None, None));
            assert!(matches!(slot.standing(), Standing::Runs(_)));
        }
    }

    #[test]
    fn both_words_are_stored_at_any_end() {
        let mut cancelled = waiting(PLAN);
        let actions = cancelled.cancel(Number::ONE, Ns(2_000), &NOTHING);
        assert!(actions.is_ok_and(|a| a.trigger == ONE && a.release == ONE));
        for cause in [Cause::Closed, Cause::TsgGone, Cause::Suspended] {
            let actions = waiting(PLAN).end(Ns(2_000), &NOTHING, cause);
            assert_eq!((actions.trigger, actions.release), (ONE, ONE));
        }
        let actions = waiting(PLAN).done(Number::ONE, Ns(2_000), &NOTHING);
        assert!(actions.is_ok_and(|a| a.trigger == ONE && a.release == ONE));
        let (_, actions) = waiting(PLAN).begin(Ns(2_000), &NOTHING, PLAN);
        assert_eq!((actions.trigger, actions.release), (ONE, ONE));
        // Ready, and never triggered: it counts as done, and its stream goes on.
        let mut slot = waiting(PLAN);
        assert!(slot.ready(Number::ONE, Ns(1_500), &NOTHING).is_ok());
        let released = Observed {
            release: 1,
            ..NOTHING
        };
        let (_, actions) = slot.begin(Ns(2_000), &released, PLAN);
        assert_eq!((actions.trigger, actions.release), (ONE, None));
        assert!(actions.over.is_some_and(|over| over.cause == Cause::Done));
    }

    #[test]
    fn one_that_others_wait_for_is_looked_at_until_its_lease_ends() {
        let mut slot = waiting(PLAN);
        slot.grant(Number::ONE, Ns(10_000), &NOTHING);
        assert!(slot.ready(Number::ONE, Ns(10_050), &NOTHING).is_ok());
        let seen = Observed {
            trigger: 1,
            release: 1,
            held: 1,
            ..NOTHING
        };
        slot.poll(Ns(10_080), &seen);
        let mut alarm = slot.watch(Ns(10_080)).alarm;
        let (mut looks, mut last) = (0, 10_080);
        while let Some(at) = alarm {
            let pause = at.0 - last;
            assert!(pause <= 20_000 || pause <= (last - 10_000) / 8 + 1);
            (looks, last) = (looks + 1, at.0);
            alarm = slot.poll(at, &seen).alarm;
        }
        assert_eq!(last, 210_000);
        assert!((5..=20).contains(&looks));
        // Its end is seen at a look.
        let mut slot = waiting(PLAN);
        slot.grant(Number::ONE, Ns(10_000), &NOTHING);
        slot.watch(Ns(10_000));
        let done = Observed {
            done: 1,
            done_ns: Ns(11_000),
            ready_ns: Ns(10_500),
            ..seen
        };
        assert!(slot.poll(Ns(30_000), &done).over.is_some());
        assert_eq!(slot.standing(), Standing::Apart);
    }
}
