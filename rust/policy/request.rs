// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One request for the GPU: when it is taken from best-effort work, and when it is given back.
//!
//! The stream of request `n` waits on the GPU until the trigger word has reached `n`, holds the GPU
//! until the release word has (or the holder's own bound is over), and then runs its kernels. A
//! [`Slot`] decides which of these words zernel stores, and when its one timer fires. Both are
//! *reached* after any end of the request, so no stream waits for ever.
//!
//! A request may have a gate, a word that its pieces of work count down. It is one more way to say that
//! the data is ready, for one request alone, and the way to say that it never will be.
//!
//! The words lie in memory that the process writes at will. zernel reads from them only the
//! process' decisions: a request was triggered, ready or done. It never reads its own stores, and
//! makes each at most once per request. A process that takes a store back makes its own stream wait
//! or hold; the holder's own bound ends that.

mod gate;
pub(crate) mod order;
pub(crate) mod record;
mod sample;
pub(crate) mod succession;
pub(crate) mod words;

#[cfg(any(test, zernel_kunit))]
mod scenarios;

use self::{
    record::{
        Cause,
        Record, //
    },
    words::{
        Gate,
        Number,
        Observed, //
    }, //
};
use super::{
    switch_cost::Switched,
    units::Ns, //
};

/// The wishes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// When the GPU is to be taken; at once if that has passed.
    pub(crate) trigger_at: Ns,
    /// Longest time from the trigger to ready.
    pub(crate) lease: Ns,
    /// The preparation time that `trigger_at` was made from, for the record.
    pub(crate) predicted: Ns,
    /// The estimated cost of the switch.
    pub(crate) cost: Ns,
    /// Longest latency that is no violation.
    pub(crate) slo: Option<Ns>,
    /// A holder waits in the stream; else lower TSGs are kept off the GPU while [`Slot::holds`].
    pub(crate) holder: bool,
    /// Look, `cost` after the trigger, whether the holder has run.
    pub(crate) sample: bool,
    /// It has a gate.
    pub(crate) gate: bool,
    /// Its trigger waits for its turn ([`order`]).
    pub(crate) ordered: bool,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// There is none: the last one is over.
    #[default]
    Idle,
    /// It prepares its data, and the GPU does other work.
    Armed,
    /// It is due, and waits for its turn in the order of deadlines.
    Waiting {
        /// When its data was ready, if it is.
        ready: Option<Ns>,
    },
    /// It still prepares, and the GPU is held for it.
    Taken {
        /// Begin of the lease. A request that the process triggered itself counts from its begin.
        trigger: Ns,
    },
    /// Its kernels run.
    Running {
        /// When it was triggered.
        trigger: Ns,
        /// When its data was ready.
        ready: Ns,
    },
}

/// The actions after an event, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Actions {
    /// Store this to the release word: before the trigger, so that a cancelled request never holds.
    pub(crate) release: Option<Number>,
    /// Store this to the trigger word.
    pub(crate) trigger: Option<Number>,
    /// The new time of the timer; `None`: it does not fire.
    pub(crate) alarm: Option<Ns>,
    /// The observation of the switch, for [`super::switch_cost::Cost::learn`].
    pub(crate) sample: Option<Switched>,
    /// The request that is over now.
    pub(crate) over: Option<Record>,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// The request is over, or was never begun.
    Stale,
}

/// The requests of one slot, one at a time.
///
/// Every event gets the time and the words, and first takes up the process' stores since the last
/// one. Time may stand still or jump; should it go back, records lose precision and deadlines stay
/// where they are.
///
/// # Invariants
///
/// In any state but [`State::Idle`] there is a `number`. The trigger word has been stored, by
/// zernel or the process, exactly if `state` is past [`State::Waiting`], the release word exactly if
/// it is ready there or past [`State::Taken`]. A request leaves its state only forward. `sample` is there only if
/// zernel has stored the trigger, and not in [`State::Idle`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    number: Option<Number>,
    state: State,
    begin: Ns,
    plan: Plan,
    /// When the switch is to be looked at, if that is still to be done: also after ready. That comes
    /// early more often where the GPU was slow, as a CPU that is busy with one is late with the
    /// other, so that the switches before late ones alone would seem short.
    sample: Option<Ns>,
    /// When the order of deadlines asks for a look; 0: it does not.
    next_look: Ns,
}

impl Slot {
    /// A slot without a request.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Idle.
        Self {
            number: None,
            state: State::Idle,
            begin: Ns::ZERO,
            plan: Plan {
                trigger_at: Ns::ZERO,
                lease: Ns::ZERO,
                predicted: Ns::ZERO,
                cost: Ns::ZERO,
                slo: None,
                holder: false,
                sample: false,
                gate: false,
                ordered: false,
            },
            sample: None,
            next_look: Ns::ZERO,
        }
    }

    /// Where its request is.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The request that is not over.
    pub(crate) fn active(&self) -> Option<Number> {
        self.number.filter(|_| self.state != State::Idle)
    }

    /// True if lower TSGs are to be kept off the GPU: from the trigger of a request without a
    /// holder to ready, or to the end of its lease.
    pub(crate) fn holds(&self) -> bool {
        !self.plan.holder && matches!(self.state, State::Taken { .. })
    }

    /// The end of the lease of a request that [`Self::holds`].
    pub(crate) fn holds_until(&self) -> Ns {
        match self.state {
            State::Taken { trigger } => trigger.saturating_add(self.plan.lease),
            _ => Ns::ZERO,
        }
    }

    /// True if its request was triggered, and is neither over nor done as far as the words tell.
    fn is_under_way(&self, seen: &Observed) -> bool {
        let is_done = |number: Number| number.is(seen.done);
        matches!(self.state, State::Taken { .. } | State::Running { .. })
            && !self.number.is_some_and(is_done)
    }

    /// A request begins. The one before it is over: done if it was ready.
    #[allow(dead_code, reason = "the tests on the host ask")]
    pub(crate) fn begin(&mut self, now: Ns, seen: &Observed, plan: Plan) -> (Number, Actions) {
        let mut actions = Actions::default();
        self.take_up(now, seen, &mut actions);
        self.pass(now, &mut actions);
        let number = match self.number {
            Some(last) => last.next(),
            None => Number::first(seen),
        };
        self.start(now, number, seen, &plan, &mut actions);
        (number, actions)
    }

    /// A request begins where there is none. A gate that is open is one of data that is there. One that
    /// has failed takes nothing: [`Self::poll`] is due at once, and ends it, with a record of its own.
    fn start(
        &mut self,
        now: Ns,
        number: Number,
        seen: &Observed,
        plan: &Plan,
        actions: &mut Actions,
    ) {
        // INVARIANT: Neither word has been stored for this number.
        self.number = Some(number);
        self.state = State::Armed;
        self.begin = now;
        self.plan = *plan;
        self.next_look = Ns::ZERO;
        match seen.gate_of(plan.gate) {
            Gate::Pending => self.take_if_due(now, actions),
            Gate::Open => self.set_ready(now, now, seen, actions),
            Gate::Failed => self.plan.trigger_at = now,
        }
        actions.alarm = self.alarm();
    }

    /// True if nothing is left to store for the request. Its outcome can then be worked out later
    /// with [`Self::retire`], with the same result.
    fn can_wait(&self, seen: &Observed) -> bool {
        let Some(number) = self.number else {
            return true;
        };
        match self.state {
            State::Idle | State::Running { .. } => true,
            State::Taken { .. } => number.is(seen.release),
            State::Armed | State::Waiting { .. } => {
                number.is(seen.release) && number.is(seen.trigger)
            }
        }
    }

    /// Has the request over as the next [`Self::begin`] would: done if it was ready. Its gate says nothing
    /// any more, as the word may be that of the next one.
    pub(crate) fn retire(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.take_up(now, seen, &mut actions);
        self.pass(now, &mut actions);
        actions.alarm = self.alarm();
        actions
    }

    /// The timer fired, be it due or stale, or somebody wants to know where the request is.
    pub(crate) fn poll(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        if self.number.is_some_and(|number| number.is(seen.done)) {
            self.sample_if_done(seen.done_ns.min(now), seen, &mut actions);
        }
        self.look(now, seen, &mut actions);
        self.take_if_due(now, &mut actions);
        if self.next_look != Ns::ZERO {
            self.look_at_order(now, &mut actions);
        }
        self.sample_if_due(now, seen, &mut actions);
        if let State::Taken { trigger } = self.state {
            if now >= trigger.saturating_add(self.plan.lease) {
                self.withdraw(now, Cause::Expired, &mut actions);
            }
        }
        actions.alarm = self.alarm();
        actions
    }

    /// The process says that its data is ready.
    pub(crate) fn ready(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.check(number)?;
        let mut actions = Actions::default();
        self.take_up(now, seen, &mut actions);
        self.set_ready(now, now, seen, &mut actions);
        actions.alarm = self.alarm();
        Ok(actions)
    }

    /// The process says that its request is done. If it was not ready, it is now.
    pub(crate) fn done(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.check(number)?;
        let mut actions = Actions::default();
        self.sample_if_done(now, seen, &mut actions);
        self.take_up(now, seen, &mut actions);
        self.set_ready(now, now, seen, &mut actions);
        self.finish(now, Cause::Done, Some(now), &mut actions);
        actions.alarm = self.alarm();
        Ok(actions)
    }

    /// The process gives its request up.
    pub(crate) fn cancel(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.check(number)?;
        Ok(self.end(now, seen, Cause::Cancelled))
    }

    /// The request lost something that it needs, as `cause` says: the GPU is given back at once.
    pub(crate) fn end(&mut self, now: Ns, seen: &Observed, cause: Cause) -> Actions {
        let mut actions = Actions::default();
        self.look(now, seen, &mut actions);
        self.withdraw(now, cause, &mut actions);
        actions.alarm = self.alarm();
        actions
    }

    fn pass(&mut self, now: Ns, actions: &mut Actions) {
        match self.state {
            State::Idle => {}
            State::Running { .. } | State::Waiting { ready: Some(_) } => {
                self.finish(now, Cause::Done, None, actions);
            }
            State::Armed | State::Waiting { ready: None } | State::Taken { .. } => {
                self.withdraw(now, Cause::Superseded, actions);
            }
        }
    }

    fn check(&self, number: Number) -> Result<(), Error> {
        if self.active() == Some(number) {
            Ok(())
        } else {
            Err(Error::Stale)
        }
    }

    /// When the timer is to fire.
    #[inline(always)]
    fn alarm(&self) -> Option<Ns> {
        if self.next_look != Ns::ZERO {
            return self.alarm_in_order();
        }
        self.own_alarm()
    }

    /// The same, without the order of deadlines.
    #[inline(always)]
    fn own_alarm(&self) -> Option<Ns> {
        match self.state {
            State::Idle | State::Waiting { .. } => None,
            State::Armed => Some(self.plan.trigger_at),
            State::Taken { trigger } => {
                let end = trigger.saturating_add(self.plan.lease);
                Some(self.sample.map_or(end, |due| due.min(end)))
            }
            State::Running { .. } => self.sample,
        }
    }

    /// Takes up the stores of the process.
    fn look(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        self.take_up(now, seen, actions);
        if self.plan.gate {
            self.look_at_gate(now, seen, actions);
        }
    }

    /// Takes up the stores that name the request: all but that of its gate.
    fn take_up(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        let Some(number) = self.active() else {
            return;
        };
        let claimed_done = seen.done_ns.min(now);
        if number.is(seen.release) {
            let ready = seen.ready_ns.min(now);
            self.set_ready(now, ready, seen, actions);
        } else if number.is(seen.done) {
            self.set_ready(now, claimed_done, seen, actions);
        } else if number.is(seen.trigger) {
            self.see_trigger();
        }
        if number.is(seen.done) {
            self.finish(now, Cause::Done, Some(claimed_done), actions);
        }
    }

    #[inline(always)]
    fn take_if_due(&mut self, now: Ns, actions: &mut Actions) {
        if self.state == State::Armed && now >= self.plan.trigger_at {
            if self.plan.ordered {
                return self.wait(None);
            }
            // INVARIANT: Armed, so this is the only time; it is stored with this.
            actions.trigger = self.number;
            self.state = State::Taken { trigger: now };
            // INVARIANT: Stored by zernel.
            let looks = self.plan.holder && self.plan.sample;
            self.sample = looks.then(|| now.saturating_add(self.plan.cost));
        }
    }

    /// Lets the kernels run, if they do not yet, of a request that was ready at `ready`.
    fn set_ready(&mut self, now: Ns, ready: Ns, seen: &Observed, actions: &mut Actions) {
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
            State::Armed | State::Waiting { .. } if self.plan.ordered => {
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
    fn withdraw(&mut self, now: Ns, cause: Cause, actions: &mut Actions) {
        match self.state {
            State::Idle | State::Running { .. } | State::Waiting { ready: Some(_) } => {}
            State::Armed | State::Waiting { ready: None } => {
                // INVARIANT: Both words are stored with this.
                actions.trigger = self.number;
                actions.release = self.number;
            }
            State::Taken { .. } => actions.release = self.number,
        }
        self.finish(now, cause, None, actions);
    }

    /// Is over. A request that is done at an unknown time is so now.
    fn finish(&mut self, now: Ns, cause: Cause, done: Option<Ns>, actions: &mut Actions) {
        let Some(number) = self.active() else {
            return;
        };
        let (trigger, ready) = match self.state {
            State::Idle | State::Armed => (None, None),
            State::Waiting { ready } => self.end_wait(number, ready, actions),
            State::Taken { trigger, .. } => (Some(trigger), None),
            State::Running { trigger, ready } => (Some(trigger), Some(ready)),
        };
        let earliest = ready.unwrap_or(self.begin);
        let end = now.max(earliest);
        let is_done = cause == Cause::Done;
        let switched = trigger.map(|trigger| trigger.saturating_add(self.plan.cost));
        let free = ready.unwrap_or(end);
        let used_from = switched.map_or(Ns::ZERO, |switched| free.max(switched));
        actions.over = Some(Record {
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
        });
        // INVARIANT: The caller has stored the missing words.
        self.state = State::Idle;
        self.sample = None;
    }
}
