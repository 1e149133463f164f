// SPDX-License-Identifier: GPL-2.0
//! Registers of GPUs, as `nvidia.ko` reads them for zernel. Process context; may sleep.

use super::raw;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Channels that are looked at at a time, and run lists.
pub(crate) const MOST: usize = raw::NV_ZERNEL_SAMPLE_MAX as usize;

/// Some channels of a TSG at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The GPU sleeps; nothing was read.
    pub(crate) asleep: bool,
    /// The words are those of Turing, `NV_PCCSR_CHANNEL`; else they are `NV_CHRAM_CHANNEL`.
    pub(crate) is_pccsr: bool,
    /// `NV_RUNLIST_ENGINE_STATUS0` of the engine.
    pub(crate) engine: u32,
    /// Channels of the TSG.
    pub(crate) channels: u32,
    /// The channels before those that were looked at.
    pub(crate) first: u32,
    /// Channels that were looked at.
    pub(crate) count: usize,
    /// A word for each.
    pub(crate) words: [u32; MOST],
}

impl Sample {
    /// A word for each channel that was looked at.
    pub(crate) fn words(&self) -> &[u32] {
        self.words.get(..self.count).unwrap_or(&self.words)
    }
}

/// Looks at the channels of a TSG from number `first` on.
///
/// # Errors
///
/// As the header says.
pub(crate) fn sample(tsg: u64, first: u32) -> Result<Sample> {
    let mut sample = raw::nv_zernel_sample {
        size: size_of::<raw::nv_zernel_sample>() as u32,
        first,
        ..Default::default()
    };
    // SAFETY: Valid for reads and writes, and as long as it tells.
    to_result(unsafe { raw::nv_zernel_tsg_sample(tsg, &mut sample) })?;
    Ok(Sample {
        asleep: sample.flags & raw::NV_ZERNEL_SAMPLE_ASLEEP != 0,
        is_pccsr: sample.flags & raw::NV_ZERNEL_SAMPLE_PCCSR != 0,
        engine: sample.engine,
        channels: sample.channels,
        first: sample.first,
        count: sample.count as usize,
        words: sample.words,
    })
}

/// `NV_RUNLIST_ENGINE_STATUS0` of the engines of run lists, [`MOST`] at a time.
///
/// # Errors
///
/// As the header says.
pub(crate) fn engines(gpu: u32, runlists: &[u32]) -> Result<[u32; MOST]> {
    let mut values = [0; MOST];
    let count = runlists.len().min(MOST) as u32;
    // SAFETY: There is room for so many in both.
    to_result(unsafe {
        raw::nv_zernel_engines_sample(gpu, runlists.as_ptr(), values.as_mut_ptr(), count)
    })?;
    Ok(values)
}
