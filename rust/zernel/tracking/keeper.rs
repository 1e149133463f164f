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
    phases::sampler::Sampler,
    policy::units::Ns,
};
use kernel::sync::Arc;

/// The job.
pub(crate) struct Keeper {
    sampler: Arc<Worker<Sampler>>,
}

impl Keeper {
    /// The keeper, and who takes samples of programs that have phases.
    pub(super) fn new(sampler: Arc<Worker<Sampler>>) -> Self {
        Self { sampler }
    }

    /// Who takes samples.
    pub(super) fn sampler(&self) -> &Arc<Worker<Sampler>> {
        &self.sampler
    }

    /// A thread that has phases does something. From any context.
    pub(crate) fn ring(&self) {
        Sampler::wake(&self.sampler);
    }
}

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
