// SPDX-License-Identifier: GPL-2.0
//! Requests to set, get and clear a class.

use super::{
    assignments::{
        Keep,
        Target, //
    },
    tsg,
    Registry, //
};
use crate::{
    error::Failure,
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Scope,
            Uid, //
        },
        trace,
        watch::Armed, //
    },
    policy::{
        class::{
            Assignment,
            Effective,
            Source, //
        },
        level::Level,
        permit::{
            self,
            Caller,
            Wish, //
        },
    },
};
use kernel::prelude::*;

/// The target of a request, with everything that decides its class. Cgroups are named by the ids
/// from the cgroup up to the root.
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
    /// A cgroup; only a new assignment needs `cgroup` itself.
    Cgroup {
        cgroup: Option<Cgroup>,
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

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Its effective user.
    pub(crate) uid: Uid,
    /// What the kernel says about it; `owner` is decided here for TSGs.
    pub(crate) caller: Caller,
    /// It may see other users' TSGs.
    pub(crate) perfmon: bool,
}

/// The class of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// What it was given itself.
    pub(crate) own: Option<Assignment>,
    /// What is in force.
    pub(crate) effective: Effective,
}

impl Registry {
    /// Gives a target a class, at once for every TSG that it names.
    ///
    /// # Errors
    ///
    /// See `struct zernel_v0_class`; nothing has changed then.
    pub(crate) fn set_class(
        &mut self,
        asker: Asker,
        mut named: Named,
        wish: impl Into<Wish>,
    ) -> Result<Answer, Failure> {
        let wish = wish.into();
        let level = wish.level;
        let result = self.try_set_class(asker, &mut named, wish);
        self.count_denied(&result);
        let error = result.as_ref().err().map_or(0, |e| e.errno().to_errno());
        trace::class_set(
            named.target().source() as u32,
            named.number(),
            level.number() as i32,
            error,
        );
        result
    }

    fn try_set_class(
        &mut self,
        asker: Asker,
        named: &mut Named,
        wish: Wish,
    ) -> Result<Answer, Failure> {
        let level = wish.level;
        let caller = self.caller(asker, named)?;
        let target = named.target();
        let raises = level.is_above(Level::DEFAULT);
        if raises && matches!(named, Named::Tsg(id) if self.is_shared(*id)) {
            return Err(Failure::SharedTsg);
        }
        let quota = self
            .assignments
            .quota(target, asker.uid, self.tunables.lc_admission());
        let replaced = self.assignments.grant(target);
        let now = self.in_force(named, true);
        let grant = permit::set(caller, now, replaced, wish, quota)?;
        if replaced.is_none() && self.assignments.is_full() {
            return Err(Failure::TableFull);
        }
        if replaced == Some(grant) && matches!(target, Target::Cgroup(_)) {
            // Nothing that a walk through everything below would find.
            self.counters.classes_set += 1;
            return Ok(self.answer(named));
        }
        let reaper = self.reaper.clone();
        let groups = &mut self.groups;
        self.assignments.put(target, grant, asker.uid, || {
            let watch = |pid: &Pid, scope| match reaper {
                Some(reaper) => Armed::new(pid.clone(), scope, reaper).map(Keep::Task),
                None => Ok(Keep::Tsg),
            };
            match named {
                Named::Tsg(_) => Ok(Keep::Tsg),
                Named::Thread { thread, .. } => watch(thread, Scope::Thread),
                Named::Process { process, .. } => watch(process, Scope::Process),
                Named::Cgroup { cgroup, chain } => {
                    if cgroup.as_ref().is_some_and(Cgroup::is_dead) {
                        return Err(ESRCH);
                    }
                    groups.hold(chain)?;
                    Ok(cgroup.take().map_or(Keep::Tsg, Keep::Cgroup))
                }
            }
        })?;
        if let Target::Cgroup(id) = target {
            self.groups.assign(id, Some(grant.assignment));
        }
        self.counters.classes_set += 1;
        self.refresh_target(target);
        Ok(self.answer(named))
    }

    /// Takes the class of a target away.
    ///
    /// # Errors
    ///
    /// See `struct zernel_v0_class`; nothing has changed then.
    pub(crate) fn clear_class(&mut self, asker: Asker, named: &Named) -> Result<Answer, Failure> {
        let result = self.try_clear_class(asker, named);
        self.count_denied(&result);
        let error = result.as_ref().err().map_or(0, |e| e.errno().to_errno());
        trace::class_cleared(named.target().source() as u32, named.number(), -1, error);
        result
    }

    fn try_clear_class(&mut self, asker: Asker, named: &Named) -> Result<Answer, Failure> {
        let caller = self.caller(asker, named)?;
        let now = self.in_force(named, true);
        let Some(own) = self.assignments.get(named.target()) else {
            // Who may not even ask does not learn that there is nothing.
            permit::clear(caller, Assignment::NOTHING, now, now)?;
            return Err(Failure::NotAssigned);
        };
        permit::clear(caller, own, now, self.in_force(named, false))?;
        self.drop_assignment(named.target());
        self.counters.classes_cleared += 1;
        Ok(self.answer(named))
    }

    /// The class of a target.
    ///
    /// # Errors
    ///
    /// `NotPermitted` another user's target without `CAP_PERFMON`, `NoTsg`.
    pub(crate) fn get_class(&mut self, asker: Asker, named: &Named) -> Result<Answer, Failure> {
        let result = self.try_get_class(asker, named);
        self.count_denied(&result);
        result
    }

    fn try_get_class(&self, asker: Asker, named: &Named) -> Result<Answer, Failure> {
        let caller = self.caller(asker, named)?;
        if !(caller.owner || caller.capable || caller.member || asker.perfmon) {
            return Err(Failure::NotPermitted);
        }
        Ok(self.answer(named))
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
        trace::class_expired(
            target.source() as u32,
            number,
            assignment.level.number() as i32,
            0,
        );
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

    /// What the kernel says about the asker, with the ownership of a TSG filled in.
    fn caller(&self, asker: Asker, named: &Named) -> Result<Caller, Failure> {
        let mut caller = asker.caller;
        if let Named::Tsg(id) = named {
            let tsg = self.tsgs.get(id).ok_or(Failure::NoTsg)?;
            caller.owner = tsg.owner.uid == asker.uid;
            // To a stranger it is as if it were not there.
            if !(caller.owner || caller.capable || caller.member || asker.perfmon) {
                return Err(Failure::NoTsg);
            }
        }
        Ok(caller)
    }

    /// The class in force for a target, with or without what it was given itself.
    fn in_force(&self, named: &Named, with_own: bool) -> Effective {
        let target = named.target();
        let own = self.assignments.get(target).filter(|_| with_own);
        let beneath = match named {
            Named::Tsg(id) => {
                return self
                    .tsgs
                    .get(id)
                    .map_or(Effective::NONE, |tsg| self.resolve(tsg, own))
            }
            Named::Thread { process, chain, .. } => self.groups.effective(chain).over(
                Source::Process,
                self.assignments.get(Target::Process(process.key())),
            ),
            Named::Process { chain, .. } => self.groups.effective(chain),
            Named::Cgroup { chain, .. } => self.groups.effective_above(chain),
        };
        beneath.over(target.source(), own)
    }

    fn is_shared(&self, id: tsg::Id) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| tsg.traits.shared)
    }

    fn answer(&self, named: &Named) -> Answer {
        Answer {
            own: self.assignments.get(named.target()),
            effective: self.in_force(named, true),
        }
    }

    pub(crate) fn count_denied<T>(&mut self, result: &Result<T, Failure>) {
        if matches!(result, Err(Failure::NotPermitted | Failure::OverQuota)) {
            self.counters.denied += 1;
        }
    }
}
