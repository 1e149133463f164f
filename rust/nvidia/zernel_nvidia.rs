// SPDX-License-Identifier: GPL-2.0
//! The patched NVIDIA open driver as a provider of zernel.
//!
//! # Coming and going
//!
//! The driver becomes a provider of `zernel.ko` first, without any GPU, and the hook in `nvidia.ko`
//! reports the present GPUs and TSGs next: so every event finds the provider. On the way out the
//! hook is left first, so that no event comes to a leaving provider, and then `zernel.ko` puts the
//! settings of every TSG back, by controls that report to nobody. A TSG freed or a GPU let go in
//! between makes those controls answer `ENOENT`. Last, when no operation can come any more, the run
//! lists get their policy back.
//!
//! # Locking
//!
//! Order: mutexes of the hook → the list of GPUs → zernel's registry. Events about TSGs come under
//! the mutex of the hook's table, which controls take for a moment, and wait for no operation.
//! Operations come from a worker of `zernel.ko`, which holds no lock; they hold the list of GPUs
//! for a look alone, never while the driver is called. The set of shared TSGs is for events alone,
//! and held while nothing else is taken. A GPU that goes waits for the operations on
//! it, under a mutex of the hook that no operation takes.
#![crate_name = "zernel_nvidia"]

mod counters;
mod events;
#[path = "../glue/mod.rs"]
mod glue;
mod gpus;
mod operations;
mod runlist;
mod shared;
mod status;
#[cfg(zernel_kunit)]
mod tests;

use glue::{
    debugfs,
    nvidia,
    provider_side, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

module! {
    type: ZernelNvidia,
    name: "zernel_nvidia",
    authors: ["zernel contributors"],
    description: "NVIDIA's open driver as a provider of zernel",
    license: "GPL",
}

/// The module. Dropped in this order: the file of the counters, the hook with its observer, the
/// provider.
struct ZernelNvidia {
    _debugfs: debugfs::Directory,
    _events: nvidia::events::Registration<events::Events>,
}

impl kernel::Module for ZernelNvidia {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let provider =
            provider_side::Registration::new(operations::Nvidia::new(operations::Hook)?)?;
        let events = events::Events::new(Arc::new(provider, GFP_KERNEL)?)?;
        let events = nvidia::events::Registration::new(events).inspect_err(|e| {
            pr_err!(
                "nvidia.ko refuses to report its TSGs, build both modules from one tree: {:?}\n",
                e
            );
        })?;
        let (gpus, tsgs) = nvidia::control::population();
        pr_info!("found {} GPU(s), {} TSG(s)\n", gpus, tsgs);
        Ok(Self {
            _debugfs: debugfs::Directory::new::<counters::Counts>(c"zernel_nvidia", c"counts"),
            _events: events,
        })
    }
}
