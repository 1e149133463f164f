// SPDX-License-Identifier: GPL-2.0
//! GPUs and TSGs come and go.

mod moves;

use super::{
    after::{
        Gone,
        OnGpu,
        Walk, //
    },
    arrival::Arrival,
    assignments::Target,
    gpu::{
        self,
        Gpu, //
    },
    gpu_time::{
        Done,
        Meter, //
    },
    levels,
    place::Entry,
    reader,
    told::{
        self,
        Tidings, //
    },
    tsg::{
        self,
        Tsg, //
    },
    view::ForGpu,
    Registry, //
};
use crate::{
    glue::{
        cgroup::Cgroup,
        time::now_ns,
        trace, //
    },
    policy::class::Effective,
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation, //
};
pub(crate) use moves::follow_cgroup;

/// Removes a GPU without TSGs. Waits for its worker.
pub(crate) fn remove_gpu(id: gpu::Id) {
    // Without a registry there is nothing to remove.
    let Ok(gone) = super::with(|r| r.gone_requests.clone()) else {
        return;
    };
    let mut kept = gone.lock();
    let gpu = super::with(|r| r.take_gpu(id)).ok().flatten();
    if let Some(gpu) = &gpu {
        kept.take_over(&gpu.requests.totals);
    }
    drop(kept);
    // Dropped without locks: the worker goes with it.
    drop(gpu);
    reader::forget(id);
}

/// Tries to add a TSG whose process moves from cgroup to cgroup.
const TRIES: usize = 16;

/// Adds a TSG to the GPU that `find` names, and queues it for its worker.
///
/// # Errors
///
/// `ENODEV` no such GPU or it is closing, `EEXIST` the handle is in use, `ENOSPC`
/// [`tsg::MAX_PER_GPU`] are there or the user has [`shares::MAX_PER_USER`] of them, `ENOMEM` also
/// where its process moves from cgroup to cgroup without end; nothing has changed, but that the GPU
/// knows of the last two.
pub(crate) fn add_tsg(
    find: impl Fn(&Registry) -> Option<gpu::Id>,
    description: tsg::Description,
) -> Result {
    let mut arrival = Arrival::new(description);
    let mut result = Err(ENOMEM);
    for _ in 0..TRIES {
        result = match &mut arrival {
            Ok(arrival) => super::with(|r| r.take_in(find(r).ok_or(ENODEV)?, arrival))?,
            Err(_) => Err(ENOMEM),
        };
        if result != Err(EAGAIN) {
            break;
        }
        if arrival.as_mut().map(Arrival::look_up).is_err() {
            break;
        }
    }
    let result = result.map(|_| ()).map_err(|error| match error {
        EAGAIN => ENOMEM,
        error => error,
    });
    if let Err(ENOSPC | ENOMEM) = result {
        super::with(|r| {
            if let Some(gpu) = find(r) {
                r.turn_away(gpu);
            }
        })?;
    }
    result
}

impl Registry {
    /// A TSG of a GPU could not be added.
    pub(super) fn turn_away(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.turned_away = true;
            self.counters.tsgs_missed += 1;
            self.tell_state(id);
        }
    }

    /// An id for a GPU that is about to be added. Those of its levels follow.
    pub(crate) fn reserve_gpu_id(&mut self) -> gpu::Id {
        let id = self.new_id();
        self.last_id += levels::IDS;
        gpu::Id(id)
    }

    /// Adds a GPU, which is taken out of `gpu`.
    ///
    /// # Errors
    ///
    /// `EEXIST` the provider has one with this handle, `ENOSPC` [`gpu::MAX`] are there.
    pub(crate) fn take_in_gpu(
        &mut self,
        id: gpu::Id,
        gpu: &mut Option<Gpu>,
        memory: (RBTreeNodeReservation<gpu::Id, Gpu>, ForGpu),
    ) -> Result {
        let (provider, handle) = gpu
            .as_ref()
            .map(|gpu| (gpu.provider, gpu.handle))
            .ok_or(EINVAL)?;
        if self.find_gpu(provider, handle).is_some() {
            return Err(EEXIST);
        }
        if self.gpu_count >= gpu::MAX {
            return Err(ENOSPC);
        }
        if let Some(gpu) = gpu.take() {
            let shown = (id, gpu.conditions());
            self.view.add_gpu(shown, memory.1, &mut self.writer);
            self.gpus.insert(memory.0.into_node(id, gpu));
        }
        self.gpu_count += 1;
        self.gpu_changes += 1;
        trace::gpu_added(id.0);
        self.tell_added(id);
        Ok(())
    }

    /// The GPU of a provider with this handle. There are at most [`gpu::MAX`].
    pub(crate) fn find_gpu(&self, provider: u64, handle: gpu::Handle) -> Option<gpu::Id> {
        self.gpus
            .iter()
            .find(|(_, gpu)| gpu.provider == provider && gpu.handle == handle)
            .map(|(&id, _)| id)
    }

    /// The next GPU of a provider after `after`.
    pub(crate) fn next_gpu_of(&self, provider: u64, after: gpu::Id) -> Option<gpu::Id> {
        self.gpus
            .iter()
            .find(|(&id, gpu)| id > after && gpu.provider == provider)
            .map(|(&id, _)| id)
    }

    /// Lets nothing be queued for a GPU any more.
    pub(crate) fn close_gpu(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.closing = true;
            gpu.relent();
        }
    }

    /// Queues every TSG of a closed GPU that has to get its own settings back.
    pub(crate) fn queue_restore(&mut self, gpu: gpu::Id) {
        self.walk(Walk::Gpu(gpu, None, OnGpu::Restore));
    }

    /// Queues a TSG of a closed GPU if it has to get its own settings back.
    pub(super) fn restore(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        let Some(gpu) = self.gpus.get_mut(&tsg.gpu) else {
            return;
        };
        tsg.want = None;
        tsg.disable = false;
        self.schedule.update(id, tsg);
        if tsg.is_changed() {
            if self.queue.push(id, tsg) {
                gpu.pending += 1;
            }
        } else if self.queue.remove(tsg) {
            gpu.pending -= 1;
        }
    }

    /// Removes some TSG of a GPU; false when there is none.
    pub(crate) fn remove_any_tsg(&mut self, gpu: gpu::Id) -> bool {
        self.next_tsg_of(gpu, None)
            .is_some_and(|(_, id)| self.remove_tsg(id))
    }

    /// Removes a GPU without TSGs. The result is dropped without the lock.
    pub(super) fn take_gpu(&mut self, id: gpu::Id) -> Option<Gpu> {
        // It has none left but in a race with its provider.
        while self.count_starts(id) {}
        let gpu = self.gpus.remove(&id)?;
        self.view.remove_gpu(id, &mut self.writer);
        self.gpu_count -= 1;
        self.gpu_changes += 1;
        self.gone_levels.add(&gpu.levels);
        trace::gpu_removed(id.0);
        self.tell_removed(id, &gpu);
        Some(gpu)
    }

    /// Adds a TSG and queues it for its worker.
    ///
    /// # Errors
    ///
    /// As [`add_tsg`]; `EAGAIN` its process has moved to another cgroup.
    pub(super) fn take_in(&mut self, gpu_id: gpu::Id, arrival: &mut Arrival) -> Result<tsg::Id> {
        let gpu = self.gpus.get(&gpu_id).ok_or(ENODEV)?;
        if gpu.closing {
            return Err(ENODEV);
        }
        let description = arrival.description.as_ref().ok_or(EINVAL)?;
        if self.handles.get(&(gpu_id, description.handle)).is_some() {
            return Err(EEXIST);
        }
        let uid = description.owner.uid;
        if gpu.tsgs >= tsg::MAX_PER_GPU || self.shares.is_used_up(gpu_id, uid) {
            return Err(ENOSPC);
        }
        // Read with the lock: a move to another cgroup that comes later finds the TSG here.
        let cgroup = Cgroup::of(&description.owner.process).map_or(0, |own| own.counted_id());
        if cgroup != arrival.chain.first().copied().unwrap_or(0) {
            return Err(EAGAIN);
        }
        let (Some(memory), Some(description)) = (arrival.memory.take(), arrival.description.take())
        else {
            return Err(EINVAL);
        };
        let id = tsg::Id(self.new_id());
        let view = (&*self.view, &mut self.writer);
        self.groups.hold(&arrival.chain, &mut arrival.nodes, view);
        let process = Target::Process(description.owner.process.key());
        let thread = Target::Thread(description.owner.thread.key());
        // INVARIANT: One entry per key.
        self.handles
            .insert(memory.handle.into_node((gpu_id, description.handle), id));
        self.users.insert(memory.user.into_node((uid, id), ()));
        self.shares.take(gpu_id, uid, memory.share);
        let [of_process, of_thread, of_cgroup] = memory.members;
        self.members.insert(of_process.into_node((process, id), ()));
        self.members.insert(of_thread.into_node((thread, id), ()));
        if cgroup != 0 {
            let member = of_cgroup.into_node((Target::Cgroup(cgroup), id), ());
            self.members.insert(member);
        }
        // INVARIANT: (of `Tsg`) Not queued, so the node is at hand.
        let new = Tsg {
            gpu: gpu_id,
            handle: description.handle,
            traits: description.traits,
            owner: description.owner,
            cgroup,
            added_ns: now_ns(),
            effective: Effective::NONE,
            slice: None,
            yields: false,
            want: None,
            original: None,
            current: None,
            sure: false,
            doubted: false,
            loose: false,
            busy: false,
            managed: false,
            disable: false,
            excluded: false,
            disabled: Some(false),
            sway: tsg::Sway::default(),
            requests: None,
            failed: false,
            backoff: None,
            rests_until: 0,
            applied: 0,
            errors: 0,
            last_error: 0,
            meter: Meter::default(),
            queued: None,
            spare: Some(memory.place),
            in_news: Entry::new(memory.in_news),
            is_told: false,
            in_schedule: Entry::new(memory.in_schedule),
            shown: memory.shown.clone(),
        };
        self.tsgs.insert(memory.tsg.into_node(id, new));
        self.view
            .add_tsg(id, memory.shown, memory.in_view, &mut self.writer);
        self.tsg_count += 1;
        self.counters.tsgs_added += 1;
        if let (Some(tsg), Some(gpu)) = (self.tsgs.get_mut(&id), self.gpus.get_mut(&gpu_id)) {
            trace::tsg_added(gpu_id.0, id.0, tsg.owner.process.global_number());
            gpu.tsgs += 1;
            gpu.levels.count(None, |level| level.tsgs += 1);
            self.news.add(id, tsg);
            self.schedule.update(id, tsg);
            told::tell((&self.groups, &self.writer), Tidings::Added, id, tsg, 0);
        }
        self.see_again(gpu_id);
        self.track_owner(id);
        self.refresh(id);
        if let (Some(tsg), Some(gpu)) = (self.tsgs.get_mut(&id), self.gpus.get_mut(&gpu_id)) {
            // Queued even without a class: the worker reads the driver's settings.
            if self.queue.push(id, tsg) {
                gpu.pending += 1;
            }
            gpu.kick();
        }
        Ok(id)
    }

    /// The TSG with this handle on the GPU of a provider with that one.
    pub(crate) fn find(&self, provider: u64, gpu: gpu::Handle, handle: u64) -> Option<tsg::Id> {
        let gpu = self.find_gpu(provider, gpu)?;
        self.handles.get(&(gpu, handle)).copied()
    }

    /// Takes over a new description of a TSG; the worker follows a change of the class in force.
    pub(crate) fn change_tsg(&mut self, id: tsg::Id, traits: tsg::Traits) {
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        if tsg.traits == traits {
            return;
        }
        let has_more = traits.channels > tsg.traits.channels;
        let is_converted = traits.compute != tsg.traits.compute;
        tsg.describe(traits);
        self.news.add(id, tsg);
        self.schedule.update(id, tsg);
        if let Some(gpu) = self.gpus.get(&tsg.gpu) {
            gpu.kick();
        }
        trace::tsg_changed(tsg.gpu.0, id.0, tsg.owner.process.global_number());
        if is_converted {
            self.conversions = self.conversions.wrapping_add(1);
            self.track_owner(id);
        }
        if has_more {
            // A channel that is added to a TSG that is disabled is not.
            self.doubt(id, |tsg| tsg.disable || tsg.disabled != Some(false));
        }
        self.reclass(id);
    }

    /// Removes a TSG as [`Self::remove_tsg`] does, after its provider has reported its last load.
    pub(crate) fn end_tsg(&mut self, id: tsg::Id, done: Option<Done>) {
        if let (Some(tsg), Some(done)) = (self.tsgs.get(&id), done) {
            self.take_done(tsg.gpu, tsg.handle, done);
        }
        self.remove_tsg(id);
    }

    /// Removes a TSG and everything that names it; false when there is none.
    pub(crate) fn remove_tsg(&mut self, id: tsg::Id) -> bool {
        let Some(gpu_id) = self.tsgs.get(&id).map(|tsg| tsg.gpu) else {
            return false;
        };
        self.count_starts(gpu_id);
        if let Some((assignment, _)) = self.assignments.take(Target::Tsg(id)) {
            self.count_expired(Target::Tsg(id), id.0, assignment);
        }
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return false;
        };
        let group = tsg.requests.take();
        if let Some(group) = &group {
            // None begins from now on. Those under way end without the lock.
            group.close();
        }
        self.assignments
            .count_tsg(tsg.effective.origin.assignment, false);
        self.view.remove_tsg(id, &mut self.writer);
        // While the cgroup is still known.
        told::tell((&self.groups, &self.writer), Tidings::Removed, id, tsg, 0);
        self.handles.remove(&(gpu_id, tsg.handle));
        self.users.remove(&(tsg.owner.uid, id));
        self.shares.give_back(gpu_id, tsg.owner.uid);
        self.members
            .remove(&(Target::Process(tsg.owner.process.key()), id));
        self.members
            .remove(&(Target::Thread(tsg.owner.thread.key()), id));
        if tsg.cgroup != 0 {
            self.members.remove(&(Target::Cgroup(tsg.cgroup), id));
            let view = (&*self.view, &mut self.writer);
            self.groups.release(tsg.cgroup, view);
        }
        let was_queued = self.queue.remove(tsg);
        self.news.remove(id, tsg);
        self.schedule.remove(tsg);
        if let Some(gpu) = self.gpus.get_mut(&gpu_id) {
            gpu.tsgs -= 1;
            let level = tsg.effective.level;
            gpu.levels.count(level, |level| level.tsgs -= 1);
            gpu.kick();
            gpu.pending -= u32::from(was_queued);
            if gpu.pending == 0 && !gpu.suspended {
                // No TSG is left to show that the GPU is back.
                gpu.retrying = false;
                gpu.requests.set_suspended(false);
                gpu.relent();
            }
        }
        trace::tsg_removed(gpu_id.0, id.0, tsg.owner.process.global_number());
        self.tsg_count -= 1;
        self.counters.tsgs_removed += 1;
        if let Some(node) = self.tsgs.remove_node(&id) {
            self.after.drop_tsg(Gone::new(node), group);
        }
        self.tell_state(gpu_id);
        true
    }
}
