// SPDX-License-Identifier: GPL-2.0
//! Lists of the ABI before: GPUs and TSGs.

use super::combine;
use crate::{
    glue::{
        abi::{
            self,
            Abi, //
        },
        identity::Viewer,
        uapi, //
    },
    registry::{
        self,
        gpu::{
            self,
            Gpu, //
        },
        tsg::{
            self,
            Tsg, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// Most entries of a page.
const PAGE: usize = 64;

/// Longest entry that a program may know.
const MAX_ENTRY: usize = 4096;

/// Fills a page with GPUs.
pub(in crate::device) fn gpus(arg: usize, size: usize) -> Result {
    from_registry(arg, size, |registry, from| {
        let (id, gpu) = registry.gpu_from(gpu::Id(from))?;
        let info = gpu_info(id, gpu, registry.takes_turns_on(gpu));
        registry.want_load(id);
        Some((id.0, info))
    })
}

/// Fills a page with the TSGs that the caller may see.
pub(in crate::device) fn tsgs(arg: usize, size: usize) -> Result {
    let viewer = Viewer::current();
    from_registry(arg, size, |registry, from| {
        let (id, tsg) = registry.tsg_from(tsg::Id(from), &viewer)?;
        Some((id.0, tsg_info(id, tsg, &viewer)))
    })
}

/// A page that is filled.
pub(in crate::device) struct Page<T> {
    cursor: u64,
    most: usize,
    entries: KVec<T>,
}

impl<T> Page<T> {
    /// The lowest id of what comes next; `None` at the end of all ids.
    pub(in crate::device) fn from(&self) -> Option<u64> {
        self.cursor.checked_add(1)
    }

    /// Adds an entry. Returns whether there is room for more.
    pub(in crate::device) fn push(&mut self, id: u64, entry: T) -> bool {
        if self.entries.len() >= self.most {
            return false;
        }
        // Never fails: the capacity was allocated.
        if self.entries.push(entry, GFP_NOWAIT).is_ok() {
            self.cursor = id;
        }
        self.entries.len() < self.most
    }
}

/// Fills a page with what `next` finds: the first entry with an id of at least its argument.
fn from_registry<T: Abi>(
    arg: usize,
    size: usize,
    next: impl Fn(&mut Registry, u64) -> Option<(u64, T)>,
) -> Result {
    page(arg, size, |page| {
        registry::with(|registry| {
            while let Some((id, entry)) = page.from().and_then(|from| next(registry, from)) {
                if !page.push(id, entry) {
                    return;
                }
            }
        })
    })
}

/// Has a page filled, and hands it to the caller.
fn page<T: Abi>(arg: usize, size: usize, fill: impl FnOnce(&mut Page<T>) -> Result) -> Result {
    let mut list: uapi::zernel_v0_list = abi::read(arg, size)?;
    let stride = list.entry_size as usize;
    if list.flags != 0
        || list.reserved != 0
        || list.count == 0
        || !(T::FIRST_SIZE..=MAX_ENTRY).contains(&stride)
    {
        return Err(EINVAL);
    }
    let most = PAGE.min(list.count as usize);
    let mut page = Page {
        cursor: list.cursor,
        most,
        entries: KVec::with_capacity(most, GFP_KERNEL)?,
    };
    fill(&mut page)?;
    list.cursor = page.cursor;
    let address = usize::try_from(list.entries).map_err(|_| EFAULT)?;
    abi::write_array(address, stride, &page.entries)?;
    list.count = page.entries.len() as u32;
    abi::write(arg, size, &list)
}

fn gpu_info(id: gpu::Id, gpu: &Gpu, turns: bool) -> uapi::zernel_v0_gpu_info {
    let flags = [
        (true, uapi::ZERNEL_V0_GPU_TIMESLICE),
        (gpu.abilities.interleave, uapi::ZERNEL_V0_GPU_INTERLEAVE),
        (gpu.abilities.preempt, uapi::ZERNEL_V0_GPU_PREEMPT),
        (gpu.abilities.enable, uapi::ZERNEL_V0_GPU_ENABLE),
        (gpu.abilities.load, uapi::ZERNEL_V0_GPU_LOAD),
        (gpu.retrying, uapi::ZERNEL_V0_GPU_SUSPENDED),
        (turns, uapi::ZERNEL_V0_GPU_TURNS),
        (gpu.unresponsive, uapi::ZERNEL_V0_GPU_UNRESPONSIVE),
    ];
    uapi::zernel_v0_gpu_info {
        id: id.0,
        flags: combine(&flags),
        tsgs: gpu.tsgs,
        pending: gpu.pending + u32::from(gpu.working),
        busy_permille: gpu.load.share.map_or(0, |share| share.0),
        applied: gpu.applied,
        retries: gpu.retries,
        errors: gpu.errors,
        name: cut(&gpu.names.name),
        bus: gpu.names.bus,
        provider: gpu.names.provider,
    }
}

fn tsg_info(id: tsg::Id, tsg: &Tsg, viewer: &Viewer) -> uapi::zernel_v0_tsg_info {
    let flags = [
        (tsg.traits.compute, uapi::ZERNEL_V0_TSG_COMPUTE),
        (
            tsg.queued.is_some() || tsg.busy,
            uapi::ZERNEL_V0_TSG_PENDING,
        ),
        (tsg.failed, uapi::ZERNEL_V0_TSG_FAILED),
        (tsg.traits.shared, uapi::ZERNEL_V0_TSG_SHARED),
    ];
    uapi::zernel_v0_tsg_info {
        id: id.0,
        gpu: tsg.gpu.0,
        cgroup: tsg.cgroup,
        added_ns: tsg.added_ns,
        applied: tsg.applied,
        errors: tsg.errors,
        flags: combine(&flags),
        hw_tsg: tsg.traits.hw_tsg,
        engine: tsg.traits.engine,
        runlist: tsg.traits.runlist,
        channels: tsg.traits.channels,
        pid: viewer.number_of(&tsg.owner.process),
        tid: viewer.number_of(&tsg.owner.thread),
        uid: viewer.number_of_user(tsg.owner.uid),
        level: tsg
            .effective
            .level
            .map_or(uapi::ZERNEL_V0_LEVEL_NONE, |l| l.number()),
        source: tsg.effective.source() as u32,
        timeslice_us: tsg.current.map_or(0, |hw| hw.timeslice.0),
        default_timeslice_us: tsg.original.map_or(0, |hw| hw.timeslice.0),
        interleave: tsg.current.and_then(|hw| hw.interleave).unwrap_or(0),
        reserved: 0,
        comm: tsg.owner.comm,
    }
}

/// The name as long as it may be there.
fn cut(name: &[u8; 64]) -> [u8; 32] {
    let mut short = [0; 32];
    for (to, from) in short.iter_mut().take(31).zip(name) {
        *to = *from;
    }
    short
}
