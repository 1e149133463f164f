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

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use libzernel::sys::abi;

    const WHOLE: u64 = 3;
    const BUS: &str = "0000:3b:00.0";

    fn uuid(last: u8) -> [u8; 16] {
        let mut uuid = [0; 16];
        uuid[15] = last;
        uuid
    }

    /// A GPU, or an instance of the one that is `parent`, as zernel lists it.
    fn gpu(id: u64, parent: u64, bus: &str, last: u8) -> Gpu {
        let mut raw = abi::zernel_gpu_info::zeroed();
        (raw.id, raw.parent, raw.uuid) = (id, parent, uuid(last));
        for (place, byte) in raw.bus.iter_mut().zip(bus.bytes()) {
            *place = byte as _;
        }
        Gpu::from(&raw)
    }

    fn tsg(id: u64, gpu: u64, flags: u32) -> Tsg {
        let mut raw = abi::zernel_tsg_info::zeroed();
        (raw.id, raw.gpu, raw.flags) = (id, gpu, flags);
        (raw.level, raw.weight) = (abi::ZERNEL_LEVEL_NONE, abi::ZERNEL_WEIGHT_DEFAULT);
        Tsg::try_from(&raw).unwrap()
    }

    /// A GPU with two MIG instances, and another one.
    fn gpus() -> Vec<Gpu> {
        vec![
            gpu(WHOLE, 0, BUS, 1),
            gpu(4, WHOLE, "MIG 1", 2),
            gpu(5, WHOLE, "MIG 2", 3),
            gpu(6, 0, "0000:5e:00.0", 4),
        ]
    }

    fn named(bus: &str, last: u8) -> Named {
        Named {
            bus: bus.to_owned(),
            uuid: uuid(last),
        }
    }

    #[test]
    fn an_instance_is_found_by_its_uuid() {
        // CUDA tells the address of the whole GPU for each of its instances.
        for (last, id) in [(1, WHOLE), (2, 4), (3, 5)] {
            let found = gpu_of(&gpus(), &named(BUS, last));
            assert_eq!(found, Ok(gpu::Id::new(id)));
        }
        let compute = abi::ZERNEL_TSG_COMPUTE;
        let tsgs = [tsg(10, 4, compute), tsg(11, 5, compute), tsg(12, 5, 0)];
        let found = |id| tsg_of(&tsgs, gpu::Id::new(id), None, None);
        assert_eq!(found(4), Ok(tsg::Id::new(10)));
        assert_eq!(found(5), Ok(tsg::Id::new(11)));
        let none = Error::NoTsg {
            gpu: gpu::Id::new(WHOLE),
        };
        assert_eq!(found(WHOLE), Err(none));
    }

    #[test]
    fn an_address_is_that_of_a_whole_gpu() {
        let found = gpu_of(&gpus(), &named("0000:3B:00.0", 9));
        assert_eq!(found, Ok(gpu::Id::new(WHOLE)));
        let other = gpu_of(&gpus(), &named("MIG 1", 9));
        let bus = "MIG 1".to_owned();
        assert_eq!(other, Err(Error::NoGpu { bus }));
    }

    #[test]
    fn a_tsg_that_is_named_is_one_of_the_gpu() {
        let compute = abi::ZERNEL_TSG_COMPUTE;
        let tsgs = [
            tsg(10, 4, compute),
            tsg(11, 4, compute),
            tsg(12, 5, compute),
        ];
        let (gpu, one) = (gpu::Id::new(4), tsg::Id::new);
        assert_eq!(tsg_of(&tsgs, gpu, None, Some(one(11))), Ok(one(11)));
        let wrong = Error::WrongTsg { gpu, tsg: one(12) };
        assert_eq!(tsg_of(&tsgs, gpu, None, Some(one(12))), Err(wrong));
        let both = Error::Ambiguous {
            gpu,
            tsgs: vec![one(10), one(11)],
        };
        assert_eq!(tsg_of(&tsgs, gpu, None, None), Err(both));
        let before = TsgsBefore([one(10)].into());
        assert_eq!(tsg_of(&tsgs, gpu, Some(&before), None), Ok(one(11)));
    }
}
