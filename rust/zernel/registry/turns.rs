// SPDX-License-Identifier: GPL-2.0
//! The TSGs that take turns, and those that are disabled meanwhile.

use super::{
    after::{
        OnGpu,
        Walk, //
    },
    gpu,
    plan::{
        budgets, exclusion,
        turns::{
            Candidate,
            Setup, //
        },
    },
    told::{
        self,
        Tidings, //
    },
    tsg::{
        self,
        Tsg, //
    },
    Locked,
    Registry, //
};
use crate::{
    glue::trace,
    policy::{
        level::{
            self,
            Level, //
        },
        preempt::Verdict,
        tunables::Tunables,
        units::Ms, //
    },
};
use kernel::prelude::*;

/// True if anybody takes turns, where that is possible.
pub(super) fn has_turns(tunables: &Tunables) -> bool {
    tunables.enabled() && tunables.turns().discipline().is_some()
}

/// True if a TSG takes turns with the others of its run list.
fn takes_turns(tunables: &Tunables, tsg: &Tsg) -> bool {
    has_turns(tunables) && tsg.traits.compute && tsg.effective.level == Some(Level::BE)
}

/// TSGs that are looked at with the registry locked once.
const PIECE: usize = 4;

/// Collects what `pick` finds among the TSGs of a GPU, in the order of their handles, if they have
/// changed since `generation`. Returns it with the generation that it is of at least: TSGs that
/// change meanwhile are seen then or make another one.
fn collect<T>(
    registry: &mut impl Locked,
    id: gpu::Id,
    generation: u64,
    pick: impl Fn(&mut Registry, u64, tsg::Id) -> Option<T>,
) -> Result<Option<(KVec<T>, u64)>> {
    let now = registry.locked(|r| {
        let gpu = r.gpus.get(&id).filter(|gpu| !gpu.closing)?;
        Some(gpu.generation).filter(|&now| now != generation)
    })?;
    let Some(now) = now else {
        return Ok(None);
    };
    let mut all = KVec::new();
    let mut after = None;
    loop {
        let mut found = [const { None }; PIECE];
        let mut count = 0;
        let next = registry.locked(|r| {
            for place in &mut found {
                let (handle, tsg) = r.next_tsg_of(id, after)?;
                after = Some(handle);
                *place = pick(r, handle, tsg);
                count += usize::from(place.is_some());
            }
            after
        })?;
        all.reserve(count, GFP_KERNEL)?;
        for found in found.into_iter().flatten() {
            // There is room.
            let _ = all.push_within_capacity(found);
        }
        if next.is_none() {
            return Ok(Some((all, now)));
        }
    }
}

/// The TSGs that take turns on a GPU, if they have changed since `generation`. Those that do not any
/// more are scheduled again.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn rotation_setup(
    registry: &mut impl Locked,
    id: gpu::Id,
    generation: u64,
) -> Result<Option<Setup>> {
    let found = collect(registry, id, generation, |r, handle, tsg| {
        r.enable_other(tsg);
        r.candidate(handle, tsg)
    })?;
    let Some((candidates, generation)) = found else {
        return Ok(None);
    };
    Ok(Some(Setup {
        turns: registry.locked(|r| *r.tunables.turns())?,
        candidates,
        generation,
    }))
}

/// The TSGs with a budget on a GPU, if they have changed since `generation`.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn budget_setup(
    registry: &mut impl Locked,
    id: gpu::Id,
    generation: u64,
) -> Result<Option<budgets::Setup>> {
    let found = collect(registry, id, generation, |r, handle, tsg| {
        r.watched(handle, tsg)
    })?;
    let Some((candidates, generation)) = found else {
        return Ok(None);
    };
    Ok(Some(budgets::Setup {
        candidates,
        budgets: registry.locked(|r| Level::ALL.map(|level| r.tunables.budget(level)))?,
        generation,
    }))
}

/// The enabled TSGs of a GPU that are less urgent than `level`, if the set has changed since
/// `generation`. TSGs that take no turns any more are enabled again.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn less_urgent(
    registry: &mut impl Locked,
    id: gpu::Id,
    level: Level,
    generation: u64,
) -> Result<Option<exclusion::Setup>> {
    let found = collect(registry, id, generation, |r, handle, id| {
        r.enable_other(id);
        let is_disabled = r.tsgs.get(&id).is_none_or(|tsg| tsg.disable);
        let is_meant = !is_disabled && r.is_less_urgent(id, level);
        is_meant.then_some(exclusion::Excluded { id, handle })
    })?;
    let Some((found, generation)) = found else {
        return Ok(None);
    };
    Ok(Some(exclusion::Setup {
        found,
        timeout: registry.locked(|r| r.tunables.requests().preempt_timeout())?,
        generation,
    }))
}

impl Registry {
    /// A TSG as one that takes turns, if it does.
    fn candidate(&self, handle: u64, id: tsg::Id) -> Option<Candidate> {
        let tsg = self.tsgs.get(&id)?;
        takes_turns(&self.tunables, tsg).then_some(Candidate {
            runlist: tsg.traits.runlist,
            id,
            handle,
            disabled: tsg.disabled,
            weight: tsg.effective.weight,
        })
    }

    /// A TSG as one of a level with a budget, if it is.
    fn watched(&self, handle: u64, id: tsg::Id) -> Option<budgets::Candidate> {
        let tsg = self.tsgs.get(&id).filter(|tsg| tsg.traits.compute)?;
        let level = tsg.effective.level.filter(|&level| level != Level::BE)?;
        let gpu = self.gpus.get(&tsg.gpu)?;
        let counts = self.tunables.enabled() && gpu.abilities.turns;
        counts.then_some(budgets::Candidate { handle, level })
    }

    /// The budgets of these levels are spent on a GPU, and no others'.
    pub(crate) fn set_throttled(&mut self, id: gpu::Id, throttled: level::Set) {
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        let changed = throttled.difference(gpu.throttled);
        gpu.throttled = throttled;
        self.view.change_gpu(id, gpu.conditions(), &mut self.writer);
        for level in Level::ALL {
            if changed.contains(level) {
                let on = throttled.contains(level);
                trace::level_throttled(id.0, level.number(), on);
                if on {
                    gpu.levels.count(Some(level), |level| level.throttles += 1);
                }
            }
        }
        self.walk(Walk::Gpu(id, None, OnGpu::Throttle(changed)));
    }

    /// Has every worker look at the TSGs that take turns.
    pub(super) fn change_turns(&mut self) {
        for (_, gpu) in self.gpus.iter_mut() {
            gpu.changed();
        }
    }

    /// Has a TSG scheduled that takes no turns.
    fn enable_other(&mut self, id: tsg::Id) {
        let concerned = self.tsgs.get(&id).is_some_and(|tsg| {
            let is_disabled = tsg.disable || tsg.disabled != Some(false);
            is_disabled && !tsg.excluded && !takes_turns(&self.tunables, tsg)
        });
        if concerned {
            self.let_run(id);
        }
    }

    /// A TSG is about to be disabled, that is not to be scheduled, or the opposite. Returns false if
    /// that must not be.
    pub(crate) fn will_disable(&mut self, id: tsg::Id, disable: bool) -> bool {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return false;
        };
        let gpu = self.gpus.get(&tsg.gpu);
        let closed = gpu.is_none_or(|gpu| gpu.closing || gpu.unresponsive);
        if closed || (disable && !takes_turns(&self.tunables, tsg)) {
            return false;
        }
        tsg.disable = disable;
        true
    }

    /// True if a TSG is to be kept off the GPU for requests of `level`.
    pub(crate) fn is_less_urgent(&self, id: tsg::Id, level: Level) -> bool {
        self.tsgs
            .get(&id)
            .is_some_and(|tsg| tsg.traits.compute && level.is_above(tsg.effective.rank()))
    }

    /// A TSG is about to be kept off the GPU, or let in again. Returns false if that must not be.
    pub(crate) fn will_exclude(&mut self, id: tsg::Id, exclude: bool) -> bool {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return false;
        };
        let (closing, unresponsive) = self
            .gpus
            .get(&tsg.gpu)
            .map_or((true, true), |gpu| (gpu.closing, gpu.unresponsive));
        if closing {
            return false;
        }
        // A call that cannot be made now, for want of an answer, is made when the GPU is back.
        tsg.excluded = exclude && !unresponsive;
        tsg.disable = tsg.excluded;
        !unresponsive
    }

    /// Has the worker schedule a TSG again, unless it is known to be scheduled.
    pub(crate) fn let_run(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        let Some(gpu) = self.gpus.get_mut(&tsg.gpu) else {
            return;
        };
        tsg.disable = false;
        tsg.excluded = false;
        if tsg.disabled != Some(false) && self.queue.push(id, tsg) {
            gpu.pending += 1;
        }
        gpu.kick();
    }

    /// The outcome of taking the GPU away from a TSG, for requests of `level`.
    pub(crate) fn was_excluded(
        &mut self,
        gpu: gpu::Id,
        id: tsg::Id,
        level: Level,
        verdict: Verdict,
    ) {
        trace::tsg_preempted(gpu.0, id.0, verdict as u32);
        if let Some(gpu) = self.gpus.get(&gpu) {
            gpu.requests.totals.preempted(level, verdict);
        }
        if !verdict.is_off() {
            // A call that failed may have had its effect all the same.
            self.let_run(id);
        }
        if verdict == Verdict::NotResponding {
            self.after.warn(gpu);
            self.suspend_gpu(gpu);
            if let Some(gpu) = self.gpus.get_mut(&gpu) {
                gpu.unresponsive = true;
            }
            self.tell_state(gpu);
        }
    }

    /// The provider's answer to that. Returns when to come back if it was "not now".
    pub(crate) fn was_disabled(
        &mut self,
        id: tsg::Id,
        disable: bool,
        result: Result,
    ) -> Option<Ms> {
        let tsg = self.tsgs.get_mut(&id)?;
        let gpu_id = tsg.gpu;
        match result {
            Ok(()) => {
                tsg.disabled = Some(disable);
                self.counters.turns += u64::from(!disable);
                if let Some(gpu) = self.gpus.get_mut(&gpu_id) {
                    let level = tsg.effective.level;
                    gpu.levels
                        .count(level, |level| level.turns += u64::from(!disable));
                }
            }
            Err(ENOENT) => {
                self.counters.dead += 1;
                self.remove_tsg(id);
            }
            Err(EAGAIN) => {
                self.counters.retries += 1;
                // A pass that sets everything once more, meanwhile, must not disable the TSG: no
                // turn may ever ask for that again.
                tsg.disable &= !disable || tsg.excluded;
            }
            Err(error) => {
                if error != EINVAL {
                    tsg.disabled = None;
                }
                tsg.errors += 1;
                tsg.last_error = error.to_errno();
                self.counters.errors += 1;
                told::tell(
                    (&self.groups, &self.writer),
                    Tidings::Error,
                    id,
                    tsg,
                    error.to_errno(),
                );
            }
        }
        self.answered(gpu_id, result);
        let gpu = self.gpus.get_mut(&gpu_id)?;
        match result {
            Err(EAGAIN) => {
                gpu.retries += 1;
                Some(gpu.backoff.next())
            }
            _ => {
                gpu.backoff.reset();
                gpu.errors += u64::from(!matches!(result, Ok(()) | Err(ENOENT)));
                None
            }
        }
    }
}
