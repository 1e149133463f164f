// SPDX-License-Identifier: GPL-2.0
//! An open file of `/dev/zernel-sim`: its contexts, its completions, its trace.
//!
//! Lock order: `reader` is held while user memory is accessed; `contexts` never is, because
//! mapping takes it under the lock of the address space.

use super::{
    context::Context,
    device::Card,
    inbox::Inbox,
    user::User, //
};
use crate::{
    host::Hub,
    model::tsg::Handle, //
};
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

/// A place for a context of a file.
pub(crate) struct Place {
    /// Its id.
    pub(crate) id: u32,
    node: RBTreeNodeReservation<u32, Owned>,
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

    /// A place for a context, whose id is not used again.
    pub(crate) fn reserve(&self) -> Result<Place> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?;
        let mut contexts = self.contexts.lock();
        let id = contexts.last.checked_add(1).ok_or(ENOSPC)?;
        contexts.last = id;
        Ok(Place { id, node })
    }

    /// Lets a context be found.
    pub(crate) fn keep(&self, place: Place, owned: Owned) {
        let node = place.node.into_node(place.id, owned);
        self.contexts.lock().tree.insert(node);
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

    /// Ends a context that nobody can find any more.
    pub(super) fn end(&self, owned: &Owned) {
        if let Ok(card) = self.card(owned.gpu) {
            self.hub.end(card, owned.tsg);
        }
        self.user.contexts.release(1);
    }
}

/// Offset at which the words of a context are mapped.
pub(crate) fn mmap_offset(context: u32) -> u64 {
    u64::from(context) * PAGE_SIZE as u64
}
