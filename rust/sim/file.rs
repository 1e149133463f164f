// SPDX-License-Identifier: GPL-2.0
//! An open file of `/dev/zernel-sim`: its contexts, its completions, its trace.
//!
//! Lock order: `reader` is held while user memory is accessed; `contexts` never is, because
//! mapping takes it under the lock of the address space.

use super::{
    context::Context,
    device::Card,
    inbox::Inbox,
    provider::{
        load_of,
        Hub, //
    },
    user::User,
};
use crate::model::tsg::Handle;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// A context of a file.
#[derive(Clone)]
pub(crate) struct Owned {
    /// Its GPU.
    pub(crate) gpu: u32,
    /// Its TSG.
    pub(crate) tsg: Handle,
    /// The owner's side of it.
    pub(crate) context: Arc<Context>,
}

/// The contexts of a file.
pub(super) struct Contexts {
    pub(super) last: u32,
    pub(super) tree: RBTree<u32, Owned>,
}

/// An open file.
#[pin_data(PinnedDrop)]
pub(crate) struct File {
    /// Number of the file.
    pub(crate) number: u64,
    /// The GPUs.
    pub(crate) hub: Arc<Hub>,
    /// The user that opened it.
    pub(crate) user: Arc<User>,
    /// Completions.
    pub(crate) inbox: Arc<Inbox>,
    #[pin]
    pub(super) contexts: Mutex<Contexts>,
    /// Held by the taker of completions or trace records.
    #[pin]
    pub(crate) reader: Mutex<()>,
}

impl File {
    /// A GPU.
    pub(crate) fn card(&self, number: u32) -> Result<&Arc<Card>> {
        self.hub.inner().card(number)
    }

    /// A context of this file.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn context(&self, id: u32) -> Result<Owned> {
        self.contexts.lock().tree.get(&id).cloned().ok_or(ENOENT)
    }

    /// Makes a context: `make` gets its id and returns it.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> Result<Owned>) -> Result<Owned> {
        let reservation = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut contexts = self.contexts.lock();
        let id = contexts.last.checked_add(1).ok_or(ENOSPC)?;
        let owned = make(id)?;
        contexts.last = id;
        contexts
            .tree
            .insert(reservation.into_node(id, owned.clone()));
        Ok(owned)
    }

    /// Ends a context.
    ///
    /// # Errors
    ///
    /// `ENOENT`
    pub(crate) fn remove(&self, id: u32) -> Result {
        let owned = self.contexts.lock().tree.remove(&id).ok_or(ENOENT)?;
        self.end(&owned);
        Ok(())
    }

    /// Ends a context that nobody can find any more: `zernel.ko` forgets it first.
    pub(super) fn end(&self, owned: &Owned) {
        let gpu = u64::from(owned.gpu);
        if let Ok(card) = self.card(owned.gpu) {
            match load_of(card, owned.tsg) {
                Ok(load) => self.hub.tsg_ended(gpu, owned.tsg.0, &load),
                Err(_) => self.hub.tsg_removed(gpu, owned.tsg.0),
            }
            card.destroy(owned.tsg);
        }
        self.user.contexts.release(1);
    }
}

/// Offset at which the words of a context are mapped.
pub(crate) fn mmap_offset(context: u32) -> u64 {
    u64::from(context) * PAGE_SIZE as u64
}
