// SPDX-License-Identifier: GPL-2.0
//! The number of TSGs of a GPU that each user has, so that none of them takes all places.

use super::{
    gpu,
    tsg, //
};
use crate::glue::identity::Uid;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// Most TSGs of a user on a GPU: a quarter of the places. Root has no share of its own.
pub(crate) const MAX_PER_USER: u32 = tsg::MAX_PER_GPU / 4;

/// Root of the initial user namespace.
const ROOT: Uid = Uid::ROOT;

/// Memory for the first TSG of a user on a GPU.
pub(crate) type Reservation = RBTreeNodeReservation<(gpu::Id, Uid), u32>;

/// The shares of users in each GPU.
///
/// # Invariants
///
/// No count is zero.
pub(crate) struct Shares(RBTree<(gpu::Id, Uid), u32>);

impl Shares {
    /// Nobody has anything.
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Memory for one more TSG.
    pub(crate) fn reserve() -> Result<Reservation> {
        RBTreeNodeReservation::new(GFP_KERNEL)
    }

    /// True if a user has as many TSGs of a GPU as it may have.
    pub(crate) fn is_used_up(&self, gpu: gpu::Id, uid: Uid) -> bool {
        let held = self.0.get(&(gpu, uid)).copied().unwrap_or(0);
        uid != ROOT && held >= MAX_PER_USER
    }

    /// A user has one more.
    pub(crate) fn take(&mut self, gpu: gpu::Id, uid: Uid, memory: Reservation) {
        match self.0.get_mut(&(gpu, uid)) {
            Some(held) => *held += 1,
            // INVARIANT: One.
            None => {
                self.0.insert(memory.into_node((gpu, uid), 1));
            }
        }
    }

    /// A user has one less.
    pub(crate) fn give_back(&mut self, gpu: gpu::Id, uid: Uid) {
        let mut left = 0;
        if let Some(held) = self.0.get_mut(&(gpu, uid)) {
            *held -= 1;
            left = *held;
        }
        // INVARIANT: A share of zero goes.
        if left == 0 {
            self.0.remove(&(gpu, uid));
        }
    }

    /// True if nobody has anything.
    #[cfg(zernel_kunit)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
