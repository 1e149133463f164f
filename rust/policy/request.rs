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

mod ended;
mod gate;
pub(crate) mod order;
pub(crate) mod record;
mod sample;
mod steps;
pub(crate) mod succession;
pub(crate) mod trial;
pub(crate) mod words;

#[cfg(any(test, zernel_kunit))]
mod scenarios;

use self::{
    record::{
        Cause,
        Ended,
        Record, //
    },
    trial::{
        Look,
        Trial, //
    },
    words::{
        Number,
        Observed, //
    }, //
};
use super::{
    switch_cost::Phase,
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
    /// When to look whether it took longer.
    pub(crate) look: Look,
    /// The state of the GPU that the cost is for.
    pub(crate) phase: Phase,
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
    /// It is due, and waits for its turn in the order of deadlines.
    Waiting {
        /// When its data was ready, if it is.
        ready: Option<Ns>,
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
    /// The cost was tried, for [`super::switch_cost::Cost::learn`].
    pub(crate) sample: Option<Trial>,
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
/// zernel or the process, exactly if `state` is [`State::Taken`] or [`State::Running`], the release word
/// exactly if it is [`State::Running`], or [`State::Waiting`] with its data. A request leaves its state
/// only forward. `sample` is there only if zernel has stored the trigger, and not in [`State::Idle`].
/// Without a [`Plan::ordered`], `next_look` is 0 and the request never [`State::Waiting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    number: Option<Number>,
    state: State,
    begin: Ns,
    plan: Plan,
    /// When the switch should be over, if it is still to be looked at: also after ready. That comes
    /// early more often where the GPU was slow, as a CPU that is busy with one is late with the
    /// other, so that the switches before late ones alone would seem short.
    sample: Option<Ns>,
    /// When the order of deadlines asks for a look; 0: it does not.
    next_look: Ns,
    /// The request that has a place there had the GPU, was looked at then, and not done; 0: it was not.
    not_done: Ns,
    /// The end of the last request that had a place there.
    ended: Option<Ended>,
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
                look: Look::Never,
                phase: Phase::Settled,
                gate: false,
                ordered: false,
            },
            sample: None,
            next_look: Ns::ZERO,
            not_done: Ns::ZERO,
            ended: None,
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

    /// The deadline of its request, if that has one and is neither over nor done as far as the words
    /// tell.
    fn open_deadline(&self, seen: &Observed) -> Option<Ns> {
        self.active().filter(|number| !number.is(seen.done))?;
        self.plan.slo.map(|slo| self.begin.saturating_add(slo))
    }

    /// A request begins. The one before it is over: done if it was ready.
    #[allow(dead_code, reason = "the tests on the host ask")]
    pub(crate) fn begin(&mut self, now: Ns, seen: &Observed, plan: Plan) -> (Number, Actions) {
        match self.plan.ordered | plan.ordered {
            false => self.begin_as::<false>(now, seen, &plan),
            true => self.begin_as::<true>(now, seen, &plan),
        }
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
        if self.plan.ordered {
            return self.retire_in_order(now, seen);
        }
        self.retire_as::<false>(now, seen)
    }

    /// The timer fired, be it due or stale, or somebody wants to know where the request is.
    #[allow(dead_code, reason = "the tests on the host ask")]
    pub(crate) fn poll(&mut self, now: Ns, seen: &Observed) -> Actions {
        let mut actions = Actions::default();
        self.poll_into(now, seen, &mut actions);
        actions
    }

    /// The same, with the actions added to `actions`.
    fn poll_into(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        if self.plan.ordered {
            return self.poll_in_order(now, seen, actions);
        }
        self.poll_as::<false>(now, seen, actions);
    }

    /// The process says that its data is ready.
    pub(crate) fn ready(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.check(number)?;
        if self.plan.ordered {
            return Ok(self.ready_in_order(now, seen));
        }
        Ok(self.ready_as::<false>(now, seen))
    }

    /// The process says that its request is done. If it was not ready, it is now.
    pub(crate) fn done(
        &mut self,
        number: Number,
        now: Ns,
        seen: &Observed,
    ) -> Result<Actions, Error> {
        self.check(number)?;
        if self.plan.ordered {
            return Ok(self.done_in_order(now, seen));
        }
        Ok(self.done_as::<false>(now, seen))
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
        if self.plan.ordered {
            return self.end_in_order(now, seen, cause);
        }
        self.end_as::<false>(now, seen, cause)
    }

    fn check(&self, number: Number) -> Result<(), Error> {
        if self.active() == Some(number) {
            Ok(())
        } else {
            Err(Error::Stale)
        }
    }
}
