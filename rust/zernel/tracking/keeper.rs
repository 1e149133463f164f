// SPDX-License-Identifier: GPL-2.0
//! Clears up after records that are over, and looks for threads that were missed.

use crate::{
    glue::{
        recorder,
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    policy::units::Ns,
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// The job.
pub(crate) struct Keeper {
    /// A thread was made by one whose record may have been on its way.
    unseen: Atomic<bool>,
}

impl Keeper {
    pub(super) fn new() -> Self {
        Self {
            unseen: Atomic::new(false),
        }
    }

    /// A thread was made by one whose record may have been on its way.
    pub(crate) fn set_unseen(&self) {
        self.unseen.store(true, Relaxed);
    }
}

impl Job for Keeper {
    fn run(worker: &Worker<Self>) {
        // Without a tracking there is nothing to clear up.
        recorder::take_over(|record| {
            let _ = super::with(|t| t.remove(record));
        });
        super::scan_asked(worker.unseen.xchg(false, Relaxed));
        if let Ok(Some(again)) = super::with(|t| t.rest(Ns(now_ns()))) {
            worker.kick_at(again);
        }
    }
}
