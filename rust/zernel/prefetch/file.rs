// SPDX-License-Identifier: GPL-2.0
//! The subscriptions of an open file.

use super::{
    Registered,
    Subscription, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
};

/// A slot: the number of its page, and its own.
pub(crate) type Place = (u32, u32);

/// A subscription of an open file. Dropped, it ends.
pub(crate) struct Entry {
    /// The slot whose word it counts in.
    word: Option<Place>,
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

    /// Takes a subscription in under a handle, and has it be signalled. `word`: the slot whose word it
    /// counts in.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(
        &mut self,
        handle: u32,
        subscription: Subscription,
        word: Option<Place>,
    ) -> Result {
        let entry = Entry {
            word,
            _registered: Registered::new(subscription)?,
        };
        self.entries
            .insert(RBTreeNode::new(handle, entry, GFP_KERNEL_ACCOUNT)?);
        Ok(())
    }

    /// Whether one counts in the word of a slot.
    pub(crate) fn has_word(&self, place: Place) -> bool {
        self.entries.values().any(|entry| entry.word == Some(place))
    }

    /// Takes a subscription out, if there is one. What is returned must be dropped without a lock.
    pub(crate) fn remove(&mut self, handle: u32) -> Option<Entry> {
        self.entries.remove(&handle)
    }

    /// Takes out some one that counts in a word of a page. What is returned must be dropped without
    /// a lock.
    pub(crate) fn remove_of(&mut self, page: u32) -> Option<Entry> {
        let is_of = |entry: &Entry| entry.word.is_some_and(|place| place.0 == page);
        let mut entries = self.entries.iter();
        let number = entries.find_map(|(&number, entry)| is_of(entry).then_some(number))?;
        self.entries.remove(&number)
    }
}
