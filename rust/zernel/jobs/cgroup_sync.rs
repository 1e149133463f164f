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
        population,
        requests,
        tsg, //
    },
    tracking,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The job that looks at everything that has a cgroup.
pub(crate) struct CgroupSync;

impl CgroupSync {
    /// Shortest delay between a move and its effect, so that many moves cost one look.
    const DELAY: Ms = Ms(2);
    /// A look is followed by a pause of so many times its length: endless moves of processes take a
    /// bounded share of a CPU.
    const PAUSE: u64 = 10;
    /// Delay before another look after one that ran out of memory.
    const RETRY: Ms = Ms(1000);

    /// Its worker, which has not looked yet.
    pub(crate) fn worker() -> Result<Arc<Worker<Self>>> {
        let worker = Arc::pin_init(Worker::new(Self), GFP_KERNEL)?;
        worker.set_delay(Self::DELAY);
        Ok(worker)
    }
}

impl Job for CgroupSync {
    fn run(worker: &Worker<Self>) {
        let begin = now_ns();
        let done = look();
        tracking::follow::follow();
        let pause = now_ns().saturating_sub(begin).saturating_mul(Self::PAUSE) / 1_000_000;
        let pause = Ms(u32::try_from(pause).unwrap_or(u32::MAX));
        worker.set_delay(Self::DELAY.max(pause));
        if !done {
            worker.kick_after(Self::RETRY.0);
        }
    }
}

/// Looks at everything that has a cgroup. Returns false when it ran out of memory.
fn look() -> bool {
    // Waits until now count for the classes that there were. Without a registry there are none.
    let _ = requests::count_all_starts();
    let mut from = tsg::Id::FIRST;
    loop {
        match population::follow_cgroup(from) {
            Ok(Some(next)) => from = next,
            Ok(None) => break,
            // Without a registry there is nothing to follow.
            Err(error) => return error == ENODEV,
        }
    }
    let mut from = Some(0);
    while let Some(id) = from {
        // As above.
        from = registry::with(|r| r.expire_cgroup(id)).unwrap_or(None);
    }
    true
}
