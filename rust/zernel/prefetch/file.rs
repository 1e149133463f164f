// SPDX-License-Identifier: GPL-2.0
//! The subscriptions of an open file.

use super::{
    subscription::Subscription,
    table::Registered, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
};

/// A subscription of an open file. Dropped, it ends.
pub(crate) struct Entry {
    /// The slot with the word that it counts in.
    word: Option<u32>,
    _registered: Registered,
}

/// The subscriptions of a file.
pub(crate) struct Subscriptions {
    entries: RBTree<u32, Entry>,
}

impl Subscriptions {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            entries: RBTree::new(),
        }
    }

    /// Takes a subscription in under a handle, and has it be signalled. `word`: the slot with the
    /// word that it counts in.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(
        &mut self,
        handle: u32,
        subscription: Subscription,
        word: Option<u32>,
    ) -> Result {
        let entry = Entry {
            word,
            _registered: Registered::new(subscription)?,
        };
        self.entries
            .insert(RBTreeNode::new(handle, entry, GFP_KERNEL_ACCOUNT)?);
        Ok(())
    }

    /// True if one counts in the word of a slot.
    pub(crate) fn has_word(&self, slot: u32) -> bool {
        self.entries.values().any(|entry| entry.word == Some(slot))
    }

    /// Takes a subscription out, if there is one. Drop the result without a lock.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Entry> {
        self.entries.remove(&handle)
    }
}
