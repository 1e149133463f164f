// SPDX-License-Identifier: GPL-2.0
//! Clears up after records that are over, turns the scheduler hooks on and off, and looks for
//! threads that were missed.

use crate::{
    glue::{
        scheduler_hooks,
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    policy::units::Ns,
    tracking, //
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// The job.
pub(crate) struct RecordReaper {
    /// When the next scan for threads that were missed is due, in ns.
    scan_due: Atomic<u64>,
}

impl RecordReaper {
    /// One with nothing to do.
    pub(crate) fn new() -> Self {
        Self {
            scan_due: Atomic::new(0),
        }
    }
}

impl Job for RecordReaper {
    fn run(worker: &Worker<Self>) {
        // First: calls wait for that.
        let turn_at = tracking::turn_hooks(Ns(now_ns()));
        // Without a table there is nothing to clear up.
        scheduler_hooks::take_over(|record| {
            let _ = tracking::with(|t| t.remove(record));
        });
        let (due, any) = tracking::scan_asked(Ns(worker.scan_due.load(Relaxed)));
        worker.scan_due.store(due.0, Relaxed);
        let scan_at = any.then_some(due);
        let next = [turn_at, scan_at].into_iter().flatten().min();
        if let Some(next) = next {
            worker.kick_at(next);
        }
    }
}
