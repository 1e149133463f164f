// SPDX-License-Identifier: GPL-2.0
//! Best-effort TSGs take turns: carries out decisions of
//! [`policy::rotation`](crate::policy::rotation), from the worker of a GPU.

use crate::{
    glue::{
        provider::Ops,
        time::now_ns, //
    },
    policy::{
        rotation::{
            entity::Entity,
            run_list::RunList,
            turn::{
                Action,
                Outcome,
                Turn, //
            },
        },
        tunables::turns::Turns,
        units::{
            Ms,
            Ns, //
        },
    },
    registry::{
        self,
        gpu,
        plan::turns::{
            Candidate,
            Setup, //
        },
        tsg,
        turns,
        Global, //
    },
    request::group::Device, //
};
use kernel::prelude::*;

/// A TSG that takes turns.
struct Member {
    id: tsg::Id,
    handle: u64,
    /// True if it was disabled, as far as known, at the last look at the TSGs that take turns.
    disabled: Option<bool>,
    entity: Entity,
}

impl Member {
    fn new(candidate: &Candidate) -> Self {
        Self {
            id: candidate.id,
            handle: candidate.handle,
            disabled: candidate.disabled,
            entity: Entity::new(candidate.weight),
        }
    }

    /// Takes in the registry's knowledge: it is not only turns that enable and disable.
    fn see_disabled(&mut self, disabled: Option<bool>) {
        if let Some(disabled) = disabled {
            self.entity.set_enabled(!disabled);
        }
    }
}

/// The TSGs of a run list, by the provider's number.
struct Members(KVec<Member>);

impl Members {
    fn find(&self, handle: u64) -> Option<usize> {
        self.0
            .binary_search_by_key(&handle, |member| member.handle)
            .ok()
    }
}

impl RunList for Members {
    type Id = u64;

    fn get(&self, handle: u64) -> Option<&Entity> {
        self.0.get(self.find(handle)?).map(|member| &member.entity)
    }

    fn get_mut(&mut self, handle: u64) -> Option<&mut Entity> {
        let at = self.find(handle)?;
        self.0.get_mut(at).map(|member| &mut member.entity)
    }

    fn each(&self, mut visit: impl FnMut(u64, &Entity)) {
        for member in &self.0 {
            visit(member.handle, &member.entity);
        }
    }
}

/// The rotation of a run list.
struct List {
    runlist: u32,
    members: Members,
    turn: Turn<u64>,
}

/// The rotations of a GPU.
pub(crate) struct Rotation {
    lists: KVec<List>,
    generation: u64,
}

/// The GPU, as the rotation needs it.
pub(crate) struct Driver<'a> {
    /// The operations.
    pub(crate) ops: &'a Ops,
    /// The GPU.
    pub(crate) gpu: gpu::Id,
    /// The provider's number of it.
    pub(crate) handle: gpu::Handle,
}

/// The next step.
pub(crate) enum Next {
    /// Something was changed: look again.
    Again,
    /// The provider cannot be called now: come back after a delay.
    Wait(Ms),
    /// Look again at this time, or when something happens.
    At(Ns),
    /// Look again when something happens.
    Idle,
}

impl Rotation {
    /// Nobody takes turns.
    pub(crate) fn new() -> Self {
        Self {
            lists: KVec::new(),
            generation: 0,
        }
    }

    /// True if nobody takes turns.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Does one thing.
    pub(crate) fn step(&mut self, driver: &Driver<'_>, device: &Device) -> Result<Next> {
        if let Some(setup) = turns::rotation_setup(&mut Global, driver.gpu, self.generation)? {
            self.set_up(setup)?;
        }
        let mut next = Next::Idle;
        let mut call = None;
        for (place, list) in self.lists.iter_mut().enumerate() {
            list.observe(driver);
            let now = Ns(now_ns());
            list.turn.set_lc(device.is_lc_busy(), now);
            list.turn.announce_lc(device.announced());
            match list.turn.next(&mut list.members, now) {
                Action::Enable(handle) => call = Some((place, handle, true)),
                Action::Disable(handle) => call = Some((place, handle, false)),
                Action::WaitUntil(at) => {
                    next = match next {
                        Next::At(earlier) => Next::At(earlier.min(at)),
                        _ => Next::At(at),
                    }
                }
                Action::Nothing => {}
            }
            if call.is_some() {
                break;
            }
        }
        // Before the call: requests that begin during it count on its effect.
        device.set_handing_over(self.lists.iter().any(List::is_handing_over));
        let list = call.and_then(|(place, ..)| self.lists.get_mut(place));
        Ok(match (list, call) {
            (Some(list), Some((_, handle, enable))) => list.switch(driver, handle, enable),
            _ => next,
        })
    }

    /// Takes over the TSGs that take turns. The registry enables those that do not any more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; everything is as before then.
    fn set_up(&mut self, setup: Setup) -> Result {
        let (discipline, quantum) = (setup.turns.discipline(), setup.turns.quantum());
        let mut lists = KVec::<List>::new();
        for candidate in &setup.candidates {
            let known = lists
                .iter()
                .position(|list| list.runlist == candidate.runlist);
            let at = match known {
                Some(at) => at,
                None => {
                    let list = List {
                        runlist: candidate.runlist,
                        members: Members(KVec::new()),
                        turn: Turn::new(discipline.unwrap_or_default(), quantum),
                    };
                    lists.push(list, GFP_KERNEL)?;
                    lists.len() - 1
                }
            };
            if let Some(list) = lists.get_mut(at) {
                list.members.0.push(Member::new(candidate), GFP_KERNEL)?;
            }
        }
        for list in &mut lists {
            let old = self
                .lists
                .iter_mut()
                .find(|old| old.runlist == list.runlist);
            list.inherit(old, &setup.turns);
            list.turn.set_on(discipline.is_some());
        }
        self.lists = lists;
        self.generation = setup.generation;
        Ok(())
    }
}

impl List {
    /// Takes over turn and accounts of the list that this one replaces.
    fn inherit(&mut self, old: Option<&mut Self>, turns: &Turns) {
        let Some(old) = old else {
            for member in &mut self.members.0 {
                self.turn.join(&mut member.entity);
                member.see_disabled(member.disabled);
            }
            return;
        };
        core::mem::swap(&mut self.turn, &mut old.turn);
        self.turn
            .tune(turns.discipline().unwrap_or_default(), turns.quantum());
        for member in &old.members.0 {
            if self.members.find(member.handle).is_none() {
                self.turn.leave(member.handle);
            }
        }
        for member in &mut self.members.0 {
            match old
                .members
                .find(member.handle)
                .and_then(|at| old.members.0.get_mut(at))
            {
                Some(known) => {
                    let (weight, disabled) = (member.entity.weight(), member.disabled);
                    core::mem::swap(member, known);
                    member.see_disabled(disabled);
                    self.turn.set_weight(&mut member.entity, weight);
                    if member.entity.is_in_slices() {
                        // Something has changed: it may go better now.
                        self.turn.readmit(&mut member.entity);
                    }
                }
                None => {
                    self.turn.join(&mut member.entity);
                    member.see_disabled(member.disabled);
                }
            }
        }
    }

    fn is_handing_over(&self) -> bool {
        self.turn.is_handing_over(&self.members)
    }

    /// Looks at every TSG, first at the one in its turn.
    fn observe(&mut self, driver: &Driver<'_>) {
        let current = self
            .turn
            .current()
            .and_then(|handle| self.members.find(handle));
        if let Some(at) = current {
            self.observe_one(driver, at);
        }
        for at in 0..self.members.0.len() {
            if Some(at) != current {
                self.observe_one(driver, at);
            }
        }
    }

    fn observe_one(&mut self, driver: &Driver<'_>, at: usize) {
        let Some(member) = self.members.0.get_mut(at) else {
            return;
        };
        // One that is gone is about to be removed.
        if let Ok(sample) = driver.ops.tsg_load(driver.handle, member.handle) {
            member.entity.learn(sample, Ns(now_ns()));
            let handle = member.handle;
            self.turn.observe(&mut self.members, handle, sample);
        }
    }

    fn switch(&mut self, driver: &Driver<'_>, handle: u64, enable: bool) -> Next {
        let id = self
            .members
            .find(handle)
            .and_then(|at| self.members.0.get(at))
            .map(|member| member.id);
        let may = |id: &tsg::Id| registry::with(|r| r.will_disable(*id, !enable)).unwrap_or(false);
        let (outcome, next) = match id.filter(may) {
            Some(id) => {
                let result = driver.ops.set_enabled(driver.handle, handle, enable);
                let delay = registry::with(|r| r.was_disabled(id, !enable, result));
                match (result, delay) {
                    (Ok(()), _) => (Outcome::Done, Next::Again),
                    (Err(EAGAIN), Ok(Some(delay))) => (Outcome::Later, Next::Wait(delay)),
                    // Nobody is there any more, or somebody looks when that is known.
                    (Err(EAGAIN | ENOENT), _) => (Outcome::Later, Next::Idle),
                    (Err(_), _) => (Outcome::Failed, Next::Again),
                }
            }
            // A change of the TSGs that take turns kicks the worker.
            None => (Outcome::Later, Next::Idle),
        };
        self.turn.finished(&mut self.members, Ns(now_ns()), outcome);
        next
    }
}
