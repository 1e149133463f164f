// SPDX-License-Identifier: GPL-2.0
//! A slot: carries out decisions of [`policy::request`](crate::policy::request) about its requests.

mod begin;
mod roles;
mod state;
mod turn;

use super::{
    boost::{
        Boosts,
        Ticket, //
    },
    group::Group,
    keys::Key,
    share::Timers, //
};
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
        trace,
        work::Worker, //
    },
    ids::TsgId,
    policy::{
        deadline::Order,
        level::Level,
        predict::{
            fixed::Fixed,
            Choice,
            Kind, //
        },
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

    /// Has its requests be about this TSG and user's key, and the calling thread be theirs. The
    /// request that it has is over.
    ///
    /// # Errors
    ///
    /// As [`Group::check`], and `ENOMEM`; nothing has changed then.
    pub(crate) fn bind(
        self: &Arc<Self>,
        group: &Arc<Group>,
        name: Name,
        owns: bool,
        key: Arc<Key>,
        boosts: Arc<Worker<Boosts>>,
        holder: bool,
    ) -> Result {
        group.check(holder)?;
        let ticket = Ticket::new(self.clone(), boosts)?;
        let member = group.reserve(self)?;
        if let Some(old) = group.attach(self, member)? {
            old.detach(self);
        }
        let mut state = self.lock();
        state.ahead = None;
        state.study();
        let unused = state.key.replace((name, key));
        let before = state.ticket.replace(ticket);
        drop(state);
        self.foreign.store(!owns, Relaxed);
        if let Some(before) = &before {
            before.part();
        }
        // Dropped without the lock.
        drop((unused, before));
        Ok(())
    }

    /// True if its requests are about another user's TSG. Those who bind it are for one thread at a
    /// time.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Relaxed)
    }

    /// True if its gate has the bit of an error.
    pub(crate) fn has_failed(&self) -> bool {
        Gate::of(self.observe().gate) == Gate::Failed
    }

    /// A request for this TSG, under this key of a user, begins; the one before it is over. `tell`
    /// is called with the slot locked, and says whether the process knows now.
    ///
    /// # Errors
    ///
    /// As [`Group::check`]; nothing has changed then.
    pub(crate) fn begin(
        self: &Arc<Self>,
        tsg: TsgId,
        name: Name,
        ask: &Begin<'_>,
        mut tell: impl FnMut(Begun) -> bool,
    ) -> Result<Outcome> {
        let settings = tuned::requested();
        let mut choice = Choice {
            kind: match ask.exact {
                true => Kind::Fixed,
                false => settings.predictor,
            },
            costs: settings.costs,
            fixed: match ask.expected {
                Ns::ZERO if !ask.exact => Fixed::default(),
                expected => Fixed(expected),
            },
            margin: settings.margin && !ask.exact,
        };
        let mut guard = self.lock();
        let (cost, phase, level) = match guard.bound(tsg, name) {
            Some(group) => {
                group.check(ask.holder)?;
                let phase = group.gpu.phase();
                let cost = match ask.holder {
                    true => group.gpu.switch_cost(phase),
                    false => group.gpu.gate_cost(),
                };
                (cost, phase, group.level())
            }
            None => return Ok(Outcome::Unbound),
        };
        if ask.features.is_some() {
            if guard.lacks_room() {
                return Ok(Outcome::NoRoom);
            }
            choice = choice.of_features();
        }
        let now = Ns(now_ns());
        let seen = self.observe();
        if guard.requests.is_behind() {
            guard.catch_up();
        }
        let mut predicted = guard.predict(choice, ask.features);
        if predicted.is_none() || guard.level != level {
            // Anything to learn is worth the wait, and is counted under its own level.
            if !tell(Begun::default()) {
                return Ok(Outcome::Untold);
            }
            self.retire(&mut guard, now, &seen);
            predicted = guard.predict(choice, ask.features);
        }
        // Without anything known, at once.
        let predicted = predicted.unwrap_or(ask.expected);
        let known = (predicted > Ns::ZERO).then_some(predicted);
        let (lead, ordered) = match settings.rule {
            None => (choice.lead(known, cost), false),
            Some(rule) => (
                rule.lead(choice, known, cost),
                rule.order == Order::Edf && level.is_some_and(|level| level != Level::BE),
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
            sample: ask.holder,
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
        state.phase = phase;
        if choice.margin | state.choices.0.margin | state.choices.1.margin {
            state.keep(choice, ask.features);
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
            let actions = guard.requests.poll(now, &seen);
            self.apply(&mut guard, now, &actions);
        }
        guard.follow();
        if ask.slo > Ns::ZERO {
            self.claim(&guard, name.1);
        }
        if ordered || guard.turn.is_some() {
            self.take_turn(guard, name.1);
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
        // No begin of this slot follows that would.
        state.study();
        let (group, ticket) = (state.group.take(), state.ticket.take());
        drop(state);
        if let Some(ticket) = &ticket {
            ticket.part();
        }
        // Dropped without the lock.
        drop(ticket);
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
        if let Some(seen) = actions.sample {
            state.learn(seen);
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
            state.waits_for_lc = group.gpu.is_lc_busy();
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
