// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate of a slot: pieces of work in flight, counted down by stores.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// The gate of a slot, `[error: 1 | pending: 63]`. Of a request that began
/// [with it](super::Begin::with_gate) zernel takes 0 as ready, and the error bit as its end.
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a>(&'a AtomicU64);

impl<'a> Gate<'a> {
    /// The bit of an error.
    pub const ERROR: u64 = 1 << 63;

    pub(super) fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Waits for so many pieces of work from now on, before the request begins. Without any it is open.
    pub fn arm(&self, pieces: u64) {
        self.0.store(pieces & !Self::ERROR, Release);
    }

    /// A piece has ended well. True if it was the last, and none has failed.
    ///
    /// [`Slot::leave`](super::Slot::leave) also tells the GPU of that. A piece too many is an error.
    pub fn leave(&self) -> bool {
        let before = self.0.fetch_sub(1, AcqRel);
        if before & !Self::ERROR == 0 {
            let mended = |word: u64| Some(word.wrapping_add(1) | Self::ERROR);
            let _always_some = self.0.fetch_update(AcqRel, Acquire, mended);
        }
        before == 1
    }

    /// A piece has failed, and the request with it. True for the first.
    ///
    /// zernel takes it up when it next looks at the slot; [`Slot::cancel`](super::Slot::cancel) has it
    /// do so at once.
    pub fn fail(&self) -> bool {
        self.0.fetch_or(Self::ERROR, AcqRel) & Self::ERROR == 0
    }

    /// The word now.
    pub fn load(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Stores anything, as a program that makes mistakes may.
    pub fn store(&self, word: u64) {
        self.0.store(word, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Number, Slots, Word};
    use crate::sys::memory::SharedMemory;

    #[test]
    fn the_last_piece_is_ready() {
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let (slot, other) = (slots.slot(3).unwrap(), slots.slot(4).unwrap());
        let request = Number::new(7).unwrap();
        slot.gate().arm(2);
        assert!(!slot.leave(request));
        assert_eq!((slot.load(Word::Release), slot.gate().load()), (0, 1));
        assert!(slot.leave(request));
        assert_eq!((slot.load(Word::Release), slot.gate().load()), (7, 0));
        assert_eq!((slot.load(Word::Trigger), other.gate().load()), (7, 0));
    }

    #[test]
    fn a_piece_that_fails_is_the_end() {
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let slot = slots.slot(0).unwrap();
        let request = Number::new(1).unwrap();
        slot.gate().arm(2);
        assert!(slot.gate().fail());
        assert!(!slot.gate().fail());
        assert!(!slot.leave(request) && !slot.leave(request));
        assert_eq!(slot.gate().load(), Gate::ERROR);
        // So is one that is given back twice.
        for pieces in [0, Gate::ERROR] {
            slot.gate().store(pieces);
            assert!(!slot.leave(request));
            assert_eq!(slot.gate().load(), Gate::ERROR);
        }
        assert_eq!(slot.load(Word::Release), 0);
        // No number of pieces is an error.
        slot.gate().arm(u64::MAX);
        assert_eq!(slot.gate().load(), Gate::ERROR - 1);
    }
}
