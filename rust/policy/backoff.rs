// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When to call a provider again that answered "not now".

use super::units::Ms;

/// The delay before each next try: 1 ms, doubled each time, at most about a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The longest delay.
    pub(crate) const LONGEST: Ms = Ms(1024);

    /// Counts one more failed try and returns the delay before the next.
    pub(crate) fn next(&mut self) -> Ms {
        let delay = 1u32
            .checked_shl(self.tries)
            .map_or(Self::LONGEST, |ms| Ms(ms).min(Self::LONGEST));
        self.tries = self.tries.saturating_add(1);
        delay
    }

    /// Starts again: a try went through.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_backoff))]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_bound() {
        let mut b = Backoff::default();
        let mut expected = 1;
        for _ in 0..10 {
            assert_eq!(b.next(), Ms(expected));
            expected *= 2;
        }
        assert_eq!(b.next(), Backoff::LONGEST);
        assert_eq!(b.next(), Backoff::LONGEST);
    }

    #[test]
    fn never_overflows() {
        let mut b = Backoff {
            tries: u32::MAX - 1,
        };
        assert_eq!(b.next(), Backoff::LONGEST);
        assert_eq!(b.next(), Backoff::LONGEST);
        assert_eq!(b.next(), Backoff::LONGEST);
    }

    #[test]
    fn reset_starts_again() {
        let mut b = Backoff::default();
        b.next();
        b.next();
        b.reset();
        assert_eq!(b.next(), Ms(1));
    }
}
