// SPDX-License-Identifier: GPL-2.0 OR MIT
//! TSGs that were reported and have not been looked at yet: any number of them in a fixed place.

/// Marks of TSGs, by the remainder of their handles.
///
/// TSGs with the same remainder share a mark, and are looked at together. As many as a GPU can have
/// at a time have a mark each where a driver numbers them in a row, or by their places.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    words: [u64; Self::WORDS],
    /// Every TSG is marked.
    all: bool,
    /// The mark that is looked for first.
    next: usize,
}

/// A mark that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Every TSG.
    All,
    /// Those of this remainder.
    Of(u16),
}

impl Marks {
    /// Different marks.
    pub(crate) const COUNT: u16 = 4096;

    const WORDS: usize = Self::COUNT as usize / 64;

    /// Nothing is marked.
    pub(crate) const fn new() -> Self {
        Self {
            words: [0; Self::WORDS],
            all: false,
            next: 0,
        }
    }

    /// The mark of a TSG.
    pub(crate) const fn of(handle: u64) -> u16 {
        // Lossless: smaller than the count.
        (handle % Self::COUNT as u64) as u16
    }

    /// Marks a TSG.
    pub(crate) fn put(&mut self, handle: u64) {
        let mark = Self::of(handle);
        if let Some(word) = self.words.get_mut(usize::from(mark / 64)) {
            *word |= 1 << (mark % 64);
        }
    }

    /// Marks every TSG.
    pub(crate) fn put_all(&mut self) {
        self.words = [0; Self::WORDS];
        self.all = true;
    }

    /// True if something is marked.
    pub(crate) fn is_any(&self) -> bool {
        self.all || self.words.iter().any(|&word| word != 0)
    }

    /// Takes a mark, the one that is behind the last one taken: so none waits for more than all
    /// others.
    pub(crate) fn take(&mut self) -> Option<Mark> {
        if core::mem::take(&mut self.all) {
            return Some(Mark::All);
        }
        let (first, within) = (self.next / 64, self.next % 64);
        // The word that it begins in comes twice: from there on, and up to there.
        for step in 0..=Self::WORDS {
            let at = (first + step) % Self::WORDS;
            let from_here = u64::MAX << within;
            let mask = match step {
                0 => from_here,
                Self::WORDS => !from_here,
                _ => u64::MAX,
            };
            let Some(word) = self.words.get_mut(at) else {
                continue;
            };
            let found = *word & mask;
            if found != 0 {
                let bit = found.trailing_zeros();
                *word &= !(1 << bit);
                let mark = at * 64 + bit as usize;
                self.next = (mark + 1) % usize::from(Self::COUNT);
                return u16::try_from(mark).ok().map(Mark::Of);
            }
        }
        None
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_marks))]
mod tests {
    use super::*;

    #[test]
    fn each_is_taken_once_and_in_turn() {
        let mut marks = Marks::new();
        assert!(!marks.is_any());
        assert_eq!(marks.take(), None);
        for handle in [70, 5, 4095, 70, 4096 + 64] {
            marks.put(handle);
        }
        assert!(marks.is_any());
        for mark in [5, 64, 70] {
            assert_eq!(marks.take(), Some(Mark::Of(mark)));
        }
        // Those that are marked again come behind the others.
        marks.put(64);
        marks.put(5);
        for mark in [4095, 5, 64] {
            assert_eq!(marks.take(), Some(Mark::Of(mark)));
        }
        assert_eq!(marks.take(), None);
    }

    #[test]
    fn one_in_the_word_that_was_reached_is_not_missed() {
        let mut marks = Marks::new();
        marks.put(10);
        assert_eq!(marks.take(), Some(Mark::Of(10)));
        marks.put(9);
        assert_eq!(marks.take(), Some(Mark::Of(9)));
        marks.put(9);
        assert_eq!(marks.take(), Some(Mark::Of(9)));
        assert!(!marks.is_any());
    }

    #[test]
    fn all_of_them_are_one_mark() {
        let mut marks = Marks::new();
        marks.put(1);
        marks.put_all();
        assert!(marks.is_any());
        assert_eq!(marks.take(), Some(Mark::All));
        assert_eq!(marks.take(), None);
        for handle in 0..u64::from(Marks::COUNT) {
            marks.put(handle);
        }
        for mark in 0..Marks::COUNT {
            assert_eq!(marks.take(), Some(Mark::Of(mark)));
        }
        assert!(!marks.is_any());
    }
}
