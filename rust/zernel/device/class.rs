// SPDX-License-Identifier: GPL-2.0
//! The class of a target: set, get, clear.

use super::{
    target,
    Client, //
};
use crate::{
    glue::{
        abi,
        cgroup::Cgroup,
        identity::{
            self,
            Pid,
            Scope, //
        },
        uapi, //
    },
    policy::{
        level::Level,
        permit::Wish,
        rotation::Weight,
        tunables::Conditions, //
    },
    registry::{
        self,
        class::{
            Answer,
            Asker,
            Named, //
        },
        tsg,
        Registry, //
    },
};
use kernel::prelude::*;

/// Sets and clears attributes of the target's assignment.
pub(super) fn set(_: &Client, _: &mut uapi::zernel_class_set) -> Result {
    Err(ENOTTY)
}

/// Tells the target's own attributes, and those in force.
pub(super) fn get(_: &Client, _: &mut uapi::zernel_class_get) -> Result {
    Err(ENOTTY)
}

/// Gives a target a class.
pub(super) fn v0_set(arg: usize, size: usize) -> Result {
    let mut class = read(arg, size)?;
    let level = Level::new(class.level).ok_or(EINVAL)?;
    let weight = match class.weight {
        0 => None,
        number => Some(Weight::new(number).map_err(|_| EINVAL)?),
    };
    let wish = Wish { level, weight };
    let (named, asker) = resolve(&class)?;
    probe(arg, size, &class)?;
    registry::with(|r| -> Result {
        let answer = r.set_class(asker, named, wish)?;
        fill(&mut class, r, answer);
        Ok(())
    })??;
    abi::write(arg, size, &class)
}

/// Tells the class of a target.
pub(super) fn v0_get(arg: usize, size: usize) -> Result {
    let mut class = read(arg, size)?;
    if class.level != 0 || class.weight != 0 {
        return Err(EINVAL);
    }
    let (named, asker) = resolve(&class)?;
    registry::with(|r| -> Result {
        let answer = r.get_class(asker, &named)?;
        fill(&mut class, r, answer);
        Ok(())
    })??;
    abi::write(arg, size, &class)
}

/// Takes the class of a target away.
pub(super) fn v0_clear(arg: usize, size: usize) -> Result {
    let mut class = read(arg, size)?;
    if class.level != 0 || class.weight != 0 {
        return Err(EINVAL);
    }
    let (named, asker) = resolve(&class)?;
    probe(arg, size, &class)?;
    registry::with(|r| -> Result {
        let answer = r.clear_class(asker, &named)?;
        fill(&mut class, r, answer);
        Ok(())
    })??;
    abi::write(arg, size, &class)
}

/// Makes sure that the answer can be written, before anything changes.
fn probe(arg: usize, size: usize, class: &uapi::zernel_v0_class) -> Result {
    abi::write(arg, size, class)
}

fn read(arg: usize, size: usize) -> Result<uapi::zernel_v0_class> {
    let class: uapi::zernel_v0_class = abi::read(arg, size)?;
    let takes_pidfd = matches!(
        class.target,
        uapi::ZERNEL_V0_TARGET_PROCESS | uapi::ZERNEL_V0_TARGET_THREAD
    );
    let known = if takes_pidfd {
        uapi::ZERNEL_V0_CLASS_PIDFD
    } else {
        0
    };
    let outputs = class.effective | class.source | class.timeslice_us | class.effective_weight;
    if class.flags & !known != 0 || outputs != 0 {
        return Err(EINVAL);
    }
    Ok(class)
}

/// The thread or process that a request names.
fn task(class: &uapi::zernel_v0_class, scope: Scope) -> Result<Pid> {
    target::task(
        class.id,
        class.flags & uapi::ZERNEL_V0_CLASS_PIDFD != 0,
        scope,
    )
}

/// Finds the target and what the kernel says about the caller.
fn resolve(class: &uapi::zernel_v0_class) -> Result<(Named, Asker)> {
    let uid = identity::caller_uid();
    let (named, owner) = match class.target {
        uapi::ZERNEL_V0_TARGET_TSG => (Named::Tsg(tsg::Id(class.id)), false),
        uapi::ZERNEL_V0_TARGET_THREAD => {
            let thread = task(class, Scope::Thread)?;
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
        uapi::ZERNEL_V0_TARGET_PROCESS => {
            let process = task(class, Scope::Process)?;
            let owner = process.is_callers(Scope::Process);
            let chain = chain_of(&process)?;
            (Named::Process { process, chain }, owner)
        }
        uapi::ZERNEL_V0_TARGET_CGROUP => {
            let (cgroup, owner) = Cgroup::from_fd(class.id)?;
            let chain = cgroup.ancestry()?;
            let named = Named::Cgroup {
                cgroup: Some(cgroup),
                chain,
            };
            (named, owner == uid)
        }
        _ => return Err(EINVAL),
    };
    Ok((named, target::asker(uid, owner)?))
}

fn chain_of(process: &Pid) -> Result<KVec<u64>> {
    match Cgroup::of(process) {
        Some(cgroup) => cgroup.ancestry(),
        None => Ok(KVec::new()),
    }
}

fn fill(class: &mut uapi::zernel_v0_class, registry: &Registry, answer: Answer) {
    let number = |level: Option<Level>| level.map_or(uapi::ZERNEL_V0_LEVEL_NONE, Level::number);
    class.level = number(answer.own.map(|own| own.level));
    if answer.own.is_some_and(|own| own.is_privileged()) {
        class.flags |= uapi::ZERNEL_V0_CLASS_PRIVILEGED;
    }
    class.weight = answer.own.map_or(0, |own| own.weight.number());
    class.effective_weight = answer.effective.weight.number();
    class.effective = number(answer.effective.level);
    class.source = answer.effective.source as u32;
    class.timeslice_us = registry
        .tunables()
        .settings(answer.effective, Conditions::NONE)
        .map_or(0, |settings| settings.timeslice.0);
}
