// SPDX-License-Identifier: GPL-2.0
//! Clears up after targets: tasks that exit, cgroups that are removed, processes that move.

use crate::{
    glue::{
        identity::Scope,
        watch,
        work::{
            Job,
            Worker, //
        },
    },
    registry::{
        self,
        assignments::Target,
        tsg, //
    },
};
use kernel::sync::atomic::{
    ordering::{
        Acquire,
        Release, //
    },
    Atomic,
};

/// Objects looked at with the registry locked once.
const BATCH: usize = 128;

/// The job of the janitor.
pub(crate) struct Janitor {
    cgroups_changed: Atomic<bool>,
}

impl Janitor {
    /// Delay between a move and its effect, so that many moves cost one look at all TSGs.
    pub(crate) const CGROUP_DELAY_MS: u32 = 2;

    /// With nothing to do.
    pub(crate) fn new() -> Self {
        Self {
            cgroups_changed: Atomic::new(false),
        }
    }

    /// A process moved or a cgroup was removed. Callable from any context.
    pub(crate) fn cgroups_changed(&self) {
        self.cgroups_changed.store(true, Release);
    }
}

impl Job for Janitor {
    fn run(worker: &Worker<Self>) {
        watch::take_fired(|pid, scope| {
            let target = match scope {
                Scope::Process => Target::Process(pid.key()),
                Scope::Thread => Target::Thread(pid.key()),
            };
            // Without a registry there is nothing to expire.
            let _ = registry::with(|r| r.expire(target, pid.global_number() as u64));
        });
        if worker.cgroups_changed.xchg(false, Acquire) && !follow_cgroups() {
            // Out of memory: again later.
            worker.cgroups_changed();
            worker.kick_after(1000);
        }
    }
}

/// Looks at everything that has a cgroup. Returns false when it ran out of memory.
fn follow_cgroups() -> bool {
    let mut from = Some(tsg::Id::FIRST);
    while let Some(id) = from {
        match registry::with(|r| r.follow_cgroups(id, BATCH)) {
            Ok(Ok(next)) => from = next,
            Ok(Err(_)) => return false,
            Err(_) => return true,
        }
    }
    let mut from = Some(0);
    while let Some(id) = from {
        match registry::with(|r| r.expire_cgroups(id, BATCH)) {
            Ok(next) => from = next,
            Err(_) => return true,
        }
    }
    true
}
