// SPDX-License-Identifier: GPL-2.0
//! The registry: GPUs and TSGs, the class in force for each TSG, and the queues of the workers.
//!
//! # Locking
//!
//! One mutex protects all of it. Order: provider's locks → registry → ring of a stream. Nothing
//! that may wait for a provider or for user memory happens under it: workers take a [`pass::Step`],
//! drop the lock, call, and take the lock again; the device copies before and after.
//!
//! [`pass::Step`]: crate::worker::pass::Step

pub(crate) mod assignments;
pub(crate) mod class;
pub(crate) mod control;
mod counters;
pub(crate) mod gpu;
pub(crate) mod gpu_time;
pub(crate) mod groups;
pub(crate) mod levels;
pub(crate) mod metered;
pub(crate) mod meters;
mod place;
pub(crate) mod plan;
pub(crate) mod population;
pub(crate) mod queue;
pub(crate) mod requests;
pub(crate) mod shares;
pub(crate) mod sleep;
mod states;
pub(crate) mod step;
pub(crate) mod steps;
#[cfg(zernel_kunit)]
mod tests;
pub(crate) mod told;
pub(crate) mod tsg;
pub(crate) mod tuning;
pub(crate) mod turns;

use crate::{
    glue::{
        identity::{
            Uid,
            Viewer, //
        },
        lock,
        slots::PER_PAGE,
        time::now_ns,
        trace,
        work::{
            Kick,
            Worker, //
        }, //
    },
    ids::LEVEL_IDS,
    policy::{
        class::{
            Assignment,
            Effective,
            Layers,
            Source, //
        },
        tunables::Tunables, //
    },
    request::{
        boost::Boosts,
        keys::Keys,
        stats::Gone, //
    },
    stream::Streams,
    tracking::owners::Owners,
    tuned, //
};
use assignments::{
    Assignments,
    Target, //
};
pub(crate) use counters::Counters;
use gpu::Gpu;
use gpu_time::Levels;
use groups::Groups;
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::Arc, //
};
use queue::Queue;
use shares::Shares;
use told::Tidings;
use tsg::{
    Tsg,
    Want, //
};

/// The registry.
///
/// # Invariants
///
/// `handles`, `users` and `members` hold exactly one entry per TSG and key: its GPU and handle,
/// its user, its thread, its process and, if known, its cgroup (which is then a node of `groups`).
/// `shares` counts each once.
pub(crate) struct Registry {
    tunables: Tunables,
    counters: Counters,
    last_id: u64,
    gpus: RBTree<gpu::Id, Gpu>,
    gpu_count: u32,
    tsgs: RBTree<tsg::Id, Tsg>,
    tsg_count: u32,
    handles: RBTree<(gpu::Id, u64), tsg::Id>,
    users: RBTree<(Uid, tsg::Id), ()>,
    members: RBTree<(Target, tsg::Id), ()>,
    shares: Shares,
    assignments: Assignments,
    groups: Groups,
    queue: Queue,
    streams: Streams,
    /// TSGs that became compute TSGs, or ceased to be ones.
    conversions: u64,
    /// Pages of slots per user.
    pages: RBTree<Uid, u32>,
    keys: Keys,
    /// The counters of GPUs that are gone.
    gone_requests: Gone,
    gone_levels: Levels,
    /// Id of the first level of all GPUs together.
    first_level: u64,
    /// GPUs that have come and gone.
    gpu_changes: u64,
    /// When the module was loaded, in ns of `CLOCK_MONOTONIC`.
    loaded_at: u64,
    /// Clears up after tasks that exit; `None` in tests.
    reaper: Option<Kick>,
    /// Processes to track, and the job that does it; `None` in tests.
    owners: Option<(Arc<Owners>, Kick)>,
    /// Prefers threads of requests; `None` in tests.
    boosts: Option<Arc<Worker<Boosts>>>,
}

lock::global!(REGISTRY: KBox<Registry>);

/// Keeps the registry there; it is emptied when this is dropped.
pub(crate) struct Installed(());

impl Installed {
    /// Makes the registry usable; called once, when the module is loaded.
    pub(crate) fn new(
        reaper: Kick,
        owners: Arc<Owners>,
        boosts: Arc<Worker<Boosts>>,
    ) -> Result<Self> {
        let mut registry = Registry::new(now_ns() / 1000, Some(reaper.clone()))?;
        registry.owners = Some((owners, reaper));
        registry.boosts = Some(boosts);
        tuned::publish(&registry.tunables);
        let registry = KBox::new(registry, GFP_KERNEL)?;
        *lock().lock() = Some(registry);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let registry = lock().lock().take();
        // Dropped without the lock.
        drop(registry);
    }
}

/// Calls `f` with the registry locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn with<T>(f: impl FnOnce(&mut Registry) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let registry = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(registry))
}

impl Registry {
    /// An empty registry with ids from behind `last_id`.
    ///
    /// The time in µs is a good choice: ids are handed out more slowly than that, so that no id
    /// ever comes again when the module is loaded once more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(last_id: u64, reaper: Option<Kick>) -> Result<Self> {
        Ok(Self {
            tunables: Tunables::new(),
            counters: Counters::default(),
            last_id: last_id + LEVEL_IDS,
            gpus: RBTree::new(),
            gpu_count: 0,
            tsgs: RBTree::new(),
            tsg_count: 0,
            handles: RBTree::new(),
            users: RBTree::new(),
            members: RBTree::new(),
            shares: Shares::new(),
            assignments: Assignments::new(),
            groups: Groups::new(),
            queue: Queue::new(),
            streams: Streams::new(),
            conversions: 0,
            pages: RBTree::new(),
            keys: Keys::new(),
            gone_requests: Gone::new()?,
            gone_levels: Levels::default(),
            first_level: last_id + 1,
            gpu_changes: 0,
            loaded_at: now_ns(),
            reaper,
            owners: None,
            boosts: None,
        })
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// The counters.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// GPUs, TSGs and assignments now.
    pub(crate) fn population(&self) -> (u32, u32, u32) {
        (self.gpu_count, self.tsg_count, self.assignments.count())
    }

    /// When the module was loaded, in ns of `CLOCK_MONOTONIC`.
    pub(crate) fn loaded_at(&self) -> u64 {
        self.loaded_at
    }

    /// The tunables.
    pub(crate) fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    /// The streams of events.
    pub(crate) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// The first GPU with an id of at least `from`.
    pub(crate) fn gpu_from(&self, from: gpu::Id) -> Option<(gpu::Id, &Gpu)> {
        let cursor = self.gpus.cursor_lower_bound(&from)?;
        let (&id, _) = cursor.current();
        Some((id, self.gpus.get(&id)?))
    }

    /// The first TSG with an id of at least `from` that `viewer` may see.
    pub(crate) fn tsg_from(&self, from: tsg::Id, viewer: &Viewer) -> Option<(tsg::Id, &Tsg)> {
        let id = if viewer.sees_all() {
            let cursor = self.tsgs.cursor_lower_bound(&from)?;
            *cursor.current().0
        } else {
            let cursor = self.users.cursor_lower_bound(&(viewer.uid(), from))?;
            let (&(uid, id), ()) = cursor.current();
            if uid != viewer.uid() {
                return None;
            }
            id
        };
        Some((id, self.tsgs.get(&id)?))
    }

    /// A TSG.
    pub(crate) fn tsg(&self, id: tsg::Id) -> Option<&Tsg> {
        self.tsgs.get(&id)
    }

    /// The first TSG of a process or thread with an id of at least `from`.
    pub(crate) fn member_from(&self, target: Target, from: tsg::Id) -> Option<(tsg::Id, &Tsg)> {
        let cursor = self.members.cursor_lower_bound(&(target, from))?;
        let (&(owner, id), ()) = cursor.current();
        let is_member = owner == target;
        Some((id, self.tsgs.get(&id).filter(|_| is_member)?))
    }

    /// True if a TSG's process is in a cgroup or below it.
    pub(crate) fn is_in_cgroup(&self, tsg: &Tsg, top: u64) -> bool {
        self.groups.is_within(tsg.cgroup, top)
    }

    /// GPUs that have come and gone.
    pub(crate) fn gpu_changes(&self) -> u64 {
        self.gpu_changes
    }

    /// Slots that are allocated.
    pub(crate) fn slots(&self) -> u64 {
        let pages = self.pages.values().map(|&pages| u64::from(pages));
        pages.sum::<u64>() * PER_PAGE as u64
    }

    /// The TSG of a GPU with the first handle behind `after`, and that handle.
    fn next_tsg_of(&self, gpu: gpu::Id, after: Option<u64>) -> Option<(u64, tsg::Id)> {
        let from = match after {
            Some(handle) => handle.checked_add(1)?,
            None => 0,
        };
        let cursor = self.handles.cursor_lower_bound(&(gpu, from))?;
        let (&(owner, handle), &id) = cursor.current();
        (owner == gpu).then_some((handle, id))
    }

    /// A GPU.
    pub(crate) fn gpu(&self, id: gpu::Id) -> Option<&Gpu> {
        self.gpus.get(&id)
    }

    /// Asks the worker of a GPU how busy it is.
    pub(crate) fn want_load(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            if gpu.abilities.load && gpu.load.ask(now_ns()) {
                gpu.kick();
            }
        }
    }

    /// The class in force for a TSG with this assignment of its own.
    fn resolve(&self, tsg: &Tsg, own: Option<Assignment>) -> Effective {
        self.beneath(tsg)
            .over(Source::Tsg, own)
            .effective(tsg.traits.shared)
    }

    /// The layers of a TSG without its own assignment: only compute TSGs have any.
    fn beneath(&self, tsg: &Tsg) -> Layers {
        match tsg.traits.compute {
            true => self.layers_of_owner(tsg),
            false => Layers::NONE,
        }
    }

    /// The layers of the owner of a TSG.
    fn layers_of_owner(&self, tsg: &Tsg) -> Layers {
        let owner = &tsg.owner;
        let process = self.assignments.get(Target::Process(owner.process.key()));
        let thread = self.assignments.get(Target::Thread(owner.thread.key()));
        self.groups
            .layers(&[tsg.cgroup])
            .over(Source::Process, process)
            .over(Source::Thread, thread)
    }

    /// Brings a TSG in line with its assignments and the tunables.
    fn refresh(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get(&id) else {
            return;
        };
        let effective = self.resolve(tsg, self.assignments.get(Target::Tsg(id)));
        if tsg.requests.is_some() && tsg.effective.level != effective.level {
            // Waits of its requests until now count for the level that it had.
            self.count_starts(tsg.gpu);
        }
        let Some(tsg) = self.tsgs.get_mut(&id) else {
            return;
        };
        let Some(gpu) = self.gpus.get_mut(&tsg.gpu) else {
            return;
        };
        let before = core::mem::replace(&mut tsg.effective, effective);
        let is_moved = before.level != effective.level;
        if is_moved || before.weight != effective.weight {
            gpu.changed();
        }
        if before.origin.assignment != effective.origin.assignment {
            self.assignments.count_tsg(before.origin.assignment, false);
            self.assignments
                .count_tsg(effective.origin.assignment, true);
        }
        if is_moved || before.source() != effective.source() {
            gpu.levels.moved(before.level, effective.level);
            let level = effective.level.map_or(-1, |l| l.number() as i32);
            trace::class_changed(id.0, level, effective.source() as u32);
            if let Some(group) = &tsg.requests {
                group.set_level(effective.level);
            }
            let streams = (&mut self.streams, &self.groups);
            told::tell(streams, Tidings::Class, id, tsg, 0);
        }
        if gpu.closing {
            return;
        }
        let want = self
            .tunables
            .settings(effective, gpu.conditions())
            .map(|settings| Want::new(settings, gpu.abilities));
        if tsg.want != want || tsg.failed {
            // A TSG that only waits to be read for the first time has nothing to be replaced.
            let replaces = tsg.want.is_some() || tsg.managed;
            tsg.want = want;
            tsg.failed = false;
            if self.queue.push(id, tsg) {
                gpu.pending += 1;
            } else {
                self.counters.coalesced += u64::from(replaces);
            }
            gpu.kick();
        }
    }

    /// Brings a TSG in line if another class is in force for it now. Other news about it repeats no
    /// settings that the provider refused, for its owner decides the number of these.
    fn reclass(&mut self, id: tsg::Id) {
        let Some(tsg) = self.tsgs.get(&id) else {
            return;
        };
        if self.resolve(tsg, self.assignments.get(Target::Tsg(id))) != tsg.effective {
            self.refresh(id);
        }
    }

    /// Brings every TSG in line.
    fn refresh_all(&mut self) {
        let mut from = tsg::Id::FIRST;
        while let Some(cursor) = self.tsgs.cursor_lower_bound(&from) {
            let id = *cursor.current().0;
            self.refresh(id);
            from = id.after();
        }
    }

    /// Brings every TSG in line that a target names.
    fn refresh_target(&mut self, target: Target) {
        match target {
            Target::Tsg(id) => self.refresh(id),
            Target::Process(_) | Target::Thread(_) => self.refresh_members(target),
            Target::Cgroup(top) => {
                let mut next = Some(top);
                while let Some(id) = next {
                    let (changed, after) = self.groups.update(top, id);
                    if changed {
                        self.refresh_members(Target::Cgroup(id));
                    }
                    next = after;
                }
            }
        }
    }

    fn refresh_members(&mut self, target: Target) {
        let mut from = tsg::Id::FIRST;
        while let Some(cursor) = self.members.cursor_lower_bound(&(target, from)) {
            let (&(owner, id), ()) = cursor.current();
            if owner != target {
                return;
            }
            self.refresh(id);
            from = id.after();
        }
    }
}
