// SPDX-License-Identifier: GPL-2.0
//! Clears up after records that are over, and looks for threads that were missed.

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

/// The job.
pub(crate) struct RecordReaper;

impl Job for RecordReaper {
    fn run(worker: &Worker<Self>) {
        // Without a table there is nothing to clear up.
        scheduler_hooks::take_over(|record| {
            let _ = tracking::with(|t| t.remove(record));
        });
        tracking::scan_asked();
        if let Ok(Some(again)) = tracking::with(|t| t.rest(Ns(now_ns()))) {
            worker.kick_at(again);
        }
    }
}
