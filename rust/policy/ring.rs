// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Positions in a ring that overwrites its oldest element.

/// Read and write position of a ring, with an exact count of losses.
///
/// # Invariants
///
/// `tail <= head`, `head - tail <= capacity` and `capacity > 0`. Sequence numbers start at 1;
/// element `seq` lies in slot `(seq - 1) % capacity`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// Elements ever pushed.
    head: u64,
    /// Elements ever taken or lost.
    tail: u64,
    lost: u64,
    capacity: u64,
}

/// Where the next element goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    /// Slot to write.
    pub(crate) slot: usize,
    /// Sequence number of the element.
    pub(crate) seq: u64,
    /// True if an element that nobody read was overwritten.
    pub(crate) overwrote: bool,
}

impl Ring {
    /// An empty ring of `capacity` slots, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        // INVARIANT: Empty, and not without slots.
        Self {
            head: 0,
            tail: 0,
            lost: 0,
            capacity: (capacity as u64).max(1),
        }
    }

    /// Makes room for one element.
    pub(crate) fn push(&mut self) -> Push {
        let overwrote = self.head - self.tail == self.capacity;
        if overwrote {
            self.tail += 1;
            self.lost += 1;
        }
        let slot = (self.head % self.capacity) as usize;
        self.head += 1;
        Push {
            slot,
            seq: self.head,
            overwrote,
        }
    }

    /// The slot of the oldest element.
    pub(crate) fn peek(&self) -> Option<usize> {
        (!self.is_empty()).then_some((self.tail % self.capacity) as usize)
    }

    /// Takes the oldest element and returns its slot.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let slot = self.peek()?;
        self.tail += 1;
        Some(slot)
    }

    /// True if nothing is there to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Elements that were lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Counts elements that were taken but did not reach the reader.
    pub(crate) fn lose(&mut self, elements: u64) {
        self.lost = self.lost.saturating_add(elements);
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_ring))]
mod tests {
    use super::*;

    #[test]
    fn empty_gives_nothing() {
        let mut r = Ring::new(4);
        assert!(r.is_empty());
        assert_eq!(r.pop(), None);
        assert_eq!(r.lost(), 0);
    }

    #[test]
    fn first_in_first_out() {
        let mut r = Ring::new(4);
        assert_eq!(r.push().slot, 0);
        assert_eq!(r.push().slot, 1);
        assert_eq!(r.peek(), Some(0));
        assert_eq!(r.pop(), Some(0));
        assert_eq!(r.push().slot, 2);
        assert_eq!(r.pop(), Some(1));
        assert_eq!(r.pop(), Some(2));
        assert_eq!(r.pop(), None);
    }

    #[test]
    fn full_loses_the_oldest() {
        let mut r = Ring::new(2);
        assert!(!r.push().overwrote);
        assert!(!r.push().overwrote);
        let third = r.push();
        assert!(third.overwrote);
        assert_eq!(third.seq, 3);
        assert_eq!(third.slot, 0);
        assert_eq!(r.lost(), 1);
        assert_eq!(r.pop(), Some(1));
        assert_eq!(r.pop(), Some(0));
        assert_eq!(r.pop(), None);
    }

    #[test]
    fn taken_and_lost_add_up_to_pushed() {
        let mut r = Ring::new(3);
        let mut taken = 0;
        let mut last = 0;
        for i in 0..100u64 {
            last = r.push().seq;
            if i % 7 == 0 {
                while r.pop().is_some() {
                    taken += 1;
                }
            }
        }
        while r.pop().is_some() {
            taken += 1;
        }
        assert_eq!(taken + r.lost(), last);
    }

    #[test]
    fn undelivered_elements_count_as_lost() {
        let mut r = Ring::new(3);
        r.push();
        assert_eq!(r.pop(), Some(0));
        r.lose(1);
        assert_eq!(r.lost(), 1);
    }

    #[test]
    fn zero_capacity_is_one() {
        let mut r = Ring::new(0);
        assert_eq!(r.push().slot, 0);
        assert!(r.push().overwrote);
        assert_eq!(r.pop(), Some(0));
    }
}
