// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a context shares with its kernels, in words of 64 bits.
//!
//! ============  ==========================================================================
//! word          content
//! ============  ==========================================================================
//! 0             to the spinning kernel: number of the last question for its time; bit 63: stop
//! 1             when it began
//! 2             its time now
//! 3             gaps in its time so far
//! 4             when it ended
//! 5             number of the last question that it has answered
//! 6             the answer
//! 512 ...       a ring of gaps: from and until of each
//! 16896 ...     a ring of items: begin and end of each
//! ============  ==========================================================================

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use anyhow::{ensure, Result};

const TOLD: usize = 0;
const BEGUN: usize = 1;
const LAST: usize = 2;
const GAPS: usize = 3;
const ANSWERED: usize = 5;
const ANSWER: usize = 6;
const RING: usize = 512;
const RING_SIZE: u64 = 8192;
const ITEMS: usize = RING + 2 * RING_SIZE as usize;
const ITEMS_SIZE: u64 = 1024;

const STOP: u64 = 1 << 63;

/// Bytes of all of it.
pub const BYTES: usize = 8 * (ITEMS + 2 * ITEMS_SIZE as usize);

/// A moment in the work of a spinning kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    gaps: u64,
    time: u64,
}

/// The words.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a>(pub &'a [AtomicU64]);

impl Page<'_> {
    fn load(&self, word: usize) -> u64 {
        self.0[word].load(Acquire)
    }

    /// Tells the spinning kernel to stop.
    pub fn stop(&self) {
        self.0[TOLD].fetch_or(STOP, Release);
    }

    /// The next spinning kernel goes on until it is told.
    pub fn start(&self) {
        self.0[TOLD].fetch_and(!STOP, Release);
    }

    /// Asks the spinning kernel for its time. Returns the number of the question.
    pub fn ask(&self) -> u64 {
        (self.0[TOLD].fetch_add(1, Release) & !STOP) + 1
    }

    /// The answer to a question, once it is there.
    pub fn answer(&self, question: u64) -> Option<u64> {
        (self.load(ANSWERED) == question).then(|| self.load(ANSWER))
    }

    /// The time of the spinning kernel, which stands while it is off the GPU.
    pub fn time(&self) -> u64 {
        self.load(LAST)
    }

    /// The moment now.
    pub fn mark(&self) -> Mark {
        Mark {
            gaps: self.load(GAPS),
            time: self.load(LAST),
        }
    }

    /// Times, by the GPU's clock, in which the spinning kernel was on the GPU since a moment.
    ///
    /// Errors: there were more gaps than there is room for.
    pub fn runs_since(&self, mark: Mark) -> Result<Vec<(u64, u64)>> {
        let (last, count) = (self.load(LAST), self.load(GAPS));
        let mut from = mark.time.max(self.load(BEGUN));
        let mut runs = Vec::new();
        let mut add = |from: u64, until: u64| {
            if from < until {
                runs.push((from, until));
            }
        };
        for gap in mark.gaps..count {
            let at = RING + 2 * (gap % RING_SIZE) as usize;
            let (off, on) = (self.load(at), self.load(at + 1));
            add(from, off);
            from = on.max(from);
        }
        add(from, last);
        let lost = self.load(GAPS).saturating_sub(mark.gaps) > RING_SIZE;
        ensure!(
            !lost,
            "the kernel was off the GPU more often than is recorded"
        );
        Ok(runs)
    }

    /// Makes room for an item. Returns the offset of its words in bytes.
    pub fn new_item(&self, number: u64) -> u64 {
        let at = Self::item_at(number);
        for word in &self.0[at..at + 2] {
            word.store(0, Relaxed);
        }
        8 * at as u64
    }

    /// Begin and end of an item that is over.
    pub fn item(&self, number: u64) -> Option<(u64, u64)> {
        let at = Self::item_at(number);
        let end = self.load(at + 1);
        (end != 0).then(|| (self.load(at), end))
    }

    fn item_at(number: u64) -> usize {
        ITEMS + 2 * (number % ITEMS_SIZE) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the kernels, which has the same numbers.
    const KERNELS: &str = include_str!("kernels.ptx");

    fn words() -> Vec<AtomicU64> {
        (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    /// As the kernel records a gap.
    fn gap(words: &[AtomicU64], from: u64, until: u64) {
        let count = words[GAPS].load(Relaxed);
        let at = RING + 2 * (count % RING_SIZE) as usize;
        words[at].store(from, Relaxed);
        words[at + 1].store(until, Relaxed);
        words[GAPS].store(count + 1, Relaxed);
        words[LAST].store(until, Relaxed);
    }

    #[test]
    fn offsets_are_those_of_the_kernels() {
        for (word, place) in [
            (BEGUN, "[%page+8], %begin"),
            (LAST, "[%page+16], %now"),
            (GAPS, "[%page+24], %gaps"),
            (ANSWERED, "[%page+40], %ask"),
            (ANSWER, "[%page+48], %now"),
            (RING, "[%at+4096], %last"),
        ] {
            assert!(place.contains(&format!("+{}]", 8 * word)), "{place}");
            assert!(KERNELS.contains(place), "{place}");
        }
        assert!(KERNELS.contains(&format!("%gaps, {};", RING_SIZE - 1)));
        for name in ["spin", "item", "holder"] {
            assert!(KERNELS.contains(&format!(".visible .entry {name}(")));
        }
    }

    #[test]
    fn runs_are_between_gaps() {
        let words = words();
        let page = Page(&words);
        words[BEGUN].store(1_000, Relaxed);
        words[LAST].store(1_500, Relaxed);
        assert_eq!(page.runs_since(Mark::default()).unwrap(), [(1_000, 1_500)]);
        let mark = page.mark();
        assert_eq!(page.runs_since(mark).unwrap(), []);
        gap(&words, 1_800, 2_600);
        words[LAST].store(3_000, Relaxed);
        assert_eq!(
            page.runs_since(mark).unwrap(),
            [(1_500, 1_800), (2_600, 3_000)]
        );
        // It was off the GPU at the moment.
        let mark = page.mark();
        gap(&words, 3_000, 9_000);
        words[LAST].store(9_100, Relaxed);
        assert_eq!(page.runs_since(mark).unwrap(), [(9_000, 9_100)]);
    }

    #[test]
    fn a_ring_that_is_too_small_is_told() {
        let words = words();
        let page = Page(&words);
        let mark = page.mark();
        for at in 1..=RING_SIZE {
            gap(&words, 10 * at, 10 * at + 5);
        }
        assert_eq!(page.runs_since(mark).unwrap().len() as u64, RING_SIZE);
        gap(&words, 1_000_000, 1_000_001);
        assert!(page.runs_since(mark).is_err());
    }

    #[test]
    fn questions_and_stops_do_not_meet() {
        let words = words();
        let page = Page(&words);
        let question = page.ask();
        page.stop();
        assert_eq!(page.ask(), question + 1);
        assert_eq!(words[TOLD].load(Relaxed), STOP | (question + 1));
        assert_eq!(page.answer(question), None);
        words[ANSWER].store(77, Relaxed);
        words[ANSWERED].store(question, Relaxed);
        assert_eq!(page.answer(question), Some(77));
        page.start();
        assert_eq!(words[TOLD].load(Relaxed), question + 1);
    }

    #[test]
    fn an_item_is_over_when_it_has_an_end() {
        let words = words();
        let page = Page(&words);
        let offset = page.new_item(3) as usize / 8;
        words[offset].store(5, Relaxed);
        assert_eq!(page.item(3), None);
        words[offset + 1].store(9, Relaxed);
        assert_eq!(page.item(3), Some((5, 9)));
        assert_eq!(page.item(4), None);
        page.new_item(3 + ITEMS_SIZE);
        assert_eq!(page.item(3), None);
    }
}
