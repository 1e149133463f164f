// SPDX-License-Identifier: GPL-2.0
//! The list of levels on each GPU, and on all of them together.

use super::{
    gpus::Gpus,
    part::{
        Kind,
        Part, //
    },
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
        gpu,
        levels::LevelOf,
        Registry, //
    },
};
use kernel::prelude::*;

/// Filters of lists of levels.
pub(super) const FILTERS: &[u32] = &[uapi::ZERNEL_TARGET_GPU, uapi::ZERNEL_TARGET_LEVEL];

/// Levels.
pub(super) struct Levels;

impl Kind for Levels {
    type Entry = uapi::zernel_level_info;
    const FILTERS: &'static [u32] = FILTERS;
    const PRIVATE: bool = true;

    fn changes() -> Result<u64> {
        registry::with(|r| r.gpu_changes())
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, _: &Viewer) -> Result {
        let filter = registry::with(|r| Filter::new(r, filter))??;
        part.fill_each(|from| {
            registry::with(|r| {
                let (id, of) = filter.find(r, from)?;
                Some((id, Some(info(r, id, of))))
            })
        })?;
        registry::with(|r| r.want_done())
    }
}

/// Levels that are let through.
pub(super) enum Filter {
    /// All of them.
    All,
    /// Those of a GPU.
    Gpu(gpu::Id),
    /// One.
    Level(u64),
}

impl Filter {
    /// The filter that a call names.
    ///
    /// # Errors
    ///
    /// `ENOENT` no such GPU or level.
    pub(super) fn new(registry: &Registry, filter: &Target) -> Result<Self> {
        match (filter, Gpus::only(registry, filter)?) {
            (_, Some(gpu)) => Ok(Self::Gpu(gpu)),
            (Target::Level(id), _) => {
                registry.level(*id).ok_or(ENOENT)?;
                Ok(Self::Level(*id))
            }
            _ => Ok(Self::All),
        }
    }

    /// The first level with an id of at least `from` that is let through.
    pub(super) fn find(&self, registry: &Registry, from: u64) -> Option<(u64, LevelOf)> {
        let from = match self {
            Self::All => from,
            Self::Gpu(gpu) => from.max(gpu.0),
            Self::Level(id) => from.max(*id),
        };
        registry.level_from(from).filter(|(found, of)| match self {
            Self::All => true,
            Self::Gpu(gpu) => of.gpu == Some(*gpu),
            Self::Level(id) => found == id,
        })
    }
}

fn info(registry: &Registry, id: u64, of: LevelOf) -> uapi::zernel_level_info {
    let gpu = of.gpu.and_then(|id| registry.gpu(id));
    let counters = registry.level_counters(of);
    let budget = of.level.and_then(|level| registry.tunables().budget(level));
    let settings = match (gpu, of.level) {
        (Some(gpu), Some(level)) => registry.level_settings(gpu, level),
        _ => None,
    };
    let interleave = of.level.map_or(0, |level| level.interleave().number());
    let kept = of.gpu.map(|id| registry.kept_on(id)).unwrap_or_default();
    let throttled = gpu.map(|gpu| gpu.throttled).unwrap_or_default();
    let is_throttled = of.level.is_some_and(|level| throttled.contains(level));
    uapi::zernel_level_info {
        id,
        gpu: of.gpu.map_or(0, |id| id.0),
        level: of
            .level
            .map_or(uapi::ZERNEL_LEVEL_NONE, |level| level.number()),
        flags: combine(&[
            (is_throttled, uapi::ZERNEL_LEVEL_THROTTLED),
            (
                of.level.is_none_or(|level| !kept.contains(level)),
                uapi::ZERNEL_LEVEL_PREEMPTIBLE,
            ),
        ]),
        tsgs: counters.tsgs,
        timeslice_us: settings.map_or(0, |settings| settings.timeslice.0),
        interleave: settings
            .and_then(|settings| settings.interleave)
            .map_or(interleave, |interleave| interleave.number()),
        reserved: 0,
        budget_us: budget.map_or(0, |budget| budget.budget().0 / 1_000),
        period_us: budget.map_or(0, |budget| budget.period().0 / 1_000),
        gpu_ns: counters.ran.0,
        preemptions: counters.preemptions,
        throttles: counters.throttles,
        turns: counters.turns,
    }
}
