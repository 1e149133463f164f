// SPDX-License-Identifier: GPL-2.0
//! The list of GPUs.

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
    policy::switch_cost::Phase,
    registry::{
        self,
        gpu::{
            self,
            Gpu, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// GPUs.
pub(super) struct Gpus;

impl Kind for Gpus {
    type Entry = uapi::zernel_gpu_info;
    const FILTERS: &'static [u32] = &[uapi::ZERNEL_TARGET_GPU];

    fn changes() -> Result<u64> {
        registry::with(|r| r.gpu_changes())
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, _: &Viewer) -> Result {
        let only = registry::with(|r| Self::only(r, filter))??;
        part.fill_each(|from| {
            registry::with(|r| {
                let (id, gpu) = r.gpu_from(gpu::Id(from))?;
                let is_shown = only.is_none_or(|only| only == id);
                let info = is_shown.then(|| info(r, id, gpu));
                if is_shown {
                    r.want_load(id);
                }
                Some((id.0, info))
            })
        })
    }
}

impl Gpus {
    /// The GPU that a filter names.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is none.
    pub(super) fn only(registry: &Registry, filter: &Target) -> Result<Option<gpu::Id>> {
        match filter {
            Target::Gpu(id) => registry.gpu(*id).map(|_| Some(*id)).ok_or(ENOENT),
            _ => Ok(None),
        }
    }
}

/// The abilities of its provider.
fn caps(gpu: &Gpu) -> u64 {
    let caps = combine(&[
        (true, uapi::ZERNEL_GPU_CAP_TIMESLICE),
        (gpu.abilities.interleave, uapi::ZERNEL_GPU_CAP_INTERLEAVE),
        (gpu.abilities.preempt, uapi::ZERNEL_GPU_CAP_PREEMPT),
        (gpu.abilities.enable, uapi::ZERNEL_GPU_CAP_ENABLE),
        (gpu.requests.can_kick(), uapi::ZERNEL_GPU_CAP_KICK),
        (gpu.abilities.load, uapi::ZERNEL_GPU_CAP_LOAD),
        (
            gpu.abilities.tsg_load && !gpu.blind,
            uapi::ZERNEL_GPU_CAP_TSG_LOAD,
        ),
        (gpu.tells.control, uapi::ZERNEL_GPU_CAP_CONTROL),
        (gpu.tells.waits, uapi::ZERNEL_GPU_CAP_WAITS),
        (gpu.tells.context, uapi::ZERNEL_GPU_CAP_CONTEXT),
    ]);
    caps.into()
}

fn info(registry: &Registry, id: gpu::Id, gpu: &Gpu) -> uapi::zernel_gpu_info {
    uapi::zernel_gpu_info {
        id: id.0,
        // No provider tells of parts of a GPU.
        parent: 0,
        caps: caps(gpu),
        added_at: gpu.added_at,
        busy_ns: gpu.load.busy_ns,
        busy_at: gpu.load.read_at,
        switch_ns: gpu
            .requests
            .switch_cost(Phase::Settled)
            .max(gpu.requests.switch_cost(Phase::Free))
            .0,
        applied: gpu.applied,
        retries: gpu.retries,
        errors: gpu.errors,
        state: registry.state_of(gpu),
        tsgs: gpu.tsgs,
        pending: gpu.pending + u32::from(gpu.working),
        numa_node: gpu.names.numa_node.unwrap_or(-1),
        min_timeslice_us: gpu.bounds.min.0,
        max_timeslice_us: gpu.bounds.max.0,
        uuid: gpu.names.uuid,
        bus: gpu.names.bus,
        provider: gpu.names.provider,
        driver: gpu.names.driver,
        name: gpu.names.name,
    }
}
