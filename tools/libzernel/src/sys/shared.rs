// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a slot order what they hand over. Data that is not atomic goes from a program to its
//! GPU and back; Miri and ThreadSanitizer find it if a store or a load of a word does not order it
//! (scripts/sanitizers).
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread;

use crate::request::{Number, Slot, Slots, Word};
use crate::sys::memory::{self, SharedMemory};
use crate::Timestamp;

/// Requests; Miri is slow.
const ROUNDS: u32 = if cfg!(miri) { 8 } else { 20_000 };
/// Numbers wrap on the way.
const FIRST: u32 = u32::MAX - ROUNDS / 2;

/// Data without a lock.
struct Plain(UnsafeCell<u64>);

// SAFETY: None. That threads take turns with it is what is tested.
unsafe impl Sync for Plain {}

impl Plain {
    const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn get(&self) -> u64 {
        // SAFETY: The words of the slot keep others away, or the test fails.
        unsafe { *self.0.get() }
    }

    fn set(&self, value: u64) {
        // SAFETY: As above.
        unsafe { *self.0.get() = value }
    }
}

/// A slot, what its requests hand over, and what comes back.
struct Handover {
    slots: Slots,
    data: Plain,
    result: Plain,
}

/// Each number of the test, with its place.
fn numbers() -> impl Iterator<Item = (u64, Number)> {
    let first = Number::new(FIRST).expect("it is not 0");
    let all = std::iter::successors(Some(first), |number| Some(number.next()));
    (1..=u64::from(ROUNDS)).zip(all)
}

fn at(place: u64) -> Timestamp {
    Timestamp::from_ns(10 * place)
}

impl Handover {
    fn new() -> Self {
        let slots = Slots::of_memory(SharedMemory::anonymous().unwrap());
        let new = Self {
            slots,
            data: Plain::new(),
            result: Plain::new(),
        };
        for word in [Word::Trigger, Word::Release, Word::Done, Word::Held] {
            new.slot().store(word, FIRST - 1);
        }
        new
    }

    fn slot(&self) -> Slot<'_> {
        self.slots.slot(0).unwrap()
    }

    fn words(&self) -> &memory::Slot {
        &self.slots.memory().slots()[0]
    }

    fn wait(&self, word: Word, number: Number) {
        while !number.is_reached_by(self.slot().load(word)) {
            thread::yield_now();
        }
    }

    /// Prepares, tells by `ready`, and looks at the result.
    fn program(&self, ready: impl Fn(&Self, Number, Timestamp)) {
        for (place, number) in numbers() {
            self.data.set(place);
            ready(self, number, at(place));
            self.wait(Word::Done, number);
            assert_eq!(self.result.get(), 2 * place);
        }
    }

    /// The stream of the request: its wait, its holder, its work, its store.
    fn gpu(&self) {
        for (place, number) in numbers() {
            self.wait(Word::Trigger, number);
            self.slot().store(Word::Held, number.get());
            self.wait(Word::Release, number);
            let data = self.data.get();
            assert_eq!(data, place);
            self.result.set(2 * data);
            self.slot().done_at(number, at(place));
        }
    }

    /// Triggers, beside the program that may do so itself, and reads the times that belong to words.
    fn zernel(&self) {
        for (place, number) in numbers() {
            let words = self.words();
            let missing = |word| (!number.is_reached_by(word)).then_some(number.get());
            let _ = words.trigger.fetch_update(AcqRel, Acquire, missing);
            self.wait(Word::Release, number);
            assert!(words.ready_at.load(Relaxed) >= at(place).as_ns());
            self.wait(Word::Done, number);
            assert!(words.done_at.load(Relaxed) >= at(place).as_ns());
        }
    }

    fn run(&self, ready: impl Fn(&Self, Number, Timestamp) + Sync) {
        thread::scope(|scope| {
            scope.spawn(|| self.gpu());
            scope.spawn(|| self.zernel());
            self.program(&ready);
        });
    }
}

#[test]
fn words_order_what_they_hand_over() {
    Handover::new().run(|handover, number, at| handover.slot().ready_at(number, at));
}

/// Fails with each of the tools, which shows that they look. Without them it may pass.
#[test]
#[ignore = "a race: scripts/sanitizers shows that it is found"]
fn planted_a_release_without_order() {
    Handover::new().run(|handover, number, at| {
        let words = handover.words();
        words.ready_at.store(at.as_ns(), Relaxed);
        words.release.store(number.get(), Relaxed);
        words.trigger.store(number.get(), Relaxed);
    });
}
