// SPDX-License-Identifier: GPL-2.0
//! Calls that set, clear and get the class of a target.

use super::{
    assignments::{
        self,
        Held,
        Keep,
        Target, //
    },
    groups,
    tsg,
    view::{
        TRIES,
        VIEW, //
    },
    Registry, //
};
use crate::{
    error::Failure,
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Scope,
            Uid,
            Viewer, //
        },
        rcu::Guard,
        thread::Thread,
        time::now_ns,
        trace,
        watch::Armed,
        work::Kick, //
    },
    policy::{
        attribute::{
            Origin,
            Source, //
        },
        class::{
            Assignment,
            Layers, //
        },
        level::Level,
        permit::{
            self,
            Caller,
            Change, //
        },
        tunables::settings::Why,
    },
};
use kernel::prelude::*;

/// The target of a call, with everything that decides its class. Cgroups are named by the ids from
/// the cgroup up to the root.
pub(crate) enum Named {
    /// A TSG.
    Tsg(tsg::Id),
    /// A thread.
    Thread {
        thread: Pid,
        process: Pid,
        chain: KVec<u64>,
    },
    /// A process.
    Process { process: Pid, chain: KVec<u64> },
    /// A cgroup, and the owner of its directory; only a new assignment needs them.
    Cgroup {
        cgroup: Option<(Cgroup, Uid)>,
        chain: KVec<u64>,
    },
}

impl Named {
    pub(super) fn target(&self) -> Target {
        match self {
            Self::Tsg(id) => Target::Tsg(*id),
            Self::Thread { thread, .. } => Target::Thread(thread.key()),
            Self::Process { process, .. } => Target::Process(process.key()),
            Self::Cgroup { chain, .. } => Target::Cgroup(chain.first().copied().unwrap_or(0)),
        }
    }

    /// A number for traces.
    fn number(&self) -> u64 {
        match self {
            Self::Tsg(id) => id.0,
            Self::Thread { thread: pid, .. } | Self::Process { process: pid, .. } => {
                pid.global_number() as u64
            }
            Self::Cgroup { chain, .. } => chain.first().copied().unwrap_or(0),
        }
    }
}

/// The caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Its effective user.
    pub(crate) uid: Uid,
    /// Its rights; `owner` is decided here for TSGs.
    pub(crate) caller: Caller,
    /// It may see other users' TSGs.
    pub(crate) perfmon: bool,
}

/// A value in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told<T> {
    /// The value.
    pub(crate) value: T,
    /// Its origin.
    pub(crate) origin: Origin,
    /// Reasons for which it is not that of the assignment that would decide it.
    pub(crate) why: Why,
}

/// The class of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The attributes that it was given itself.
    pub(crate) own: Option<Assignment>,
    /// The level in force.
    pub(crate) level: Told<Option<Level>>,
    /// The weight in force.
    pub(crate) weight: Told<u32>,
    /// The time slice in force, in µs; 0: the driver's own.
    pub(crate) timeslice: Told<u32>,
}

/// The number of a level in traces.
fn traced(level: Option<Level>) -> i32 {
    level.map_or(-1, |level| level.number() as i32)
}

/// Everything that a new assignment takes, made and dropped without the lock.
pub(crate) struct Memory {
    assignment: Option<assignments::Reservation>,
    nodes: groups::Reservation,
    keep: Option<Keep>,
}

impl Memory {
    /// For an assignment of this target; `reaper` is told of the end of a task.
    ///
    /// # Errors
    ///
    /// `ESRCH` the target is gone, `ENOMEM`.
    fn new(named: &mut Named, reaper: Option<Kick>) -> Result<Self> {
        let watch = |pid: &Pid, scope| match reaper {
            Some(reaper) => Armed::new(pid.clone(), scope, reaper).map(Keep::Task),
            None => Ok(Keep::Tsg),
        };
        let (keep, chain) = match named {
            Named::Tsg(_) => (Keep::Tsg, &[] as &[u64]),
            Named::Thread { thread, .. } => (watch(thread, Scope::Thread)?, &[] as &[u64]),
            Named::Process { process, .. } => (watch(process, Scope::Process)?, &[] as &[u64]),
            Named::Cgroup { cgroup, chain } => {
                let keep = |(cgroup, owner)| Keep::Cgroup(cgroup, owner);
                (cgroup.take().map_or(Keep::Tsg, keep), &chain[..])
            }
        };
        Ok(Self {
            assignment: Some(assignments::Reservation::new()?),
            nodes: groups::Reservation::new(chain)?,
            keep: Some(keep),
        })
    }
}

/// The outcome of a change.
pub(super) enum Changed {
    /// There is an assignment now, or none.
    To(bool),
    /// It takes memory. Nothing has changed. The end of a task is told to this one.
    TakesMemory(Option<Kick>),
}

/// Changes the assignment of a target, at once for everybody who asks. The TSGs that it names follow
/// before this returns, and are pending until then.
///
/// # Errors
///
/// See `struct zernel_class_set`; nothing has changed then.
pub(crate) fn change(asker: Asker, mut named: Named, change: Change) -> Result<(), Failure> {
    let mut memory = None;
    loop {
        let changed = super::with(|r| r.set_class(asker, &named, change, &mut memory))??;
        match changed {
            Changed::To(_) => return Ok(()),
            Changed::TakesMemory(reaper) => memory = Some(Memory::new(&mut named, reaper)?),
        }
    }
}

/// The class of a target. Assignments that `viewer` may not see are not named. Takes no lock, unless
/// classes change all the time.
///
/// # Errors
///
/// `NotPermitted` another user's target without `CAP_PERFMON`, `NoTsg`.
pub(crate) fn get(asker: Asker, named: &Named, viewer: &Viewer) -> Result<Answer, Failure> {
    for _ in 0..TRIES {
        let read =
            VIEW.with(|view, guard| view.read(guard, |classes| classes.get(asker, named, viewer)));
        if let Some(answer) = read.ok_or(ENODEV)? {
            return answer;
        }
    }
    super::with(|r| r.look(asker, named, viewer))?
}

impl Registry {
    /// As [`change`], but that TSGs are left to follow.
    ///
    /// # Errors
    ///
    /// See `struct zernel_class_set`; nothing has changed then.
    pub(super) fn set_class(
        &mut self,
        asker: Asker,
        named: &Named,
        change: Change,
        memory: &mut Option<Memory>,
    ) -> Result<Changed, Failure> {
        let (target, number) = (named.target().source() as u32, named.number());
        let result = self.try_set_class(asker, named, change, memory);
        let error = result.as_ref().err().map_or(0, |e| e.errno().to_errno());
        match result {
            Ok(Changed::TakesMemory(_)) => {}
            Ok(Changed::To(false)) => trace::class_cleared(target, number, -1, error),
            Err(_) if change.set == Default::default() => {
                trace::class_cleared(target, number, -1, error)
            }
            _ => trace::class_set(target, number, traced(change.set.level), error),
        }
        result
    }

    fn try_set_class(
        &mut self,
        asker: Asker,
        named: &Named,
        change: Change,
        memory: &mut Option<Memory>,
    ) -> Result<Changed, Failure> {
        let caller = self.caller(asker, named)?;
        let target = named.target();
        let raises = |level: Level| level.is_above(Level::DEFAULT);
        if change.set.level.is_some_and(raises)
            && matches!(named, Named::Tsg(id) if self.is_shared(*id))
        {
            return Err(Failure::SharedTsg);
        }
        let before = self.assignments.grant(target);
        let mut grant = permit::change(
            caller,
            change,
            before.map(|grant| grant.assignment),
            &self.layers_beneath(named),
            &self.tunables,
            self.assignments.quota(target, asker.uid),
        )?;
        if grant.assignment.is_empty() {
            // One that would be empty from the start was refused: there was nothing to clear.
            self.drop_assignment(target);
            self.counters.classes_cleared += 1;
            return Ok(Changed::To(false));
        }
        if before.is_none() && self.assignments.is_full() {
            return Err(Failure::TableFull);
        }
        if self.assignments.takes_memory(target, asker.uid) && memory.is_none() {
            return Ok(Changed::TakesMemory(self.reaper.clone()));
        }
        let keep = memory.as_ref().and_then(|memory| memory.keep.as_ref());
        let owner = match (named, keep) {
            (
                Named::Cgroup {
                    cgroup: Some((_, owner)),
                    ..
                },
                _,
            ) => Some(*owner),
            (_, Some(Keep::Cgroup(_, owner))) => Some(*owner),
            _ => None,
        };
        let mut shown = None;
        match before {
            Some(_) => {
                let memory = memory.as_mut().and_then(|memory| memory.assignment.take());
                let user = memory.map(assignments::Reservation::into_user);
                self.assignments
                    .change(target, grant, asker.uid, now_ns(), user);
            }
            None => {
                // Looked at with the lock: a reaper that learns of a later end finds the
                // assignment.
                if keep.is_none_or(Keep::is_over) {
                    return Err(ESRCH.into());
                }
                let memory = memory.as_mut().ok_or(ENOMEM)?;
                let (Some(assignment), Some(keep)) = (memory.assignment.take(), memory.keep.take())
                else {
                    return Err(ENOMEM.into());
                };
                grant.assignment.id = self.new_id();
                if let Named::Cgroup { chain, .. } = named {
                    let view = (&*self.view, &mut self.writer);
                    self.groups.hold(chain, &mut memory.nodes, view);
                }
                let made = (grant, asker.uid, now_ns());
                shown = Some(self.assignments.put(target, made, keep, assignment));
            }
        }
        if let Some(owner) = owner {
            self.assignments.set_cgroup_owner(target, owner);
        }
        if let Some(held) = self.assignments.held(target) {
            let shown_as = (held.made(), held.task());
            self.view.assign(target, shown_as, shown, &mut self.writer);
        }
        self.counters.classes_set += 1;
        if before == Some(grant) && matches!(target, Target::Cgroup(_)) {
            // A walk through everything below would find nothing.
            return Ok(Changed::To(true));
        }
        if let Target::Cgroup(id) = target {
            self.groups.assign(id, Some(grant.assignment));
        }
        self.refresh_target(target);
        Ok(Changed::To(true))
    }

    /// As [`change`], for tests without a lock.
    #[cfg(zernel_kunit)]
    pub(crate) fn change_class(
        &mut self,
        asker: Asker,
        mut named: Named,
        change: impl Into<Change>,
    ) -> Result<(), Failure> {
        let (change, mut memory) = (change.into(), None);
        loop {
            match self.set_class(asker, &named, change, &mut memory)? {
                Changed::To(_) => break,
                Changed::TakesMemory(reaper) => memory = Some(Memory::new(&mut named, reaper)?),
            }
        }
        self.settle();
        Ok(())
    }

    /// As [`get`], for tests without a lock.
    #[cfg(zernel_kunit)]
    pub(crate) fn get_class(
        &mut self,
        asker: Asker,
        named: &Named,
        viewer: &Viewer,
    ) -> Result<Answer, Failure> {
        self.show();
        self.look(asker, named, viewer)
    }

    /// As [`get`], with the lock: nobody changes anything meanwhile.
    fn look(&self, asker: Asker, named: &Named, viewer: &Viewer) -> Result<Answer, Failure> {
        let guard = Guard::new();
        let read = self
            .view
            .read(&guard, |classes| classes.get(asker, named, viewer));
        read.unwrap_or(Err(EAGAIN.into()))
    }

    /// True if an assignment is shown to `viewer`: its maker, the owner of its target, or a viewer
    /// of all.
    pub(crate) fn shows(&self, target: Target, held: &Held, viewer: &Viewer) -> bool {
        let owns = || match target {
            Target::Tsg(id) => self
                .tsgs
                .get(&id)
                .is_some_and(|tsg| tsg.owner.uid == viewer.uid()),
            Target::Cgroup(_) => held.cgroup_owner() == Some(viewer.uid()),
            Target::Process(_) | Target::Thread(_) => held
                .task()
                .and_then(Thread::of)
                .is_some_and(|task| task.is_of(viewer.uid())),
        };
        viewer.sees_all() || held.by() == viewer.uid() || owns()
    }

    /// All assignments.
    pub(crate) fn assignments(&self) -> &super::Assignments {
        &self.assignments
    }

    /// Ends the assignment of a target that is gone.
    pub(crate) fn expire(&mut self, target: Target, number: u64) {
        if let Some(assignment) = self.drop_assignment(target) {
            self.count_expired(target, number, assignment);
        }
    }

    /// An assignment ended with its target.
    pub(super) fn count_expired(&mut self, target: Target, number: u64, assignment: Assignment) {
        self.counters.classes_expired += 1;
        let level = assignment.level.map(|own| own.value());
        trace::class_expired(target.source() as u32, number, traced(level), 0);
    }

    /// Ends the assignment of the first cgroup from `from` on that has one, if it was removed.
    ///
    /// Returns where to go on, or `None` at the end.
    pub(crate) fn expire_cgroup(&mut self, from: u64) -> Option<u64> {
        let (id, dead) = self.assignments.cgroup_from(from)?;
        if dead {
            self.expire(Target::Cgroup(id), id);
        }
        id.checked_add(1)
    }

    fn drop_assignment(&mut self, target: Target) -> Option<Assignment> {
        let (assignment, keep) = self.assignments.take(target)?;
        self.view.unassign(target, &mut self.writer);
        self.after.drop_keep(keep);
        if let Target::Cgroup(id) = target {
            self.groups.assign(id, None);
        }
        if let Target::Cgroup(id) = target {
            self.groups.release(id, (&*self.view, &mut self.writer));
        }
        self.refresh_target(target);
        Some(assignment)
    }

    /// The rights of the asker, with the ownership of a TSG filled in.
    fn caller(&self, asker: Asker, named: &Named) -> Result<Caller, Failure> {
        let mut caller = asker.caller;
        if let Named::Tsg(id) = named {
            let tsg = self.tsgs.get(id).ok_or(Failure::NoTsg)?;
            caller.owner = tsg.owner.uid == asker.uid;
            // To a stranger it is as if it were not there.
            if !(caller.owner || caller.is_manager() || asker.perfmon) {
                return Err(Failure::NoTsg);
            }
        }
        Ok(caller)
    }

    /// The layers of a target without its own assignment.
    fn layers_beneath(&self, named: &Named) -> Layers {
        match named {
            Named::Tsg(id) => self
                .tsgs
                .get(id)
                .map_or(Layers::NONE, |tsg| self.beneath(tsg)),
            Named::Thread { process, chain, .. } => self.groups.layers(chain).over(
                Source::Process,
                self.assignments.get(Target::Process(process.key())),
            ),
            Named::Process { chain, .. } => self.groups.layers(chain),
            Named::Cgroup { chain, .. } => self.groups.layers_above(chain),
        }
    }

    fn is_shared(&self, id: tsg::Id) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| tsg.traits.shared)
    }

    /// Counts a call that failed with `EPERM` or `EDQUOT`.
    pub(crate) fn count_denied(&mut self) {
        self.counters.denied += 1;
    }
}
