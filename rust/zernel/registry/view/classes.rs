// SPDX-License-Identifier: GPL-2.0
//! Classes, added up without the lock of the registry.

use super::{
    Found,
    Made,
    View, //
};
use crate::{
    error::Failure,
    glue::{
        cgroup::LEVELS,
        identity::{
            Pid,
            Viewer, //
        },
        rcu::Guard,
        thread::Thread, //
    },
    ids::TsgId,
    policy::{
        class::{
            Assignment,
            Layers,
            Source, //
        },
        level::Level,
        tunables::{
            settings::{
                Conditions,
                Meaning,
                OnGpu,
                Why, //
            },
            Tunables, //
        },
    },
    registry::{
        class::{
            Answer,
            Asker,
            Named,
            Told, //
        },
        target::Target, //
    },
};
use core::cell::Cell;
use kernel::prelude::*;

/// The classes, while they are read.
pub(in crate::registry) struct Classes<'a> {
    view: &'a View,
    guard: &'a Guard,
    /// Something was being changed.
    torn: Cell<bool>,
}

impl View {
    /// Calls `f` with classes that do not change meanwhile. `None`: they did.
    pub(in crate::registry) fn read<T>(
        &self,
        guard: &Guard,
        f: impl FnOnce(&Classes<'_>) -> T,
    ) -> Option<T> {
        let classes = Classes {
            view: self,
            guard,
            torn: Cell::new(false),
        };
        let result = self.classes.read(|| f(&classes))?;
        (!classes.torn.get()).then_some(result)
    }
}

impl Classes<'_> {
    fn whole<T>(&self, value: Option<T>, otherwise: impl FnOnce() -> T) -> T {
        value.unwrap_or_else(|| {
            self.torn.set(true);
            otherwise()
        })
    }

    fn made(&self, target: Target) -> Option<(Made, Option<&Pid>)> {
        let known = self.view.assigned.get(target, self.guard)?;
        let made = known.made.load();
        if made.is_none() {
            self.torn.set(true);
        }
        Some((made?, known.pid.as_ref()))
    }

    fn assignment(&self, target: Target) -> Option<Assignment> {
        self.made(target).map(|(made, _)| made.assignment)
    }

    fn meaning(&self) -> Meaning {
        self.whole(self.view.meaning.load(), || Tunables::new().meaning())
    }

    fn tsg(&self, id: TsgId) -> Option<Found<'_>> {
        self.whole(self.view.tsg(id, self.guard), || None)
    }

    /// The layers down to the first of these cgroups.
    fn down_to(&self, meaning: &Meaning, cgroups: &[u64]) -> Layers {
        let default = Layers::default_class(meaning.default_class());
        cgroups.iter().rev().fold(default, |layers, &id| {
            layers.over(Source::Cgroup, self.assignment(Target::Cgroup(id)))
        })
    }

    /// Calls `f` with a cgroup and all above it.
    fn with_chain<T>(&self, cgroup: u64, f: impl FnOnce(&[u64]) -> T) -> T {
        let mut chain = [0; LEVELS];
        let (mut count, mut next) = (0, (cgroup != 0).then_some(cgroup));
        while let (Some(id), Some(place)) = (next, chain.get_mut(count)) {
            *place = id;
            count += 1;
            next = self.view.parents.get(id, self.guard).copied().flatten();
        }
        f(chain.get(..count).unwrap_or_default())
    }

    /// The layers of the owner of a TSG.
    fn of_owner(&self, meaning: &Meaning, tsg: &Found<'_>) -> Layers {
        let process = Target::Process(tsg.shown.process.key());
        let thread = Target::Thread(tsg.shown.thread.key());
        self.with_chain(tsg.state.cgroup, |chain| self.down_to(meaning, chain))
            .over(Source::Process, self.assignment(process))
            .over(Source::Thread, self.assignment(thread))
    }

    /// The layers of a TSG without its own assignment.
    fn beneath(&self, meaning: &Meaning, tsg: &Found<'_>) -> Layers {
        match tsg.state.traits.follows_owner(meaning) {
            true => self.of_owner(meaning, tsg),
            false => Layers::NONE,
        }
    }

    /// True if another class is in force for a TSG than it has been brought in line with.
    pub(in crate::registry) fn is_to_follow(&self, id: TsgId, tsg: &Found<'_>) -> bool {
        let own = self.assignment(Target::Tsg(id));
        let layers = self.beneath(&self.meaning(), tsg).over(Source::Tsg, own);
        layers.effective(tsg.state.traits.shared) != tsg.state.effective
    }

    /// The class of a target. Assignments that `viewer` may not see are not named.
    ///
    /// # Errors
    ///
    /// `NotPermitted` another user's target without `CAP_PERFMON`, `NoTsg`.
    pub(in crate::registry) fn get(
        &self,
        asker: Asker,
        named: &Named,
        viewer: &Viewer,
    ) -> Result<Answer, Failure> {
        let mut caller = asker.caller;
        let tsg = match named {
            Named::Tsg(id) => Some(self.tsg(*id).ok_or(Failure::NoTsg)?),
            _ => None,
        };
        if let Some(tsg) = &tsg {
            caller.owner = tsg.shown.uid == asker.uid;
        }
        if !(caller.owner || caller.is_manager() || asker.perfmon) {
            // To a stranger it is as if it were not there.
            return Err(match tsg {
                Some(_) => Failure::NoTsg,
                None => Failure::NotPermitted,
            });
        }
        let mut answer = self.answer(named, tsg.as_ref());
        for origin in [
            &mut answer.level.origin,
            &mut answer.weight.origin,
            &mut answer.timeslice.origin,
        ] {
            let id = origin.assignment;
            if id != 0 && !self.shows(id, named, tsg.as_ref(), viewer) {
                origin.assignment = 0;
            }
        }
        Ok(answer)
    }

    fn answer(&self, named: &Named, tsg: Option<&Found<'_>>) -> Answer {
        let meaning = self.meaning();
        let beneath = match (named, tsg) {
            (Named::Tsg(_), Some(tsg)) => self.beneath(&meaning, tsg),
            (Named::Tsg(_), None) => Layers::NONE,
            (Named::Thread { process, chain, .. }, _) => self.down_to(&meaning, chain).over(
                Source::Process,
                self.assignment(Target::Process(process.key())),
            ),
            (Named::Process { chain, .. }, _) => self.down_to(&meaning, chain),
            (Named::Cgroup { chain, .. }, _) => {
                self.down_to(&meaning, chain.get(1..).unwrap_or_default())
            }
        };
        let target = named.target();
        let own = self.assignment(target);
        let layers = beneath.over(target.source(), own);
        let is_shared = tsg.is_some_and(|tsg| tsg.state.traits.shared);
        let effective = layers.effective(is_shared);
        let on = tsg.map_or(Conditions::NONE, |tsg| {
            let known = self.view.conditions(tsg.gpu, self.guard);
            self.whole(known, || OnGpu::NONE).of(tsg.state.own)
        });
        let drivers = tsg
            .and_then(|tsg| tsg.state.original)
            .map(|hw| hw.timeslice);
        let (slice, origin, why) = meaning.told_slice(effective, on, drivers);
        let (level, weight) = (layers.level(), layers.weight());
        // The layers that would count for it if it were on a compute engine, and do not.
        let ignored = match tsg {
            Some(tsg) if !tsg.state.traits.follows_owner(&meaning) => self.of_owner(&meaning, tsg),
            _ => Layers::NONE,
        };
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

    /// True if an assignment that decides over a target is shown to `viewer`: its maker, the owner
    /// of its own target, or a viewer of all.
    fn shows(&self, id: u64, named: &Named, tsg: Option<&Found<'_>>, viewer: &Viewer) -> bool {
        let is = |target: Target| {
            let (made, pid) = self.made(target)?;
            (made.assignment.id == id).then_some((target, made, pid))
        };
        let in_cgroups = |chain: &[u64]| chain.iter().find_map(|&id| is(Target::Cgroup(id)));
        let found = match (named, tsg) {
            (Named::Tsg(id), Some(tsg)) => is(Target::Tsg(*id))
                .or_else(|| is(Target::Thread(tsg.shown.thread.key())))
                .or_else(|| is(Target::Process(tsg.shown.process.key())))
                .or_else(|| self.with_chain(tsg.state.cgroup, in_cgroups)),
            (Named::Tsg(_), None) => None,
            (
                Named::Thread {
                    thread,
                    process,
                    chain,
                },
                _,
            ) => is(Target::Thread(thread.key()))
                .or_else(|| is(Target::Process(process.key())))
                .or_else(|| in_cgroups(chain)),
            (Named::Process { process, chain }, _) => {
                is(Target::Process(process.key())).or_else(|| in_cgroups(chain))
            }
            (Named::Cgroup { chain, .. }, _) => in_cgroups(chain),
        };
        let Some((target, made, pid)) = found else {
            return false;
        };
        let owns = || match target {
            Target::Tsg(_) => tsg.is_some_and(|tsg| tsg.shown.uid == viewer.uid()),
            Target::Cgroup(_) => made.cgroup_owner == Some(viewer.uid()),
            Target::Process(_) | Target::Thread(_) => pid
                .and_then(Thread::of)
                .is_some_and(|task| task.is_of(viewer.uid())),
        };
        viewer.sees_all() || made.by == viewer.uid() || owns()
    }
}
