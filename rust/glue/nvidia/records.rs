// SPDX-License-Identifier: GPL-2.0
//! Records of context switches, as `nvidia.ko` reads them for zernel. Process context; may sleep.

use super::raw;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// A step of a context switch.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub(crate) struct Record(raw::nv_zernel_record);

impl Record {
    /// The TSG, where it is known for certain.
    pub(crate) fn tsg(&self) -> Option<u64> {
        Some(self.0.tsg).filter(|&tsg| tsg != 0)
    }

    /// Sequence number.
    pub(crate) fn number(&self) -> u16 {
        self.0.number
    }

    /// The step.
    pub(crate) fn tag(&self) -> u8 {
        self.0.tag
    }

    /// When, in ns of the GPU's clock.
    pub(crate) fn at(&self) -> u64 {
        self.0.at_ns
    }

    /// The compute instance, where there is one.
    pub(crate) fn compute(&self) -> Option<u8> {
        Some(self.0.compute).filter(|&compute| u32::from(compute) != raw::NV_ZERNEL_RECORD_WHOLE)
    }

    /// One as the driver tells it, of a GPU without instances.
    #[cfg(zernel_kunit)]
    pub(crate) fn new(tsg: u64, number: u16, tag: u8, at_ns: u64) -> Self {
        Self(raw::nv_zernel_record {
            tsg,
            at_ns,
            context: tsg as u32,
            number,
            tag,
            compute: raw::NV_ZERNEL_RECORD_WHOLE as u8,
        })
    }

    /// The same, of a compute instance.
    #[cfg(zernel_kunit)]
    pub(crate) fn of_compute(self, compute: u8) -> Self {
        Self(raw::nv_zernel_record { compute, ..self.0 })
    }
}

/// The clock of the GPU, before the records were fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// In ns.
    pub(crate) gpu: u64,
    /// The kernel's monotonic clock at that time, in ns.
    pub(crate) cpu: u64,
    /// The largest error of that, in ns.
    pub(crate) error: u64,
}

/// About a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// With another number, records begin anew.
    pub(crate) ring: u32,
    /// Records that were read.
    pub(crate) count: usize,
    /// More of them are there.
    pub(crate) is_more: bool,
    /// So many were lost after these.
    pub(crate) dropped: u64,
    /// The clock, if the driver tells it.
    pub(crate) time: Option<Time>,
}

/// MIG instances that a GPU can have.
pub(crate) const INSTANCES: usize = 15;

/// Reads records of a GPU or of a MIG instance of it, as many as `list` has room for. `flush`: the driver
/// fetches those that all GPUs have first.
///
/// # Errors
///
/// As the header says.
pub(crate) fn read(gpu: u32, mig: Option<u32>, flush: bool, list: &mut [Record]) -> Result<Batch> {
    let mut flags = 0;
    if flush {
        flags |= raw::NV_ZERNEL_RECORDS_FLUSH;
    }
    if mig.is_some() {
        flags |= raw::NV_ZERNEL_RECORDS_INSTANCE;
    }
    let mut records = raw::nv_zernel_records {
        size: size_of::<raw::nv_zernel_records>() as u32,
        flags,
        count: list.len().try_into().map_err(|_| EINVAL)?,
        instance: mig.unwrap_or(0),
        ..Default::default()
    };
    let place = list.as_mut_ptr().cast();
    // SAFETY: Both are valid for writes, the list for so many records, which a `Record` is.
    to_result(unsafe { raw::nv_zernel_records_read(gpu, &mut records, place) })?;
    let time = Time {
        gpu: records.gpu_ns,
        cpu: records.cpu_ns,
        error: records.error_ns,
    };
    Ok(Batch {
        ring: records.ring,
        count: records.count as usize,
        is_more: records.left > 0,
        dropped: records.dropped,
        time: Some(time).filter(|time| time.error != u64::MAX),
    })
}
