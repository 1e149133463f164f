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
    jobs::sampler::Sampler,
    policy::units::Ns,
    tracking, //
};
use kernel::sync::Arc;

/// The job.
pub(crate) struct RecordReaper {
    sampler: Arc<Worker<Sampler>>,
}

impl RecordReaper {
    /// The record reaper, and who takes samples of programs that have phases.
    pub(crate) fn new(sampler: Arc<Worker<Sampler>>) -> Self {
        Self { sampler }
    }

    /// Who takes samples.
    pub(crate) fn sampler(&self) -> &Arc<Worker<Sampler>> {
        &self.sampler
    }

    /// A thread that has phases does something. From any context.
    pub(crate) fn ring(&self) {
        Sampler::wake(&self.sampler);
    }
}

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
