// SPDX-License-Identifier: GPL-2.0
//! The TSGs that take turns, and those that are disabled meanwhile.

use super::{
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

impl Registry {
    /// The TSGs that take turns on a GPU, if they have changed since `generation`. Those that do
    /// not any more are scheduled again.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn rotation_setup(&mut self, id: gpu::Id, generation: u64) -> Result<Option<Setup>> {
        let Some(gpu) = self.gpus.get(&id) else {
            return Ok(None);
        };
        if gpu.generation == generation || gpu.closing {
            return Ok(None);
        }
        let mut setup = Setup {
            turns: *self.tunables.turns(),
            candidates: KVec::with_capacity(gpu.tsgs as usize, GFP_KERNEL)?,
            generation: gpu.generation,
        };
        let mut after = None;
        while let Some((handle, tsg_id)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            if let Some(tsg) = self.tsgs.get(&tsg_id) {
                if takes_turns(&self.tunables, tsg) {
                    setup.candidates.push(
                        Candidate {
                            runlist: tsg.traits.runlist,
                            id: tsg_id,
                            handle,
                            disabled: tsg.disabled,
                            weight: tsg.effective.weight,
                        },
                        GFP_KERNEL,
                    )?;
                }
            }
        }
        self.enable_others(id);
        Ok(Some(setup))
    }

    /// The TSGs with a budget on a GPU, if they have changed since `generation`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn budget_setup(
        &self,
        id: gpu::Id,
        generation: u64,
    ) -> Result<Option<budgets::Setup>> {
        let Some(gpu) = self.gpus.get(&id) else {
            return Ok(None);
        };
        if gpu.generation == generation || gpu.closing {
            return Ok(None);
        }
        let mut setup = budgets::Setup {
            candidates: KVec::new(),
            budgets: Level::ALL.map(|level| self.tunables.budget(level)),
            generation: gpu.generation,
        };
        let mut after = None;
        while let Some((handle, tsg)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            let tsg = self.tsgs.get(&tsg).filter(|tsg| tsg.traits.compute);
            let level = tsg.and_then(|tsg| tsg.effective.level);
            let counts =
                |l: &Level| self.tunables.enabled() && gpu.abilities.turns && *l != Level::BE;
            if let Some(level) = level.filter(counts) {
                setup
                    .candidates
                    .push(budgets::Candidate { handle, level }, GFP_KERNEL)?;
            }
        }
        Ok(Some(setup))
    }

    /// The budgets of these levels are spent on a GPU, and no others'.
    pub(crate) fn set_throttled(&mut self, id: gpu::Id, throttled: level::Set) {
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        let changed = throttled.difference(gpu.throttled);
        gpu.throttled = throttled;
        for level in Level::ALL {
            if changed.contains(level) {
                let on = throttled.contains(level);
                trace::level_throttled(id.0, level.number(), on);
                if on {
                    gpu.levels.count(Some(level), |level| level.throttles += 1);
                }
            }
        }
        let mut after = None;
        while let Some((handle, tsg)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            let level = self.tsgs.get(&tsg).and_then(|tsg| tsg.effective.level);
            if level.is_some_and(|level| changed.contains(level)) {
                self.refresh(tsg);
            }
        }
    }

    /// Has every worker look at the TSGs that take turns.
    pub(super) fn change_turns(&mut self) {
        for (_, gpu) in self.gpus.iter_mut() {
            gpu.changed();
        }
    }

    /// Has every TSG of a GPU scheduled that takes no turns.
    fn enable_others(&mut self, id: gpu::Id) {
        let mut after = None;
        while let Some((handle, tsg_id)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            let concerned = self.tsgs.get(&tsg_id).is_some_and(|tsg| {
                let is_disabled = tsg.disable || tsg.disabled != Some(false);
                is_disabled && !tsg.excluded && !takes_turns(&self.tunables, tsg)
            });
            if concerned {
                self.let_run(tsg_id);
            }
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

    /// The enabled TSGs of a GPU that are less urgent than `level`, if the set has changed since
    /// `generation`. TSGs that take no turns any more are enabled again.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn less_urgent(
        &mut self,
        id: gpu::Id,
        level: Level,
        generation: u64,
    ) -> Result<Option<exclusion::Setup>> {
        let now = self.gpus.get(&id).map(|gpu| gpu.generation);
        let Some(now) = now.filter(|&now| now != generation) else {
            return Ok(None);
        };
        self.enable_others(id);
        let mut found = KVec::new();
        let mut after = None;
        while let Some((handle, tsg_id)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            let is_disabled = self.tsgs.get(&tsg_id).is_none_or(|tsg| tsg.disable);
            if !is_disabled && self.is_less_urgent(tsg_id, level) {
                let excluded = exclusion::Excluded { id: tsg_id, handle };
                found.push(excluded, GFP_KERNEL)?;
            }
        }
        Ok(Some(exclusion::Setup {
            found,
            timeout: self.tunables.requests().preempt_timeout(),
            generation: now,
        }))
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
            pr_warn!(
                "GPU {} does not respond; no calls until its driver reports it back\n",
                gpu.0
            );
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
                let streams = (&mut self.streams, &self.groups);
                told::tell(streams, Tidings::Error, id, tsg, error.to_errno());
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
