// SPDX-License-Identifier: GPL-2.0
//! A slot: carries out decisions of [`policy::request`](crate::policy::request) about its requests.

mod admit;
mod begin;
mod bind;
mod roles;
mod seat;
mod state;
mod think;
mod turn;

use super::share::Timers;
use crate::{
    error::Failure,
    glue::{
        slots::{
            SlotWords,
            Words, //
        },
        time::now_ns,
        timer::{
            new_driven,
            Driven,
            Expired,
            Locked,
            Timed, //
        },
        trace, //
    },
    ids::TsgId,
    policy::{
        deadline::Order,
        level::Level,
        request::{
            self,
            record::Cause,
            succession::Succession,
            words::{
                Gate,
                Number,
                Observed, //
            },
            Actions,
            Plan, //
        },
        units::Ns, //
    },
    tuned, //
};
pub(crate) use begin::{
    Begin,
    Begun,
    Outcome, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
pub(crate) use seat::Seat;
pub(crate) use state::Name;
use state::State;

/// A slot of a page.
pub(crate) struct Inner {
    words: SlotWords,
    /// Those of its user.
    timers: Arc<Timers>,
    /// The time among those for which its timer was counted last, in ns; 0: none. Changed with the
    /// state locked.
    place: Atomic<u64>,
    /// The TSG is another user's.
    foreign: Atomic<bool>,
}

/// A slot with its timer.
pub(crate) type Slot = Driven<Inner>;

type Guarded<'a> = Locked<'a, Inner>;

impl Inner {
    /// The words that the process and zernel share.
    fn words(&self) -> Option<&Words> {
        self.words.get()
    }

    /// The time at which the timer expires that is wanted `at` then, among others of its user.
    #[cold]
    #[inline(never)]
    fn take_place(&self, at: Ns, now: Ns) -> Ns {
        self.give_place_back(now);
        let place = self.timers.place(at, now);
        if place.is_counted {
            self.place.store(place.at.0, Relaxed);
        }
        place.at
    }

    /// The timer does not expire at the time for which it is counted, unless that has come.
    fn give_place_back(&self, now: Ns) {
        let place = self.place.xchg(0, Relaxed);
        if place > now.0 {
            self.timers.give_back(Ns(place));
        }
    }

    #[inline(always)]
    fn observe(&self) -> Observed {
        self.words().map(Words::observe).unwrap_or_default()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The timer is off.
        self.give_place_back(Ns(now_ns()));
    }
}

impl Slot {
    /// A slot without a request.
    pub(crate) fn make(words: SlotWords, timers: Arc<Timers>) -> Result<Arc<Self>> {
        let state = State::new();
        let inner = Ok(Inner {
            words,
            timers,
            place: Atomic::new(0),
            foreign: Atomic::new(false),
        });
        Arc::pin_init(
            new_driven!(state, c"zernel_slot", inner),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// True if its gate has the bit of an error.
    pub(crate) fn has_failed(&self) -> bool {
        Gate::of(self.observe().gate) == Gate::Failed
    }

    /// A request for this TSG, under this key of a user, begins; the one before it is over. `tell`
    /// is called with the slot locked, and says whether the process knows now. `seat`: the place of one
    /// that was admitted ([`Self::admit`]).
    ///
    /// # Errors
    ///
    /// As [`Group::check`](super::group::Group::check), and with a seat [`Failure::NoOrder`]; nothing has
    /// changed then.
    pub(crate) fn begin(
        self: &Arc<Self>,
        tsg: TsgId,
        name: Name,
        ask: &Begin<'_>,
        mut seat: Option<&mut Seat>,
        mut tell: impl FnMut(Begun) -> bool,
    ) -> Result<Outcome> {
        let settings = tuned::requested();
        let mut choice = ask.choice(&settings);
        if seat.is_some() && settings.rule.is_none_or(|rule| rule.order != Order::Edf) {
            return Err(Failure::NoOrder.into());
        }
        let mut thought = None;
        if let Some(features) = ask.features {
            choice = choice.of_features();
            match self.think(tsg, name, ask, features, choice, seat.as_deref_mut())? {
                Ok(predicted) => thought = Some(predicted),
                Err(outcome) => return Ok(outcome),
            }
        }
        let mut guard = self.lock();
        let (cost, phase, look, level) = match guard.bound(tsg, name) {
            Some(group) => {
                group.check(ask.holder)?;
                if let Some(early) = tuned::shared_early() {
                    group.weigh(early, &mut choice.costs);
                }
                let (cost, phase) = group.gpu.cost(ask.holder);
                (cost, phase, group.gpu.look(), group.level())
            }
            None => return Ok(Outcome::Unbound),
        };
        if seat.as_ref().is_some_and(|seat| !guard.belongs_to(seat)) {
            return Ok(Outcome::Moved);
        }
        let now = Ns(now_ns());
        let seen = self.observe();
        if guard.requests.is_behind() {
            guard.catch_up();
        }
        let mut predicted = match &thought {
            Some(thought) => thought.told,
            None => guard.predict(choice),
        };
        if predicted.is_none() || guard.level != level {
            // Anything to learn is worth the wait, and is counted under its own level.
            if !tell(Begun::default()) {
                return Ok(Outcome::Untold);
            }
            self.retire(&mut guard, now, &seen);
            predicted = match &mut thought {
                Some(thought) => guard.think_again(thought, choice),
                None => guard.predict(choice),
            };
        }
        // As early as alone: a switch takes as long.
        choice.costs = settings.costs;
        // Without anything known, at once.
        let predicted = predicted.unwrap_or(ask.expected);
        let known = (predicted > Ns::ZERO).then_some(predicted);
        let (lead, ordered) = match settings.rule {
            None => (choice.lead(known, cost), false),
            Some(rule) => (
                match &seat {
                    Some(seat) => seat.lead(rule.lead(choice, known, cost), now),
                    None => rule.lead(choice, known, cost),
                },
                rule.order != Order::Fifo && level.is_some_and(|level| level != Level::BE),
            ),
        };
        let gate = seen.gate_of(ask.gate);
        let trigger_at = match gate {
            Gate::Pending => now.saturating_add(lead),
            Gate::Open | Gate::Failed => now,
        };
        let plan = Plan {
            trigger_at,
            lease: settings.lease.into(),
            predicted,
            cost,
            slo: (ask.slo > Ns::ZERO).then_some(ask.slo),
            holder: ask.holder,
            look,
            phase,
            gate: ask.gate,
            ordered,
        };
        let state = &mut *guard;
        let number = state.requests.next(&seen);
        let begun = Begun {
            request: number.get(),
            predicted,
            trigger_at,
        };
        if !tell(begun) {
            return Ok(Outcome::Untold);
        }
        if state.holds.is_some() {
            // The hold of the one before is not this one's.
            state.hold();
        }
        let mut actions = Actions::default();
        state
            .requests
            .begin(number, now, &seen, &plan, &mut actions);
        if let Some(record) = &actions.over {
            state.over::<true>(record);
        }
        state.level = level;
        let mut due = None;
        if choice.margin | state.choices.0.margin | state.choices.1.margin {
            due = state.keep(choice, ask.features, thought.as_ref());
        }
        state.uncounted.begun += 1;
        trace::request_begin(tsg.0, number.get(), plan.predicted.0, trigger_at.0);
        if level.is_some_and(|level| level != Level::BE) {
            if let Some(group) = &guard.group {
                group.gpu.announce(trigger_at);
            }
        }
        self.store(&mut guard, now, &actions);
        if gate == Gate::Failed {
            // Since the caller has looked: it is over at once.
            guard.keep_turn();
            let actions = guard.requests.poll(now, &seen);
            self.apply(&mut guard, now, &actions);
        }
        guard.follow();
        if ask.slo > Ns::ZERO {
            self.claim(&guard, name.1);
        }
        match ordered || guard.turn.is_some() {
            true => self.take_turn(guard, name.1, seat),
            false => drop(guard),
        }
        if let Some(due) = due {
            due.learn();
        }
        Ok(Outcome::Begun)
    }

    /// The data of a request is ready.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn ready(&self, request: u32) -> Result {
        self.call(request, Succession::ready)
    }

    /// A request is done.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn done(&self, request: u32) -> Result {
        self.call(request, Succession::done)
    }

    /// A request is given up.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn cancel(&self, request: u32) -> Result {
        self.call(request, Succession::cancel)
    }

    /// Ends the request that is not over.
    pub(crate) fn end(&self, cause: Cause) {
        let mut state = self.lock();
        let now = Ns(now_ns());
        let actions = state.requests.end(now, &self.observe(), cause);
        self.apply(&mut state, now, &actions);
        state.catch_up();
        self.release(state);
    }

    /// Ends the request that is not over, and is nobody's any more.
    pub(crate) fn close(self: &Arc<Self>, cause: Cause) {
        self.end(cause);
        let mut state = self.lock();
        // No begin of this slot follows that would learn from them.
        let due = state.due();
        let (group, ticket) = (state.group.take(), state.ticket.take());
        drop(state);
        if let Some(ticket) = &ticket {
            ticket.part();
        }
        // Dropped without the lock.
        drop(ticket);
        if let Some(due) = due {
            due.learn();
        }
        if let Some(group) = group {
            group.gpu.order.part();
            group.detach(self);
        }
    }

    /// Ends the request that is not over as the next begin does.
    fn retire(&self, guard: &mut Guarded<'_>, now: Ns, seen: &Observed) {
        let actions = guard.requests.retire(now, seen);
        self.apply(guard, now, &actions);
        guard.catch_up();
    }

    fn call(
        &self,
        request: u32,
        event: impl FnOnce(&mut Succession, Number, Ns, &Observed) -> Result<Actions, request::Error>,
    ) -> Result {
        let number = Number::new(request).ok_or(Failure::Stale)?;
        let mut state = self.lock();
        let now = Ns(now_ns());
        let actions = event(&mut state.requests, number, now, &self.observe())
            .map_err(|request::Error::Stale| Failure::Stale)?;
        self.apply(&mut state, now, &actions);
        self.release(state);
        Ok(())
    }

    /// Carries out the immediate actions.
    #[inline]
    fn store(&self, guard: &mut Guarded<'_>, now: Ns, actions: &Actions) {
        if let (Some(number), Some(words)) = (actions.release, self.words()) {
            words.release(number.get());
        }
        if let Some(number) = actions.trigger {
            self.trigger(guard, number);
        }
        if let Some(at) = actions.alarm.filter(|&at| at != guard.alarm) {
            guard.alarm = at;
            if !guard.is_expired() {
                guard.is_spread = self.timers.are_many();
            }
            let at = match guard.is_spread {
                true => self.take_place(at, now),
                false => at,
            };
            guard.arm(at.0);
        }
    }

    fn apply(&self, guard: &mut Guarded<'_>, now: Ns, actions: &Actions) {
        self.store(guard, now, actions);
        let state = &mut **guard;
        if let Some(trial) = &actions.sample {
            state.learn(trial);
        }
        if let Some(record) = &actions.over {
            if state.requests.is_behind() {
                state.catch_up();
            }
            state.over::<true>(record);
            if tuned::requests_prefer() {
                state.prefer_no_more();
            }
        }
        state.follow();
    }

    /// The timer has expired.
    #[inline(always)]
    fn expire(&self, state: &mut Guarded<'_>) {
        state.alarm = Ns::ZERO;
        let now = Ns(now_ns());
        let mut actions = Actions::default();
        let seen = self.observe();
        state.requests.poll_into(now, &seen, &mut actions);
        self.apply(state, now, &actions);
        if actions.trigger.is_none() {
            state.catch_up();
        }
    }

    fn trigger(&self, state: &mut State, number: Number) {
        if let Some(words) = self.words() {
            words.trigger(number.get());
        }
        state.uncounted.triggered += 1;
        if let Some(group) = &state.group {
            if group.gpu.is_lc_busy() {
                state.requests.try_no_more();
            }
            trace::request_trigger(group.tsg.0, number.get());
        }
        if tuned::requests_prefer() {
            state.prefer();
        }
    }
}

impl Timed for Inner {
    type State = State;

    fn expired(this: Expired<'_, Self>) {
        let mut state = this.lock();
        let slot = state.driven();
        match state.turn {
            Some(_) => slot.expire_in_order(state),
            None => slot.expire(&mut state),
        }
    }
}
