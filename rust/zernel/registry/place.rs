// SPDX-License-Identifier: GPL-2.0
//! Places of TSGs in the trees of the registry, and the memory for them.

use crate::{
    glue::identity::Uid,
    ids::{
        GpuId,
        TsgId, //
    },
    policy::units::Ns,
};
use kernel::rbtree::{
    RBTree,
    RBTreeNode,
    RBTreeNodeReservation, //
};

/// A place in the queue of a GPU: those of each user in order, then those that are left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(super) gpu: GpuId,
    pub(super) stage: Stage,
    pub(super) number: u64,
}

/// The state of a TSG in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It may be taken, when its user's turn has come.
    Ready(Uid),
    /// It is left alone until then, in ns of `CLOCK_MONOTONIC`.
    Rests(u64),
}

/// Memory for one place.
pub(crate) type Reservation = RBTreeNodeReservation<Place, TsgId>;

/// A TSG, and the provider's number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The TSG.
    pub(crate) id: TsgId,
    /// The provider's number.
    pub(crate) handle: u64,
}

/// A place among the news of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InNews {
    pub(super) gpu: GpuId,
    pub(super) number: u64,
}

/// A place among the TSGs of a GPU that are to be scheduled, the most urgent ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InSchedule {
    pub(super) gpu: GpuId,
    /// Number of the level that it ranks as.
    pub(super) level: u32,
    /// It is one that may keep the engine.
    pub(super) may_keep: bool,
    pub(super) tsg: TsgId,
}

/// A TSG that there is news of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(super) tsg: Named,
    /// It is gone; GPU time that it had had, by the last report of its provider.
    pub(super) ended: Option<Ns>,
}

/// The entry of a TSG in a tree where it has one at most.
///
/// # Invariants
///
/// Exactly one of `key` and `spare` is set: the node is in the tree or at hand, so that nothing is
/// ever allocated.
pub(crate) struct Entry<K, V = Named> {
    key: Option<K>,
    spare: Option<RBTreeNodeReservation<K, V>>,
}

impl<K: Copy + Ord, V> Entry<K, V> {
    /// One that is not in the tree.
    pub(super) fn new(spare: RBTreeNodeReservation<K, V>) -> Self {
        // INVARIANT: The node is at hand.
        Self {
            key: None,
            spare: Some(spare),
        }
    }

    /// Its key, if it is in the tree.
    pub(super) fn key(&self) -> Option<K> {
        self.key
    }

    /// Puts it in, unless it is there.
    pub(super) fn put(&mut self, tree: &mut RBTree<K, V>, key: K, tsg: V) {
        if let Some(spare) = self.spare.take() {
            // INVARIANT: The node is in the tree now.
            tree.insert(spare.into_node(key, tsg));
            self.key = Some(key);
        }
    }

    /// Takes it out, if it is there.
    pub(super) fn take_out(&mut self, tree: &mut RBTree<K, V>) {
        if let Some(node) = self.key.and_then(|key| tree.remove_node(&key)) {
            self.take_back(node);
        }
    }

    /// Takes back the node that was taken out of the tree.
    pub(super) fn take_back(&mut self, node: RBTreeNode<K, V>) {
        // INVARIANT: The node is at hand again.
        (self.key, self.spare) = (None, Some(node.into_reservation()));
    }
}
