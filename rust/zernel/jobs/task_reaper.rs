// SPDX-License-Identifier: GPL-2.0
//! Ends what tasks had that have exited, and tracks those that have a TSG now.

use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope, //
        },
        scheduler_hooks, watch,
        work::{
            Job,
            Worker, //
        },
    },
    registry::{
        self,
        assignments::Target, //
    },
    tracking, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// The job that ends what tasks had that have exited, and tracks those that have a TSG now.
pub(crate) struct TaskReaper {
    owners: Pin<KBox<Mutex<KVVec<Pid>>>>,
}

impl TaskReaper {
    /// One with nothing to do.
    pub(crate) fn new() -> Result<Self> {
        let owners = KBox::pin_init(new_mutex!(KVVec::new()), GFP_KERNEL)?;
        Ok(Self { owners })
    }

    /// A process has a TSG now, and is to be tracked. Not at once: its provider may hold locks.
    pub(crate) fn track(worker: &Worker<Self>, owner: Pid) {
        match worker.owners.lock().push(owner, GFP_KERNEL) {
            Ok(()) => worker.kick(),
            Err(_) => scheduler_hooks::miss(),
        }
    }

    fn track_owners(&self) {
        let owners = core::mem::take(&mut *self.owners.lock());
        for owner in owners {
            if let Ok(true) = tracking::with(|t| t.is_owner(&owner)) {
                continue;
            }
            let whole = tracking::Target::Process { children: false };
            match tracking::track(owner, whole, true, true) {
                Ok(_) | Err(Failure::Kernel(ESRCH | ENODEV)) => {}
                Err(_) => scheduler_hooks::miss(),
            }
        }
    }
}

impl Job for TaskReaper {
    fn run(worker: &Worker<Self>) {
        worker.track_owners();
        watch::take_fired(|pid, scope| {
            let target = match scope {
                Scope::Process => Target::Process(pid.key()),
                Scope::Thread => Target::Thread(pid.key()),
            };
            // Without a registry there is nothing to expire.
            let _ = registry::with(|r| r.expire(target, pid.global_number() as u64));
            if scope == Scope::Process {
                tracking::expire(pid);
            }
        });
    }
}
