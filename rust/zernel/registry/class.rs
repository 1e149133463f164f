// SPDX-License-Identifier: GPL-2.0
//! Calls that set, clear and get the class of a target.

use super::{
    assignments::{
        Held,
        Keep,
        Target, //
    },
    tsg::{
        self,
        Tsg, //
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
        thread::Thread,
        time::now_ns,
        trace,
        watch::Armed, //
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
        tunables::settings::{
            Conditions,
            Why, //
        },
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
    fn target(&self) -> Target {
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

impl Registry {
    /// Changes the assignment of a target, at once for every TSG that it names.
    ///
    /// # Errors
    ///
    /// See `struct zernel_class_set`; nothing has changed then.
    pub(crate) fn change_class(
        &mut self,
        asker: Asker,
        mut named: Named,
        change: impl Into<Change>,
    ) -> Result<(), Failure> {
        let change = change.into();
        let (target, number) = (named.target().source() as u32, named.number());
        let result = self.try_change_class(asker, &mut named, change);
        let error = result.as_ref().err().map_or(0, |e| e.errno().to_errno());
        match result {
            Ok(false) => trace::class_cleared(target, number, -1, error),
            Err(_) if change.set == Default::default() => {
                trace::class_cleared(target, number, -1, error)
            }
            _ => trace::class_set(target, number, traced(change.set.level), error),
        }
        result.map(|_| ())
    }

    /// As above; tells whether there is an assignment now.
    fn try_change_class(
        &mut self,
        asker: Asker,
        named: &mut Named,
        change: Change,
    ) -> Result<bool, Failure> {
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
            return Ok(false);
        }
        if before.is_none() {
            if self.assignments.is_full() {
                return Err(Failure::TableFull);
            }
            grant.assignment.id = self.new_id();
        }
        let reaper = self.reaper.clone();
        let groups = &mut self.groups;
        let owner = match named {
            Named::Cgroup { cgroup, .. } => cgroup.as_ref().map(|(_, owner)| *owner),
            _ => None,
        };
        self.assignments
            .put(target, grant, asker.uid, now_ns(), || {
                let watch = |pid: &Pid, scope| match reaper {
                    Some(reaper) => Armed::new(pid.clone(), scope, reaper).map(Keep::Task),
                    None => Ok(Keep::Tsg),
                };
                match named {
                    Named::Tsg(_) => Ok(Keep::Tsg),
                    Named::Thread { thread, .. } => watch(thread, Scope::Thread),
                    Named::Process { process, .. } => watch(process, Scope::Process),
                    Named::Cgroup { cgroup, chain } => {
                        if cgroup.as_ref().is_some_and(|(cgroup, _)| cgroup.is_dead()) {
                            return Err(ESRCH);
                        }
                        groups.hold(chain)?;
                        let keep = |(cgroup, owner)| Keep::Cgroup(cgroup, owner);
                        Ok(cgroup.take().map_or(Keep::Tsg, keep))
                    }
                }
            })?;
        if let Some(owner) = owner {
            self.assignments.set_cgroup_owner(target, owner);
        }
        self.counters.classes_set += 1;
        if before == Some(grant) && matches!(target, Target::Cgroup(_)) {
            // A walk through everything below would find nothing.
            return Ok(true);
        }
        if let Target::Cgroup(id) = target {
            self.groups.assign(id, Some(grant.assignment));
        }
        self.refresh_target(target);
        Ok(true)
    }

    /// The class of a target. Assignments that `viewer` may not see are not named.
    ///
    /// # Errors
    ///
    /// `NotPermitted` another user's target without `CAP_PERFMON`, `NoTsg`.
    pub(crate) fn get_class(
        &self,
        asker: Asker,
        named: &Named,
        viewer: &Viewer,
    ) -> Result<Answer, Failure> {
        let caller = self.caller(asker, named)?;
        if !(caller.owner || caller.is_manager() || asker.perfmon) {
            return Err(Failure::NotPermitted);
        }
        let mut answer = self.answer(named);
        for origin in [
            &mut answer.level.origin,
            &mut answer.weight.origin,
            &mut answer.timeslice.origin,
        ] {
            let held = self.assignments.by_id(origin.assignment);
            if !held.is_some_and(|(target, held)| self.shows(target, held, viewer)) {
                origin.assignment = 0;
            }
        }
        Ok(answer)
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

    /// Ends the assignments of removed cgroups, looking at up to `most` from `from` on.
    ///
    /// Returns where to go on, or `None` at the end.
    pub(crate) fn expire_cgroups(&mut self, from: u64, most: usize) -> Option<u64> {
        let mut from = from;
        for _ in 0..most {
            let (id, dead) = self.assignments.cgroup_from(from)?;
            if dead {
                self.expire(Target::Cgroup(id), id);
            }
            from = id.checked_add(1)?;
        }
        Some(from)
    }

    fn drop_assignment(&mut self, target: Target) -> Option<Assignment> {
        let assignment = self.assignments.take(target)?;
        if let Target::Cgroup(id) = target {
            self.groups.assign(id, None);
        }
        self.refresh_target(target);
        if let Target::Cgroup(id) = target {
            self.groups.release(id);
        }
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

    fn answer(&self, named: &Named) -> Answer {
        let target = named.target();
        let own = self.assignments.get(target);
        let layers = self.layers_beneath(named).over(target.source(), own);
        let tsg = match named {
            Named::Tsg(id) => self.tsgs.get(id),
            _ => None,
        };
        let is_shared = tsg.is_some_and(|tsg| tsg.traits.shared);
        let effective = layers.effective(is_shared);
        let gpu = tsg.and_then(|tsg| self.gpus.get(&tsg.gpu));
        let on = gpu.map_or(Conditions::NONE, |gpu| gpu.conditions());
        let drivers = tsg.and_then(|tsg| tsg.original).map(|hw| hw.timeslice);
        let (slice, origin, why) = self.tunables.told_slice(effective, on, drivers);
        let (level, weight) = (layers.level(), layers.weight());
        let ignored = tsg.map_or(Layers::NONE, |tsg| self.ignored(tsg));
        let engine = |told: Why, layers: bool, own: bool| told.and(Why::ENGINE, layers && !own);
        let passed_over = |decided: bool| Why::default().and(Why::UNPRIVILEGED, decided);
        Answer {
            own,
            level: Told {
                value: effective.level,
                origin: effective.origin,
                why: engine(
                    passed_over(level.is_passed_over).and(
                        Why::SHARED,
                        is_shared && level.value.is_above(Level::DEFAULT),
                    ),
                    !ignored.level.is_none(),
                    own.is_some_and(|own| own.level.is_some()),
                ),
            },
            weight: Told {
                value: weight.value.number(),
                origin: weight.origin,
                why: engine(
                    passed_over(weight.is_passed_over),
                    !ignored.weight.is_none(),
                    own.is_some_and(|own| own.weight.is_some()),
                ),
            },
            timeslice: Told {
                value: slice.0,
                origin,
                why: engine(
                    why,
                    !ignored.timeslice.is_none() || !ignored.level.is_none(),
                    own.is_some_and(|own| own.timeslice.is_some() || own.level.is_some()),
                ),
            },
        }
    }

    /// The layers that would count for a TSG if it were on a compute engine.
    fn ignored(&self, tsg: &Tsg) -> Layers {
        match tsg.traits.compute {
            true => Layers::NONE,
            false => self.layers_of_owner(tsg),
        }
    }

    /// Counts a call that failed with `EPERM` or `EDQUOT`.
    pub(crate) fn count_denied(&mut self) {
        self.counters.denied += 1;
    }
}
