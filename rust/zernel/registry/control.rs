// SPDX-License-Identifier: GPL-2.0
//! Other changes of a TSG: by its owner through the driver, and by a GPU that forgets.

use super::{
    after::{
        OnGpu,
        Walk, //
    },
    gpu,
    tsg::{
        self,
        Tsg, //
    },
    turns::is_steered,
    Registry, //
};
use crate::{
    glue::{
        provider::{
            answer_number,
            change_of, //
        },
        trace, //
    },
    policy::{
        control::{
            pause,
            Change,
            Hold,
            Policy,
            Verdict, //
        },
        units::Ms, //
    },
};

impl Registry {
    /// Decides whether the owner of the TSG with this handle may change it through its driver.
    /// `what`: as the header numbers changes.
    pub(crate) fn judge_owner(&mut self, gpu: gpu::Id, handle: u64, what: u32) -> Verdict {
        let known = self.handles.get(&(gpu, handle)).copied();
        known
            .and_then(|id| self.judge_control(id, what))
            .unwrap_or_else(|| self.judge_unknown(gpu, what))
    }

    /// As [`Self::judge_owner`] for an unknown TSG: its settings cannot be put right.
    fn judge_unknown(&mut self, gpu: gpu::Id, what: u32) -> Verdict {
        let gpu_of = self.gpus.get(&gpu);
        // Nobody could put it right either.
        if gpu_of.is_some_and(|gpu| !gpu.tells.control) {
            return Verdict::Allow;
        }
        let turned_away = gpu_of.is_some_and(|gpu| gpu.turned_away);
        let verdict = self
            .tunables
            .user_control()
            .decide_unknown(change_of(what), turned_away);
        if verdict == Verdict::Deny {
            self.counters.controls_denied += 1;
            trace::tsg_user_control(gpu.0, 0, 0, what, answer_number(verdict));
        }
        verdict
    }

    /// As [`Self::judge_owner`]; `None` when there is no such TSG.
    pub(crate) fn judge_control(&mut self, id: tsg::Id, what: u32) -> Option<Verdict> {
        let tsg = self.tsgs.get_mut(&id)?;
        let change = change_of(what);
        let hold = Hold {
            set: tsg.is_held(),
            steered: is_steered(&self.tunables, &self.gpus, tsg),
            parked: tsg.disable,
        };
        let mut verdict = self.tunables.user_control().decide(change, hold);
        if self
            .gpus
            .get(&tsg.gpu)
            .is_some_and(|gpu| !gpu.tells.control)
        {
            verdict = verdict.afterwards();
        }
        match verdict {
            Verdict::Deny => self.counters.controls_denied += 1,
            Verdict::Reapply => self.counters.controls_reapplied += 1,
            Verdict::Allow => tsg.loose |= change == Change::Setting,
            Verdict::Watch => {}
        }
        if (hold.set || hold.parked) && verdict != Verdict::Watch {
            let pid = tsg.owner.process.global_number();
            trace::tsg_user_control(tsg.gpu.0, id.0, pid, what, answer_number(verdict));
        }
        Some(verdict)
    }

    /// Has the worker set the settings of a TSG once more: the owner may have set anything. Where
    /// owners may, their setting stays, however late it came.
    pub(crate) fn doubt_tsg(&mut self, id: tsg::Id) {
        if self.tunables.user_control() != Policy::Allow {
            self.doubt(id, Tsg::is_held);
        } else if let Some(tsg) = self.tsgs.get_mut(&id) {
            tsg.loose = true;
        }
    }

    /// Has the worker let a TSG be scheduled, or not, once more: the owner may have done either.
    /// That of one without a part in turns or exclusion is the owner's until it has. Returns for how
    /// long the owner is to wait.
    pub(crate) fn doubt_schedule(&mut self, id: tsg::Id) -> Ms {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return Ms(0);
        };
        if !is_steered(&self.tunables, &self.gpus, tsg) {
            tsg.sway.own = true;
            return Ms(0);
        }
        tsg.sway.count = tsg.sway.count.saturating_add(1);
        tsg.was_swayed();
        let pause = pause(tsg.sway.count);
        self.queue_step(id);
        pause
    }

    /// Has the worker let a TSG be scheduled that zernel steers from now on, and that its owner may
    /// have stopped before.
    pub(super) fn take_over(&mut self, id: tsg::Id) {
        let tsg = self.tsgs.get(&id).filter(|tsg| tsg.sway.own);
        if tsg.is_some_and(|tsg| is_steered(&self.tunables, &self.gpus, tsg)) {
            self.queue_step(id);
        }
    }

    fn queue_step(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        let Some(gpu) = self.gpus.get_mut(&tsg.gpu).filter(|gpu| !gpu.closing) else {
            return;
        };
        if self.queue.push(id, tsg) {
            gpu.pending += 1;
        }
        gpu.kick();
    }

    /// Has the worker set the settings of all TSGs of a GPU once more, without waiting.
    pub(crate) fn doubt_gpu(&mut self, gpu: gpu::Id) {
        if let Some(woken) = self.gpus.get_mut(&gpu) {
            woken.wake();
        }
        self.tell_state(gpu);
        self.trust_again(gpu);
        self.walk(Walk::Gpu(gpu, None, OnGpu::Doubt));
    }

    /// As [`Self::doubt`], for a TSG of a GPU that was away: a change that failed may go better now.
    pub(super) fn doubt_anew(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        tsg.recover();
        // So may taking turns.
        self.news.add(id, tsg);
        if let (true, Some(gpu)) = (self.queue.remove(tsg), self.gpus.get_mut(&tsg.gpu)) {
            gpu.pending -= 1;
        }
        // It may accept a restore, too, that it refused before.
        self.doubt(id, |tsg| tsg.want.is_some() || tsg.is_changed());
    }

    /// Has the worker set the settings of a TSG once more, if it `concerns` that.
    pub(super) fn doubt(&mut self, id: tsg::Id, concerns: impl FnOnce(&Tsg) -> bool) {
        let Some(tsg) = self.tsgs.get_mut(&id).filter(|tsg| concerns(tsg)) else {
            return;
        };
        tsg.sure = false;
        tsg.doubted = true;
        if tsg.disable || tsg.disabled != Some(false) {
            tsg.was_swayed();
        }
        let Some(gpu) = self.gpus.get_mut(&tsg.gpu).filter(|gpu| !gpu.closing) else {
            return;
        };
        tsg.failed = false;
        if self.queue.push(id, tsg) {
            gpu.pending += 1;
        }
        gpu.kick();
    }
}
