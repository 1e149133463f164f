// SPDX-License-Identifier: GPL-2.0
//! Other changes of a TSG's settings: by its owner through the driver, and by a GPU that forgets.

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
    Registry, //
};
use crate::{
    glue::{
        provider::answer_number,
        trace, //
    },
    policy::control::{
        Policy,
        Verdict, //
    },
};

impl Registry {
    /// Decides whether the owner of the TSG with this handle may change it through its driver.
    /// `what` is a number for traces.
    pub(crate) fn judge_owner(&mut self, gpu: gpu::Id, handle: u64, what: u32) -> Verdict {
        let known = self.handles.get(&(gpu, handle)).copied();
        known
            .and_then(|id| self.judge_control(id, what))
            .unwrap_or_else(|| self.judge_unknown(gpu, what))
    }

    /// As [`Self::judge_owner`] for an unknown TSG: its settings cannot be put right.
    fn judge_unknown(&mut self, gpu: gpu::Id, what: u32) -> Verdict {
        let turned_away = self.gpus.get(&gpu).is_some_and(|gpu| gpu.turned_away);
        let verdict = self.tunables.user_control().decide_unknown(turned_away);
        if verdict == Verdict::Deny {
            self.counters.controls_denied += 1;
            trace::tsg_user_control(gpu.0, 0, 0, what, answer_number(verdict));
        }
        verdict
    }

    /// As [`Self::judge_owner`]; `None` when there is no such TSG.
    pub(crate) fn judge_control(&mut self, id: tsg::Id, what: u32) -> Option<Verdict> {
        let tsg = self.tsgs.get_mut(&id)?;
        let held = tsg.is_held();
        let verdict = self.tunables.user_control().decide(held);
        match verdict {
            Verdict::Deny => self.counters.controls_denied += 1,
            Verdict::Reapply => self.counters.controls_reapplied += 1,
            Verdict::Allow => tsg.loose = true,
            Verdict::Watch => {}
        }
        if held {
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

    /// Has the worker set the settings of all TSGs of a GPU once more, without waiting.
    pub(crate) fn doubt_gpu(&mut self, gpu: gpu::Id) {
        if let Some(woken) = self.gpus.get_mut(&gpu) {
            woken.wake();
        }
        self.tell_state(gpu);
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
            tsg.disabled = None;
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
