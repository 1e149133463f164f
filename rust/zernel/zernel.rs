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
mod ids;
mod jobs;
mod nice;
#[path = "../policy/mod.rs"]
mod policy;
mod prefetch;
mod registry;
mod request;
mod slots;
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
    scheduler_hooks,
    work, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use request::{
    boost::Boosts,
    share, //
};

module! {
    type: lock::Root<Zernel, Zernel>,
    name: "zernel",
    authors: ["zernel contributors"],
    description: "Shares a GPU between latency-critical and best-effort work",
    license: "GPL",
}

impl lock::Locks for Zernel {
    fn init(loading: &lock::Loading) {
        registry::init_lock(loading);
        tracking::init_lock(loading);
        scheduler_hooks::init_lock(loading);
        attributes::nice::init_lock(loading);
        request::machine::init_lock(loading);
        prefetch::table::init_lock(loading);
        prefetch::quota::init_lock(loading);
        stream::init_lock(loading);
        request::share::init_lock(loading);
    }
}

/// Everything that is registered.
///
/// Dropped in the order of Documentation/locking.rst, "Unloading": user space first, then the
/// callers of the registry, the registry and the tracking with their watches, the jobs that look at
/// tracked threads, the subscriptions, the shares of pages, the nice values, the task reaper, the
/// workqueues.
struct Zernel {
    _device: Pin<KBox<miscdev::Registration<device::Client>>>,
    _debugfs: debugfs::Directory<debugfs::File<dump::State>>,
    _cgroups: cgroup::Hooks,
    _power: power::Notifier,
    _registry: registry::Installed,
    _streams: stream::Installed,
    _tracking: tracking::Installed,
    _sampling: jobs::Sampling,
    _prefetch: prefetch::Installed,
    _shares: share::Installed,
    _nice: attributes::nice::Installed,
    _jobs: jobs::Jobs,
    _queues: work::Queues,
}

impl kernel::Module for Zernel {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let queues = work::Queues::new()?;
        let jobs = jobs::Jobs::new()?;
        let table = nice::Table::new()?;
        let boosts = Arc::pin_init(work::Worker::new(Boosts::new(table.clone())?), GFP_KERNEL)?;
        let nice = attributes::nice::Installed::new(table.clone(), boosts.clone())?;
        let prefetch = prefetch::Installed::new()?;
        let shares = share::Installed::new()?;
        let (reaper, cgroup_sync) = (jobs.task_reaper(), jobs.cgroup_sync());
        let tracking =
            tracking::Installed::new(jobs.kicks()?, reaper.clone(), cgroup_sync.clone(), table)?;
        let sampling = jobs.sampling();
        let streams = stream::Installed::new()?;
        let registry = registry::Installed::new(reaper, jobs.owners(), boosts)?;
        let cgroups = cgroup::Hooks::new(cgroup_sync).inspect_err(|_| {
            pr_err!(
                "this kernel has no tracepoints for cgroups; build it with CONFIG_TRACEPOINTS\n"
            )
        })?;
        let power = power::Notifier::new(registry::sleep::system_sleeps)?;
        let state = debugfs::File::new(c"state", Arc::new(dump::State, GFP_KERNEL)?);
        let debugfs = debugfs::Directory::new(c"zernel", state);
        let device = KBox::pin_init(miscdev::Registration::new(), GFP_KERNEL)?;
        pr_info!("ready: no GPU yet, waiting for a provider\n");
        Ok(Self {
            _device: device,
            _debugfs: debugfs,
            _cgroups: cgroups,
            _power: power,
            _registry: registry,
            _streams: streams,
            _tracking: tracking,
            _sampling: sampling,
            _prefetch: prefetch,
            _shares: shares,
            _nice: nice,
            _jobs: jobs,
            _queues: queues,
        })
    }
}
