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

/// The job.
pub(crate) struct Keeper;

impl Job for Keeper {
    fn run(worker: &Worker<Self>) {
        // Without a table there is nothing to clear up.
        recorder::take_over(|record| {
            let _ = super::with(|t| t.remove(record));
        });
        super::scan_asked();
        if let Ok(Some(again)) = super::with(|t| t.rest(Ns(now_ns()))) {
            worker.kick_at(again);
        }
    }
}
