// SPDX-License-Identifier: GPL-2.0
//! Ends assignments and tracking of exited tasks, and tracks processes with a new TSG.

use crate::{
    error::Failure,
    glue::{
        identity::Scope,
        scheduler_hooks, watch,
        work::{
            Job,
            Worker, //
        },
    },
    registry::{
        self,
        assignments::Target,
        requests, //
    },
    tracking::{
        self,
        owners::Owners,
        Payer, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The job that ends assignments and tracking of exited tasks, and tracks processes with a new TSG.
pub(crate) struct TaskReaper {
    owners: Arc<Owners>,
}

impl TaskReaper {
    /// One with nothing to do.
    pub(crate) fn new(owners: Arc<Owners>) -> Self {
        Self { owners }
    }

    fn track_owners(&self) {
        for owner in self.owners.take() {
            if let Ok(true) = tracking::with(|t| t.is_owner(&owner)) {
                continue;
            }
            let whole = tracking::Target::Process { children: false };
            match tracking::track(owner, whole, true, true, Payer::Process) {
                Ok(_) | Err(Failure::Kernel(ESRCH | ENODEV)) => {}
                Err(_) => scheduler_hooks::miss(),
            }
        }
    }
}

impl Job for TaskReaper {
    fn run(worker: &Worker<Self>) {
        worker.track_owners();
        // Waits until now count for the classes that there were. Without a registry there are none.
        let _ = requests::count_all_starts();
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
