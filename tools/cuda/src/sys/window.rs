// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words in memory of the GPU that the CPU stores to through BAR1.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use super::context::Context;
use super::driver::Driver;
use super::gdrcopy::{GdrCopy, Mapping, PAGE};
use super::memory::Memory;
use super::Address;
use crate::Result;

/// GDRCopy, by the name that its interface has.
pub const GDRCOPY: &str = "libgdrapi.so.2";

/// Words from one to the next that is used: none shares a line of a cache.
const STRIDE: usize = 16;

/// Words in memory of the GPU that the CPU stores to. Stores go on when the context is lost or
/// destroyed, and are seen by nobody then.
#[derive(Debug)]
pub struct Window {
    // It ends before the memory.
    mapping: Mapping,
    _memory: Memory,
    base: Address,
}

impl Window {
    /// The most words that one has.
    pub const WORDS: usize = PAGE / (STRIDE * size_of::<u32>());

    /// In memory of a context, with zeroes; `gdrcopy`: the library.
    ///
    /// # Errors
    ///
    /// [`Error::NoWindow`] where the CPU cannot store to memory of the GPU, [`Error::Call`]. Nothing
    /// is left then.
    pub fn new(driver: &Arc<Driver>, context: Context, gdrcopy: &Path) -> Result<Self> {
        let gdrcopy = GdrCopy::open(gdrcopy)?;
        // With a whole page in it, at any address.
        let memory = Memory::new(driver, context, 2 * PAGE)?;
        let base = memory.base().next_multiple_of(PAGE as u64);
        let window = Self {
            mapping: Mapping::new(gdrcopy, base)?,
            _memory: memory,
            base,
        };
        for word in 0..Self::WORDS {
            window.store(word, 0);
        }
        // It comes back behind the stores before it: the GPU has them then.
        window.load(0);
        Ok(window)
    }

    /// The address of a word as the GPU sees it.
    pub fn address(&self, word: usize) -> u64 {
        self.base + (word * STRIDE * size_of::<u32>()) as u64
    }

    fn word(&self, word: usize) -> Option<&AtomicU32> {
        let place = self.mapping.first() + word * STRIDE * size_of::<u32>();
        let place = (word < Self::WORDS).then_some(place as *const AtomicU32);
        // SAFETY: It is within the mapping, which stays while this does, and aligned: a mapping begins
        // with a page. Any bits are a word, and all sides use it as an atomic one.
        place.map(|place| unsafe { &*place })
    }

    /// Stores to a word: the GPU sees it after all that this thread has stored before. One beyond
    /// [`Self::WORDS`] is none.
    pub fn store(&self, word: usize, value: u32) {
        if let Some(word) = self.word(word) {
            flush();
            word.store(value, Ordering::Release);
            flush();
        }
    }

    /// The value of a word. It crosses the bus: for checks.
    pub fn load(&self, word: usize) -> Option<u32> {
        self.word(word).map(|word| word.load(Ordering::Acquire))
    }
}

/// Sends off the stores before it. The mapping gathers stores (write-combining), and no release orders
/// them.
fn flush() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: It only waits for stores.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests;
