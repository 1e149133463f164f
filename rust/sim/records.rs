// SPDX-License-Identifier: GPL-2.0
//! A queue of records that never overwrites: it counts those that do not fit.

use kernel::prelude::*;

/// The queue.
pub(crate) struct Records<T> {
    records: KVVec<T>,
    first: usize,
    len: usize,
    dropped: u64,
}

impl<T: Copy> Records<T> {
    /// A queue without room.
    pub(crate) const fn new() -> Self {
        Self {
            records: KVVec::new(),
            first: 0,
            len: 0,
            dropped: 0,
        }
    }

    /// A queue for `capacity` records. `blank` fills it.
    pub(crate) fn with_capacity(capacity: usize, blank: T) -> Result<Self> {
        Ok(Self {
            records: KVVec::from_elem(blank, capacity, GFP_KERNEL_ACCOUNT)?,
            ..Self::new()
        })
    }

    /// True if nothing fits.
    pub(crate) fn is_unset(&self) -> bool {
        self.records.is_empty()
    }

    /// True if there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records that did not fit.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn place(&self, at: usize) -> usize {
        let at = self.first.saturating_add(at);
        if at < self.records.len() {
            at
        } else {
            at.saturating_sub(self.records.len())
        }
    }

    /// Appends a record, or counts it.
    pub(crate) fn push(&mut self, record: T) {
        let (place, size) = (self.place(self.len), self.records.len());
        match self.records.get_mut(place) {
            Some(slot) if self.len < size => {
                *slot = record;
                self.len = self.len.saturating_add(1);
            }
            _ => self.dropped = self.dropped.saturating_add(1),
        }
    }

    /// Copies records to `out` from the one with number `from` on. Returns how many.
    pub(crate) fn peek(&self, from: usize, out: &mut [T]) -> usize {
        let mut count = 0;
        for (at, slot) in (from..self.len).zip(out.iter_mut()) {
            if let Some(record) = self.records.get(self.place(at)) {
                *slot = *record;
                count += 1;
            }
        }
        count
    }

    /// Takes the first `count` records away.
    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.len);
        self.first = self.place(count);
        self.len -= count;
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_sim_records)]
mod tests {
    use crate::records::*;

    #[test]
    fn records_come_out_in_order_and_the_rest_is_counted() -> Result {
        let mut records = Records::with_capacity(3, 0u32)?;
        for record in 1..=5 {
            records.push(record);
        }
        assert_eq!(records.dropped(), 2);
        let mut out = [0; 2];
        assert_eq!(records.peek(0, &mut out), 2);
        assert_eq!(out, [1, 2]);
        assert_eq!(records.peek(2, &mut out), 1);
        assert_eq!(out[0], 3);
        records.consume(2);
        records.push(6);
        records.push(7);
        assert_eq!(records.peek(1, &mut out), 2);
        assert_eq!(out, [6, 7]);
        records.consume(9);
        assert!(records.is_empty());
        Ok(())
    }

    #[test]
    fn nothing_fits_into_a_ring_without_storage() {
        let mut records = Records::<u32>::new();
        assert!(records.is_unset());
        records.push(1);
        assert_eq!(records.dropped(), 1);
        assert!(records.is_empty());
    }
}
