// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words that holders wait for: those of zernel's slots, or others in memory of the GPU.

use std::sync::Arc;

use cuda::{Context, Driver, Window};
use libzernel::request::{Slots, Word};

use crate::{Options, ReleaseWord, Result};

/// Words in memory of the GPU, one for each lane; none where holders wait for those of the slots.
///
/// A number is stored there before the slot has it, so that no trigger of the slot starts a holder that
/// misses it.
#[derive(Debug)]
pub(crate) struct Released(Option<Window>);

impl Released {
    /// As the options say. `slots`: those of the lanes.
    pub(crate) fn new(
        options: &Options,
        driver: &Arc<Driver>,
        context: Context,
        slots: &Slots,
    ) -> Result<Self> {
        if options.word != ReleaseWord::Gpu {
            return Ok(Self(None));
        }
        let window = Window::new(driver, context, &options.gdrcopy)?;
        for (lane, slot) in slots.slots().enumerate() {
            window.store(lane, slot.load(Word::Release));
        }
        Ok(Self(Some(window)))
    }

    /// The address of the word of a lane, as the GPU sees it; `slot`: that of its slot.
    pub(crate) fn address(&self, lane: u32, slot: u64) -> u64 {
        match &self.0 {
            Some(window) => window.address(lane as usize),
            None => slot,
        }
    }

    /// Ends the holder of a request, as far as it does not wait for the word of the slot.
    pub(crate) fn store(&self, lane: u32, number: u32) {
        if let Some(window) = &self.0 {
            window.store(lane as usize, number);
        }
    }
}
