// SPDX-License-Identifier: GPL-2.0
//! The class of a target: set, get.

use super::{
    client::Client,
    encode::{
        self,
        Own, //
    },
    target::{
        self,
        Target, //
    },
};
use crate::{
    glue::{
        cgroup::Cgroup,
        errno,
        identity::{
            self,
            Pid,
            Scope,
            Viewer, //
        },
        uapi, //
    },
    policy::{
        attribute::Origin,
        class::Values,
        level::Level,
        permit::{
            Change,
            Set, //
        },
        rotation::Weight,
        tunables::{
            settings::Why,
            Tunables, //
        },
        units::Us, //
    },
    registry::{
        class::{
            self,
            Asker,
            Named,
            Told, //
        },
        requests,
        told as numbers, //
    },
};
use kernel::prelude::*;

/// Capabilities (`ZERNEL_CAP_*`) of classes.
pub(super) const CAPS: u64 = uapi::ZERNEL_CAP_TIMESLICE as u64;

/// Attributes that this module acts on.
const KNOWN: u32 =
    uapi::ZERNEL_CLASS_LEVEL | uapi::ZERNEL_CLASS_WEIGHT | uapi::ZERNEL_CLASS_TIMESLICE;

/// Attributes of the ABI.
const NAMED: u32 = KNOWN | uapi::ZERNEL_CLASS_PREEMPTIBLE | uapi::ZERNEL_CLASS_DEADLINE;

/// Kinds of target that have a class.
const TARGETS: &[u32] = &[
    uapi::ZERNEL_TARGET_CGROUP,
    uapi::ZERNEL_TARGET_PROCESS,
    uapi::ZERNEL_TARGET_THREAD,
    uapi::ZERNEL_TARGET_TSG,
];

// The policy has the numbers of the header.
const _: () = {
    assert!(Why::UNPRIVILEGED.0 == uapi::ZERNEL_WHY_UNPRIVILEGED);
    assert!(Why::SHARED.0 == uapi::ZERNEL_WHY_SHARED);
    assert!(Why::CLAMPED.0 == uapi::ZERNEL_WHY_CLAMPED);
    assert!(Why::THROTTLED.0 == uapi::ZERNEL_WHY_THROTTLED);
    assert!(Why::TURNS.0 == uapi::ZERNEL_WHY_TURNS);
    assert!(Why::DISABLED.0 == uapi::ZERNEL_WHY_DISABLED);
    assert!(Why::ENGINE.0 == uapi::ZERNEL_WHY_ENGINE);
    assert!(Why::YIELDS.0 == uapi::ZERNEL_WHY_YIELDS);
};

/// Sets and clears attributes of the target's assignment.
///
/// # Errors
///
/// See `struct zernel_class_set`.
pub(super) fn set(_: &Client, asked: &mut uapi::zernel_class_set) -> Result {
    let change = change(asked)?;
    let (named, asker) = resolve(&asked.target)?;
    // Waits of requests until now count for the level that they had.
    requests::count_all_starts()?;
    class::change(asker, named, change)?;
    Ok(())
}

/// Tells the target's own attributes, and those in force.
///
/// # Errors
///
/// See `struct zernel_class_get`.
pub(super) fn get(_: &Client, class: &mut uapi::zernel_class_get) -> Result {
    if class.flags != 0 || class.reserved != 0 {
        return Err(EINVAL);
    }
    let (named, asker) = resolve(&class.target)?;
    let viewer = Viewer::current();
    let answer = class::get(asker, &named, &viewer)?;
    if let Some(own) = answer.own {
        let values = Own::of(&own);
        class.assignment = own.id;
        class.own = values.has;
        class.own_privileged = values.privileged;
        class.own_level = values.level;
        class.own_weight = values.weight;
        class.own_timeslice_us = values.timeslice_us;
    }
    class.level = told(answer.level, |level| encode::level(level).into());
    class.weight = told(answer.weight, u64::from);
    class.timeslice_us = told(answer.timeslice, u64::from);
    // Any TSG is left to more urgent work.
    class.preemptible.value = 1;
    Ok(())
}

/// The change that a call asks for.
fn change(asked: &uapi::zernel_class_set) -> Result<Change> {
    let sets = |attribute: u32| asked.set & attribute != 0;
    let clears_all = asked.clear == u32::MAX;
    if asked.set & !NAMED != 0 || (asked.clear & !NAMED != 0 && !clears_all) {
        return Err(EINVAL);
    }
    let level = value(sets(uapi::ZERNEL_CLASS_LEVEL), asked.level, Level::new)?;
    let weight = value(sets(uapi::ZERNEL_CLASS_WEIGHT), asked.weight, |weight| {
        Weight::new(weight).ok()
    })?;
    let timeslice = value(
        sets(uapi::ZERNEL_CLASS_TIMESLICE),
        asked.timeslice_us,
        |us| Tunables::in_slice_range(Us(us)).ok(),
    )?;
    let preemptible = sets(uapi::ZERNEL_CLASS_PREEMPTIBLE);
    let deadline = sets(uapi::ZERNEL_CLASS_DEADLINE);
    if asked.preemptible > u32::from(preemptible) || deadline != (asked.deadline_ns != 0) {
        return Err(EINVAL);
    }
    let unknown = NAMED & !KNOWN;
    if asked.set & unknown != 0 || (asked.clear & unknown != 0 && !clears_all) {
        return Err(errno::unsupported());
    }
    let clears = |attribute| asked.clear & attribute != 0;
    Ok(Change {
        clear: Set {
            level: clears(uapi::ZERNEL_CLASS_LEVEL),
            weight: clears(uapi::ZERNEL_CLASS_WEIGHT),
            timeslice: clears(uapi::ZERNEL_CLASS_TIMESLICE),
        },
        set: Values {
            level,
            weight,
            timeslice,
        },
    })
}

/// The value of an attribute if it is to be set; the field is 0 if not.
fn value<T>(sets: bool, field: u32, new: impl FnOnce(u32) -> Option<T>) -> Result<Option<T>> {
    match (sets, field) {
        (true, field) => new(field).map(Some).ok_or(EINVAL),
        (false, 0) => Ok(None),
        (false, _) => Err(EINVAL),
    }
}

/// A value in force as the ABI has it.
fn told<T>(told: Told<T>, number: impl FnOnce(T) -> u64) -> uapi::zernel_value {
    let Origin { source, assignment } = told.origin;
    uapi::zernel_value {
        value: number(told.value),
        assignment,
        source: numbers::source(source),
        why: told.why.0,
    }
}

/// Finds the target and the rights of the caller.
fn resolve(raw: &uapi::zernel_target) -> Result<(Named, Asker)> {
    let uid = identity::caller_uid();
    let (named, owner) = match Target::read(raw, TARGETS)? {
        Target::Tsg(id) => (Named::Tsg(id), false),
        Target::Thread(thread) => {
            let process = thread.process().ok_or(ESRCH)?;
            let owner = thread.is_callers(Scope::Thread);
            let chain = chain_of(&process)?;
            let named = Named::Thread {
                thread,
                process,
                chain,
            };
            (named, owner)
        }
        Target::Process(process) => {
            let owner = process.is_callers(Scope::Process);
            let chain = chain_of(&process)?;
            (Named::Process { process, chain }, owner)
        }
        Target::Cgroup(cgroup, owner) => {
            let chain = cgroup.ancestry()?;
            let named = Named::Cgroup {
                cgroup: Some((cgroup, owner)),
                chain,
            };
            (named, owner == uid)
        }
        Target::None | Target::Gpu(_) | Target::Level(_) => return Err(EINVAL),
    };
    Ok((named, target::asker(uid, owner)))
}

fn chain_of(process: &Pid) -> Result<KVec<u64>> {
    match Cgroup::of(process) {
        Some(cgroup) => cgroup.ancestry(),
        None => Ok(KVec::new()),
    }
}
