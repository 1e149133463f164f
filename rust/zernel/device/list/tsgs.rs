// SPDX-License-Identifier: GPL-2.0
//! The list of TSGs, and its filters.

use super::part::{
    Kind,
    Part, //
};
use crate::{
    device::{
        encode::combine,
        target::Target, //
    },
    glue::{
        identity::Viewer,
        uapi, //
    },
    registry::{
        self,
        assignments,
        gpu,
        told,
        tsg::{
            self,
            Tsg, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// Filters of lists of TSGs.
pub(super) const FILTERS: &[u32] = &[
    uapi::ZERNEL_TARGET_GPU,
    uapi::ZERNEL_TARGET_TSG,
    uapi::ZERNEL_TARGET_THREAD,
    uapi::ZERNEL_TARGET_PROCESS,
    uapi::ZERNEL_TARGET_CGROUP,
];

/// TSGs.
pub(super) struct Tsgs;

impl Kind for Tsgs {
    type Entry = uapi::zernel_tsg_info;
    const FILTERS: &'static [u32] = FILTERS;

    fn changes() -> Result<u64> {
        changes()
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        registry::with(|r| {
            let filter = Filter::new(r, filter, viewer)?;
            part.fill(|from| {
                let (id, tsg, is_shown) = filter.find(r, viewer, from)?;
                Some((id.0, is_shown.then(|| info(r, id, tsg, viewer))))
            });
            r.want_done();
            Ok(())
        })?
    }
}

/// TSGs that have come and gone.
pub(super) fn changes() -> Result<u64> {
    registry::with(|r| {
        let counters = r.counters();
        counters.tsgs_added.wrapping_add(counters.tsgs_removed)
    })
}

/// TSGs that are let through.
pub(super) enum Filter {
    /// All of them.
    All,
    /// Those of a GPU.
    Gpu(gpu::Id),
    /// One.
    Tsg(tsg::Id),
    /// Those of a process or thread.
    Member(assignments::Target),
    /// Those of the processes in a cgroup or below.
    Cgroup(u64),
}

impl Filter {
    /// The filter that a call names.
    ///
    /// # Errors
    ///
    /// `ENOENT` no such GPU; no such TSG, or not one that `viewer` sees.
    pub(super) fn new(registry: &Registry, filter: &Target, viewer: &Viewer) -> Result<Self> {
        match filter {
            Target::None | Target::Level(_) => Ok(Self::All),
            Target::Gpu(id) => registry.gpu(*id).map(|_| Self::Gpu(*id)).ok_or(ENOENT),
            Target::Tsg(id) => registry
                .tsg(*id)
                .filter(|tsg| viewer.sees(tsg.owner.uid))
                .map(|_| Self::Tsg(*id))
                .ok_or(ENOENT),
            Target::Process(pid) => Ok(Self::Member(assignments::Target::Process(pid.key()))),
            Target::Thread(pid) => Ok(Self::Member(assignments::Target::Thread(pid.key()))),
            Target::Cgroup(cgroup, _) => Ok(Self::Cgroup(cgroup.id())),
        }
    }

    /// The first TSG with an id of at least `from` of those that are looked at, and whether it is
    /// to be shown.
    pub(super) fn find<'a>(
        &self,
        registry: &'a Registry,
        viewer: &Viewer,
        from: u64,
    ) -> Option<(tsg::Id, &'a Tsg, bool)> {
        let from = tsg::Id(from);
        let (id, tsg) = match self {
            Self::Tsg(id) if from > *id => return None,
            Self::Tsg(id) => (*id, registry.tsg(*id)?),
            Self::Member(target) => registry.member_from(*target, from)?,
            Self::All | Self::Gpu(_) | Self::Cgroup(_) => registry.tsg_from(from, viewer)?,
        };
        let is_let_through = match self {
            Self::Gpu(gpu) => tsg.gpu == *gpu,
            Self::Cgroup(top) => registry.is_in_cgroup(tsg, *top),
            Self::All | Self::Tsg(_) | Self::Member(_) => true,
        };
        Some((id, tsg, is_let_through && viewer.sees(tsg.owner.uid)))
    }
}

fn info(registry: &Registry, id: tsg::Id, tsg: &Tsg, viewer: &Viewer) -> uapi::zernel_tsg_info {
    let level = tsg.effective.level;
    let throttled = registry.gpu(tsg.gpu).map(|gpu| gpu.throttled);
    let is_throttled = level.is_some_and(|level| throttled.is_some_and(|set| set.contains(level)));
    let is_pending = tsg.queued.is_some() || tsg.busy;
    uapi::zernel_tsg_info {
        id: id.0,
        gpu: tsg.gpu.0,
        cgroup: tsg.cgroup,
        added_at: tsg.added_ns,
        gpu_ns: tsg.meter.done.ran.0,
        preemptions: tsg.meter.done.preemptions,
        preempted_at: tsg.meter.done.preempted_at.0,
        context_bytes: tsg.meter.done.context_bytes,
        applied: tsg.applied,
        errors: tsg.errors,
        flags: combine(&[
            (tsg.traits.compute, uapi::ZERNEL_TSG_COMPUTE),
            (tsg.traits.shared, uapi::ZERNEL_TSG_SHARED),
            (is_pending, uapi::ZERNEL_TSG_PENDING),
            (tsg.failed, uapi::ZERNEL_TSG_FAILED),
            // Any TSG is left to more urgent work.
            (true, uapi::ZERNEL_TSG_PREEMPTIBLE),
            (is_throttled, uapi::ZERNEL_TSG_THROTTLED),
        ]),
        error: tsg.last_error,
        hw_tsg: tsg.traits.hw_tsg,
        engine: tsg.traits.engine,
        runlist: tsg.traits.runlist,
        channels: tsg.traits.channels,
        pid: viewer.number_of(&tsg.owner.process),
        tid: viewer.number_of(&tsg.owner.thread),
        uid: viewer.number_of_user(tsg.owner.uid),
        level: level.map_or(uapi::ZERNEL_LEVEL_NONE, |level| level.number()),
        source: told::source(tsg.effective.source()),
        weight: tsg.effective.weight.number(),
        timeslice_us: tsg.current.map_or(0, |hw| hw.timeslice.0),
        default_timeslice_us: tsg.original.map_or(0, |hw| hw.timeslice.0),
        interleave: tsg.current.and_then(|hw| hw.interleave).unwrap_or(0),
        reserved: 0,
        comm: tsg.owner.comm,
    }
}
