// SPDX-License-Identifier: GPL-2.0
//! `zernel.ko`: latency-critical and best-effort work on one GPU.
//!
//! Data flows one way: device → registry → policy → registry → worker → provider.

mod attributes;
mod device;
mod dump;
mod error;
#[path = "../glue/mod.rs"]
mod glue;
mod jobs;
mod nice;
#[path = "../policy/mod.rs"]
mod policy;
mod prefetch;
mod registry;
mod request;
mod stream;
mod tracking;
mod tuned;
mod worker;

use glue::{
    cgroup,
    debugfs,
    lock,
    miscdev,
    power,
    watch,
    work, //
};
use jobs::{
    cgroup_sync::CgroupSync,
    task_reaper::TaskReaper, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use request::boost::Boosts;

module! {
    type: lock::Root<Zernel>,
    name: "zernel",
    authors: ["zernel contributors"],
    description: "Shares a GPU between latency-critical and best-effort work",
    license: "GPL",
}

/// Everything that is registered.
///
/// Dropped in this order: user space goes first, then what calls into the registry, then the
/// registry and the tracking with the watches in them, then the subscriptions, then what changes
/// nice values, then the task reaper that the watches kick, then the workqueue.
struct Zernel {
    _device: Pin<KBox<miscdev::Registration<device::Client>>>,
    _debugfs: debugfs::Directory,
    _cgroups: cgroup::Hooks,
    _power: power::Notifier,
    _registry: registry::Installed,
    _tracking: tracking::Installed,
    _prefetch: prefetch::Installed,
    _nice: nice::Installed,
    _reaper: Retired,
    _queue: work::Queue,
}

/// The task reaper, which stops for good when this is dropped.
struct Retired(Arc<work::Worker<TaskReaper>>);

impl Drop for Retired {
    fn drop(&mut self) {
        self.0.cancel_sync();
        // Watches that fired in the meantime: their targets are nobody's any more.
        watch::take_fired(|_, _| ());
    }
}

impl kernel::Module for Zernel {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let queue = work::Queue::new()?;
        let reaper = Arc::pin_init(work::Worker::new(TaskReaper::new()?), GFP_KERNEL)?;
        let retired = Retired(reaper.clone());
        let table = nice::Table::new()?;
        let boosts = Arc::pin_init(work::Worker::new(Boosts::new(table.clone())?), GFP_KERNEL)?;
        let nice = nice::Installed::new(table.clone(), boosts.clone())?;
        let prefetch = prefetch::Installed::new()?;
        let cgroup_sync = Arc::pin_init(work::Worker::new(CgroupSync::new()), GFP_KERNEL)?;
        let tracking = tracking::Installed::new(reaper.clone(), cgroup_sync.clone(), table)?;
        let registry = registry::Installed::new(reaper, boosts)?;
        let cgroups = cgroup::Hooks::new(cgroup_sync)
            .inspect_err(|_| pr_err!("this kernel has no tracepoints for cgroups\n"))?;
        let power = power::Notifier::new()?;
        let debugfs = debugfs::Directory::new::<dump::State>(c"zernel", c"state");
        let device = KBox::pin_init(miscdev::Registration::new(), GFP_KERNEL)?;
        pr_info!("ready: no GPU yet, waiting for a provider\n");
        Ok(Self {
            _device: device,
            _debugfs: debugfs,
            _cgroups: cgroups,
            _power: power,
            _registry: registry,
            _tracking: tracking,
            _prefetch: prefetch,
            _nice: nice,
            _reaper: retired,
            _queue: queue,
        })
    }
}
