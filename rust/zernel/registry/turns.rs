// SPDX-License-Identifier: GPL-2.0
//! Which TSGs take turns, and who is not scheduled meanwhile.

use super::{
    gpu,
    tsg::{
        self,
        Tsg, //
    },
    Registry, //
};
use crate::{
    bandwidth,
    glue::trace,
    policy::{
        level::{
            self,
            Level, //
        },
        tunables::Tunables,
        units::Ms, //
    },
    rotation::{
        Candidate,
        Setup, //
    },
    stream,
};
use kernel::prelude::*;

/// Whether a TSG takes turns with the others of its run list.
fn takes_turns(tunables: &Tunables, tsg: &Tsg) -> bool {
    tunables.enabled()
        && tunables.turns().discipline().is_some()
        && tsg.traits.compute
        && tsg.effective.level == Some(Level::BE)
}

impl Registry {
    /// Who takes turns on a GPU, if that is not what it was in `generation`. Who does not any more
    /// is scheduled again.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn rotation_setup(
        &mut self,
        id: gpu::Id,
        generation: u64,
    ) -> Result<Option<Setup>> {
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
        let mut from = 0;
        while let Some(cursor) = self.handles.cursor_lower_bound(&(id, from)) {
            let (&(owner, handle), &tsg_id) = cursor.current();
            if owner != id {
                break;
            }
            if let Some(tsg) = self.tsgs.get(&tsg_id) {
                if takes_turns(&self.tunables, tsg) {
                    setup.candidates.push(
                        Candidate {
                            runlist: tsg.traits.runlist,
                            id: tsg_id,
                            handle,
                            weight: tsg.effective.weight,
                        },
                        GFP_KERNEL,
                    )?;
                }
            }
            match handle.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
        self.unpark_others(id);
        Ok(Some(setup))
    }

    /// Whose GPU time is bounded on a GPU, if that is not what it was in `generation`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn budget_setup(
        &self,
        id: gpu::Id,
        generation: u64,
    ) -> Result<Option<bandwidth::Setup>> {
        let Some(gpu) = self.gpus.get(&id) else {
            return Ok(None);
        };
        if gpu.generation == generation || gpu.closing {
            return Ok(None);
        }
        let mut setup = bandwidth::Setup {
            candidates: KVec::new(),
            budgets: Level::ALL.map(|level| self.tunables.budget(level)),
            generation: gpu.generation,
        };
        let mut from = 0;
        while let Some(cursor) = self.handles.cursor_lower_bound(&(id, from)) {
            let (&(owner, handle), tsg) = cursor.current();
            if owner != id {
                break;
            }
            let level = self.tsgs.get(tsg).and_then(|tsg| tsg.effective.level);
            if let Some(level) = level.filter(|&l| self.tunables.enabled() && l != Level::BE) {
                setup
                    .candidates
                    .push(bandwidth::Candidate { handle, level }, GFP_KERNEL)?;
            }
            match handle.checked_add(1) {
                Some(next) => from = next,
                None => break,
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
                    self.totals.throttled(level);
                }
            }
        }
        let mut from = 0;
        while let Some(cursor) = self.handles.cursor_lower_bound(&(id, from)) {
            let (&(owner, handle), &tsg) = cursor.current();
            if owner != id {
                break;
            }
            let level = self.tsgs.get(&tsg).and_then(|tsg| tsg.effective.level);
            if level.is_some_and(|level| changed.contains(level)) {
                self.refresh(tsg);
            }
            match handle.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
    }

    /// Has every worker look who takes turns now.
    pub(super) fn change_turns(&mut self) {
        let mut from = gpu::Id(0);
        while let Some(cursor) = self.gpus.cursor_lower_bound(&from) {
            let id = *cursor.current().0;
            if let Some(gpu) = self.gpus.get_mut(&id) {
                gpu.generation += 1;
                gpu.kick();
            }
            from = gpu::Id(id.0.saturating_add(1));
        }
    }

    /// Has every TSG of a GPU scheduled that takes no turns.
    fn unpark_others(&mut self, id: gpu::Id) {
        let mut from = 0;
        while let Some(cursor) = self.handles.cursor_lower_bound(&(id, from)) {
            let (&(owner, handle), &tsg_id) = cursor.current();
            if owner != id {
                break;
            }
            if let (Some(tsg), Some(gpu)) = (self.tsgs.get_mut(&tsg_id), self.gpus.get_mut(&id)) {
                let is_parked = tsg.park || tsg.parked != Some(false);
                if is_parked && !takes_turns(&self.tunables, tsg) {
                    tsg.park = false;
                    if self.queue.push(tsg_id, tsg) {
                        gpu.pending += 1;
                    }
                    gpu.kick();
                }
            }
            match handle.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
    }

    /// A TSG is about to be parked, that is not to be scheduled, or the opposite. Returns false if
    /// that must not be.
    pub(crate) fn will_park(&mut self, id: tsg::Id, park: bool) -> bool {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return false;
        };
        let closing = self.gpus.get(&tsg.gpu).is_none_or(|gpu| gpu.closing);
        if closing || (park && !takes_turns(&self.tunables, tsg)) {
            return false;
        }
        tsg.park = park;
        true
    }

    /// What the provider answered to that. Returns when to come back if that was "not now".
    pub(crate) fn was_parked(&mut self, id: tsg::Id, park: bool, result: Result) -> Option<Ms> {
        let tsg = self.tsgs.get_mut(&id)?;
        let gpu_id = tsg.gpu;
        match result {
            Ok(()) => {
                tsg.parked = Some(park);
                self.counters.turns += u64::from(!park);
            }
            Err(ENOENT) => {
                self.counters.dead += 1;
                self.remove_tsg(id);
            }
            Err(EAGAIN) => self.counters.retries += 1,
            Err(error) => {
                if error != EINVAL {
                    tsg.parked = None;
                }
                tsg.errors += 1;
                self.counters.errors += 1;
                let (kind, counters) = (stream::Kind::ProviderError, &mut self.counters);
                self.streams.push(kind, id, tsg, error.to_errno(), counters);
            }
        }
        let suspended = result == Err(EAGAIN);
        let gpu = self.gpus.get_mut(&gpu_id)?;
        let was_suspended = gpu.suspended;
        let delay = match result {
            Err(EAGAIN) => {
                gpu.retries += 1;
                Some(gpu.backoff.next())
            }
            _ => {
                gpu.backoff.reset();
                gpu.errors += u64::from(!matches!(result, Ok(()) | Err(ENOENT)));
                None
            }
        };
        if was_suspended != suspended {
            self.set_suspended(gpu_id, suspended);
        }
        delay
    }
}
