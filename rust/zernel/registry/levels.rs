// SPDX-License-Identifier: GPL-2.0
//! The levels on a GPU, and on all of them together: their ids and counters.

use super::{
    gpu,
    gpu_time::{
        Counters,
        Done,
        Levels, //
    },
    Registry, //
};
pub(super) use crate::ids::LEVEL_IDS as IDS;
use crate::{
    glue::time::now_ns,
    policy::{
        class::Effective,
        level::Level,
        tunables::settings::{
            OfTsg,
            Settings, //
        },
    },
};

/// A level on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelOf {
    /// The GPU; `None`: all of them, those that are gone included.
    pub(crate) gpu: Option<gpu::Id>,
    /// The level; `None`: no class, and on all GPUs together: all TSGs.
    pub(crate) level: Option<Level>,
}

impl Registry {
    /// The first id of the levels of a GPU, or of all of them together.
    fn first_level(&self, gpu: Option<gpu::Id>) -> u64 {
        gpu.map_or(self.first_level, |id| id.0.saturating_add(1))
    }

    /// The first level with an id of at least `from`, and that id.
    pub(crate) fn level_from(&self, from: u64) -> Option<(u64, LevelOf)> {
        let gpu = match from < self.first_level.saturating_add(IDS) {
            true => None,
            false => {
                let first = gpu::Id(from.saturating_sub(IDS));
                Some(self.gpu_from(first)?.0)
            }
        };
        let first = self.first_level(gpu);
        let id = from.max(first);
        let place = u32::try_from(id.saturating_sub(first)).ok()?;
        let level = Level::new(place);
        Some((id, LevelOf { gpu, level }))
    }

    /// The level with an id.
    pub(crate) fn level(&self, id: u64) -> Option<LevelOf> {
        self.level_from(id)
            .filter(|(found, _)| *found == id)
            .map(|(_, level)| level)
    }

    /// The work of the TSGs of a level.
    pub(crate) fn level_counters(&self, of: LevelOf) -> Counters {
        let pick = |levels: &Levels| match of {
            LevelOf {
                gpu: None,
                level: None,
            } => levels.sum(),
            LevelOf { level, .. } => levels.of(level),
        };
        match of.gpu {
            Some(id) => self
                .gpu(id)
                .map_or(Counters::default(), |gpu| pick(&gpu.levels)),
            None => {
                let mut sum = pick(&self.gone_levels);
                for (_, gpu) in self.gpus.iter() {
                    sum.add(&pick(&gpu.levels));
                }
                sum
            }
        }
    }

    /// The settings that a GPU has for a level.
    pub(crate) fn level_settings(&self, gpu: &gpu::Gpu, level: Level) -> Option<Settings> {
        self.tunables
            .settings(Effective::of(level), gpu.conditions().of(OfTsg::NONE))
    }

    /// Asks the workers of all GPUs for the load of their TSGs.
    pub(crate) fn want_done(&mut self) {
        let now = now_ns();
        let mut next = u64::MAX;
        for (_, gpu) in self
            .gpus
            .iter_mut()
            .filter(|(_, gpu)| gpu.abilities.tsg_load)
        {
            if gpu.look.ask(now) {
                gpu.kick();
            }
            next = next.min(gpu.look.next(now));
        }
        self.view.set_look(next);
    }

    /// True if somebody asked for the work of the TSGs of a GPU.
    pub(crate) fn wants_done(&self, id: gpu::Id) -> bool {
        self.gpus.get(&id).is_some_and(|gpu| gpu.look.wanted)
    }

    /// Somebody has looked, which took so long.
    pub(crate) fn was_looked_at(&mut self, id: gpu::Id, took_ns: u64) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.look.done(took_ns);
        }
    }

    /// The provider's numbers of TSGs of a GPU behind `after`, as many as there is room for.
    pub(crate) fn handles_of(&self, id: gpu::Id, after: Option<u64>, found: &mut [u64]) -> usize {
        let (mut after, mut count) = (after, 0);
        for place in found {
            let Some((handle, _)) = self.next_tsg_of(id, after) else {
                break;
            };
            *place = handle;
            after = Some(handle);
            count += 1;
        }
        count
    }

    /// Takes in a provider's report of a TSG.
    pub(crate) fn take_done(&mut self, id: gpu::Id, handle: u64, done: Done) {
        let tsg = self.handles.get(&(id, handle));
        let tsg = tsg.and_then(|tsg| self.tsgs.get_mut(tsg));
        if let (Some(tsg), Some(gpu)) = (tsg, self.gpus.get_mut(&id)) {
            gpu.levels.take(&mut tsg.meter, done, tsg.effective.level);
        }
    }
}
