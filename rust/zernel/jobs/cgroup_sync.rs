// SPDX-License-Identifier: GPL-2.0
//! Follows cgroups that are removed, and processes that move from one to another.

use crate::{
    glue::{
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    policy::units::Ms,
    registry::{
        self,
        tsg, //
    },
    tracking,
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// Objects looked at with the registry locked once.
const BATCH: usize = 128;

/// The job that looks at everything that has a cgroup.
pub(crate) struct CgroupSync {
    /// How long the last look took, in µs.
    look_us: Atomic<u32>,
}

impl CgroupSync {
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

impl Job for CgroupSync {
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
