// SPDX-License-Identifier: GPL-2.0
//! The TSGs of machine-learning programs, for those who look how busy GPUs are for them.

use super::{
    assignments::Target,
    tsg,
    Registry, //
};
use crate::{
    glue::{
        identity::Pid,
        thread::Thread,
        work::Worker, //
    },
    phases::{
        meters::Meters,
        program::Program,
        sampler::Sampler, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Registry {
    /// Grows when TSGs come and go.
    pub(crate) fn population_generation(&self) -> u64 {
        self.counters
            .tsgs_added
            .wrapping_add(self.counters.tsgs_removed)
    }

    /// Has the GPUs look at the compute TSGs of these processes from now on, and at no others.
    /// Returns the meters of those with any, and whether that is all: a GPU that has not answered yet
    /// is left out.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn plan_meters(
        &mut self,
        programs: &[Program],
        sampler: &Arc<Worker<Sampler>>,
    ) -> Result<(KVec<Arc<Meters>>, bool)> {
        let mut found = KVec::with_capacity(self.gpu_count as usize, GFP_KERNEL)?;
        let mut complete = true;
        for (_, gpu) in self.gpus.iter_mut() {
            gpu.metered = gpu.meters.begin_plan();
            complete &= gpu.metered;
        }
        for (place, program) in programs.iter().enumerate() {
            self.plan_program(Target::Process(program.key), place)?;
        }
        for (_, gpu) in self.gpus.iter_mut().filter(|(_, gpu)| gpu.metered) {
            gpu.metered = gpu.meters.end_plan(sampler.clone());
            if gpu.metered {
                found.push(gpu.meters.clone(), GFP_KERNEL)?;
            }
        }
        Ok((found, complete))
    }

    fn plan_program(&self, process: Target, place: usize) -> Result {
        let mut from = tsg::Id::FIRST;
        while let Some(cursor) = self.members.cursor_lower_bound(&(process, from)) {
            let (&(owner, id), ()) = cursor.current();
            if owner != process {
                break;
            }
            from = id.after();
            let tsg = self.tsgs.get(&id).filter(|tsg| tsg.traits.compute);
            let gpu = tsg.and_then(|tsg| self.gpus.get(&tsg.gpu));
            let gpu = gpu.filter(|gpu| gpu.metered);
            if let (Some(tsg), Some(gpu)) = (tsg, gpu) {
                gpu.meters.plan(tsg.handle, place)?;
            }
        }
        Ok(())
    }

    /// Has the workers of those GPUs answer.
    pub(crate) fn kick_metered(&self) {
        for (_, gpu) in self.gpus.iter() {
            if gpu.metered {
                gpu.kick();
            }
        }
    }

    /// Tells those who may see it that it is time for a process to load its next batch.
    pub(crate) fn signal_prefetch(&mut self, process: &Pid, thread: &Thread) {
        let owner = (process, thread.uid());
        let private = !thread.is_of(owner.1);
        self.streams
            .push_prefetch(owner, private, &mut self.counters);
    }
}
