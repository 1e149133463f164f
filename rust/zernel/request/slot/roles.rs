// SPDX-License-Identifier: GPL-2.0
//! A slot among the requests of a TSG, and as the bearer of a ticket.

use super::{
    state::State,
    Slot, //
};
use crate::{
    glue::{
        identity::Uid,
        time::now_ns, //
    },
    policy::{
        request::record::Cause,
        units::Ns, //
    },
    request::{
        boost::{
            Bearer,
            Ticket, //
        },
        group::{
            Group,
            Member, //
        },
    },
    tuned, //
};
use kernel::sync::Arc;

impl Slot {
    /// A request with a deadline has begun.
    #[cold]
    #[inline(never)]
    pub(super) fn claim(&self, state: &State, user: Uid) {
        if let (true, Some(group)) = (tuned::slack_is_followed(), &state.group) {
            group.claim(user);
        }
    }
}

impl Member for Slot {
    /// Makes its requests a TSG's. The present one is over. Returns the TSG before.
    fn set_group(&self, group: Arc<Group>) -> Option<Arc<Group>> {
        let mut state = self.lock();
        self.retire(&mut state, Ns(now_ns()), &self.observe());
        drop(state);
        // Its promise is one of the TSG before.
        self.settle();
        let before = self.lock().group.replace(group);
        if let Some(before) = &before {
            before.gpu.order.part();
        }
        before
    }

    fn end(&self, cause: Cause) {
        self.end(cause);
    }

    /// Takes up the stores of the process, and counts them.
    fn poll(&self) {
        let mut state = self.lock();
        let now = Ns(now_ns());
        let actions = state.requests.poll(now, &self.observe());
        self.apply(&mut state, now, &actions);
        state.catch_up();
        self.release(state);
    }

    fn deadline(&self) -> Option<Ns> {
        let mut state = self.lock();
        // A request that is over is to be counted by now.
        state.catch_up();
        state.requests.open_deadline(&self.observe())
    }
}

impl Bearer for Slot {
    fn look(&self, ticket: &Ticket, f: &mut dyn FnMut(bool)) {
        let state = self.lock();
        f(self.is_preferred(&state, ticket));
    }
}

impl Slot {
    /// True if the thread that a ticket names is to be preferred.
    fn is_preferred(&self, state: &State, ticket: &Ticket) -> bool {
        let current = state.preferable();
        current.is_some_and(|current| core::ptr::eq::<Ticket>(&**current, ticket))
            && state.requests.is_under_way(&self.observe())
    }
}
