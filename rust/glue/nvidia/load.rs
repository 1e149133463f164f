// SPDX-License-Identifier: GPL-2.0
//! Registers of GPUs, as `nvidia.ko` reads them for zernel. Process context; may sleep.

use super::raw;
use core::mem::{
    offset_of,
    MaybeUninit, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Channels of a TSG that are looked at at a time, and run lists.
pub(crate) const MOST: usize = raw::NV_ZERNEL_SAMPLE_MAX as usize;

/// TSGs that are looked at at a time.
pub(crate) const MOST_LOOKS: usize = raw::NV_ZERNEL_LOOKS_MAX as usize;

/// Some channels of a TSG at a moment: `nv_zernel_sample`, with words that are there only in part.
///
/// # Invariants
///
/// The first `count` of `words` have been written, or all of them if it is more than there are.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sample {
    tsg: u64,
    first: u32,
    flags: u32,
    channels: u32,
    count: u32,
    engine: u32,
    words: [MaybeUninit<u32>; MOST],
}

static_assert!(size_of::<Sample>() == size_of::<raw::nv_zernel_sample>());
static_assert!(offset_of!(Sample, first) == offset_of!(raw::nv_zernel_sample, first));
static_assert!(offset_of!(Sample, flags) == offset_of!(raw::nv_zernel_sample, flags));
static_assert!(offset_of!(Sample, channels) == offset_of!(raw::nv_zernel_sample, channels));
static_assert!(offset_of!(Sample, count) == offset_of!(raw::nv_zernel_sample, count));
static_assert!(offset_of!(Sample, engine) == offset_of!(raw::nv_zernel_sample, engine));
static_assert!(offset_of!(Sample, words) == offset_of!(raw::nv_zernel_sample, words));

impl Sample {
    /// One that is to be taken; `first`: the channels to skip.
    fn ask(tsg: u64, first: u32) -> Self {
        // INVARIANT: No word is there.
        Self {
            tsg,
            first,
            flags: 0,
            channels: 0,
            count: 0,
            engine: 0,
            words: [MaybeUninit::uninit(); MOST],
        }
    }

    /// A word for each channel that was looked at.
    pub(crate) fn words(&self) -> &[u32] {
        let count = (self.count as usize).min(MOST);
        // SAFETY: By the invariants.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), count) }
    }

    /// Registers that were read, with that of the engine.
    pub(crate) fn reads(&self) -> u64 {
        const NOTHING: u32 = raw::NV_ZERNEL_SAMPLE_GONE | raw::NV_ZERNEL_SAMPLE_ASLEEP;
        match self.flags & NOTHING {
            0 => u64::from(self.count) + 1,
            _ => 0,
        }
    }

    /// The TSG.
    pub(crate) fn tsg(&self) -> u64 {
        self.tsg
    }

    /// The TSG is gone; nothing was read.
    pub(crate) fn is_gone(&self) -> bool {
        self.flags & raw::NV_ZERNEL_SAMPLE_GONE != 0
    }

    /// The GPU sleeps; nothing was read.
    pub(crate) fn is_asleep(&self) -> bool {
        self.flags & raw::NV_ZERNEL_SAMPLE_ASLEEP != 0
    }

    /// The words are those of Turing, `NV_PCCSR_CHANNEL`; else they are `NV_CHRAM_CHANNEL`.
    pub(crate) fn is_pccsr(&self) -> bool {
        self.flags & raw::NV_ZERNEL_SAMPLE_PCCSR != 0
    }

    /// `NV_RUNLIST_ENGINE_STATUS0` of the engine.
    pub(crate) fn engine(&self) -> u32 {
        self.engine
    }

    /// Channels of the TSG.
    pub(crate) fn channels(&self) -> u32 {
        self.channels
    }

    /// The channels before those that were looked at.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }
}

#[cfg(zernel_kunit)]
impl Sample {
    /// All channels of a TSG, each with a word of `NV_CHRAM_CHANNEL`.
    pub(crate) fn of(engine: u32, words: &[u32]) -> Self {
        let count = words.len().min(MOST) as u32;
        let mut sample = Self {
            channels: count,
            count,
            engine,
            ..Self::ask(0, 0)
        };
        for (place, word) in sample.words.iter_mut().zip(words) {
            place.write(*word);
        }
        sample
    }

    /// A GPU that sleeps.
    pub(crate) fn asleep() -> Self {
        Self {
            flags: raw::NV_ZERNEL_SAMPLE_ASLEEP,
            ..Self::ask(0, 0)
        }
    }

    /// A TSG that is gone.
    pub(crate) fn gone() -> Self {
        Self {
            flags: raw::NV_ZERNEL_SAMPLE_GONE,
            ..Self::ask(0, 0)
        }
    }

    /// The same, of what was asked for in `ask`.
    pub(crate) fn instead_of(self, ask: &Self) -> Self {
        Self {
            tsg: ask.tsg,
            first: ask.first,
            ..self
        }
    }
}

/// Samples of TSGs, [`MOST_LOOKS`] at most.
pub(crate) struct Samples {
    list: [MaybeUninit<Sample>; MOST_LOOKS],
    /// Those of `list` that are there.
    count: usize,
}

impl Samples {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            list: [const { MaybeUninit::uninit() }; MOST_LOOKS],
            count: 0,
        }
    }

    /// Adds one that is to be taken, of a TSG from its channel number `first` on. One more than there
    /// is room for is left out.
    pub(crate) fn push(&mut self, tsg: u64, first: u32) {
        if let Some(place) = self.list.get_mut(self.count) {
            place.write(Sample::ask(tsg, first));
            self.count += 1;
        }
    }

    /// All of them.
    pub(crate) fn list(&self) -> &[Sample] {
        // SAFETY: So many have been written.
        unsafe { core::slice::from_raw_parts(self.list.as_ptr().cast(), self.count) }
    }

    /// All of them, to be written over.
    #[cfg(zernel_kunit)]
    pub(crate) fn list_mut(&mut self) -> &mut [Sample] {
        // SAFETY: So many have been written.
        unsafe { core::slice::from_raw_parts_mut(self.list.as_mut_ptr().cast(), self.count) }
    }

    /// Takes them, of a GPU. Returns the number of registers that were read.
    ///
    /// # Errors
    ///
    /// As the header says.
    pub(crate) fn take(&mut self, gpu: u32) -> Result<u32> {
        let count = self.count as u32;
        // SAFETY: There are so many, with the layout of `nv_zernel_sample`.
        // INVARIANT: The driver writes as many words as it counts.
        let read = unsafe { raw::nv_zernel_tsgs_sample(gpu, self.list.as_mut_ptr().cast(), count) };
        to_result(read)?;
        Ok(read as u32)
    }
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
