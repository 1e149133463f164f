// SPDX-License-Identifier: GPL-2.0
//! The steps that the workers take from the registry, and their outcomes.

use super::{
    gpu,
    step::{
        Outcome,
        Step, //
    },
    told::{
        self,
        Tidings, //
    },
    turns::is_steered,
    Registry, //
};
use crate::{
    glue::{
        time::now_ns,
        trace, //
    },
    policy::{
        level::Level,
        units::{
            Ms,
            Ns, //
        },
    },
};
use kernel::prelude::*;

/// The worker's next action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes on.
    Go,
    /// It comes back after a delay.
    Wait(Ms),
}

impl Registry {
    /// TSGs at the end of their rest that are made ready before a step.
    const WAKES: usize = 8;

    /// The time until which a GPU is to be left alone, by any kick of its worker.
    pub(crate) fn waits_until(&self, id: gpu::Id) -> Option<Ns> {
        let gpu = self.gpus.get(&id).filter(|gpu| !gpu.closing)?;
        (gpu.waits_until.0 > now_ns()).then_some(gpu.waits_until)
    }

    /// True if the provider of a GPU may be called for it: it responds, as far as known.
    pub(crate) fn may_ask(&self, id: gpu::Id) -> bool {
        self.gpus.get(&id).is_some_and(|gpu| !gpu.unresponsive)
    }

    /// The provider of a GPU said "not now" to a call that no other answer tells of. Returns when to come
    /// back.
    pub(crate) fn put_off(&mut self, id: gpu::Id) -> Option<Ms> {
        let now = now_ns();
        let gpu = self.gpus.get_mut(&id).filter(|gpu| !gpu.closing)?;
        if let Some(left @ 1..) = gpu.waits_until.0.checked_sub(now) {
            // It said so with another answer.
            return Some(Ms(left.div_ceil(1_000_000) as u32));
        }
        gpu.retries += 1;
        Some(gpu.back_off())
    }

    /// When the next TSG in the queue of a GPU that is left alone may be taken.
    pub(crate) fn next_due(&self, id: gpu::Id) -> Option<Ns> {
        self.gpus.get(&id).filter(|gpu| !gpu.unresponsive)?;
        self.queue.next_due(id).map(Ns)
    }

    /// Takes the next TSG from the queue of a GPU, users in turn.
    pub(crate) fn next_step(&mut self, gpu_id: gpu::Id) -> Option<Step> {
        // A provider that leaves is asked to take back its settings all the same.
        let gpu = self.gpus.get(&gpu_id)?;
        if gpu.unresponsive && !gpu.closing {
            return None;
        }
        let (served, closing) = (gpu.served, gpu.closing);
        // More of them come than are taken, so that none waits for others that always come.
        let now = if closing { u64::MAX } else { now_ns() };
        for _ in 0..Self::WAKES {
            if !self.queue.wake(gpu_id, now, &mut self.tsgs) {
                break;
            }
        }
        let (place, id) = self.queue.next(gpu_id, served)?;
        let tsg = self.tsgs.get_mut(&id)?;
        self.queue.remove(tsg);
        tsg.busy = true;
        tsg.doubted = false;
        tsg.sway.fresh = false;
        if tsg.sway.own && is_steered(&self.tunables, &self.gpus, tsg) {
            tsg.sway.own = false;
            tsg.disabled = None;
        }
        if let Some(gpu) = self.gpus.get_mut(&gpu_id) {
            gpu.pending -= 1;
            gpu.working = true;
            gpu.served = tsg.owner.uid;
        }
        Some(Step {
            gpu: gpu_id,
            tsg: id,
            place,
            handle: tsg.handle,
            want: tsg.want,
            managed: tsg.managed,
            original: tsg.original,
            current: tsg.current,
            sure: tsg.sure && !tsg.loose,
            disable: tsg.disable,
            disabled: tsg.disabled,
            is_moved: tsg.meter.level != tsg.effective.level,
            urgent: tsg.effective.level.filter(|l| l.is_above(Level::DEFAULT)),
        })
    }

    /// Takes in the outcome of a step.
    pub(crate) fn complete(&mut self, step: &Step, outcome: &Outcome) -> Next {
        let id = step.tsg;
        let Some(gpu) = self.gpus.get_mut(&step.gpu) else {
            return Next::Go;
        };
        gpu.working = false;
        let result = match outcome.result {
            // Nothing waits for one that leaves.
            Err(EBUSY) if gpu.closing => Err(EAGAIN),
            result => result,
        };
        self.answered(step.gpu, result);
        let Some(gpu) = self.gpus.get_mut(&step.gpu) else {
            return Next::Go;
        };
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            // It went away meanwhile.
            return Next::Go;
        };
        tsg.busy = false;
        tsg.original = outcome.original;
        tsg.current = outcome.current;
        tsg.sure = outcome.sure && !tsg.doubted;
        tsg.managed = outcome.managed;
        tsg.settle(outcome.disabled);
        if step.disabled != outcome.disabled && outcome.disabled == Some(false) {
            // The rotation takes one for disabled that it could not enable itself.
            self.news.add(id, tsg);
        }
        let slice = tsg.current.map_or(0, |hw| hw.timeslice.0);
        let error = result.err().map_or(0, Error::to_errno);
        match result {
            Ok(()) => {
                gpu.relent();
                if tsg.backoff.is_some() {
                    // Turns may go better, too.
                    self.news.add(id, tsg);
                }
                tsg.recover();
                if outcome.touched {
                    tsg.applied += 1;
                    gpu.applied += 1;
                    self.counters.applied += 1;
                    trace::slice_applied(step.gpu.0, id.0, slice, 0);
                    told::tell((&self.groups, &self.writer), Tidings::Applied, id, tsg, 0);
                }
            }
            Err(EAGAIN) => {
                gpu.retries += 1;
                self.counters.retries += 1;
                trace::slice_retried(step.gpu.0, id.0, slice, error);
                if self.queue.put_back(step.place, id, tsg) {
                    gpu.pending += 1;
                }
                // Its user is the next one.
                gpu.served = tsg.owner.uid.before();
                return Next::Wait(gpu.back_off());
            }
            Err(EBUSY) => {
                gpu.relent();
                gpu.retries += 1;
                self.counters.retries += 1;
                trace::slice_retried(step.gpu.0, id.0, slice, error);
                tsg.put_off(now_ns());
                if self.queue.push_anew(id, tsg) {
                    gpu.pending += 1;
                }
            }
            Err(ENOENT) => {
                gpu.relent();
                self.counters.dead += 1;
                trace::slice_failed(step.gpu.0, id.0, slice, error);
                self.remove_tsg(id);
            }
            Err(_) => {
                gpu.relent();
                tsg.fail(error, now_ns());
                // A change that came meanwhile waits for the end of the rest, too.
                if tsg.queued.is_some() {
                    self.queue.push_anew(id, tsg);
                }
                gpu.errors += 1;
                self.counters.errors += 1;
                trace::slice_failed(step.gpu.0, id.0, slice, error);
                told::tell((&self.groups, &self.writer), Tidings::Error, id, tsg, error);
            }
        }
        Next::Go
    }

    /// True if somebody asked for the load of a GPU.
    pub(crate) fn wants_load(&self, id: gpu::Id) -> bool {
        self.gpus.get(&id).is_some_and(|gpu| gpu.load.wanted)
    }

    /// Takes in how busy a GPU is; `None` if it cannot be told now.
    pub(crate) fn set_load(&mut self, id: gpu::Id, load: Option<(u64, u64)>) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            match load {
                Some((busy_ns, elapsed_ns)) => gpu.load.update(busy_ns, elapsed_ns, now_ns()),
                None => gpu.load.wanted = false,
            }
        }
    }
}
