// SPDX-License-Identifier: GPL-2.0
//! Wrappers that `zernel.ko` alone needs.

pub(crate) mod barrier;
pub(crate) mod boxed;
pub(crate) mod cgroup;
pub(crate) mod detached;
pub(crate) mod identity;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod nice;
pub(crate) mod power;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod provider;
pub(crate) mod random;
pub(crate) mod rcu;
pub(crate) mod readahead;
pub(crate) mod scheduler_hooks;
pub(crate) mod slots;
pub(crate) mod sysfs;
pub(crate) mod thread;
pub(crate) mod trace;
pub(crate) mod uapi;
mod wait_hooks;
pub(crate) mod waiters;
mod waits;
pub(crate) mod watch;
pub(crate) mod work;
mod zeroed;

/// Makes a C table usable in a `static`.
#[repr(transparent)]
pub(crate) struct AssertSync<T>(pub(crate) T);

// SAFETY: Only used for tables that are never written after construction.
unsafe impl<T> Sync for AssertSync<T> {}
