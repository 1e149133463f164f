// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which range of a file is read ahead at which signal.

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first of them.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) length: u64,
}

impl Range {
    /// The part of it that lies in a file of this size.
    pub(crate) fn within(self, size: u64) -> Self {
        let room = size.saturating_sub(self.offset);
        Self {
            offset: self.offset,
            length: self.length.min(room),
        }
    }

    /// Takes off the first `most` bytes; `None` if it is empty, or `most` is 0.
    pub(crate) fn take(&mut self, most: u64) -> Option<Self> {
        let first = Self {
            offset: self.offset,
            length: self.length.min(most),
        };
        if first.length == 0 {
            return None;
        }
        self.offset = self.offset.saturating_add(first.length);
        self.length = self.length.saturating_sub(first.length);
        Some(first)
    }
}

/// Ranges one after the other, which begin anew when they have gone through a part of a file.
///
/// # Invariants
///
/// `1 <= length <= span`, and `offset + span` is at most [`Self::END`]; `done < span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    offset: u64,
    length: u64,
    span: u64,
    done: u64,
}

impl Ranges {
    /// Longest range: 1 GiB.
    pub(crate) const MAX_LENGTH: u64 = 1 << 30;

    /// No file is longer: `loff_t` is signed.
    const END: u64 = i64::MAX as u64;

    /// Ranges of `length` bytes from `offset` on, for `span` bytes; 0: always the first one. `None`:
    /// they are out of bounds.
    pub(crate) fn new(offset: u64, length: u64, span: u64) -> Option<Self> {
        let span = if span == 0 { length } else { span };
        let end = offset.checked_add(span)?;
        let fits = (1..=Self::MAX_LENGTH).contains(&length) && length <= span && end <= Self::END;
        // INVARIANT: Just checked, and 0 < 1 <= span.
        fits.then_some(Self {
            offset,
            length,
            span,
            done: 0,
        })
    }

    /// The longest of them.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The next one. The last of a span may be shorter.
    pub(crate) fn next(&mut self) -> Range {
        let left = self.span.saturating_sub(self.done);
        let length = self.length.min(left);
        let range = Range {
            offset: self.offset.saturating_add(self.done),
            length,
        };
        // INVARIANT: Below the span, or 0.
        self.done = match self.done.saturating_add(length) {
            done if done < self.span => done,
            _ => 0,
        };
        range
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_prefetch_ranges))]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64) -> Range {
        Range { offset, length }
    }

    #[test]
    fn bounds_are_kept() {
        const MOST: u64 = Ranges::MAX_LENGTH;
        const END: u64 = i64::MAX as u64;
        for (offset, length, span, fits) in [
            (0, 1, 0, true),
            (0, MOST, 0, true),
            (7, 4096, 4096, true),
            (7, 4096, END - 7, true),
            (END - 1, 1, 0, true),
            (0, 0, 0, false),
            (0, 0, 1, false),
            (0, MOST + 1, 0, false),
            (0, MOST + 1, MOST + 1, false),
            (0, 4096, 4095, false),
            (END, 1, 0, false),
            (8, 4096, END - 7, false),
            (u64::MAX, 1, 0, false),
            (0, 1, u64::MAX, false),
            (u64::MAX, MOST, u64::MAX, false),
        ] {
            assert_eq!(Ranges::new(offset, length, span).is_some(), fits);
        }
    }

    #[test]
    fn without_a_span_it_is_the_same_each_time() {
        let ranges = Ranges::new(5, 3, 0);
        assert!(ranges.is_some());
        if let Some(mut ranges) = ranges {
            assert_eq!(ranges.length(), 3);
            for _ in 0..3 {
                assert_eq!(ranges.next(), range(5, 3));
            }
        }
    }

    #[test]
    fn they_follow_each_other_and_begin_anew() {
        if let Some(mut ranges) = Ranges::new(100, 4, 10) {
            for _ in 0..3 {
                assert_eq!(ranges.next(), range(100, 4));
                assert_eq!(ranges.next(), range(104, 4));
                assert_eq!(ranges.next(), range(108, 2));
            }
        }
        if let Some(mut ranges) = Ranges::new(0, 5, 10) {
            assert_eq!(ranges.next(), range(0, 5));
            assert_eq!(ranges.next(), range(5, 5));
            assert_eq!(ranges.next(), range(0, 5));
        }
    }

    #[test]
    fn what_is_beyond_the_end_is_left_out() {
        assert_eq!(range(10, 5).within(100), range(10, 5));
        assert_eq!(range(10, 5).within(12), range(10, 2));
        assert_eq!(range(10, 5).within(10), range(10, 0));
        assert_eq!(range(10, 5).within(0), range(10, 0));
    }

    #[test]
    fn parts_make_up_the_whole() {
        let mut left = range(10, 7);
        assert_eq!(left.take(3), Some(range(10, 3)));
        assert_eq!(left.take(3), Some(range(13, 3)));
        assert_eq!(left.take(3), Some(range(16, 1)));
        assert_eq!(left.take(3), None);
        assert_eq!(range(0, 4).take(0), None);
        assert_eq!(range(0, 0).take(1), None);
    }
}
