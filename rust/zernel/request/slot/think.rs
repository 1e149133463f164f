// SPDX-License-Identifier: GPL-2.0
//! Requests with features: a call learns and predicts without the lock of the slot, which keeps interrupts
//! off, before it begins the request with that.

use super::{
    begin::{
        Begin,
        Outcome, //
    },
    state::Name,
    Slot, //
};
use crate::{
    glue::identity::Uid,
    ids::TsgId,
    policy::predict::{
        features::Features,
        Choice, //
    },
    request::keys::Thought,
    tuned, //
};
use kernel::prelude::*;

impl Slot {
    /// Learns from the requests that are over, and predicts one that is to begin. The error is the
    /// outcome of that begin.
    ///
    /// # Errors
    ///
    /// As [`Slot::begin`].
    #[cold]
    #[inline(never)]
    pub(super) fn think(
        &self,
        tsg: TsgId,
        name: Name,
        ask: &Begin<'_>,
        features: &Features,
        mut choice: Choice,
    ) -> Result<Result<Thought, Outcome>> {
        let mut state = self.lock();
        let Some(group) = state.bound(tsg, name) else {
            return Ok(Err(Outcome::Unbound));
        };
        group.check(ask.holder)?;
        if let Some(early) = tuned::shared_early() {
            group.weigh(early, &mut choice.costs);
        }
        if state.requests.is_behind() {
            state.catch_up();
        }
        let Some((_, key)) = &state.key else {
            return Ok(Err(Outcome::Unbound));
        };
        let key = key.clone();
        let due = state.lessons.take();
        drop(state);
        let thought = key.think(due, features, choice);
        Ok(thought.ok_or(Outcome::NoRoom))
    }

    /// Makes room for what is learned from features of its key, one of this user's. Returns whether there
    /// is some.
    #[cold]
    pub(crate) fn make_room(&self, user: Uid) -> bool {
        let key = self.lock().key.as_ref().map(|(_, key)| key.clone());
        key.is_some_and(|key| key.make_room(user))
    }
}
