// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU and the TSG of a context, as zernel knows them.

use std::collections::BTreeSet;

use libzernel::{gpu, tsg, Gpu, Target, Tsg, Zernel};

use crate::{Error, Result};

/// The TSGs of this process before it makes a context: that of the context is none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TsgsBefore(BTreeSet<tsg::Id>);

impl TsgsBefore {
    /// Those that there are now; none without zernel.
    pub fn now() -> Self {
        let own = |zernel: Zernel| {
            let all = zernel.tsgs_of(&Target::current_process());
            all.filter_map(Result::ok).map(|tsg| tsg.id).collect()
        };
        Self(Zernel::open().map(own).unwrap_or_default())
    }
}

/// A device as CUDA names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) bus: String,
    pub(crate) uuid: [u8; 16],
}

/// The GPU or MIG instance of a device: the one with its UUID, or else the one at its address.
pub(crate) fn gpu_of(gpus: &[Gpu], device: &Named) -> Result<gpu::Id> {
    let has_uuid = |gpu: &&Gpu| gpu.uuid.is_some_and(|uuid| *uuid.as_bytes() == device.uuid);
    let is_there = |gpu: &&Gpu| gpu.parent.is_none() && gpu.bus.eq_ignore_ascii_case(&device.bus);
    let found = gpus.iter().find(has_uuid);
    match found.or_else(|| gpus.iter().find(is_there)) {
        Some(gpu) => Ok(gpu.id),
        None => Err(Error::NoGpu {
            bus: device.bus.clone(),
        }),
    }
}

/// The TSG of a context on a GPU, among those of this process.
pub(crate) fn tsg_of(
    tsgs: &[Tsg],
    gpu: gpu::Id,
    before: Option<&TsgsBefore>,
    named: Option<tsg::Id>,
) -> Result<tsg::Id> {
    let here = tsgs.iter().filter(|tsg| tsg.compute && tsg.gpu == gpu);
    let here: Vec<tsg::Id> = here.map(|tsg| tsg.id).collect();
    if let Some(tsg) = named {
        return match here.contains(&tsg) {
            true => Ok(tsg),
            false => Err(Error::WrongTsg { gpu, tsg }),
        };
    }
    let is_new = |tsg: &&tsg::Id| before.is_none_or(|before| !before.0.contains(tsg));
    let new: Vec<tsg::Id> = here.iter().filter(is_new).copied().collect();
    match new[..] {
        [tsg] => Ok(tsg),
        [] => Err(Error::NoTsg { gpu }),
        _ => Err(Error::Ambiguous { gpu, tsgs: new }),
    }
}
