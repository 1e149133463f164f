// SPDX-License-Identifier: GPL-2.0
//! Requests with features: a call learns and predicts without the lock of the slot, which keeps interrupts
//! off, before it begins the request with that.

use super::{
    begin::{
        Begin,
        Outcome, //
    },
    seat::Seat,
    state::Name,
    Guarded,
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
    /// Locks the slot for a request that is to begin, and may not: `choice` weighs as it would. `None`:
    /// [`Slot::bind`] has to come first.
    ///
    /// # Errors
    ///
    /// As [`Slot::begin`].
    pub(super) fn open(
        &self,
        tsg: TsgId,
        name: Name,
        ask: &Begin<'_>,
        choice: &mut Choice,
    ) -> Result<Option<Guarded<'_>>> {
        let state = self.lock();
        let Some(group) = state.bound(tsg, name) else {
            return Ok(None);
        };
        group.check(ask.holder)?;
        if let Some(early) = tuned::shared_early() {
            group.foresee(early, &mut choice.costs);
        }
        Ok(Some(state))
    }

    /// Learns from the requests that are over, and predicts one that is to begin; for a `seat` it was
    /// predicted before. The error is the outcome of that begin.
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
        seat: Option<&mut Seat>,
    ) -> Result<Result<Thought, Outcome>> {
        if let Some(thought) = seat.and_then(|seat| seat.thought.take()) {
            return Ok(Ok(thought));
        }
        let Some(mut state) = self.open(tsg, name, ask, &mut choice)? else {
            return Ok(Err(Outcome::Unbound));
        };
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
