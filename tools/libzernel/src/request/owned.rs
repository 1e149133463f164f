// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request of its own: for one who is told elsewhere that the data is ready.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::Arc;

use rustix::io::Errno;

use super::{Begin, Begun, Number, Slot, Slots};
use crate::{Call, Error, Result};

/// A request that has begun, and its end: it is ready, or given up. Dropped before either, it is given
/// up, too. Any thread may have it.
#[derive(Debug)]
pub struct Request {
    slots: Arc<Slots>,
    slot: u32,
    begun: Begun,
    is_over: AtomicBool,
    /// The process that began it: a child of `fork()` has no slots.
    process: u32,
}

impl Request {
    /// Begins a request in a slot, without a gate there: its owner counts its pieces of work itself.
    ///
    /// Errors: those of [`Slot::begin`]; `ENXIO` also where `slots` have no such number.
    pub fn begin(slots: &Arc<Slots>, slot: u32, begin: &Begin) -> Result<Self> {
        let place = slots.slot(slot).ok_or(Error::Call {
            call: Call::Begin,
            errno: Errno::NXIO,
        })?;
        let begun = place.begin(&begin.without_gate())?;
        Ok(Self::of(slots, slot, begun))
    }

    fn of(slots: &Arc<Slots>, slot: u32, begun: Begun) -> Self {
        Self {
            slots: Arc::clone(slots),
            slot,
            begun,
            is_over: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    /// Its number in its slot.
    pub fn number(&self) -> Number {
        self.begun.number
    }

    /// As zernel answered.
    pub fn begun(&self) -> &Begun {
        &self.begun
    }

    /// Its data is ready: stores that, once, without a system call. One that is over, also because a
    /// later one has begun in its slot, stays so.
    pub fn ready(&self) {
        self.end(|slot, number| slot.ready(number));
    }

    /// It is given up, unless it is ready: the GPU is given back.
    pub fn cancel(&self) {
        if self.is_over.load(Acquire) || std::process::id() != self.process {
            return;
        }
        // It may be over: its lease has expired, or its TSG is gone.
        self.end(|slot, number| drop(slot.cancel(number)));
    }

    /// Does something to the slot, once.
    fn end(&self, how: impl FnOnce(Slot<'_>, Number)) {
        if self.is_over.swap(true, AcqRel) {
            return;
        }
        if let Some(slot) = self.slots.slot(self.slot) {
            how(slot, self.begun.number);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Word;
    use crate::sys::memory::SharedMemory;
    use crate::{tsg, Timestamp};

    /// A slot with words, and its request 5.
    fn begun(trigger: u32, release: u32) -> (Arc<Slots>, Request) {
        let slots = Arc::new(Slots::of_memory(SharedMemory::anonymous().unwrap()));
        let slot = slots.slot(2).unwrap();
        slot.store(Word::Trigger, trigger);
        slot.store(Word::Release, release);
        let begun = Begun {
            number: Number::new(5).unwrap(),
            predicted: None,
            trigger_at: Timestamp::from_ns(0),
        };
        let request = Request::of(&slots, 2, begun);
        (slots, request)
    }

    fn words(slots: &Slots) -> (u32, u32) {
        let slot = slots.slot(2).unwrap();
        (slot.load(Word::Trigger), slot.load(Word::Release))
    }

    #[test]
    fn it_is_ready_once() {
        let (slots, request) = begun(4, 4);
        request.ready();
        assert_eq!(words(&slots), (5, 5));
        slots.slot(2).unwrap().store(Word::Release, 4);
        request.ready();
        request.cancel();
        drop(request);
        assert_eq!(words(&slots), (5, 4));
    }

    #[test]
    fn one_that_is_over_touches_no_later_one() {
        for words_of_later in [(5, 5), (6, 5), (6, 6), (9, 8)] {
            let (slots, request) = begun(words_of_later.0, words_of_later.1);
            request.ready();
            assert_eq!(words(&slots), words_of_later);
        }
    }

    #[test]
    fn what_is_given_up_is_never_ready() {
        let (slots, request) = begun(4, 4);
        request.cancel();
        request.ready();
        drop(request);
        assert_eq!(words(&slots), (4, 4));
    }

    #[test]
    fn a_child_of_fork_gives_nothing_up() {
        let (slots, mut request) = begun(4, 4);
        request.process += 1;
        request.cancel();
        assert!(!request.is_over.load(Acquire));
        drop(request);
        assert_eq!(words(&slots), (4, 4));
    }

    #[test]
    fn another_file_begins_none() {
        let slots = Arc::new(Slots::of_memory(SharedMemory::anonymous().unwrap()));
        let begin = Begin::new(tsg::Id::new(1)).with_gate();
        let none = Request::begin(&slots, 64, &begin).unwrap_err();
        assert_eq!(none.errno(), Some(Errno::NXIO));
        let refused = Request::begin(&slots, 0, &begin).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::NOTTY));
    }
}
