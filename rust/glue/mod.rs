// SPDX-License-Identifier: GPL-2.0
//! Kernel glue: the only place with `unsafe` and `bindings`.
//!
//! All modules are built from these files; what not all of them use is behind the cfgs of their
//! crates, `zernel_core`, `zernel_sim` and `zernel_nvidia`.
#![allow(
    improper_ctypes,
    reason = "bindgen has empty structs for kernel options that are off, behind pointers"
)]

pub(crate) mod errno;
pub(crate) mod module;
mod provider_abi;

#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod abi;
#[cfg(any(zernel_core, zernel_nvidia))]
pub(crate) mod debugfs;
#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod eventfd;
#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod irqlock;
#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod miscdev;
#[cfg(any(zernel_sim, zernel_nvidia))]
pub(crate) mod provider_side;
#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod time;
#[cfg(any(zernel_core, zernel_sim))]
pub(crate) mod timer;

#[cfg(zernel_core)]
pub(crate) mod cgroup;
#[cfg(zernel_core)]
pub(crate) mod detached;
#[cfg(zernel_core)]
pub(crate) mod identity;
#[cfg(zernel_core)]
pub(crate) mod lock;
#[cfg(zernel_core)]
pub(crate) mod memory;
#[cfg(zernel_core)]
pub(crate) mod nice;
#[cfg(zernel_core)]
pub(crate) mod pinned;
#[cfg(zernel_core)]
pub(crate) mod power;
#[cfg(zernel_core)]
pub(crate) mod probe;
#[cfg(zernel_core)]
pub(crate) mod provider;
#[cfg(zernel_core)]
pub(crate) mod readahead;
#[cfg(zernel_core)]
pub(crate) mod recorder;
#[cfg(zernel_core)]
pub(crate) mod sysfs;
#[cfg(zernel_core)]
pub(crate) mod thread;
#[cfg(zernel_core)]
pub(crate) mod trace;
#[cfg(zernel_core)]
pub(crate) mod uapi;
#[cfg(zernel_core)]
mod waits;
#[cfg(zernel_core)]
pub(crate) mod watch;
#[cfg(zernel_core)]
pub(crate) mod work;
#[cfg(zernel_core)]
mod zeroed;

#[cfg(zernel_nvidia)]
pub(crate) mod nv_control;
#[cfg(zernel_nvidia)]
pub(crate) mod nv_events;
#[cfg(zernel_nvidia)]
mod nv_raw;

#[cfg(zernel_sim)]
pub(crate) mod sim_hub;
#[cfg(zernel_sim)]
pub(crate) mod sim_params;
#[cfg(zernel_sim)]
pub(crate) mod sim_task;
#[cfg(zernel_sim)]
pub(crate) mod sim_words;

/// Makes a C table usable in a `static`.
#[cfg(zernel_core)]
#[repr(transparent)]
pub(crate) struct AssertSync<T>(pub(crate) T);

// SAFETY: Only used for tables that are never written after construction.
#[cfg(zernel_core)]
unsafe impl<T> Sync for AssertSync<T> {}
