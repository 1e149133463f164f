// SPDX-License-Identifier: GPL-2.0
//! Clears up after targets: tasks that exit, cgroups that are removed, processes that move.

use crate::{
    error::Failure,
    glue::{
        identity::{
            Pid,
            Scope, //
        },
        recorder,
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
    tracking,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Mutex, //
    },
};

/// Objects looked at with the registry locked once.
const BATCH: usize = 128;

/// The job that ends what tasks had that have exited, and tracks those that have a TSG now.
pub(crate) struct Reaper {
    owners: Pin<KBox<Mutex<KVVec<Pid>>>>,
}

impl Reaper {
    /// One with nothing to do.
    pub(crate) fn new() -> Result<Self> {
        let owners = KBox::pin_init(new_mutex!(KVVec::new()), GFP_KERNEL)?;
        Ok(Self { owners })
    }

    /// A process has a TSG now, and is to be tracked. Not at once: its provider may hold locks.
    pub(crate) fn track(worker: &Worker<Self>, owner: Pid) {
        match worker.owners.lock().push(owner, GFP_KERNEL) {
            Ok(()) => worker.kick(),
            Err(_) => recorder::miss(),
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
                Err(_) => recorder::miss(),
            }
        }
    }
}

impl Job for Reaper {
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

/// The job that looks at everything that has a cgroup.
pub(crate) struct Follower {
    /// How long the last look took, in µs.
    look_us: Atomic<u32>,
}

impl Follower {
    /// Shortest delay between a move and its effect, so that many moves cost one look.
    const DELAY: Ms = Ms(2);
    /// A look is followed by a pause of so many times its length: whoever moves processes all the
    /// time takes a bounded share of a CPU.
    const PAUSE: u32 = 10;
    /// Delay before another look after one that ran out of memory.
    const RETRY: Ms = Ms(1000);

    /// One that has not looked yet.
    pub(crate) fn new() -> Self {
        Self {
            look_us: Atomic::new(0),
        }
    }

    /// How long after a move to look. Callable from any context.
    pub(crate) fn delay(&self) -> Ms {
        Self::DELAY.max(Ms(self.look_us.load(Relaxed) / (1000 / Self::PAUSE)))
    }
}

impl Job for Follower {
    fn run(worker: &Worker<Self>) {
        let begin = now_ns();
        let done = look();
        tracking::follow::follow();
        let look_us = now_ns().saturating_sub(begin) / 1000;
        worker
            .look_us
            .store(u32::try_from(look_us).unwrap_or(u32::MAX), Relaxed);
        if !done {
            worker.kick_after(Self::RETRY.0);
        }
    }
}

/// Looks at everything that has a cgroup. Returns false when it ran out of memory.
fn look() -> bool {
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
