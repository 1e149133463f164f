// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The steps of a request.
//!
//! Each is there twice. With `ORDER` it knows of requests that have a place in the order of deadlines;
//! without, it is for a request that has none, and costs nothing of that.

use super::{
    record::{
        Cause,
        Record, //
    },
    trial::Look,
    words::{
        Gate,
        Number,
        Observed, //
    },
    Actions,
    Plan,
    Slot,
    State, //
};
use crate::policy::units::Ns;

impl Slot {
    pub(super) fn begin_as<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        plan: &Plan,
    ) -> (Number, Actions) {
        let mut actions = Actions::default();
        self.take_up::<ORDER>(now, seen, &mut actions);
        self.pass::<ORDER>(now, &mut actions);
        let number = match self.number {
            Some(last) => last.next(),
            None => Number::first(seen),
        };
        self.start::<ORDER>(now, number, seen, plan, &mut actions);
        (number, actions)
    }

    /// A request begins where there is none. A gate that is open is one of data that is there. One that
    /// has failed takes nothing: [`Self::poll`] is due at once, and ends it, with a record of its own.
    pub(super) fn start<const ORDER: bool>(
        &mut self,
        now: Ns,
        number: Number,
        seen: &Observed,
        plan: &Plan,
        actions: &mut Actions,
    ) {
        // INVARIANT: Neither word has been stored for this number. The order does not ask, as the one
        // before is over.
        self.number = Some(number);
        self.state = State::Armed;
        self.begin = now;
        self.plan = *plan;
        match seen.gate_of(plan.gate) {
            Gate::Pending => self.take_if_due::<ORDER>(now, actions),
            Gate::Open => self.set_ready::<ORDER>(now, now, seen, actions),
            Gate::Failed => self.plan.trigger_at = now,
        }
        actions.alarm = self.alarm::<ORDER>();
    }

    pub(super) fn retire_as<const ORDER: bool>(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.take_up::<ORDER>(now, seen, &mut actions);
        self.pass::<ORDER>(now, &mut actions);
        actions.alarm = self.alarm::<ORDER>();
        actions
    }

    pub(super) fn poll_as<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        if self.number.is_some_and(|number| number.is(seen.done)) {
            self.sample_if_done(seen.done_ns.min(now), seen, actions);
        }
        self.look::<ORDER>(now, seen, actions);
        self.take_if_due::<ORDER>(now, actions);
        if ORDER && self.next_look != Ns::ZERO {
            self.look_at_order(now, actions);
        }
        self.sample_if_due(now, seen, actions);
        if let State::Taken { trigger } = self.state {
            if now >= trigger.saturating_add(self.plan.lease) {
                self.withdraw::<ORDER>(now, Cause::Expired, actions);
            }
        }
        actions.alarm = self.alarm::<ORDER>();
    }

    pub(super) fn ready_as<const ORDER: bool>(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.take_up::<ORDER>(now, seen, &mut actions);
        self.set_ready::<ORDER>(now, now, seen, &mut actions);
        actions.alarm = self.alarm::<ORDER>();
        actions
    }

    pub(super) fn done_as<const ORDER: bool>(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.sample_if_done(now, seen, &mut actions);
        self.take_up::<ORDER>(now, seen, &mut actions);
        self.set_ready::<ORDER>(now, now, seen, &mut actions);
        self.finish::<ORDER>(now, Cause::Done, Some(now), &mut actions);
        actions.alarm = self.alarm::<ORDER>();
        actions
    }

    pub(super) fn end_as<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        cause: Cause,
    ) -> Actions {
        let mut actions = Actions::default();
        self.look::<ORDER>(now, seen, &mut actions);
        self.withdraw::<ORDER>(now, cause, &mut actions);
        actions.alarm = self.alarm::<ORDER>();
        actions
    }

    pub(super) fn pass<const ORDER: bool>(&mut self, now: Ns, actions: &mut Actions) {
        match self.state {
            State::Running { .. } => self.finish::<ORDER>(now, Cause::Done, None, actions),
            State::Armed | State::Taken { .. } => {
                self.withdraw::<ORDER>(now, Cause::Superseded, actions);
            }
            State::Waiting { ready: Some(_) } if ORDER => {
                self.finish::<ORDER>(now, Cause::Done, None, actions);
            }
            State::Waiting { ready: None } if ORDER => {
                self.withdraw::<ORDER>(now, Cause::Superseded, actions);
            }
            State::Idle | State::Waiting { .. } => {}
        }
    }

    /// When the timer is to fire.
    pub(super) fn alarm<const ORDER: bool>(&self) -> Option<Ns> {
        if ORDER && self.next_look != Ns::ZERO {
            return self.alarm_in_order();
        }
        match self.state {
            State::Idle | State::Waiting { .. } => None,
            State::Armed => Some(self.plan.trigger_at),
            State::Taken { trigger } => {
                let end = trigger.saturating_add(self.plan.lease);
                Some(self.look_at().map_or(end, |at| at.min(end)))
            }
            State::Running { .. } => self.look_at(),
        }
    }

    /// Takes up the stores of the process.
    pub(super) fn look<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        self.take_up::<ORDER>(now, seen, actions);
        if self.plan.gate {
            self.look_at_gate::<ORDER>(now, seen, actions);
        }
    }

    /// Takes up the stores that name the request: all but that of its gate.
    pub(super) fn take_up<const ORDER: bool>(
        &mut self,
        now: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        let Some(number) = self.active() else {
            return;
        };
        let claimed_done = seen.done_ns.min(now);
        if number.is(seen.release) {
            let ready = seen.ready_ns.min(now);
            self.set_ready::<ORDER>(now, ready, seen, actions);
        } else if number.is(seen.done) {
            self.set_ready::<ORDER>(now, claimed_done, seen, actions);
        } else if ORDER && number.is(seen.trigger) {
            self.see_trigger();
        } else if number.is(seen.trigger) && self.state == State::Armed {
            // When is unknown; the lease must not be longer for it.
            self.state = State::Taken {
                trigger: self.begin,
            };
        }
        if number.is(seen.done) {
            self.finish::<ORDER>(now, Cause::Done, Some(claimed_done), actions);
        } else if ORDER {
            self.see_not_done(now);
        }
    }

    fn take_if_due<const ORDER: bool>(&mut self, now: Ns, actions: &mut Actions) {
        if self.state == State::Armed && now >= self.plan.trigger_at {
            if ORDER && self.plan.ordered {
                return self.wait(None);
            }
            // INVARIANT: Armed, so this is the only time; it is stored with this.
            actions.trigger = self.number;
            self.state = State::Taken { trigger: now };
            // INVARIANT: Stored by zernel.
            let looks = self.plan.holder && self.plan.look != Look::Never;
            self.sample = looks.then(|| now.saturating_add(self.plan.cost));
        }
    }

    /// Lets the kernels run, if they do not yet, of a request that was ready at `ready`.
    pub(super) fn set_ready<const ORDER: bool>(
        &mut self,
        now: Ns,
        ready: Ns,
        seen: &Observed,
        actions: &mut Actions,
    ) {
        let Some(number) = self.active() else {
            return;
        };
        // Against any claim of the process.
        let ready = ready.max(self.begin);
        let trigger = match self.state {
            State::Idle | State::Running { .. } => return,
            State::Taken { trigger, .. } => trigger,
            // The process triggers it as it is ready.
            State::Armed if number.is(seen.trigger) => ready,
            State::Armed | State::Waiting { .. } if ORDER && self.plan.ordered => {
                return self.set_ready_in_order(number, ready, seen, actions);
            }
            State::Armed | State::Waiting { .. } => {
                actions.trigger = Some(number);
                now
            }
        };
        if !number.is(seen.release) {
            actions.release = Some(number);
        }
        // INVARIANT: Both words are stored with this, as far as they were not.
        self.state = State::Running { trigger, ready };
    }

    /// Gives the GPU back, and is over.
    pub(super) fn withdraw<const ORDER: bool>(
        &mut self,
        now: Ns,
        cause: Cause,
        actions: &mut Actions,
    ) {
        match self.state {
            State::Armed => {
                // INVARIANT: Both words are stored with this.
                actions.trigger = self.number;
                actions.release = self.number;
            }
            State::Taken { .. } => actions.release = self.number,
            State::Waiting { ready: None } if ORDER => {
                // INVARIANT: As above.
                actions.trigger = self.number;
                actions.release = self.number;
            }
            State::Idle | State::Running { .. } | State::Waiting { .. } => {}
        }
        self.finish::<ORDER>(now, cause, None, actions);
    }

    /// Is over. A request that is done at an unknown time is so now.
    fn finish<const ORDER: bool>(
        &mut self,
        now: Ns,
        cause: Cause,
        done: Option<Ns>,
        actions: &mut Actions,
    ) {
        let Some(number) = self.active() else {
            return;
        };
        let (trigger, ready) = match self.state {
            State::Taken { trigger, .. } => (Some(trigger), None),
            State::Running { trigger, ready } => (Some(trigger), Some(ready)),
            State::Waiting { ready } if ORDER => self.end_wait(number, ready, actions),
            State::Idle | State::Armed | State::Waiting { .. } => (None, None),
        };
        let earliest = ready.unwrap_or(self.begin);
        let end = now.max(earliest);
        let is_done = cause == Cause::Done;
        let switched = trigger.map(|trigger| trigger.saturating_add(self.plan.cost));
        let free = ready.unwrap_or(end);
        let used_from = switched.map_or(Ns::ZERO, |switched| free.max(switched));
        let record = Record {
            number,
            cause,
            begin: self.begin,
            trigger,
            ready,
            done: is_done.then(|| done.map_or(end, |done| done.max(earliest))),
            implied: is_done && done.is_none(),
            end,
            predicted: self.plan.predicted,
            early: switched.map_or(Ns::ZERO, |switched| free.saturating_sub(switched)),
            lost: trigger.map_or(Ns::ZERO, |trigger| used_from.saturating_sub(trigger)),
            late: match (switched, ready) {
                (Some(switched), Some(ready)) => switched.saturating_sub(ready),
                _ => Ns::ZERO,
            },
            slo: self.plan.slo,
            trial: self.end_trial(false, None),
        };
        actions.over = Some(record);
        // INVARIANT: The caller has stored the missing words.
        self.state = State::Idle;
        if ORDER {
            self.keep_end(&record);
            (self.next_look, self.not_done) = (Ns::ZERO, Ns::ZERO);
        }
    }
}
