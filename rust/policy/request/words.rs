// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The words by which a process, its stream on the GPU and zernel speak about a request.

use core::num::NonZeroU32;

use crate::policy::units::Ns;

/// The number of a request in its slot: it counts up, wraps, and is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Number(NonZeroU32);

impl Number {
    /// The one after 0, and after the largest.
    pub(crate) const ONE: Self = Self(NonZeroU32::MIN);

    /// The number with this value; there is none for 0.
    pub(crate) fn new(value: u32) -> Option<Self> {
        NonZeroU32::new(value).map(Self)
    }

    /// The first number of a slot with the words `seen`: the last user of the page left them, so it
    /// is one that neither the trigger nor the release word has reached.
    pub(crate) fn first(seen: &Observed) -> Self {
        let after = |word| Self::new(word).map_or(Self::ONE, Self::next);
        let first = after(seen.trigger);
        if first.is_reached_by(seen.release) {
            after(seen.release)
        } else {
            first
        }
    }

    /// The value in the words.
    pub(crate) const fn get(self) -> u32 {
        self.0.get()
    }

    /// The one after it.
    pub(crate) fn next(self) -> Self {
        self.0.checked_add(1).map_or(Self::ONE, Self)
    }

    /// True if a stream that waits for this number goes on at a word that holds `word`.
    ///
    /// Cyclic, as the acquire of an NVIDIA semaphore.
    pub(crate) const fn is_reached_by(self, word: u32) -> bool {
        word.wrapping_sub(self.get()) as i32 >= 0
    }

    /// True if a word holds this number, and no other that reaches it.
    pub(crate) const fn is(self, word: u32) -> bool {
        self.get() == word
    }
}

/// The state of a gate word, `[error: 1 | pending: 63]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// Work is in flight.
    Pending,
    /// All is there.
    Open,
    /// Some of it has failed, and the request with it.
    Failed,
}

impl Gate {
    /// The bit of an error.
    const ERROR: u64 = 1 << 63;

    /// The state of a word with this value.
    pub(crate) const fn of(word: u64) -> Self {
        match word {
            0 => Self::Open,
            _ if word & Self::ERROR != 0 => Self::Failed,
            _ => Self::Pending,
        }
    }
}

/// The content of a slot's words when they were read. The process writes them at will.
///
/// To be read in the order of the fields, with acquire order: a process stores them in the opposite
/// one, so that no store is seen without the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Observed {
    /// The last request that is done.
    pub(crate) done: u32,
    /// When, on `CLOCK_MONOTONIC`, as the process claims.
    pub(crate) done_ns: Ns,
    /// Number of the last triggered request.
    pub(crate) trigger: u32,
    /// The last request that is held no longer.
    pub(crate) release: u32,
    /// The gate of a request that has one ([`Gate`]).
    pub(crate) gate: u64,
    /// When it was ready, on `CLOCK_MONOTONIC`, as the process claims.
    pub(crate) ready_ns: Ns,
    /// Number of the last request with a holder that has run.
    pub(crate) held: u32,
}

impl Observed {
    /// The state of the gate of a request; one without a gate waits for other words.
    pub(crate) const fn gate_of(&self, has_gate: bool) -> Gate {
        match has_gate {
            true => Gate::of(self.gate),
            false => Gate::Pending,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_request_words))]
mod tests {
    use super::*;

    fn first(trigger: u32, release: u32) -> u32 {
        Number::first(&Observed {
            trigger,
            release,
            ..Observed::default()
        })
        .get()
    }

    #[test]
    fn numbers_wrap_and_are_never_zero() {
        assert_eq!(Number::new(0), None);
        assert_eq!(Number::new(7).map(|n| n.next().get()), Some(8));
        assert_eq!(Number::new(u32::MAX).map(|n| n.next().get()), Some(1));
    }

    #[test]
    fn reached_is_cyclic() {
        assert!(!Number::ONE.is_reached_by(0));
        assert!(Number::ONE.is_reached_by(1));
        assert!(Number::ONE.is_reached_by(0x8000_0000));
        assert!(!Number::ONE.is_reached_by(0x8000_0001));
        assert!(!Number::ONE.is_reached_by(u32::MAX));
        let last = Number::new(u32::MAX);
        assert!(last.is_some_and(|n| n.is_reached_by(1)));
    }

    #[test]
    fn a_new_page_starts_with_one() {
        assert_eq!(first(0, 0), 1);
    }

    #[test]
    fn a_used_page_goes_on() {
        assert_eq!(first(5, 5), 6);
        assert_eq!(first(6, 5), 7);
        assert_eq!(first(5, 6), 7);
        assert_eq!(first(u32::MAX, u32::MAX), 1);
        assert_eq!(first(u32::MAX, 1), 2);
        assert_eq!(first(1, u32::MAX), 2);
    }

    #[test]
    fn no_word_has_reached_the_first() {
        for trigger in [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX] {
            for step in [0, 1, 2, 3, 0x3fff_ffff] {
                for release in [trigger.wrapping_add(step), trigger.wrapping_sub(step)] {
                    let number = Number::new(first(trigger, release));
                    assert!(number.is_some_and(|n| !n.is_reached_by(trigger)));
                    assert!(number.is_some_and(|n| !n.is_reached_by(release)));
                }
            }
        }
    }
}
