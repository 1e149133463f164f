// SPDX-License-Identifier: GPL-2.0
//! Work in the background, on zernel's own workqueue.
//!
//! The [task reaper](task_reaper) ends assignments and tracking of exited tasks, the [record
//! reaper](record_reaper) drops the records of threads that have, and the [cgroup
//! sync](cgroup_sync) looks at everything that has a cgroup.
//!
//! One [sampler](sampler::Sampler) asks the workers for the load of the GPUs, and takes a sample of
//! each thread when they have answered. While nothing happens it rests, and the threads wake it.
//! Phases are kept with their thread.
//!
//! # Locking
//!
//! The state of the sampler is locked first, then any one of: the registry, the table of tracked
//! threads, the meters of a GPU, the subscriptions of prefetch signals.

pub(crate) mod cgroup_sync;
pub(crate) mod record_reaper;
pub(crate) mod sampler;
pub(crate) mod task_reaper;

use crate::{
    glue::{
        process::{
            self,
            Kicks, //
        },
        watch,
        work::{
            Kick,
            Worker, //
        },
    },
    tracking::owners::Owners,
};
use cgroup_sync::CgroupSync;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use record_reaper::RecordReaper;
use sampler::Sampler;
use task_reaper::TaskReaper;

/// The jobs. Dropped when nobody kicks the task reaper any more but watches.
pub(crate) struct Jobs {
    task_reaper: Arc<Worker<TaskReaper>>,
    owners: Arc<Owners>,
    cgroup_sync: Arc<Worker<CgroupSync>>,
    record_reaper: Arc<Worker<RecordReaper>>,
    sampler: Arc<Worker<Sampler>>,
}

/// The jobs that look at tracked threads. Dropped after the tracking, and after the last thread in
/// the scheduler hooks.
pub(crate) struct Sampling {
    cgroup_sync: Arc<Worker<CgroupSync>>,
    record_reaper: Arc<Worker<RecordReaper>>,
    sampler: Arc<Worker<Sampler>>,
}

impl Jobs {
    /// All of them, with nothing to do.
    pub(crate) fn new() -> Result<Self> {
        let owners = Owners::new()?;
        Ok(Self {
            task_reaper: Arc::pin_init(Worker::new(TaskReaper::new(owners.clone())), GFP_KERNEL)?,
            owners,
            cgroup_sync: CgroupSync::worker()?,
            record_reaper: Arc::pin_init(Worker::new(RecordReaper::new()), GFP_KERNEL)?,
            sampler: Arc::pin_init(Worker::new(Sampler::new()?), GFP_KERNEL)?,
        })
    }

    /// Kicks the task reaper.
    pub(crate) fn task_reaper(&self) -> Kick {
        self.task_reaper.clone().into()
    }

    /// Processes that the task reaper is to have tracked.
    pub(crate) fn owners(&self) -> Arc<Owners> {
        self.owners.clone()
    }

    /// Kicks the cgroup sync.
    pub(crate) fn cgroup_sync(&self) -> Kick {
        self.cgroup_sync.clone().into()
    }

    /// Kicks the jobs that processes kick.
    pub(crate) fn kicks(&self) -> Result<Arc<Kicks>> {
        let kicks = Kicks {
            record_reaper: self.record_reaper.clone().into(),
            sampler: self.sampler.clone().into(),
        };
        Ok(Arc::new(kicks, GFP_KERNEL)?)
    }

    /// Ends the jobs that look at tracked threads, when it is dropped.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling {
            cgroup_sync: self.cgroup_sync.clone(),
            record_reaper: self.record_reaper.clone(),
            sampler: self.sampler.clone(),
        }
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.record_reaper.end();
        // Those that still ask are nobody's any more.
        drop(process::ASKED.take());
        self.sampler.end();
        self.sampler.clear();
        drop(process::RUNG.take());
        drop(process::CHANGED.take());
        self.cgroup_sync.end();
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.task_reaper.end();
        // Watches that fired in the meantime: their targets are nobody's any more.
        watch::take_fired(|_, _| ());
    }
}
