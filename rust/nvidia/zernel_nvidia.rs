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
//! Order: the mutex of the hook's GPUs → the traces → other mutexes of the hook → the list of GPUs
//! or the meters → zernel's registry. Events about TSGs come under the mutex of the hook's table,
//! which controls take for a moment, and wait for no operation. Operations come from a worker of
//! `zernel.ko`, which holds no lock; they hold the list of GPUs and the meters for a look alone,
//! never while the driver is called. Only the traces are held while the driver is asked for records:
//! events of GPUs wait for that, and no others. The set of shared TSGs is for events alone, and held
//! while nothing else is taken. A GPU that goes waits for the operations on it, under a mutex of the
//! hook that no operation takes.
#![crate_name = "zernel_nvidia"]

mod accounts;
#[path = "../policy/buckets.rs"]
mod buckets;
mod clock;
mod counters;
mod events;
#[path = "../glue/mod.rs"]
mod glue;
mod gpus;
#[allow(dead_code, reason = "zernel_nvidia.ko needs a few")]
#[path = "../policy/histogram.rs"]
mod histogram;
mod meters;
mod occupancy;
mod operations;
mod reads;
mod records;
mod runlist;
mod shared;
mod status;
mod switches;
#[cfg(zernel_kunit)]
mod tests;
mod traces;
#[allow(dead_code, reason = "zernel_nvidia.ko needs a few")]
#[path = "../policy/units.rs"]
mod units;

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
    params: {
        records: u8 {
            default: 0,
            description: "follow context switches by the GPU's own records (0 or 1)",
        },
    },
}

/// The files of debugfs.
type Files = (
    debugfs::File<counters::Counts>,
    (
        debugfs::File<records::Records>,
        debugfs::File<reads::Registers>,
    ),
);

/// The module. Dropped in this order: the files of debugfs, the hook with its observer, the
/// provider.
struct ZernelNvidia {
    _debugfs: debugfs::Directory<Files>,
    _events: nvidia::events::Registration<events::Events>,
}

impl kernel::Module for ZernelNvidia {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Linux 7.2 gives a reference to the value, 7.3 the value: this takes both.
        let wants_records = !module_parameters::records.value().eq(&0);
        let inner = operations::Nvidia::new(operations::Hook, wants_records)?;
        let counts = Arc::new(counters::Counts, GFP_KERNEL)?;
        let records = Arc::new(records::Records::new(inner.clone()), GFP_KERNEL)?;
        let registers = Arc::new(reads::Registers::new(inner.clone()), GFP_KERNEL)?;
        let provider = provider_side::Registration::new(inner)?;
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
            _debugfs: debugfs::Directory::new(
                c"zernel_nvidia",
                (
                    debugfs::File::new(c"counts", counts),
                    (
                        debugfs::File::new(c"records", records),
                        debugfs::File::new(c"registers", registers),
                    ),
                ),
            ),
            _events: events,
        })
    }
}
