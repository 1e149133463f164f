// SPDX-License-Identifier: GPL-2.0
//! Slots: one request at a time, told to zernel by stores or by calls.

use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use rustix::io::Errno;

use super::{Begin, Begun, Number, Page};
use crate::sys::{abi, page, v0 as calls};
use crate::{Call, Error, Result, Timestamp};

/// A slot of a [`Page`]: the words of its requests.
#[derive(Debug, Clone, Copy)]
pub struct Slot<'a> {
    page: &'a Page,
    number: u32,
    words: &'a page::Slot,
}

/// A word of a slot that the GPU waits for or stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// The last request whose time has come; its stream waits for it.
    Trigger,
    /// The last request that is to be held no longer; its holder waits for it.
    Release,
    /// The last request that is done.
    Done,
    /// The last request whose holder has run, which stores it.
    Held,
    /// How many signals to load the next batch there were, from what it held when it was
    /// subscribed to them.
    Prefetch,
}

impl<'a> Slot<'a> {
    pub(super) fn new(page: &'a Page, number: u32, words: &'a page::Slot) -> Self {
        Self {
            page,
            number,
            words,
        }
    }

    /// Its number in its page.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its page.
    pub(crate) fn page(&self) -> &Page {
        self.page
    }

    /// Which of the page's 32-bit words this is.
    pub fn word(&self, word: Word) -> u32 {
        const WORDS: u32 = (size_of::<page::Slot>() / size_of::<u32>()) as u32;
        let offset = match word {
            Word::Trigger => 0,
            Word::Release => 1,
            Word::Done => 2,
            Word::Held => 3,
            Word::Prefetch => 8,
        };
        self.number * WORDS + offset
    }

    /// What a word holds now.
    pub fn load(&self, word: Word) -> u32 {
        self.at(word).load(Acquire)
    }

    /// Begins a request: its data is prepared from now on. The request before it is over.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`, `EPERM`, `EAGAIN` or `ENOMEM`.
    pub fn begin(&self, begin: &Begin) -> Result<Begun> {
        let mut raw = begin.encode(self.page.number(), self.number);
        calls::begin(self.page.fd(), &mut raw).map_err(Error::call(Call::Begin))?;
        Begun::try_from(&raw)
    }

    /// Its data is ready: stores that, without a system call.
    pub fn ready(&self, request: Number) {
        self.ready_at(request, Timestamp::now());
    }

    /// As [`Self::ready`], with the time at which it was.
    pub fn ready_at(&self, request: Number, at: Timestamp) {
        self.words.ready_ns.store(at.as_ns(), Relaxed);
        self.words.release.store(request.get(), Release);
        // Its time may have come meanwhile, and that of a later one must not be taken back.
        let missing = |word| (!request.is_reached_by(word)).then_some(request.get());
        // Either way it is reached then.
        let _ = self.words.trigger.fetch_update(AcqRel, Acquire, missing);
    }

    /// The request is done: stores that, without a system call.
    pub fn done(&self, request: Number) {
        self.done_at(request, Timestamp::now());
    }

    /// As [`Self::done`], with the time at which it was.
    pub fn done_at(&self, request: Number, at: Timestamp) {
        self.words.done_ns.store(at.as_ns(), Relaxed);
        self.words.done.store(request.get(), Release);
    }

    /// As [`Self::ready`], by a call.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn ready_call(&self, request: Number) -> Result<()> {
        self.call(Call::Ready, request, calls::ready)
    }

    /// As [`Self::done`], by a call.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn done_call(&self, request: Number) -> Result<()> {
        self.call(Call::Done, request, calls::done)
    }

    /// Gives the request up.
    ///
    /// Errors: [`Error::Call`] with `ESTALE` when the request is over.
    pub fn cancel(&self, request: Number) -> Result<()> {
        self.call(Call::Cancel, request, calls::cancel)
    }

    fn call(
        &self,
        call: Call,
        request: Number,
        make: impl FnOnce(BorrowedFd<'_>, &mut abi::zernel_v0_request) -> std::result::Result<(), Errno>,
    ) -> Result<()> {
        let mut raw = abi::zernel_v0_request {
            page: self.page.number(),
            slot: self.number,
            request: request.get(),
            flags: 0,
        };
        make(self.page.fd(), &mut raw).map_err(Error::call(call))
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
            Word::Prefetch => &self.words.prefetch,
        }
    }
}
