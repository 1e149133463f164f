// SPDX-License-Identifier: GPL-2.0
//! The TSGs of machine-learning programs, for the meters of their GPU activity.

use super::{
    assignments::Target,
    gpu,
    tsg,
    Registry, //
};
use crate::{
    glue::{
        memory::account_nowait,
        work::Kick, //
    },
    registry::{
        self,
        meters::Meters, //
    },
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

    /// The compute TSGs of a process from `from` on, with the meters of their GPUs: as many as there is
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
            let gpu = self.gpus.get(&tsg.gpu).filter(|gpu| !gpu.closing);
            if let (true, Some(gpu)) = (tsg.traits.compute, gpu) {
                *place = Some((tsg.handle, gpu.meters.clone()));
            }
        }
        Some(from)
    }

    /// Has the workers of those GPUs answer whose meters are waited for.
    pub(crate) fn kick_metered(&self) {
        for (_, gpu) in self.gpus.iter() {
            if !gpu.meters.is_answered() {
                gpu.kick();
            }
        }
    }
}

/// Names the compute TSGs of a program to the meters of their GPUs: `own` are those to which some are
/// named, and `known` those of all programs. Returns how many times it took the registry, also where it failed then, and whether that was
/// all: a GPU that has not answered yet is left out.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn name_program(
    program: usize,
    own: &mut KVec<Arc<Meters>>,
    known: &mut KVec<Arc<Meters>>,
    sampler: &Kick,
) -> (u64, Result<bool>) {
    let mut pieces = 0;
    let named = name_pieces(program, own, known, sampler, &mut pieces);
    (pieces, named)
}

fn name_pieces(
    program: usize,
    own: &mut KVec<Arc<Meters>>,
    known: &mut KVec<Arc<Meters>>,
    sampler: &Kick,
    pieces: &mut u64,
) -> Result<bool> {
    let mut complete = true;
    // Those of a GPU that is gone are never answered.
    own.retain(|own| known.iter().any(|known| Arc::ptr_eq(known, own)));
    for meters in own.iter() {
        complete &= meters.begin(program);
    }
    let process = Target::Process(program);
    let mut from = Some(tsg::Id::FIRST);
    while let Some(at) = from {
        let mut found = [const { None }; PIECE];
        from = registry::with(|r| r.metered_from(process, at, &mut found))?;
        *pieces += 1;
        for (handle, meters) in found.iter().flatten() {
            for list in [&mut *own, &mut *known] {
                if !list.iter().any(|known| Arc::ptr_eq(known, meters)) {
                    list.push(meters.clone(), account_nowait())?;
                }
            }
            complete &= meters.name(program, *handle, sampler)?;
        }
    }
    own.retain(|meters| !meters.end(program));
    known.retain(|meters| !meters.is_empty());
    Ok(complete)
}

/// Leaves out the meters of GPUs that are gone.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn retain_present(known: &mut KVec<Arc<Meters>>) -> Result {
    let mut is_gone = [false; gpu::MAX as usize];
    registry::with(|r| {
        for (is_gone, meters) in is_gone.iter_mut().zip(known.iter()) {
            *is_gone = r.gpus.get(&meters.gpu()).is_none();
        }
    })?;
    // Freed without the lock.
    let mut gone = is_gone.into_iter();
    known.retain(|_| !gone.next().unwrap_or(false));
    Ok(())
}
