// SPDX-License-Identifier: GPL-2.0
//! The registry: GPUs and TSGs, the class in force for each TSG, and the queues of the workers.
//!
//! # Locking
//!
//! One spinlock protects all of it. Order: provider's locks → registry → streams. It is
//! held for a short time that depends on no number of objects: walks go in pieces ([`after`]), and
//! memory is there before. Workers take a [`Step`], drop the lock, call their provider, and take the
//! lock again; the device copies before and after.
//!
//! [`Step`]: step::Step

pub(crate) mod after;
mod arrival;
pub(crate) mod assignments;
pub(crate) mod class;
pub(crate) mod control;
mod counters;
pub(crate) mod gpu;
pub(crate) mod gpu_time;
pub(crate) mod groups;
pub(crate) mod levels;
pub(crate) mod look;
pub(crate) mod metered;
pub(crate) mod meters;
pub(crate) mod news;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod population;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod requests;
pub(crate) mod schedule;
pub(crate) mod shares;
pub(crate) mod slack;
pub(crate) mod sleep;
mod states;
pub(crate) mod step;
pub(crate) mod steps;
mod target;
#[cfg(zernel_kunit)]
mod tests;
pub(crate) mod told;
pub(crate) mod tsg;
pub(crate) mod tuning;
pub(crate) mod turns;
pub(crate) mod view;
mod walks;
pub(crate) mod yielding;

use crate::{
    glue::{
        identity::{
            Uid,
            Viewer, //
        },
        lock,
        rcu::{
            Publication,
            Writer, //
        },
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
    stream,
    tracking::owners::Owners,
    tuned, //
};
use after::After;
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
use news::News;
use queue::Queue;
use schedule::Schedule;
use shares::Shares;
use told::Tidings;
use tsg::{
    Tsg,
    Tsgs,
    Want, //
};
use view::{
    View,
    VIEW, //
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
    tsgs: Tsgs,
    tsg_count: u32,
    handles: RBTree<(gpu::Id, u64), tsg::Id>,
    users: RBTree<(Uid, tsg::Id), ()>,
    members: RBTree<(Target, tsg::Id), ()>,
    shares: Shares,
    assignments: Assignments,
    groups: Groups,
    queue: Queue,
    news: News,
    schedule: Schedule,
    /// TSGs that became compute TSGs, or ceased to be ones.
    conversions: u64,
    keys: Keys,
    /// The counters of GPUs that are gone.
    gone_requests: Arc<Gone>,
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
    /// Left by changes, for [`with`].
    after: After,
    /// The part that is read without the lock.
    view: Arc<View>,
    writer: Writer,
}

lock::global!(REGISTRY: KBox<Registry>, SpinLock);

/// Lists of each table that is read without the lock, as a power of two.
const BITS: u32 = 14;

/// Keeps the registry there; it is emptied when this is dropped.
pub(crate) struct Installed(#[expect(dead_code, reason = "it is dropped")] Publication<View>);

impl Installed {
    /// Makes the registry usable; called once, when the module is loaded.
    pub(crate) fn new(
        reaper: Kick,
        owners: Arc<Owners>,
        boosts: Arc<Worker<Boosts>>,
    ) -> Result<Self> {
        let view = View::new(BITS)?;
        let mut registry = Registry::new(now_ns() / 1000, Some(reaper.clone()), view.clone())?;
        registry.owners = Some((owners, reaper));
        registry.boosts = Some(boosts);
        tuned::publish(&registry.tunables);
        *lock().lock() = Some(registry);
        Ok(Self(Publication::new(&VIEW, view)))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let registry = lock().lock().take();
        // Dropped without the lock.
        drop(registry);
    }
}

/// Calls `f` with the registry locked: it does not sleep, and its time is bounded. What it leaves is
/// done then, with the lock taken for short times.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
pub(crate) fn with<T>(f: impl FnOnce(&mut Registry) -> T) -> Result<T> {
    let (result, left) = locked(|registry| (f(registry), registry.after.take()))?;
    if let Some(left) = left {
        finish(left);
    }
    Ok(result)
}

fn locked<T>(f: impl FnOnce(&mut Registry) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let registry = guard.as_mut().ok_or(ENODEV)?;
    let result = f(registry);
    registry.show();
    let tickets = stream::tickets();
    drop(guard);
    stream::deliver(tickets);
    Ok(result)
}

fn finish(mut left: After) {
    loop {
        left.finish();
        // Without a registry there is nothing to bring in line.
        if !locked(|registry| registry.go_on(&mut left)).unwrap_or(false) {
            return;
        }
    }
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
    pub(crate) fn new(last_id: u64, reaper: Option<Kick>, view: Arc<View>) -> Result<KBox<Self>> {
        let gone_requests = Gone::new()?;
        let first_level = last_id + 1;
        // In place: it is too large for the stack of a thread.
        let registry = init!(Self {
            tunables: Tunables::new(),
            counters: Counters::default(),
            last_id: last_id + LEVEL_IDS,
            gpus: RBTree::new(),
            gpu_count: 0,
            tsgs: Tsgs::new(),
            tsg_count: 0,
            handles: RBTree::new(),
            users: RBTree::new(),
            members: RBTree::new(),
            shares: Shares::new(),
            assignments: Assignments::new(),
            groups: Groups::new(),
            queue: Queue::new(),
            news: News::new(),
            schedule: Schedule::new(),
            conversions: 0,
            keys: Keys::new(),
            gone_requests,
            gone_levels: Levels::default(),
            first_level,
            gpu_changes: 0,
            loaded_at: now_ns(),
            reaper,
            owners: None,
            boosts: None,
            after: After::default(),
            view,
            writer: Writer::new(),
        });
        KBox::init(registry, GFP_KERNEL)
    }

    /// Shows changes of TSGs to those who read without the lock.
    fn show(&mut self) {
        self.tsgs.show(&self.writer);
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

    /// The first GPU with an id of at least `from`.
    pub(crate) fn gpu_from(&self, from: gpu::Id) -> Option<(gpu::Id, &Gpu)> {
        let cursor = self.gpus.cursor_lower_bound(&from)?;
        let (&id, _) = cursor.current();
        Some((id, self.gpus.get(&id)?))
    }

    /// The first TSG with an id of at least `from` that `viewer` may see.
    pub(crate) fn tsg_from(&self, from: tsg::Id, viewer: &Viewer) -> Option<(tsg::Id, &Tsg)> {
        let id = if viewer.sees_all() {
            self.tsg_id(from)?
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
        let id = self.member_id(target, from)?;
        Some((id, self.tsgs.get(&id)?))
    }

    /// True if a TSG's process is in a cgroup or below it.
    pub(crate) fn is_in_cgroup(&self, tsg: &Tsg, top: u64) -> bool {
        self.groups.is_within(tsg.cgroup, top)
    }

    /// GPUs that have come and gone.
    pub(crate) fn gpu_changes(&self) -> u64 {
        self.gpu_changes
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

    /// The layers of a TSG without its own assignment.
    fn beneath(&self, tsg: &Tsg) -> Layers {
        match tsg.traits.follows_owner(&self.tunables.meaning()) {
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
        if is_moved || before.weight != effective.weight || before.may_keep != effective.may_keep {
            self.news.add(id, tsg);
            self.schedule.update(id, tsg);
            gpu.kick();
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
            told::tell((&self.groups, &self.writer), Tidings::Class, id, tsg, 0);
        }
        if gpu.closing {
            return;
        }
        let on = gpu.conditions().of(tsg.own_conditions());
        let want = self
            .tunables
            .settings(effective, on)
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

    /// True if another class is in force for a TSG than it has been brought in line with.
    pub(crate) fn is_to_follow(&self, id: tsg::Id) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| {
            self.resolve(tsg, self.assignments.get(Target::Tsg(id))) != tsg.effective
        })
    }

    /// Brings a TSG in line if another class is in force for it now. Other news about it repeats no
    /// settings that the provider refused, for its owner decides the number of these.
    fn reclass(&mut self, id: tsg::Id) {
        if self.is_to_follow(id) {
            self.refresh(id);
        }
    }
}
