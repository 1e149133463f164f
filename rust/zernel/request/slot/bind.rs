// SPDX-License-Identifier: GPL-2.0
//! The TSG and the key that the requests of a slot are about.

use super::{
    state::Name,
    Slot, //
};
use crate::{
    glue::work::Worker,
    request::{
        boost::{
            Boosts,
            Ticket, //
        },
        group::Group,
        keys::Key, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    },
};

impl Slot {
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
        let due = state.due();
        let unused = state.key.replace((name, key));
        let before = state.ticket.replace(ticket);
        drop(state);
        self.foreign.store(!owns, Relaxed);
        if let Some(before) = &before {
            before.part();
        }
        // Dropped without the lock.
        drop((unused, before));
        if let Some(due) = due {
            due.learn();
        }
        Ok(())
    }

    /// True if its requests are about another user's TSG. Those who bind it are for one thread at a
    /// time.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Relaxed)
    }
}
