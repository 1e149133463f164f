// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots: one request at a time, told to zernel by stores or by calls.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::io::Errno;

use super::{Begin, Begun, Gate, Number, Slots};
use crate::sys::{abi, memory, zernel as calls};
use crate::{Call, Error, Result, Timestamp};

/// A slot: the words of its requests.
#[derive(Debug, Clone, Copy)]
pub struct Slot<'a> {
    slots: &'a Slots,
    number: u32,
    /// Its place in the mapping.
    place: u32,
    words: &'a memory::Slot,
}

/// A word of a slot that the GPU waits for or stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// The last triggered request; its stream waits for it.
    Trigger,
    /// The last request that is to be held no longer; its holder waits for it.
    Release,
    /// The last request that is done.
    Done,
    /// The last request with a holder that has run; the holder stores it.
    Held,
    /// Counts the signals of a subscription, from its value at that time.
    Signals,
}

impl<'a> Slot<'a> {
    pub(super) fn new(slots: &'a Slots, number: u32, place: u32, words: &'a memory::Slot) -> Self {
        Self {
            slots,
            number,
            place,
            words,
        }
    }

    /// Its number in its file.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The slots that it is one of.
    pub(crate) fn slots(&self) -> &Slots {
        self.slots
    }

    /// The number of a word for items of a context of the software GPU that was given the memory of
    /// its [`Slots`].
    pub fn word(&self, word: Word) -> u32 {
        const WORDS: u32 = (size_of::<memory::Slot>() / size_of::<u32>()) as u32;
        let offset = match word {
            Word::Trigger => 0,
            Word::Release => 1,
            Word::Done => 2,
            Word::Held => 3,
            Word::Signals => 8,
        };
        abi::ZERNEL_SIM_MEMORY_WORD + self.place * WORDS + offset
    }

    /// Its gate.
    pub fn gate(&self) -> Gate<'a> {
        Gate::new(&self.words.gate)
    }

    /// A piece of work for a request with a gate has ended well. The last one says that the data is
    /// ready, and returns true.
    pub fn leave(&self, request: Number) -> bool {
        let is_last = self.gate().leave();
        if is_last {
            self.ready(request);
        }
        is_last
    }

    /// The value of a word now.
    pub fn load(&self, word: Word) -> u32 {
        self.at(word).load(Acquire)
    }

    /// Begins a request: its data is prepared from now on. The request before it is over.
    ///
    /// Errors: [`Error::Call`] with `ENXIO`, `ENOENT`, `EPERM`, `EAGAIN` or `ENOMEM`; with a gate also
    /// `ECANCELED` when that has failed, with features or [`Begin::admit`] `EINVAL` from a module without
    /// them. With [`Begin::admit`] also [`Error::Late`], and `ERANGE`, `ENOLCK`, `EDOM`, `ENODATA`, `EDQUOT`
    /// or `ENOSPC`.
    pub fn begin(&self, begin: &Begin) -> Result<Begun> {
        let mut raw = begin.encode(self.number);
        let fd = self.slots.fd();
        let Some(mut options) = begin.options() else {
            calls::request_begin(fd, &mut raw).map_err(Error::call(Call::Begin))?;
            return Begun::try_from(&raw);
        };
        calls::request_begin_with(fd, &mut raw, &mut options).map_err(|errno| match errno {
            Errno::BUSY => Error::Late {
                earliest: (options.earliest_ns > 0)
                    .then(|| Duration::from_nanos(options.earliest_ns)),
            },
            errno => Error::call(Call::Begin)(errno),
        })?;
        Begun::try_from(&raw)
    }

    /// Its data is ready: stores that, without a system call. One that is over, also because a later one
    /// has begun in the slot, stays so.
    pub fn ready(&self, request: Number) {
        self.ready_at(request, Timestamp::now());
    }

    /// As [`Self::ready`], with the time at which it was.
    pub fn ready_at(&self, request: Number, at: Timestamp) {
        // A thread that was stopped may come back late: no word of a later request is taken back.
        let missing = |word| (!request.is_reached_by(word)).then_some(request.get());
        if missing(self.words.release.load(Acquire)).is_some() {
            self.words.ready_at.store(at.as_ns(), Relaxed);
            let _ = self.words.release.fetch_update(AcqRel, Acquire, missing);
        }
        let _ = self.words.trigger.fetch_update(AcqRel, Acquire, missing);
    }

    /// The request is done: stores that, without a system call.
    pub fn done(&self, request: Number) {
        self.done_at(request, Timestamp::now());
    }

    /// As [`Self::done`], with the time at which it was.
    pub fn done_at(&self, request: Number, at: Timestamp) {
        self.words.done_at.store(at.as_ns(), Relaxed);
        self.words.done.store(request.get(), Release);
    }

    /// The GPU is about to store that a request is done. The time that counts is that at which zernel
    /// sees the word, which is at the slot's next begin at the latest.
    pub fn done_when_seen(&self) {
        self.words.done_at.store(u64::MAX, Relaxed);
    }

    /// As [`Self::ready`], by a call.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn ready_call(&self, request: Number) -> Result<()> {
        self.update(Call::Ready, request, abi::ZERNEL_REQUEST_READY)
    }

    /// As [`Self::done`], by a call.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn done_call(&self, request: Number) -> Result<()> {
        self.update(Call::Done, request, abi::ZERNEL_REQUEST_DONE)
    }

    /// Gives the request up.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn cancel(&self, request: Number) -> Result<()> {
        self.update(Call::Cancel, request, abi::ZERNEL_REQUEST_CANCEL)
    }

    fn update(&self, call: Call, request: Number, action: u32) -> Result<()> {
        let mut raw = abi::zernel_request_update {
            slot: self.number,
            request: request.get(),
            action,
            flags: 0,
        };
        calls::request_update(self.slots.fd(), &mut raw).map_err(Error::call(call))
    }

    /// Stores any number to a word, as a program that makes mistakes may.
    pub fn store(&self, word: Word, value: u32) {
        self.at(word).store(value, Release);
    }

    fn at(&self, word: Word) -> &'a AtomicU32 {
        match word {
            Word::Trigger => &self.words.trigger,
            Word::Release => &self.words.release,
            Word::Done => &self.words.done,
            Word::Held => &self.words.held,
            Word::Signals => &self.words.signals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::SharedMemory;

    #[test]
    fn what_is_late_takes_nothing_of_a_later_one_back() {
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let slot = slots.slot(1).unwrap();
        let number = |number| Number::new(number).unwrap();
        // The last one before numbers wrap, and the one behind it.
        let (old, new) = (number(u32::MAX), number(1));
        for word in [Word::Trigger, Word::Release] {
            slot.store(word, u32::MAX - 1);
        }
        slot.ready_at(old, Timestamp::from_ns(7));
        let words = || {
            let [trigger, release] = [Word::Trigger, Word::Release].map(|word| slot.load(word));
            (trigger, release, slot.words.ready_at.load(Relaxed))
        };
        assert_eq!(words(), (u32::MAX, u32::MAX, 7));
        slot.ready_at(new, Timestamp::from_ns(9));
        slot.ready_at(old, Timestamp::from_ns(8));
        assert_eq!(words(), (1, 1, 9));
        // Of two threads of one request the other has stopped behind its first store.
        slot.store(Word::Release, 2);
        slot.ready_at(number(2), Timestamp::from_ns(10));
        assert_eq!(words(), (2, 2, 9));
    }
}
