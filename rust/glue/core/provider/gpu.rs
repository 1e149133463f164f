// SPDX-License-Identifier: GPL-2.0
//! A GPU, as its provider describes it.

use crate::policy::units::Us;

/// The provider's own number of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub(crate) u64);

/// The abilities of a provider beyond time slices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    /// Set the interleave level.
    pub(crate) interleave: bool,
    /// Take the engine away from a TSG.
    pub(crate) preempt: bool,
    /// Enable and disable a TSG.
    pub(crate) enable: bool,
    /// Tell how busy the GPU is.
    pub(crate) load: bool,
    /// Tell the load of a TSG.
    pub(crate) tsg_load: bool,
    /// Enable and disable a TSG, and tell its load: best-effort TSGs can take turns.
    pub(crate) turns: bool,
    /// Have the run list of a TSG begin anew.
    pub(crate) kick: bool,
}

/// Reports that a provider makes by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tells {
    /// That owners ask the driver for changes, so that they can be refused.
    pub(crate) control: bool,
    /// That threads wait for the GPU.
    pub(crate) waits: bool,
    /// The memory of contexts.
    pub(crate) context: bool,
}

/// A GPU.
pub(crate) struct Description<'a> {
    /// The provider's number.
    pub(crate) handle: Handle,
    /// Shortest time slice, 0: no bound.
    pub(crate) min: Us,
    /// Longest time slice, 0: no bound.
    pub(crate) max: Us,
    /// Product.
    pub(crate) name: &'a [u8],
    /// Bus address.
    pub(crate) bus: &'a [u8],
    /// Version of the driver.
    pub(crate) driver: &'a [u8],
    /// UUID.
    pub(crate) uuid: Option<&'a [u8; 16]>,
    /// Node of the host that it is attached to.
    pub(crate) numa_node: Option<i32>,
    /// Reports that the provider makes by itself.
    pub(crate) tells: Tells,
    /// It does not report activity of TSGs: they have to be looked at.
    pub(crate) polled: bool,
}
