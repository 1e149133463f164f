// SPDX-License-Identifier: GPL-2.0
//! A slot: carries out what [`policy::request`](crate::policy::request) decides about its requests.

use super::{
    group::{
        Device,
        Group, //
    },
    keys::Key,
    settings,
    stats::Shared, //
};
use crate::{
    error::Failure,
    glue::{
        identity::Uid,
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        pinned::{
            PinnedPage,
            Words, //
        },
        time::now_ns,
        timer::{
            Driven,
            Timed, //
        },
        trace, //
    },
    policy::{
        level::Level,
        predict::{
            fixed::Fixed,
            Choice,
            Kind, //
        },
        request::{
            self,
            record::{
                Cause,
                Record, //
            },
            words::{
                Number,
                Observed, //
            },
            Actions,
            Plan, //
        },
        units::Ns, //
    },
    registry::tsg,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The timer is not armed.
const NOT_ARMED: u64 = u64::MAX;

/// What is wanted of a request that begins.
pub(crate) struct Begin {
    /// How its preparation time is predicted; `None`: as tuned.
    pub(crate) kind: Option<Kind>,
    /// Whether the classic margin is added.
    pub(crate) margin: bool,
    /// Whether the stream has a holder.
    pub(crate) holder: bool,
    /// What the process expects; 0: nothing.
    pub(crate) expected: Ns,
    /// Longest latency that is no violation; 0: any.
    pub(crate) slo: Ns,
}

/// A request that has begun.
pub(crate) struct Begun {
    /// Its number.
    pub(crate) request: u32,
    /// Its predicted preparation time, if there is a prediction.
    pub(crate) predicted: Option<Ns>,
    /// When the GPU is taken for it.
    pub(crate) trigger_at: Ns,
}

/// What the lock of a slot protects.
struct State {
    request: request::Slot,
    /// What the timer is armed for.
    armed: u64,
    /// The TSG, while it is there.
    group: Option<Arc<Group>>,
    /// The key of the requests and whose it is, and what is known of it.
    key: Option<((u64, Uid), Arc<Key>)>,
    /// Level under which the request that is not over is counted.
    level: Option<Level>,
    /// What [`Kind::Fixed`] told about it.
    fixed: Fixed,
    /// The GPU and level that it is counted for as holding it without a holder.
    holds: Option<(Arc<Device>, Level)>,
}

/// A slot of a page.
#[pin_data]
pub(crate) struct Inner {
    page: Arc<PinnedPage>,
    number: u32,
    #[pin]
    state: IrqLock<State>,
}

/// A slot with its timer.
pub(crate) type Slot = Driven<Inner>;

impl Inner {
    /// What the process and zernel share.
    fn words(&self) -> Option<&Words> {
        self.page.slot(self.number)
    }

    fn observe(&self) -> Observed {
        self.words().map(Words::observe).unwrap_or_default()
    }
}

impl State {
    /// Both statistics that the request counts in.
    fn count(&self, f: impl Fn(&mut crate::policy::tally::Tally)) {
        if let Some(group) = &self.group {
            group.stats.count(&f);
            if let Some(level) = group.totals.of(self.level) {
                Shared::count(level, &f);
            }
        }
    }

    fn over(&mut self, record: &Record) {
        self.count(|tally| tally.end(record));
        if let (Some(took), Some((_, key))) = (record.preparation(), &self.key) {
            key.history.lock().observe(took, self.fixed);
        }
        if let Some(group) = &self.group {
            trace::request_end(
                group.tsg.0,
                record.number.get(),
                record.cause as u32,
                record.latency().unwrap_or_default().0,
                record.early.0,
                record.late.0,
            );
        }
    }
}

impl Slot {
    /// A slot without a request.
    pub(crate) fn make(page: Arc<PinnedPage>, number: u32) -> Result<Arc<Self>> {
        let state = State {
            request: request::Slot::new(),
            armed: NOT_ARMED,
            group: None,
            key: None,
            level: None,
            fixed: Fixed::default(),
            holds: None,
        };
        let inner = try_pin_init!(Inner {
            page,
            number,
            state <- new_irq_lock!(state, c"zernel_slot"),
        });
        Arc::pin_init(Driven::new(inner), GFP_KERNEL_ACCOUNT)
    }

    /// Whether its requests are about this TSG and user's key already.
    pub(crate) fn is_bound(&self, tsg: tsg::Id, key: u64, user: Uid) -> bool {
        let state = self.state.lock();
        let group = state.group.as_ref();
        group.is_some_and(|group| group.tsg == tsg && !group.is_gone())
            && state
                .key
                .as_ref()
                .is_some_and(|(name, _)| *name == (key, user))
    }

    /// Has its requests be about this TSG and user's key. The request that it has is over.
    ///
    /// # Errors
    ///
    /// As [`Group::check`], and `ENOMEM`; nothing has changed then.
    pub(crate) fn bind(
        self: &Arc<Self>,
        group: &Arc<Group>,
        key: (u64, Uid),
        known: Arc<Key>,
        holder: bool,
    ) -> Result {
        group.check(holder)?;
        let member = group.reserve(self)?;
        let mut state = self.state.lock();
        self.finish(&mut state);
        drop(state);
        if let Some(old) = group.attach(self, member)? {
            old.detach(self);
        }
        let unused = self.state.lock().key.replace((key, known));
        // Dropped without the lock.
        drop(unused);
        Ok(())
    }

    /// Has its requests be a TSG's. Returns whose they were.
    pub(super) fn set_group(&self, group: Arc<Group>) -> Option<Arc<Group>> {
        self.state.lock().group.replace(group)
    }

    /// A request begins; the one before it is over.
    ///
    /// # Errors
    ///
    /// As [`Group::check`]; nothing has changed then.
    pub(crate) fn begin(&self, ask: &Begin) -> Result<Begun> {
        let settings = settings::get();
        let choice = Choice {
            kind: ask.kind.unwrap_or(settings.predictor),
            costs: settings.costs,
            fixed: match ask.expected {
                Ns::ZERO => Fixed::default(),
                expected => Fixed(expected),
            },
            margin: ask.margin,
        };
        let mut state = self.state.lock();
        let (Some(group), Some((_, key))) = (&state.group, &state.key) else {
            return Err(ENOENT);
        };
        group.check(ask.holder)?;
        let (group, key) = (group.clone(), key.clone());
        let level = group.level();
        let cost = match ask.holder {
            true => group.gpu.switch.lock().estimate(),
            false => group.gpu.gate_cost(),
        };
        // What it has learned from the one before counts for this one.
        self.finish(&mut state);
        let predicted = key
            .predict(choice)
            .or((ask.expected > Ns::ZERO).then_some(ask.expected));
        let tsg = group.tsg.0;
        let now = Ns(now_ns());
        let trigger_at = predicted.map_or(now, |time| {
            now.saturating_add(time).saturating_sub(cost).max(now)
        });
        let plan = Plan {
            trigger_at,
            lease: settings.lease.into(),
            predicted: predicted.unwrap_or_default(),
            cost,
            slo: (ask.slo > Ns::ZERO).then_some(ask.slo),
            holder: ask.holder,
            sample: ask.holder,
        };
        let (number, actions) = state.request.begin(now, &self.observe(), plan);
        state.level = level;
        state.fixed = choice.fixed;
        state.count(|tally| tally.begin());
        trace::request_begin(
            tsg,
            number.get(),
            predicted.unwrap_or_default().0,
            trigger_at.0,
        );
        self.apply(&mut state, actions);
        drop(state);
        // Dropped without the lock.
        drop((group, key));
        Ok(Begun {
            request: number.get(),
            predicted,
            trigger_at,
        })
    }

    /// The data of a request is ready.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn ready(&self, request: u32) -> Result {
        self.call(request, request::Slot::ready)
    }

    /// A request is done.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn done(&self, request: u32) -> Result {
        self.call(request, request::Slot::done)
    }

    /// A request is given up.
    ///
    /// # Errors
    ///
    /// [`Failure::Stale`].
    pub(crate) fn cancel(&self, request: u32) -> Result {
        self.call(request, request::Slot::cancel)
    }

    /// Takes up what the process has stored.
    pub(super) fn poll(&self) {
        let mut state = self.state.lock();
        let actions = state.request.poll(Ns(now_ns()), &self.observe());
        self.apply(&mut state, actions);
    }

    /// Ends the request that is not over.
    pub(super) fn end(&self, cause: Cause) {
        let mut state = self.state.lock();
        let actions = state.request.end(Ns(now_ns()), &self.observe(), cause);
        self.apply(&mut state, actions);
    }

    /// Ends the request that is not over, and is nobody's any more.
    pub(super) fn close(self: &Arc<Self>, cause: Cause) {
        self.end(cause);
        let group = self.state.lock().group.take();
        if let Some(group) = group {
            group.detach(self);
        }
    }

    /// Ends the request that is not over as the next begin does.
    fn finish(&self, state: &mut State) {
        if state.request.active().is_none() {
            return;
        }
        let actions = state.request.retire(Ns(now_ns()), &self.observe());
        self.apply(state, actions);
    }

    fn call(
        &self,
        request: u32,
        event: impl FnOnce(&mut request::Slot, Number, Ns, &Observed) -> Result<Actions, request::Error>,
    ) -> Result {
        let number = Number::new(request).ok_or(Failure::Stale)?;
        let mut state = self.state.lock();
        let actions = event(&mut state.request, number, Ns(now_ns()), &self.observe())
            .map_err(|request::Error::Stale| Failure::Stale)?;
        self.apply(&mut state, actions);
        Ok(())
    }

    fn apply(&self, state: &mut State, actions: Actions) {
        if let (Some(number), Some(words)) = (actions.release, self.words()) {
            words.release(number.get());
        }
        if let Some(number) = actions.trigger {
            self.trigger(state, number);
        }
        if let Some(at) = actions.alarm.filter(|at| at.0 != state.armed) {
            state.armed = at.0;
            self.arm(at.0);
        }
        // What it is learned from is stored by the process. It concerns all requests of the GPU, so
        // only those whose class rests on privilege are believed.
        let believed = state
            .level
            .is_some_and(|level| level.is_above(Level::DEFAULT));
        if let (Some(seen), Some(group)) = (actions.sample.filter(|_| believed), &state.group) {
            group.gpu.switch.lock().learn(seen);
        }
        if let Some(record) = actions.over {
            state.over(&record);
        }
        if state.request.holds() != state.holds.is_some() {
            self.hold(state);
        }
    }

    /// Has the gate of the GPU follow what the request holds.
    fn hold(&self, state: &mut State) {
        match (state.holds.take(), &state.group, state.level) {
            (Some((gpu, level)), _, _) => gpu.hold(level, false),
            (None, Some(group), Some(level)) => {
                group.gpu.hold(level, true);
                state.holds = Some((group.gpu.clone(), level));
            }
            _ => {}
        }
    }

    fn trigger(&self, state: &State, number: Number) {
        if let Some(words) = self.words() {
            words.trigger(number.get());
        }
        state.count(|tally| tally.trigger());
        if let Some(group) = &state.group {
            trace::request_trigger(group.tsg.0, number.get());
        }
    }
}

impl Timed for Inner {
    fn expired(slot: &Slot) {
        let mut state = slot.state.lock();
        state.armed = NOT_ARMED;
        let actions = state.request.poll(Ns(now_ns()), &slot.observe());
        slot.apply(&mut state, actions);
    }
}
