// SPDX-License-Identifier: GPL-2.0
//! The TSGs of machine-learning programs, for the meters of their GPU activity.

use super::{
    assignments::Target,
    gpu,
    tsg,
    Registry, //
};
use crate::{
    glue::work::Kick,
    registry::{
        self,
        meters::Meters, //
    },
    tracking::program::Program, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// TSGs that are looked up with the registry locked once.
const PIECE: usize = 8;

impl Registry {
    /// Grows when compute TSGs come and go.
    pub(crate) fn population_generation(&self) -> u64 {
        let counters = &self.counters;
        let population = counters.tsgs_added.wrapping_add(counters.tsgs_removed);
        population.wrapping_add(self.conversions)
    }

    /// A TSG has come, or is one of another kind now: if that is a compute TSG, its owner is to be
    /// tracked where that is tuned.
    pub(super) fn track_owner(&mut self, id: tsg::Id) {
        let tsg = self.tsgs.get(&id).filter(|tsg| tsg.traits.compute);
        let tracks = self.tunables.phases().owners();
        if let (Some(tsg), Some((owners, reaper)), true) = (tsg, &self.owners, tracks) {
            let owner = tsg.owner.process.clone();
            self.after.track(owner, owners.clone(), reaper.clone());
        }
    }

    /// The first GPU from `from` on, and its meters.
    fn meters_from(&self, from: gpu::Id) -> Option<(gpu::Id, Arc<Meters>, bool)> {
        let (id, gpu) = self.gpu_from(from)?;
        Some((id, gpu.meters.clone(), gpu.metered))
    }

    fn set_metered(&mut self, id: gpu::Id, metered: bool) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.metered = metered;
        }
    }

    /// The compute TSGs of a process on GPUs that look at some, from `from` on: as many as there is
    /// room for. Returns where to go on, or `None` at the end.
    fn metered_from(
        &self,
        process: Target,
        from: tsg::Id,
        found: &mut [Option<(u64, Arc<Meters>)>],
    ) -> Option<tsg::Id> {
        let mut from = from;
        for place in found {
            let (id, tsg) = self.member_from(process, from)?;
            from = id.after();
            let gpu = self.gpus.get(&tsg.gpu).filter(|gpu| gpu.metered);
            if let (true, Some(gpu)) = (tsg.traits.compute, gpu) {
                *place = Some((tsg.handle, gpu.meters.clone()));
            }
        }
        Some(from)
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

/// Calls `f` for each GPU and its meters, without locks. `f` tells whether it looks at any TSG.
fn each_meters(mut f: impl FnMut(gpu::Id, &Arc<Meters>, bool) -> Result<bool>) -> Result {
    let mut from = gpu::Id(0);
    while let Some((id, meters, before)) = registry::with(|r| r.meters_from(from))? {
        let now = f(id, &meters, before)?;
        registry::with(|r| r.set_metered(id, now))?;
        from = gpu::Id(id.0.saturating_add(1));
    }
    Ok(())
}

/// Has the GPUs look at the compute TSGs that are named before [`end_plan`] from now on, and at no
/// others. Returns whether that is all: a GPU that has not answered yet is left out.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn begin_plan() -> Result<bool> {
    let mut complete = true;
    each_meters(|_, meters, _| {
        let metered = meters.begin_plan();
        complete &= metered;
        Ok(metered)
    })?;
    Ok(complete)
}

/// Names the compute TSGs of the program at a place.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn plan_program(program: &Program, place: usize) -> Result {
    let process = Target::Process(program.key());
    let mut from = Some(tsg::Id::FIRST);
    while let Some(at) = from {
        let mut found = [const { None }; PIECE];
        from = registry::with(|r| r.metered_from(process, at, &mut found))?;
        for (handle, meters) in found.iter().flatten() {
            meters.plan(*handle, place)?;
        }
    }
    Ok(())
}

/// Returns the meters of GPUs that look at any.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn end_plan(sampler: &Kick) -> Result<KVec<Arc<Meters>>> {
    let mut found = KVec::new();
    each_meters(|id, meters, metered| {
        let metered = metered && meters.end_plan(id, sampler.clone());
        if metered {
            found.push(meters.clone(), GFP_KERNEL)?;
        }
        Ok(metered)
    })?;
    Ok(found)
}
