// SPDX-License-Identifier: GPL-2.0
//! Registers of GPUs, as `nvidia.ko` reads them for zernel. Process context; may sleep.

use super::raw;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Channels of a TSG that are looked at at a time, and run lists.
pub(crate) const MOST: usize = raw::NV_ZERNEL_SAMPLE_MAX as usize;

/// TSGs that are looked at at a time.
pub(crate) const MOST_LOOKS: usize = raw::NV_ZERNEL_LOOKS_MAX as usize;

/// Some channels of a TSG at a moment.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Sample(raw::nv_zernel_sample);

impl Sample {
    /// A word for each channel that was looked at.
    pub(crate) fn words(&self) -> &[u32] {
        let words = self.0.words.get(..self.0.count as usize);
        words.unwrap_or(&self.0.words)
    }

    /// The GPU sleeps; nothing was read.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.flags & raw::NV_ZERNEL_SAMPLE_ASLEEP != 0
    }

    /// The words are those of Turing, `NV_PCCSR_CHANNEL`; else they are `NV_CHRAM_CHANNEL`.
    pub(crate) fn is_pccsr(&self) -> bool {
        self.0.flags & raw::NV_ZERNEL_SAMPLE_PCCSR != 0
    }

    /// `NV_RUNLIST_ENGINE_STATUS0` of the engine.
    pub(crate) fn engine(&self) -> u32 {
        self.0.engine
    }

    /// Channels of the TSG.
    pub(crate) fn channels(&self) -> u32 {
        self.0.channels
    }

    /// The channels before those that were looked at.
    pub(crate) fn first(&self) -> u32 {
        self.0.first
    }
}

#[cfg(zernel_kunit)]
impl Sample {
    /// All channels of a TSG, each with a word of `NV_CHRAM_CHANNEL`.
    pub(crate) fn of(engine: u32, words: &[u32]) -> Self {
        let mut sample = raw::nv_zernel_sample {
            size: size_of::<raw::nv_zernel_sample>() as u32,
            channels: words.len() as u32,
            count: words.len() as u32,
            engine,
            ..Default::default()
        };
        for (place, word) in sample.words.iter_mut().zip(words) {
            *place = *word;
        }
        Self(sample)
    }

    /// A GPU that sleeps.
    pub(crate) fn asleep() -> Self {
        Self(raw::nv_zernel_sample {
            flags: raw::NV_ZERNEL_SAMPLE_ASLEEP,
            ..Self::of(0, &[]).0
        })
    }

    /// The same, with others before.
    pub(crate) fn after(self, first: u32) -> Self {
        Self(raw::nv_zernel_sample { first, ..self.0 })
    }
}

/// A TSG to look at, and the channels to skip.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Ask(raw::nv_zernel_look);

impl Ask {
    /// From number `first` on.
    pub(crate) fn new(tsg: u64, first: u32) -> Self {
        Self(raw::nv_zernel_look {
            tsg,
            first,
            reserved: 0,
        })
    }

    /// The TSG.
    #[cfg(zernel_kunit)]
    pub(crate) fn tsg(&self) -> u64 {
        self.0.tsg
    }

    /// The channels to skip.
    #[cfg(zernel_kunit)]
    pub(crate) fn first(&self) -> u32 {
        self.0.first
    }
}

/// Looks at TSGs of a GPU, [`MOST_LOOKS`] at most: calls `tell` with the place in `asks` of each that
/// there is. Nothing of this folder is called under a mutex that `tell` takes.
///
/// # Errors
///
/// As the header says.
pub(crate) fn samples(gpu: u32, asks: &[Ask], tell: impl FnMut(usize, &Sample)) -> Result {
    let mut tell = tell;
    call(gpu, asks, &mut tell)
}

fn call<F: FnMut(usize, &Sample)>(gpu: u32, asks: &[Ask], tell: &mut F) -> Result {
    /// # Safety
    ///
    /// `tell` is the caller's, and `sample` is valid for as many bytes as its first word tells.
    unsafe extern "C" fn told<F: FnMut(usize, &Sample)>(
        tell: *mut c_void,
        at: u32,
        sample: *const raw::nv_zernel_sample,
    ) {
        // SAFETY: By the caller.
        if (unsafe { (*sample).size } as usize) < size_of::<Sample>() {
            // An older driver has no room for all of it.
            return;
        }
        // SAFETY: By the caller; the types have one layout, as just checked.
        let (tell, sample) = unsafe { (&mut *tell.cast::<F>(), &*sample.cast::<Sample>()) };
        tell(at as usize, sample);
    }

    // SAFETY: There are so many asks, with the layout of what they are of; `told` gets `tell`.
    to_result(unsafe {
        raw::nv_zernel_tsgs_sample(
            gpu,
            asks.as_ptr().cast(),
            asks.len() as u32,
            Some(told::<F>),
            core::ptr::from_mut(tell).cast(),
        )
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
