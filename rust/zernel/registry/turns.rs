// SPDX-License-Identifier: GPL-2.0
//! The TSGs that take turns, and those that are disabled meanwhile.

use super::{
    after::{
        OnGpu,
        Walk, //
    },
    gpu::{
        self,
        Gpu, //
    },
    place::{
        InSchedule,
        Named, //
    },
    plan::{
        exclusion::{
            self,
            Found, //
        },
        turns::Candidate,
        Throttle, //
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
    glue::{
        time::now_ns,
        trace, //
    },
    policy::{
        level::{
            self,
            Level, //
        },
        preempt::{
            Answer,
            Verdict, //
        },
        slices::Instead,
        tunables::Tunables,
        units::{
            Ms,
            Us, //
        },
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTree, //
};

/// True if anybody takes turns, where that is possible.
pub(super) fn has_turns(tunables: &Tunables) -> bool {
    tunables.enabled() && tunables.turns().discipline().is_some()
}

/// True if a TSG takes turns with the others of its run list.
fn takes_turns(tunables: &Tunables, gpus: &RBTree<gpu::Id, Gpu>, tsg: &Tsg) -> bool {
    let is_be = tsg.traits.compute && tsg.effective.level == Some(Level::BE);
    let gpu = gpus.get(&tsg.gpu).filter(|_| is_be);
    gpu.is_some_and(|gpu| gpu.has_turns() && has_turns(tunables))
}

/// True if it is zernel's to let a TSG be scheduled: it takes turns, or is not to be scheduled.
pub(super) fn is_steered(tunables: &Tunables, gpus: &RBTree<gpu::Id, Gpu>, tsg: &Tsg) -> bool {
    tsg.disable || takes_turns(tunables, gpus, tsg)
}

impl Registry {
    /// True if a TSG takes turns with the others of its run list.
    fn takes_turns(&self, tsg: &Tsg) -> bool {
        takes_turns(&self.tunables, &self.gpus, tsg)
    }

    /// A TSG was added. The first one of a GPU shows that it is started, perhaps anew: its load may be
    /// told now.
    pub(super) fn see_again(&mut self, id: gpu::Id) {
        if self.gpus.get(&id).is_some_and(|gpu| gpu.tsgs == 1) {
            self.trust_again(id);
        }
    }

    /// The driver of a GPU may do again all that its provider says.
    pub(super) fn trust_again(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get(&id) {
            gpu.requests.set_can_kick(gpu.abilities.kick);
        }
        self.set_blind(id, false);
    }

    /// The load of TSGs cannot be told on a GPU, or it may be again. There are turns and budgets on
    /// it accordingly.
    pub(crate) fn set_blind(&mut self, id: gpu::Id, blind: bool) {
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        if gpu.blind == blind {
            return;
        }
        gpu.blind = blind;
        gpu.generation += 1;
        gpu.kick();
        self.view.change_gpu(id, gpu.conditions(), &mut self.writer);
        self.tell_state(id);
        self.walk(Walk::Gpu(id, None, OnGpu::Align));
    }

    /// A TSG as one that takes turns, if it does.
    pub(super) fn candidate(&self, handle: u64, id: tsg::Id) -> Option<Candidate> {
        let tsg = self.tsgs.get(&id)?;
        self.takes_turns(tsg).then_some(Candidate {
            runlist: tsg.traits.runlist,
            id,
            handle,
            // It is let in again before there are turns.
            disabled: tsg.disabled.filter(|_| !tsg.excluded),
            weight: tsg.effective.weight,
        })
    }

    /// The level of a TSG, if that has a budget.
    pub(super) fn watched(&self, id: tsg::Id) -> Option<Level> {
        let tsg = self.tsgs.get(&id).filter(|tsg| tsg.traits.compute)?;
        let level = tsg.effective.level.filter(|&level| level != Level::BE)?;
        let gpu = self.gpus.get(&tsg.gpu)?;
        let counts = self.tunables.enabled() && gpu.has_turns();
        counts.then_some(level)
    }

    /// The budgets of these levels are spent on a GPU, and no others'. Returns the TSGs that are to
    /// follow, by [`Self::follow_throttle`].
    pub(crate) fn set_throttled(&mut self, id: gpu::Id, throttled: level::Set) -> Option<Throttle> {
        let gpu = self.gpus.get_mut(&id)?;
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
        Some(Throttle {
            gpu: id,
            levels: changed,
            after: None,
        })
    }

    /// True if a TSG has no longer slice than it should, and no higher interleave level, as far as known;
    /// so has one that is gone.
    pub(crate) fn has_its_slice(&self, id: tsg::Id) -> bool {
        let Some(tsg) = self.tsgs.get(&id) else {
            return true;
        };
        let (Some(want), Some(current)) = (tsg.want, tsg.current) else {
            // Nothing was changed that a spent budget would take back.
            return tsg.want.is_none();
        };
        let goal = want.over(tsg.original.unwrap_or(current));
        // Without the operation both levels are that of before, or none.
        let is_lowered =
            current.timeslice <= goal.timeslice && current.interleave <= goal.interleave;
        !tsg.busy && is_lowered
    }

    /// Levels have these slices on a GPU, in place of their usual ones. Returns the TSGs that are to
    /// follow, by [`Self::follow_throttle`].
    pub(crate) fn set_instead(&mut self, id: gpu::Id, instead: Instead) -> Option<Throttle> {
        let gpu = self.gpus.get_mut(&id)?;
        let mut levels = instead.changed(&gpu.instead);
        if levels.contains(Level::BE) {
            // These have that of best-effort.
            levels = levels.union(gpu.throttled);
        }
        gpu.instead = instead;
        self.view.change_gpu(id, gpu.conditions(), &mut self.writer);
        Some(Throttle {
            gpu: id,
            levels,
            after: None,
        })
    }

    /// Brings a TSG in line with the levels that have a spent budget, or other slices. Returns what is
    /// left. One that keeps the engine with a budget, and without does not, is news for an exclusion.
    pub(crate) fn follow_throttle(&mut self, mut throttle: Throttle) -> Option<Throttle> {
        let (handle, id) = self.next_tsg_of(throttle.gpu, throttle.after)?;
        let effective = self.tsg(id).map(|tsg| tsg.effective);
        let effective = effective.filter(|e| e.level.is_some_and(|l| throttle.levels.contains(l)));
        if let Some(effective) = effective {
            self.refresh(id);
            if effective.may_keep && self.tunables.slices().kept().contains(effective.rank()) {
                self.add_news(id);
            }
        }
        throttle.after = Some(handle);
        Some(throttle)
    }

    /// Has every worker look at the TSGs that take turns.
    pub(super) fn change_turns(&mut self) {
        for (_, gpu) in self.gpus.iter_mut() {
            gpu.generation += 1;
            gpu.kick();
        }
    }

    /// Has a TSG scheduled that takes no turns.
    pub(super) fn enable_other(&mut self, id: tsg::Id) {
        let concerned = self.tsgs.get(&id).is_some_and(|tsg| {
            let is_disabled = tsg.disable || tsg.disabled != Some(false);
            is_disabled && !tsg.excluded && !self.takes_turns(tsg)
        });
        if concerned {
            self.let_run(id);
        }
    }

    /// A TSG is about to be disabled, that is not to be scheduled, or the opposite. Returns false if
    /// that must not be.
    pub(crate) fn will_disable(&mut self, id: tsg::Id, disable: bool) -> bool {
        let Some(tsg) = self.tsgs.get(&id) else {
            return false;
        };
        let gpu = self.gpus.get(&tsg.gpu);
        let closed = gpu.is_none_or(|gpu| gpu.closing || gpu.unresponsive);
        if closed || (disable && !self.takes_turns(tsg)) {
            return false;
        }
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return false;
        };
        tsg.disable = disable;
        self.schedule.update(id, tsg);
        true
    }

    /// True if a TSG is to be kept off the GPU for requests of `level`.
    pub(crate) fn is_less_urgent(&self, id: tsg::Id, level: Level) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| {
            let rank = tsg.effective.rank();
            let is_below = tsg.traits.compute && level.is_above(rank);
            let is_kept = tsg.effective.may_keep && self.kept_on(tsg.gpu).contains(rank);
            is_below && !is_kept
        })
    }

    /// Levels that keep the engine of a GPU to the end of their bursts: none where no budget bounds it.
    pub(crate) fn kept_on(&self, id: gpu::Id) -> level::Set {
        let gpu = self.gpus.get(&id).filter(|gpu| gpu.has_turns());
        match gpu.filter(|_| self.tunables.enabled()) {
            Some(gpu) => self.tunables.slices().kept().without(gpu.throttled),
            None => level::Set::NONE,
        }
    }

    /// The first TSG to exclude from a place on, but for those that keep the engine as one of a level
    /// in `kept`.
    fn first_to_exclude(
        &self,
        mut from: InSchedule,
        kept: level::Set,
    ) -> Option<(InSchedule, Named)> {
        loop {
            let cursor = self.schedule.0.cursor_lower_bound(&from)?;
            let (&key, &named) = cursor.current();
            let level = Level::new(key.level).filter(|_| key.may_keep);
            let is_kept = level.is_some_and(|level| kept.contains(level));
            if key.gpu != from.gpu || !is_kept {
                return (key.gpu == from.gpu).then_some((key, named));
            }
            from = InSchedule {
                level: key.level + 1,
                may_keep: false,
                tsg: tsg::Id::FIRST,
                ..key
            };
        }
    }

    /// TSGs of a GPU that are to be scheduled and are less urgent than `level`: the first ones, or
    /// those behind the last one that was `found`. Returns false if there are none.
    pub(crate) fn less_urgent(&self, id: gpu::Id, level: Level, found: &mut Found) -> bool {
        found.tsgs = [None; exclusion::PIECE];
        let is_open = self.gpus.get(&id).is_some_and(|gpu| !gpu.closing);
        let kept = self.kept_on(id);
        for place in &mut found.tsgs {
            let from = match found.last {
                Some(last) => InSchedule {
                    tsg: last.tsg.after(),
                    ..last
                },
                None => InSchedule {
                    gpu: id,
                    level: level.number() + 1,
                    may_keep: false,
                    tsg: tsg::Id::FIRST,
                },
            };
            let next = self.first_to_exclude(from, kept);
            let Some((key, tsg)) = next.filter(|_| is_open) else {
                break;
            };
            *place = Some(tsg);
            found.last = Some(key);
        }
        found.timeout = self.tunables.requests().preempt_timeout();
        found.tsgs.iter().any(Option::is_some)
    }

    /// The part of a TSG in an exclusion for requests of `level`: `None` if it is not to be kept off
    /// the GPU; else the longest time for taking the GPU away from it, unless it is off already.
    pub(crate) fn exclusion_of(&self, id: tsg::Id, level: Level) -> Option<Option<Us>> {
        let tsg = self
            .tsgs
            .get(&id)
            .filter(|_| self.is_less_urgent(id, level))?;
        let timeout = self.tunables.requests().preempt_timeout();
        Some((!tsg.disable).then_some(timeout))
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
        self.schedule.update(id, tsg);
        !unresponsive
    }

    /// The answer in place of the provider's where a TSG must not be kept off the GPU.
    pub(crate) fn why_not(&self, id: tsg::Id) -> Answer {
        match self.tsgs.get(&id) {
            None => Answer::Gone,
            // Its GPU closes, or does not respond.
            Some(_) => Answer::InvalidState,
        }
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
        self.schedule.update(id, tsg);
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
                tsg.settle(Some(disable));
                if !disable {
                    tsg.sway.count = 0;
                }
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
            Err(EAGAIN | EBUSY) => {
                self.counters.retries += 1;
                // A pass that sets everything once more, meanwhile, must not disable the TSG: no
                // turn may ever ask for that again.
                tsg.disable &= !disable || tsg.excluded;
                self.schedule.update(id, tsg);
                if let (Err(EBUSY), Some(gpu)) = (result, self.gpus.get_mut(&gpu_id)) {
                    // It takes turns again after a step that is done.
                    tsg.put_off(now_ns());
                    if self.queue.push_anew(id, tsg) {
                        gpu.pending += 1;
                    }
                }
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
                Some(gpu.back_off())
            }
            Err(EBUSY) => {
                gpu.relent();
                gpu.retries += 1;
                None
            }
            _ => {
                gpu.relent();
                gpu.errors += u64::from(!matches!(result, Ok(()) | Err(ENOENT)));
                None
            }
        }
    }
}
