// SPDX-License-Identifier: GPL-2.0
//! GPUs and TSGs come and go.

use super::{
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
    queue::Queue,
    shares::Shares,
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
        cgroup::Cgroup,
        identity::Scope,
        time::now_ns,
        trace, //
    },
    policy::class::Effective,
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNode, //
};

impl Registry {
    /// An id for a GPU that is about to be added. Those of its levels follow.
    pub(crate) fn reserve_gpu_id(&mut self) -> gpu::Id {
        let id = self.new_id();
        self.last_id += levels::IDS;
        gpu::Id(id)
    }

    /// Adds a GPU.
    ///
    /// # Errors
    ///
    /// `EEXIST` the provider has one with this handle, `ENOSPC` [`gpu::MAX`] are there, `ENOMEM`.
    pub(crate) fn add_gpu(&mut self, id: gpu::Id, gpu: Gpu) -> Result {
        if self.find_gpu(gpu.provider, gpu.handle).is_some() {
            return Err(EEXIST);
        }
        if self.gpu_count >= gpu::MAX {
            return Err(ENOSPC);
        }
        self.gpus.try_create_and_insert(id, gpu, GFP_KERNEL)?;
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
            gpu.backoff.reset();
        }
    }

    /// Queues every TSG of a closed GPU that has to get its own settings back.
    pub(crate) fn queue_restore(&mut self, gpu: gpu::Id) {
        let mut after = None;
        while let Some((handle, id)) = self.next_tsg_of(gpu, after) {
            after = Some(handle);
            if let (Some(tsg), Some(gpu)) = (self.tsgs.get_mut(&id), self.gpus.get_mut(&gpu)) {
                tsg.want = None;
                tsg.disable = false;
                if tsg.is_changed() {
                    if self.queue.push(id, tsg) {
                        gpu.pending += 1;
                    }
                } else if self.queue.remove(tsg) {
                    gpu.pending -= 1;
                }
            }
        }
    }

    /// Removes some TSG of a GPU; false when there is none.
    pub(crate) fn remove_any_tsg(&mut self, gpu: gpu::Id) -> bool {
        self.next_tsg_of(gpu, None)
            .is_some_and(|(_, id)| self.remove_tsg(id))
    }

    /// Removes a GPU without TSGs. Drop the result without the lock.
    pub(crate) fn remove_gpu(&mut self, id: gpu::Id) -> Option<Gpu> {
        self.count_starts(id);
        let gpu = self.gpus.remove(&id)?;
        self.gpu_count -= 1;
        self.gpu_changes += 1;
        self.gone_levels.add(&gpu.levels);
        self.gone_requests.take_over(&gpu.requests.totals);
        trace::gpu_removed(id.0);
        self.tell_removed(id, &gpu);
        Some(gpu)
    }

    /// Adds a TSG and queues it for its worker.
    ///
    /// # Errors
    ///
    /// `ENODEV` no such GPU or it is closing, `EEXIST` the handle is in use, `ENOSPC`
    /// [`tsg::MAX_PER_GPU`] are there or the user has [`shares::MAX_PER_USER`] of them, `ENOMEM`;
    /// nothing has changed, but that the GPU knows of the last two.
    ///
    /// [`shares::MAX_PER_USER`]: super::shares::MAX_PER_USER
    pub(crate) fn add_tsg(
        &mut self,
        gpu_id: gpu::Id,
        description: tsg::Description,
    ) -> Result<tsg::Id> {
        let result = self.try_add_tsg(gpu_id, description);
        if let (Err(ENOSPC | ENOMEM), Some(gpu)) = (&result, self.gpus.get_mut(&gpu_id)) {
            gpu.turned_away = true;
            self.counters.tsgs_missed += 1;
            self.tell_state(gpu_id);
        }
        result
    }

    fn try_add_tsg(&mut self, gpu_id: gpu::Id, description: tsg::Description) -> Result<tsg::Id> {
        let gpu = self.gpus.get(&gpu_id).ok_or(ENODEV)?;
        if gpu.closing {
            return Err(ENODEV);
        }
        if self.handles.get(&(gpu_id, description.handle)).is_some() {
            return Err(EEXIST);
        }
        let uid = description.owner.uid;
        if gpu.tsgs >= tsg::MAX_PER_GPU || self.shares.is_used_up(gpu_id, uid) {
            return Err(ENOSPC);
        }
        let id = tsg::Id(self.last_id + 1);
        // Read under the lock: a move to another cgroup that comes later finds the TSG here.
        let chain = match Cgroup::of(&description.owner.process) {
            Some(cgroup) => cgroup.ancestry()?,
            None => KVec::new(),
        };
        let cgroup = chain.first().copied().unwrap_or(0);
        let process = Target::Process(description.owner.process.key());
        let thread = Target::Thread(description.owner.thread.key());
        // Everything is allocated before anything changes.
        let handle = RBTreeNode::new((gpu_id, description.handle), id, GFP_KERNEL)?;
        let user = RBTreeNode::new((uid, id), (), GFP_KERNEL)?;
        let share = Shares::reserve()?;
        let of_process = RBTreeNode::new((process, id), (), GFP_KERNEL)?;
        let of_thread = RBTreeNode::new((thread, id), (), GFP_KERNEL)?;
        let of_cgroup = RBTreeNode::new((Target::Cgroup(cgroup), id), (), GFP_KERNEL)?;
        // INVARIANT: (of `Tsg`) Not queued, so the node is at hand.
        let node = RBTreeNode::new(
            id,
            Tsg {
                gpu: gpu_id,
                handle: description.handle,
                traits: description.traits,
                owner: description.owner,
                cgroup,
                added_ns: now_ns(),
                effective: Effective::NONE,
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
                requests: None,
                failed: false,
                applied: 0,
                errors: 0,
                last_error: 0,
                meter: Meter::default(),
                queued: None,
                spare: Some(Queue::reserve()?),
            },
            GFP_KERNEL,
        )?;
        self.groups.hold(&chain)?;

        self.last_id = id.0;
        // INVARIANT: One entry per key.
        self.handles.insert(handle);
        self.users.insert(user);
        self.shares.take(gpu_id, uid, share);
        self.members.insert(of_process);
        self.members.insert(of_thread);
        if cgroup != 0 {
            self.members.insert(of_cgroup);
        }
        self.tsgs.insert(node);
        self.tsg_count += 1;
        self.counters.tsgs_added += 1;
        if let (Some(tsg), Some(gpu)) = (self.tsgs.get_mut(&id), self.gpus.get_mut(&gpu_id)) {
            trace::tsg_added(gpu_id.0, id.0, tsg.owner.process.global_number());
            gpu.tsgs += 1;
            gpu.levels.count(None, |level| level.tsgs += 1);
            gpu.changed();
            let streams = (&mut self.streams, &self.groups);
            told::tell(streams, Tidings::Added, id, tsg, 0);
        }
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
        tsg.traits = traits;
        if let Some(gpu) = self.gpus.get_mut(&tsg.gpu) {
            gpu.changed();
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
        if let Some(tsg) = self.tsgs.get(&id) {
            self.count_starts(tsg.gpu);
        }
        let Some(mut tsg) = self.tsgs.remove(&id) else {
            return false;
        };
        if let Some(group) = tsg.requests.take() {
            group.end();
        }
        self.assignments
            .count_tsg(tsg.effective.origin.assignment, false);
        if let Some(assignment) = self.assignments.take(Target::Tsg(id)) {
            self.count_expired(Target::Tsg(id), id.0, assignment);
        }
        // While the cgroup is still known.
        let streams = (&mut self.streams, &self.groups);
        told::tell(streams, Tidings::Removed, id, &tsg, 0);
        self.handles.remove(&(tsg.gpu, tsg.handle));
        self.users.remove(&(tsg.owner.uid, id));
        self.shares.give_back(tsg.gpu, tsg.owner.uid);
        self.members
            .remove(&(Target::Process(tsg.owner.process.key()), id));
        self.members
            .remove(&(Target::Thread(tsg.owner.thread.key()), id));
        if tsg.cgroup != 0 {
            self.members.remove(&(Target::Cgroup(tsg.cgroup), id));
            self.groups.release(tsg.cgroup);
        }
        let was_queued = self.queue.remove(&mut tsg);
        if let Some(gpu) = self.gpus.get_mut(&tsg.gpu) {
            gpu.tsgs -= 1;
            let level = tsg.effective.level;
            gpu.levels.count(level, |level| level.tsgs -= 1);
            gpu.changed();
            gpu.pending -= u32::from(was_queued);
            if gpu.pending == 0 && !gpu.suspended {
                // No TSG is left to show that the GPU is back.
                gpu.retrying = false;
                gpu.requests.set_suspended(false);
                gpu.backoff.reset();
            }
        }
        self.tsg_count -= 1;
        self.counters.tsgs_removed += 1;
        trace::tsg_removed(tsg.gpu.0, id.0, tsg.owner.process.global_number());
        self.tell_state(tsg.gpu);
        true
    }

    /// Looks whether the owners of up to `most` TSGs from `from` on moved to another cgroup.
    ///
    /// Returns where to go on, or `None` at the end.
    pub(crate) fn follow_cgroups(&mut self, from: tsg::Id, most: usize) -> Result<Option<tsg::Id>> {
        let mut from = from;
        for _ in 0..most {
            let Some(cursor) = self.tsgs.cursor_lower_bound(&from) else {
                return Ok(None);
            };
            let (&id, tsg) = cursor.current();
            from = id.after();
            let Some(cgroup) = Cgroup::of(&tsg.owner.process) else {
                continue;
            };
            // A process that is about to be reaped keeps the cgroup that it had.
            if cgroup.id() == tsg.cgroup || !tsg.owner.process.is_alive(Scope::Process) {
                continue;
            }
            let (new, old) = (cgroup.id(), tsg.cgroup);
            let chain = cgroup.ancestry()?;
            let member = RBTreeNode::new((Target::Cgroup(new), id), (), GFP_KERNEL)?;
            self.groups.hold(&chain)?;
            self.members.insert(member);
            if old != 0 {
                self.members.remove(&(Target::Cgroup(old), id));
                self.groups.release(old);
            }
            if let Some(tsg) = self.tsgs.get_mut(&id) {
                tsg.cgroup = new;
            }
            self.reclass(id);
        }
        Ok(Some(from))
    }
}
