// SPDX-License-Identifier: GPL-2.0
//! Best-effort TSGs take turns: carries out decisions of
//! [`policy::rotation`](crate::policy::rotation), from the worker of a GPU.

use super::{
    activity::{
        Activity,
        Looker,
        Walk, //
    },
    calls::Calls,
    members::Members, //
};
use crate::{
    glue::{
        provider::Ops,
        time::now_ns, //
    },
    policy::{
        poll::Poll,
        rotation::turn::{
            Action,
            Outcome,
            Turn, //
        },
        tunables::turns::Turns,
        units::{
            Ms,
            Ns, //
        },
    },
    registry::plan::{
        turns::Candidate,
        Change, //
    },
    request::device::Device, //
};
use kernel::prelude::*;

/// The rotation of a run list.
struct List {
    runlist: u32,
    /// TSGs in it.
    count: usize,
    turn: Turn,
    /// The TSG that was disabled last: it may have run a little longer than the call took.
    last: Option<usize>,
}

/// The rotations of a GPU.
pub(crate) struct Rotation {
    members: Members,
    lists: KVec<List>,
    /// The list that is asked first: calls for one keep no other from its turns.
    first: usize,
    turns: Turns,
    walk: Walk,
    /// A TSG had something to run, since the last look at all began.
    is_busy: bool,
    /// The provider does not tell of activity.
    polled: bool,
    /// The look at all that is under way, where it does not.
    look: Option<Poll>,
    /// GPU time that was seen in turns, and when the last look at those that run began.
    ran: (Ns, Ns),
}

/// TSGs that are looked at together.
#[derive(Default)]
struct Batch {
    handles: [u64; Ops::LOADS],
    /// Their slots and run lists.
    places: [(usize, u32); Ops::LOADS],
    count: usize,
}

/// The next step.
pub(crate) enum Next {
    /// A TSG was enabled or disabled: look again.
    Called,
    /// Something is still to be looked at: look again.
    Again,
    /// The provider cannot be called now: come back after a delay.
    Wait(Ms),
    /// Look again at this time, or when something happens.
    At(Ns),
    /// Look again when something happens.
    Idle,
}

impl Rotation {
    /// Nobody takes turns. `polled`: the provider does not tell of activity.
    pub(crate) fn new(polled: bool) -> Self {
        Self {
            polled,
            members: Members::new(),
            lists: KVec::new(),
            first: 0,
            turns: Turns::new(),
            walk: Walk::new(Looker::Turns),
            is_busy: false,
            look: None,
            ran: (Ns::ZERO, Ns::ZERO),
        }
    }

    /// True if nobody takes turns.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// True if there are TSGs that wait for each other.
    pub(crate) fn has_rivals(&self) -> bool {
        self.turns.discipline().is_some() && self.lists.iter().any(|list| list.count > 1)
    }

    /// From one look at all TSGs to the next, where the provider reports no activity.
    pub(crate) fn interval(&self) -> Ns {
        Ns::from(self.turns.poll())
    }

    /// A look at all TSGs begins, but for some that wait for their turns.
    pub(crate) fn begin_look(&mut self, look: Poll) {
        self.is_busy = false;
        self.look = Some(look);
    }

    /// True if it is over.
    pub(crate) fn has_looked(&self, activity: &Activity) -> bool {
        self.walk.is_over(activity)
    }

    /// True if a TSG had something to run, since it began.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// GPU time that best-effort was seen to have, and by when; `None` where that is not the same for
    /// all: it takes no turns, or on several run lists.
    pub(crate) fn served(&self) -> Option<(Ns, Ns)> {
        let is_one = self.turns.discipline().is_some() && self.lists.len() == 1;
        is_one.then_some(self.ran)
    }

    /// Takes over the tunables.
    pub(crate) fn set_turns(&mut self, turns: &Turns) {
        self.turns = *turns;
        if self.polled {
            self.members.set_resolution(self.interval());
        }
        for list in &mut self.lists {
            let discipline = turns.discipline();
            let (members, quantum) = (&mut self.members, turns.quantum());
            list.turn
                .tune(members, discipline.unwrap_or_default(), quantum);
            list.turn.set_on(discipline.is_some());
        }
    }

    /// Takes over a TSG that has come, gone or changed. The registry enables one that takes no turns
    /// any more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; it takes no turns then.
    pub(crate) fn take(&mut self, change: &Change, activity: &Activity) -> Result {
        let known = self.members.find(change.handle);
        if let Some((slot, runlist)) = known {
            if let Some(candidate) = change.turns.filter(|now| now.runlist == runlist) {
                self.follow(slot, &candidate);
                return Ok(());
            }
            self.leave(slot, runlist);
        }
        match change.turns {
            Some(candidate) => self.join(&candidate, activity),
            None => Ok(()),
        }
    }

    fn join(&mut self, candidate: &Candidate, activity: &Activity) -> Result {
        let runlist = candidate.runlist;
        if !self.lists.iter().any(|list| list.runlist == runlist) {
            self.lists.reserve(1, GFP_KERNEL)?;
        }
        let slot = self.members.add(candidate)?;
        let known = self.lists.iter().position(|list| list.runlist == runlist);
        if known.is_none() {
            let discipline = self.turns.discipline();
            let mut turn = Turn::new(discipline.unwrap_or_default(), self.turns.quantum());
            turn.set_on(discipline.is_some());
            // There is room.
            let _ = self.lists.push_within_capacity(List {
                runlist,
                count: 0,
                turn,
                last: None,
            });
        }
        let at = known.unwrap_or(self.lists.len() - 1);
        if let Some(list) = self.lists.get_mut(at) {
            list.count += 1;
            list.turn.join(&mut self.members, slot);
            list.see_disabled(&mut self.members, slot, candidate.disabled);
        }
        activity.put(Looker::Turns, candidate.handle);
        Ok(())
    }

    fn follow(&mut self, slot: usize, now: &Candidate) {
        let Some(list) = self
            .lists
            .iter_mut()
            .find(|list| list.runlist == now.runlist)
        else {
            return;
        };
        list.see_disabled(&mut self.members, slot, now.disabled);
        list.turn.set_weight(&mut self.members, slot, now.weight);
        if self.members.is_in_slices(slot) {
            // Something has changed: it may go better now.
            list.turn.readmit(&mut self.members, slot);
        }
    }

    fn leave(&mut self, slot: usize, runlist: u32) {
        if let Some(list) = self.lists.iter_mut().find(|list| list.runlist == runlist) {
            list.turn.leave(&mut self.members, slot);
            list.last = list.last.filter(|&last| last != slot);
            list.count -= 1;
        }
        self.members.remove(slot);
        self.lists.retain(|list| list.count > 0);
    }

    /// Does one thing.
    pub(crate) fn step(
        &mut self,
        driver: &impl Calls,
        device: &Device,
        activity: &Activity,
    ) -> Next {
        if self.turns.discipline().is_none() {
            // The registry has everybody enabled.
            device.set_handing_over(false);
            return Next::Idle;
        }
        self.look(driver, activity);
        let mut at: Option<Ns> = None;
        let count = self.lists.len();
        let first = self.first.min(count);
        for place in Iterator::chain(first..count, 0..first) {
            let Some(list) = self.lists.get_mut(place) else {
                break;
            };
            let now = Ns(now_ns());
            list.turn.set_lc(device.is_lc_busy(), now);
            list.turn.announce_lc(device.announced());
            let (slot, enable) = match list.turn.next(&mut self.members, now) {
                Action::Enable(slot) => (slot, true),
                Action::Disable(slot) => (slot, false),
                Action::WaitUntil(due) => {
                    at = Some(at.map_or(due, |at| at.min(due)));
                    continue;
                }
                Action::Nothing => continue,
            };
            // Before the call: requests that begin during it count on its effect.
            self.tell_hand_overs(device);
            let Some(list) = self.lists.get_mut(place) else {
                break;
            };
            let next = list.switch(&mut self.members, driver, slot, enable);
            if !matches!(next, Next::Idle) {
                self.first = place + 1;
                return next;
            }
        }
        self.tell_hand_overs(device);
        match at {
            _ if !self.walk.is_over(activity) => Next::Again,
            Some(at) => Next::At(at),
            None => Next::Idle,
        }
    }

    /// Says whether the GPU goes from one TSG to another on some list.
    fn tell_hand_overs(&self, device: &Device) {
        let is_handing_over = |list: &List| list.turn.is_handing_over(&self.members);
        device.set_handing_over(self.lists.iter().any(is_handing_over));
    }

    /// Looks at the TSGs that run, first at those in their turns, and at some that were reported.
    fn look(&mut self, driver: &impl Calls, activity: &Activity) {
        let mut batch = Batch::default();
        self.ran.1 = Ns(now_ns());
        for at in 0..self.lists.len() {
            let Some(list) = self.lists.get(at) else {
                break;
            };
            let [first, second, third] = list.turn.running(&self.members);
            let looks = [first, second, third, list.last];
            for (n, slot) in looks.iter().enumerate() {
                let is_new = looks.get(..n).is_some_and(|before| !before.contains(slot));
                if let Some(slot) = slot.filter(|_| is_new) {
                    self.look_at(driver, &mut batch, slot);
                }
            }
        }
        self.walk.rest();
        while let Some((_, handle)) = self.walk.next(self.members.index(), activity) {
            let Some((slot, _)) = self.members.find(handle) else {
                continue;
            };
            let waits = self.members.waits(slot);
            match self.look.is_some_and(|look| !look.comes_to(slot, waits)) {
                true => self.is_busy = true,
                false => self.look_at(driver, &mut batch, slot),
            }
        }
        self.look_at_all(driver, &mut batch);
        if self.walk.is_over(activity) {
            self.look = None;
        }
    }

    /// Looks at a TSG, soon: together with others.
    fn look_at(&mut self, driver: &impl Calls, batch: &mut Batch, slot: usize) {
        let Some((handle, runlist)) = self.members.named(slot) else {
            return;
        };
        if batch.count == Ops::LOADS {
            self.look_at_all(driver, batch);
        }
        if let (Some(name), Some(place)) = (
            batch.handles.get_mut(batch.count),
            batch.places.get_mut(batch.count),
        ) {
            (*name, *place) = (handle, (slot, runlist));
            batch.count += 1;
        }
    }

    /// Looks at those of a batch. One that is gone is about to be removed.
    fn look_at_all(&mut self, driver: &impl Calls, batch: &mut Batch) {
        let handles = batch.handles.get(..batch.count).unwrap_or_default();
        if handles.is_empty() {
            return;
        }
        driver.loads(handles, |at, sample| {
            let Some(&(slot, runlist)) = batch.places.get(at) else {
                return;
            };
            self.is_busy |= sample.runnable;
            self.members.learn(slot, sample, Ns(now_ns()));
            if let Some(list) = self.lists.iter_mut().find(|list| list.runlist == runlist) {
                let ran = list.turn.observe(&mut self.members, slot, sample);
                self.ran.0 = self.ran.0.saturating_add(ran);
            }
        });
        batch.count = 0;
    }
}

impl List {
    /// Takes in the registry's knowledge: it is not only turns that enable and disable.
    fn see_disabled(&mut self, members: &mut Members, slot: usize, disabled: Option<bool>) {
        if let Some(disabled) = disabled {
            self.turn.set_enabled(members, slot, !disabled);
        }
    }

    fn switch(
        &mut self,
        members: &mut Members,
        driver: &impl Calls,
        slot: usize,
        enable: bool,
    ) -> Next {
        let id = members
            .id(slot)
            .filter(|&id| driver.will_enable(id, enable));
        let (outcome, next) = match id.zip(members.named(slot)) {
            Some((id, (handle, _))) => {
                let result = driver.set_enabled(handle, enable);
                let delay = driver.was_enabled(id, enable, result);
                match (result, delay) {
                    (Ok(()), _) => (Outcome::Done, Next::Called),
                    (Err(EAGAIN), Some(delay)) => (Outcome::Later, Next::Wait(delay)),
                    // Nobody is there any more, or somebody looks when that is known.
                    (Err(EAGAIN | ENOENT), _) => (Outcome::Later, Next::Idle),
                    (Err(_), _) => (Outcome::Failed, Next::Called),
                }
            }
            // News of the TSG kicks the worker.
            None => (Outcome::Later, Next::Idle),
        };
        if !enable {
            self.last = Some(slot);
        }
        self.turn.finished(members, Ns(now_ns()), outcome);
        next
    }
}
