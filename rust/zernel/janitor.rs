// SPDX-License-Identifier: GPL-2.0
//! Clears up after targets: tasks that exit, cgroups that are removed, processes that move.

use crate::{
    glue::{
        identity::Scope,
        time::now_ns,
        watch,
        work::{
            Job,
            Worker, //
        },
    },
    policy::units::Ms,
    registry::{
        self,
        assignments::Target,
        tsg, //
    },
};
use kernel::sync::atomic::{
    ordering::{
        Acquire,
        Relaxed,
        Release, //
    },
    Atomic,
};

/// Objects looked at with the registry locked once.
const BATCH: usize = 128;

/// The job of the janitor.
pub(crate) struct Janitor {
    cgroups_changed: Atomic<bool>,
    /// How long the last look at all TSGs took, in µs.
    look_us: Atomic<u32>,
}

impl Janitor {
    /// Shortest delay between a move and its effect, so that many moves cost one look.
    const DELAY: Ms = Ms(2);
    /// A look is followed by a pause of so many times its length: whoever moves processes all the
    /// time takes a bounded share of a CPU.
    const PAUSE: u32 = 10;

    /// With nothing to do.
    pub(crate) fn new() -> Self {
        Self {
            cgroups_changed: Atomic::new(false),
            look_us: Atomic::new(0),
        }
    }

    /// A process moved or a cgroup was removed: returns when to look. Callable from any context.
    pub(crate) fn cgroups_changed(&self) -> Ms {
        self.cgroups_changed.store(true, Release);
        Self::DELAY.max(Ms(self.look_us.load(Relaxed) / (1000 / Self::PAUSE)))
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
        if worker.cgroups_changed.xchg(false, Acquire) {
            let begin = now_ns();
            let done = follow_cgroups();
            let look_us = now_ns().saturating_sub(begin) / 1000;
            worker
                .look_us
                .store(u32::try_from(look_us).unwrap_or(u32::MAX), Relaxed);
            if !done {
                // Out of memory: again later.
                worker.cgroups_changed();
                worker.kick_after(1000);
            }
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
