// SPDX-License-Identifier: GPL-2.0
//! The loaded module, and the caller's place in it.

use super::{
    class,
    client::Client,
    list, //
};
use crate::{
    glue::{
        probe,
        scheduler_hooks,
        time,
        uapi, //
    },
    registry::{
        self,
        assignments,
        gpu,
        tsg, //
    },
    slots,
    stream, //
};
use kernel::prelude::*;

/// Optional parts that work in this kernel.
fn caps() -> u64 {
    // Phases are made of records, and signals of phases.
    let recorded = uapi::ZERNEL_CAP_TRACK | uapi::ZERNEL_CAP_PHASES | uapi::ZERNEL_CAP_SUBSCRIBE;
    let caps = [
        (true, uapi::ZERNEL_CAP_NO_HOLDER),
        (true, uapi::ZERNEL_CAP_FEATURES),
        (true, uapi::ZERNEL_CAP_ADMIT),
        (slots::HAVE_GATES, uapi::ZERNEL_CAP_GATE),
        (scheduler_hooks::IS_SUPPORTED, recorded),
        (probe::IS_SUPPORTED, uapi::ZERNEL_CAP_PROBE),
    ];
    let here = caps.iter().filter(|(is_here, _)| *is_here);
    here.fold(class::CAPS, |all, (_, cap)| all | u64::from(*cap))
}

/// Describes the module.
pub(super) fn get(_: &Client, info: &mut uapi::zernel_info) -> Result {
    if info.flags != 0 || info.reserved != 0 {
        return Err(EINVAL);
    }
    let (loaded_at, enabled) = registry::with(|r| (r.loaded_at(), r.tunables().enabled()))?;
    info.caps = caps();
    info.abi = 1;
    info.header = uapi::ZERNEL_HEADER;
    info.loaded_at = loaded_at;
    info.clock_offset_ns = time::offset_of_caller();
    info.enabled = enabled.into();
    info.list_max = list::MAX as u32;
    info.slots_max = slots::MAX;
    info.event_max = stream::EVENT_MAX;
    info.gpus_max = gpu::MAX;
    info.tsgs_max = tsg::MAX_PER_GPU;
    info.classes_max = assignments::MAX;
    Ok(())
}
