// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate of a slot: pieces of work in flight, counted down by stores.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::{Error, Result};

/// The gate of a slot, `[error: 1 | pending: 63]`. Of a request that began
/// [with it](super::Begin::with_gate) zernel takes 0 as ready, and the error bit as its end.
///
/// The word has no number of a request: it belongs to one until each of its pieces has left, well or
/// not, also where the request was over before.
///
/// ```no_run
/// use libzernel::request::{Begin, Slot};
///
/// # fn prepare(_: &u32) -> Result<(), ()> { Ok(()) }
/// fn run(slot: Slot<'_>, begin: &Begin, pieces: &[u32]) -> libzernel::Result<()> {
///     slot.gate().arm(pieces.len() as u64)?;
///     let request = slot.begin(&begin.with_gate())?.number;
///     std::thread::scope(|scope| {
///         for piece in pieces {
///             scope.spawn(move || {
///                 if prepare(piece).is_ok() {
///                     slot.leave(request);
///                 } else if slot.gate().fail() {
///                     // An error: the request is over already.
///                     let _ = slot.cancel(request);
///                 }
///             });
///         }
///     });
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Gate<'a>(&'a AtomicU64);

impl<'a> Gate<'a> {
    /// The bit of an error.
    pub const ERROR: u64 = 1 << 63;

    pub(super) fn new(word: &'a AtomicU64) -> Self {
        Self(word)
    }

    /// Waits for so many pieces of work from now on, before the request begins. Without any it is open.
    ///
    /// The request that the slot had is to be over: one with a gate takes this word for its own.
    ///
    /// Errors: [`Error::GateInUse`] while pieces of an earlier request have not left; the word stays.
    pub fn arm(&self, pieces: u64) -> Result<()> {
        let arm = |word| (word & !Self::ERROR == 0).then_some(pieces & !Self::ERROR);
        let armed = self.0.fetch_update(AcqRel, Acquire, arm);
        armed.map(drop).map_err(|word| Error::GateInUse {
            pieces: word & !Self::ERROR,
        })
    }

    /// A piece has ended well. True if it was the last, and none has failed.
    ///
    /// [`Slot::leave`](super::Slot::leave) also tells the GPU of that. A piece too many is an error.
    pub fn leave(&self) -> bool {
        self.take_off(0) == 1
    }

    /// A piece has failed, and the request with it: it leaves as well. True for the first that fails.
    ///
    /// zernel takes it up when it next looks at the slot; [`Slot::cancel`](super::Slot::cancel) has it
    /// do so at once.
    pub fn fail(&self) -> bool {
        self.take_off(Self::ERROR) & Self::ERROR == 0
    }

    /// Takes a piece off and sets bits, in one step. Returns the word before.
    fn take_off(&self, bits: u64) -> u64 {
        let after = |word: u64| match word & !Self::ERROR {
            0 => Self::ERROR,
            _ => (word - 1) | bits,
        };
        let step = |word| Some(after(word));
        let (Ok(before) | Err(before)) = self.0.fetch_update(AcqRel, Acquire, step);
        before
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
        slot.gate().arm(2).unwrap();
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
        slot.gate().arm(3).unwrap();
        assert!(slot.gate().fail());
        assert_eq!(slot.gate().load(), Gate::ERROR | 2);
        assert!(!slot.gate().fail());
        assert!(!slot.leave(request));
        assert_eq!(slot.gate().load(), Gate::ERROR);
        // So is one that is given back twice.
        for pieces in [0, Gate::ERROR] {
            slot.gate().store(pieces);
            assert!(!slot.leave(request));
            assert_eq!(slot.gate().load(), Gate::ERROR);
            slot.gate().store(pieces);
            assert_eq!(slot.gate().fail(), pieces == 0);
            assert_eq!(slot.gate().load(), Gate::ERROR);
        }
        assert_eq!(slot.load(Word::Release), 0);
        // No number of pieces is an error.
        slot.gate().arm(u64::MAX).unwrap();
        assert_eq!(slot.gate().load(), Gate::ERROR - 1);
    }

    #[test]
    fn it_is_armed_when_every_piece_has_left() {
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let slot = slots.slot(0).unwrap();
        let (old, new) = (Number::new(1).unwrap(), Number::new(2).unwrap());
        slot.gate().arm(3).unwrap();
        assert!(slot.gate().fail());
        for pieces in [2, 1] {
            let refused = slot.gate().arm(2).unwrap_err();
            assert_eq!(refused, Error::GateInUse { pieces });
            assert_eq!(slot.gate().load(), Gate::ERROR | pieces);
            assert!(!slot.leave(old));
        }
        slot.gate().arm(2).unwrap();
        assert_eq!(slot.gate().load(), 2);
        // Nor while none of them has failed.
        assert!(slot.gate().arm(0).is_err());
        assert!(!slot.leave(new) && slot.leave(new));
        assert_eq!(slot.load(Word::Release), 2);
    }

    #[test]
    fn one_of_many_is_the_last() {
        const PIECES: u64 = 64;
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let slot = slots.slot(0).unwrap();
        for fails in [false, true] {
            slot.gate().arm(PIECES).unwrap();
            let piece = |number| match fails && number == 7 {
                true => !slot.gate().fail(),
                false => slot.gate().leave(),
            };
            let last = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..PIECES).map(|n| scope.spawn(move || piece(n))).collect();
                let last = threads.into_iter().map(|thread| thread.join().unwrap());
                last.filter(|&last| last).count()
            });
            assert_eq!(last, usize::from(!fails));
            assert_eq!(slot.gate().load(), if fails { Gate::ERROR } else { 0 });
        }
    }
}
