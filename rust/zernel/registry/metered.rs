// SPDX-License-Identifier: GPL-2.0
//! The TSGs of machine-learning programs, for the meters of their GPU activity.

use super::{
    assignments::Target,
    tsg,
    Registry, //
};
use crate::{
    glue::work::Kick,
    registry::meters::Meters,
    tracking::program::Program, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

impl Registry {
    /// Grows when compute TSGs come and go.
    pub(crate) fn population_generation(&self) -> u64 {
        let counters = &self.counters;
        let population = counters.tsgs_added.wrapping_add(counters.tsgs_removed);
        population.wrapping_add(self.conversions)
    }

    /// A TSG has come, or is one of another kind now: if that is a compute TSG, its owner is to be
    /// tracked where that is tuned.
    pub(super) fn track_owner(&self, id: tsg::Id) {
        let tsg = self.tsgs.get(&id).filter(|tsg| tsg.traits.compute);
        let tracks = self.tunables.phases().owners();
        if let (Some(tsg), Some((owners, reaper)), true) = (tsg, &self.owners, tracks) {
            owners.add(tsg.owner.process.clone(), reaper);
        }
    }

    /// Has the GPUs look at the compute TSGs that are named before [`Self::end_plan`] from now on, and
    /// at no others. Returns whether that is all: a GPU that has not answered yet is left out.
    pub(crate) fn begin_plan(&mut self) -> bool {
        let mut complete = true;
        for (_, gpu) in self.gpus.iter_mut() {
            gpu.metered = gpu.meters.begin_plan();
            complete &= gpu.metered;
        }
        complete
    }

    /// Returns the meters of GPUs that look at any.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn end_plan(&mut self, sampler: &Kick) -> Result<KVec<Arc<Meters>>> {
        let mut found = KVec::with_capacity(self.gpu_count as usize, GFP_KERNEL)?;
        for (id, gpu) in self.gpus.iter_mut().filter(|(_, gpu)| gpu.metered) {
            gpu.metered = gpu.meters.end_plan(*id, sampler.clone());
            if gpu.metered {
                found.push(gpu.meters.clone(), GFP_KERNEL)?;
            }
        }
        Ok(found)
    }

    /// Names the compute TSGs of the program at a place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn plan_program(&self, program: &Program, place: usize) -> Result {
        let process = Target::Process(program.key());
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
}
