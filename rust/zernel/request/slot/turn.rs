// SPDX-License-Identifier: GPL-2.0
//! A slot whose request has a place in the order of deadlines.

use super::{
    seat::Seat,
    state::{
        State,
        Turn, //
    },
    Guarded,
    Slot, //
};
use crate::{
    glue::{
        identity::Uid,
        time::now_ns, //
    },
    policy::{
        counters::Promise,
        deadline::line::{
            Lane,
            Place, //
        },
        request::{
            order::Standing,
            record::Ended,
            words::Number, //
        },
        units::Ns, //
    },
    request::order::Waiter,
};
use kernel::sync::Arc;

impl State {
    /// True if the request has a place.
    fn has(&self, place: Place) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.place == place)
    }

    /// Keeps the end of the request that has a place still, as that of another would come in its stead.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_turn(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.ended = turn.ended.or_else(|| self.requests.ended(turn.number));
        }
    }

    /// A request that had a place is over: its burst is learned, unless it was held, and its promise compared.
    fn end_turn(&mut self, turn: Option<&Turn>, was_held: bool) -> Option<Ended> {
        let turn = turn?;
        if self.requests.is_behind() {
            self.catch_up();
        }
        let ended = turn.ended.or_else(|| self.requests.ended(turn.number))?;
        if let Some((_, key)) = &self.key {
            // One that held the GPU for data that did not come says nothing of others of its key.
            match (ended.burst, ended.least) {
                // Nor does one that others had the GPU from.
                _ if was_held => {}
                (Some(burst), _) => key.learn_burst(burst),
                (None, Some(least)) => key.learn_least(least),
                (None, None) => {}
            }
        }
        if let Some((level, deadline)) = turn.promise {
            if ended.at > deadline {
                self.promise(level, Promise::Missed);
            }
        }
        Some(ended)
    }
}

impl Waiter for Slot {
    fn standing(&self, place: Place, was_held: bool) -> Result<Standing, Option<Ended>> {
        let mut state = self.lock();
        let turn = state.turn.as_ref().filter(|turn| turn.place == place);
        let number = turn.map(|turn| turn.number).ok_or(None)?;
        if state.requests.ordered() == Some(number) {
            return Ok(state.requests.standing());
        }
        let unused = state.turn.take();
        let ended = state.end_turn(unused.as_ref(), was_held);
        drop(state);
        // Dropped without the lock of the slot. The caller has another reference to the GPU.
        drop(unused);
        Err(ended)
    }

    fn grant(&self, place: Place, now: Ns) -> Standing {
        let mut state = self.lock();
        let turn = state.turn.as_ref().filter(|turn| turn.place == place);
        let Some(number) = turn.map(|turn| turn.number) else {
            return Standing::Apart;
        };
        self.let_go(&mut state, number, now);
        match state.requests.ordered() == Some(number) {
            true => state.requests.standing(),
            // It is over, and its own event follows.
            false => Standing::Apart,
        }
    }

    fn wait_until(&self, place: Place, at: Ns) {
        let mut state = self.lock();
        if state.has(place) {
            let actions = state.requests.wait_until(at);
            self.store(&mut state, Ns(now_ns()), &actions);
        }
    }

    fn watch(&self, place: Place, from: Ns) {
        let mut state = self.lock();
        if state.has(place) {
            let actions = state.requests.watch(from);
            self.store(&mut state, Ns(now_ns()), &actions);
        }
    }
}

impl Slot {
    /// The timer of a slot with a place has expired. Unlocks the slot.
    #[cold]
    #[inline(never)]
    pub(super) fn expire_in_order(&self, mut state: Guarded<'_>) {
        self.expire(&mut state);
        self.release(state);
    }

    /// A request of its own stores its trigger, if it waits.
    fn let_go(&self, state: &mut Guarded<'_>, number: Number, now: Ns) {
        let actions = state.requests.grant(number, now, &self.observe());
        if let (Some(_), Some(group)) = (actions.trigger, &state.group) {
            group.gpu.announce(now);
        }
        self.apply(state, now, &actions);
    }

    /// The request that has just begun gets its place, behind that of the one before. Unlocks the slot.
    #[cold]
    #[inline(never)]
    pub(super) fn take_turn(
        self: &Arc<Self>,
        mut state: Guarded<'_>,
        user: Uid,
        mut seat: Option<&mut Seat>,
    ) {
        state.keep_turn();
        if let (Some(_), Some(level)) = (&seat, state.level) {
            state.promise(level, Promise::Accepted);
        }
        drop(state);
        self.settle();
        let state = self.lock();
        let (Some(number), Some(group), Some(level)) =
            (state.requests.ordered(), &state.group, state.level)
        else {
            return;
        };
        let gpu = match &seat {
            Some(seat) => seat.gpu.clone(),
            None => group.gpu.clone(),
        };
        let lane = Lane {
            runlist: group.runlist(),
            level,
        };
        let contender = gpu.can_hold().then_some(group.tsg.0);
        drop(state);
        let has_room = gpu.order.join(self.clone(), |line| {
            let mut state = self.lock();
            if state.requests.ordered() != Some(number) || state.turn.is_some() {
                // Over by now.
                return None;
            }
            let deadline = state.requests.deadline();
            let (place, promise) = match &mut seat {
                Some(seat) => (seat.place.take()?, Some((level, deadline))),
                None => (line.join(lane, user.0, state.claim())?, None),
            };
            if let (Some(tsg), true) = (contender, state.requests.states_deadline()) {
                line.contends(place, tsg);
            }
            state.turn = Some(Turn {
                gpu: gpu.clone(),
                place,
                number,
                promise,
                ended: None,
            });
            Some(place)
        });
        if !has_room {
            let mut state = self.lock();
            self.let_go(&mut state, number, Ns(now_ns()));
        }
        gpu.follow_order();
    }

    /// Unlocks the slot after an event.
    #[inline(always)]
    pub(super) fn release(&self, state: Guarded<'_>) {
        if state.turn.is_some() {
            self.release_in_order(state);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_in_order(&self, state: Guarded<'_>) {
        drop(state);
        self.settle();
    }

    /// Has the order follow an event of the slot. Without its lock.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&self) {
        let state = self.lock();
        let turn = state.turn.as_ref();
        let turn = turn.map(|turn| (turn.gpu.clone(), turn.place));
        drop(state);
        if let Some((gpu, place)) = turn {
            gpu.order.settle(place);
            gpu.follow_order();
        }
    }
}
