// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of requests: they count up, wrap, and are never 0.

use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

/// The number of a request in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Number(NonZeroU32);

impl Number {
    /// The number of this value; there is none for 0.
    pub const fn new(value: u32) -> Option<Self> {
        match NonZeroU32::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// Its value, as it is stored to the words of a slot.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number after it.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) => Self(next),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// True if a word of this value has reached the request: it is as late or later, cyclic.
    pub const fn is_reached_by(self, word: u32) -> bool {
        word.wrapping_sub(self.get()) as i32 >= 0
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(value: u32) -> Number {
        Number::new(value).unwrap()
    }

    #[test]
    fn zero_is_no_number_and_is_skipped() {
        assert_eq!(Number::new(0), None);
        assert_eq!(number(u32::MAX).next(), number(1));
        assert_eq!(number(7).next(), number(8));
    }

    #[test]
    fn words_reach_numbers_in_a_circle() {
        for (value, word, reached) in [
            (1, 0, false),
            (1, 1, true),
            (1, 2, true),
            (1, 1 << 31, true),
            (1, (1 << 31) + 1, false),
            (u32::MAX, u32::MAX - 1, false),
            (u32::MAX, 0, true),
            (u32::MAX, 1, true),
            (1, u32::MAX, false),
        ] {
            assert_eq!(number(value).is_reached_by(word), reached, "{value} {word}");
        }
    }

    proptest! {
        #[test]
        fn a_word_reaches_what_came_before_it(value in 1..=u32::MAX, steps in 0u32..1 << 20) {
            let last = (0..steps.min(100)).fold(number(value), |number, _| number.next());
            prop_assert!(number(value).is_reached_by(last.get()));
            prop_assert!(!last.next().is_reached_by(last.get()));
        }
    }
}
