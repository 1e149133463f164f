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
    policy::tunables::settings::OnGpu,
    registry::{
        self,
        assignments,
        gpu,
        look,
        told,
        tsg::{
            self,
            Tsg, //
        },
        view::Found,
        Registry, //
    },
    tuned,
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
        if let Target::Tsg(id) = filter {
            let seen = look::tsg(*id, |found, on, follows| {
                let is_seen = viewer.sees(found.shown.uid);
                is_seen.then(|| info(*id, found, on, follows, viewer))
            })?;
            let entry = seen.flatten().ok_or(ENOENT)?;
            part.fill(|from| (from <= id.0).then_some((id.0, Some(entry))));
        } else {
            let filter = registry::with(|r| Filter::new(r, filter, viewer))??;
            part.fill_each(|from| {
                registry::with(|r| {
                    let (id, tsg, is_shown) = filter.find(r, viewer, from)?;
                    let entry = is_shown.then(|| {
                        let on = r.gpu(tsg.gpu).map(|gpu| gpu.conditions());
                        let (found, on) = (tsg.found(), on.unwrap_or(OnGpu::NONE));
                        info(id, &found, &on, r.is_to_follow(id), viewer)
                    });
                    Some((id.0, entry))
                })
            })?;
        }
        look::want_done()
    }
}

/// TSGs that have come and gone.
pub(super) fn changes() -> Result<u64> {
    look::changes()
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

fn info(
    id: tsg::Id,
    tsg: &Found<'_>,
    on: &OnGpu,
    follows: bool,
    viewer: &Viewer,
) -> uapi::zernel_tsg_info {
    let (shown, state) = (tsg.shown, &tsg.state);
    let (traits, done) = (&state.traits, &state.done);
    let level = state.effective.level;
    let is_throttled = level.is_some_and(|level| on.throttled.contains(level));
    let yields = state.own.yields && level.is_some();
    // Without a budget nothing would bound it.
    let may_keep = state.effective.may_keep && on.turns;
    let is_kept = may_keep && level.is_some_and(|level| tuned::kept_levels().contains(level));
    uapi::zernel_tsg_info {
        id: id.0,
        gpu: tsg.gpu.0,
        cgroup: state.cgroup,
        added_at: tsg.added_ns,
        gpu_ns: done.ran.0,
        preemptions: done.preemptions,
        preempted_at: done.preempted_at.0,
        context_bytes: done.context_bytes,
        applied: state.applied,
        errors: state.errors,
        flags: combine(&[
            (traits.compute, uapi::ZERNEL_TSG_COMPUTE),
            (traits.shared, uapi::ZERNEL_TSG_SHARED),
            (state.is_pending || follows, uapi::ZERNEL_TSG_PENDING),
            (state.failed, uapi::ZERNEL_TSG_FAILED),
            (
                is_throttled || yields || !is_kept,
                uapi::ZERNEL_TSG_PREEMPTIBLE,
            ),
            (is_throttled, uapi::ZERNEL_TSG_THROTTLED),
            (yields, uapi::ZERNEL_TSG_YIELDS),
        ]),
        error: state.last_error,
        hw_tsg: traits.hw_tsg,
        engine: traits.engine,
        runlist: traits.runlist,
        channels: traits.channels,
        pid: viewer.number_of(&shown.process),
        tid: viewer.number_of(&shown.thread),
        uid: viewer.number_of_user(shown.uid),
        level: level.map_or(uapi::ZERNEL_LEVEL_NONE, |level| level.number()),
        source: told::source(state.effective.source()),
        weight: state.effective.weight.number(),
        timeslice_us: state.current.map_or(0, |hw| hw.timeslice.0),
        default_timeslice_us: state.original.map_or(0, |hw| hw.timeslice.0),
        interleave: state.current.and_then(|hw| hw.interleave).unwrap_or(0),
        reserved: 0,
        comm: shown.comm,
    }
}
