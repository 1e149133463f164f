// SPDX-License-Identifier: GPL-2.0
//! The list of classes: all assignments.

use super::part::{
    Kind,
    Part, //
};
use crate::{
    device::{
        encode::Own,
        target::Target, //
    },
    glue::{
        identity::Viewer,
        uapi, //
    },
    registry::{
        self,
        assignments::{
            self,
            Held, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// Assignments.
pub(super) struct Classes;

impl Kind for Classes {
    type Entry = uapi::zernel_class_info;
    const FILTERS: &'static [u32] = &[
        uapi::ZERNEL_TARGET_TSG,
        uapi::ZERNEL_TARGET_THREAD,
        uapi::ZERNEL_TARGET_PROCESS,
        uapi::ZERNEL_TARGET_CGROUP,
    ];

    fn changes() -> Result<u64> {
        registry::with(|r| r.assignments().changes())
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        let only = registry::with(|r| only(r, filter, viewer))??;
        part.fill_each(|from| {
            registry::with(|r| {
                let (id, target, held) = match only {
                    None => r.assignments().from(from)?,
                    Some(target) => {
                        let held = r.assignments().held(target)?;
                        let id = held.assignment().id;
                        (id >= from).then_some((id, target, held))?
                    }
                };
                let is_shown = r.shows(target, held, viewer);
                Some((id, is_shown.then(|| info(target, held, viewer))))
            })
        })
    }
}

/// The target that a filter names.
///
/// # Errors
///
/// `ENOENT` no such TSG, or not one that `viewer` sees.
fn only(
    registry: &Registry,
    filter: &Target,
    viewer: &Viewer,
) -> Result<Option<assignments::Target>> {
    Ok(Some(match filter {
        Target::Tsg(id) => {
            let tsg = registry.tsg(*id).filter(|tsg| viewer.sees(tsg.owner.uid));
            tsg.ok_or(ENOENT)?;
            assignments::Target::Tsg(*id)
        }
        Target::Thread(pid) => assignments::Target::Thread(pid.key()),
        Target::Process(pid) => assignments::Target::Process(pid.key()),
        Target::Cgroup(cgroup, _) => assignments::Target::Cgroup(cgroup.id()),
        Target::None | Target::Gpu(_) | Target::Level(_) => return Ok(None),
    }))
}

/// A target as `viewer` sees it.
fn target(target: assignments::Target, held: &Held, viewer: &Viewer) -> uapi::zernel_target {
    let number = || held.task().map_or(0, |task| viewer.number_of(task)).into();
    let (kind, id) = match target {
        assignments::Target::Tsg(id) => (uapi::ZERNEL_TARGET_TSG, id.0),
        assignments::Target::Thread(_) => (uapi::ZERNEL_TARGET_THREAD, number()),
        assignments::Target::Process(_) => (uapi::ZERNEL_TARGET_PROCESS, number()),
        assignments::Target::Cgroup(id) => (uapi::ZERNEL_TARGET_CGROUP, id),
    };
    // The number 0 is no process: it is not visible.
    let kind = if id == 0 {
        uapi::ZERNEL_TARGET_NONE
    } else {
        kind
    };
    uapi::zernel_target { kind, flags: 0, id }
}

fn info(of: assignments::Target, held: &Held, viewer: &Viewer) -> uapi::zernel_class_info {
    let own = Own::of(held.assignment());
    uapi::zernel_class_info {
        id: held.assignment().id,
        target: target(of, held, viewer),
        made_at: held.made_at(),
        uid: viewer.number_of_user(held.by()),
        own: own.has,
        privileged: own.privileged,
        level: own.level,
        weight: own.weight,
        timeslice_us: own.timeslice_us,
        preemptible: 0,
        tsgs: held.tsgs(),
        deadline_ns: 0,
    }
}
