// SPDX-License-Identifier: GPL-2.0
//! A place in the queue of a worker.

use crate::ids::{
    GpuId,
    TsgId, //
};
use kernel::rbtree::RBTreeNodeReservation;

/// A place in the queue of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(super) gpu: GpuId,
    /// When it may be taken, in ns of `CLOCK_MONOTONIC`.
    pub(super) due: u64,
    pub(super) number: u64,
}

/// Memory for one place.
pub(crate) type Reservation = RBTreeNodeReservation<Place, TsgId>;
