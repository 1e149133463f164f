// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The share of a user in subscriptions to the prefetch signal.

/// The subscriptions of one user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Subscriptions.
    count: u32,
    /// Bytes that they read ahead at a signal, together.
    bytes: u64,
}

/// The bounds for one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most {
    /// Subscriptions.
    pub(crate) count: u32,
    /// Bytes that they read ahead at a signal, together.
    pub(crate) bytes: u64,
}

impl Share {
    /// Counts a subscription that reads so many bytes ahead. `most`: the bounds of the user, if
    /// there are any. Returns false, with nothing changed, if it is beyond them.
    pub(crate) fn add(&mut self, bytes: u64, most: Option<Most>) -> bool {
        let (Some(count), Some(sum)) = (self.count.checked_add(1), self.bytes.checked_add(bytes))
        else {
            return false;
        };
        // A subscription that reads nothing ahead is not refused because the bound was lowered.
        let over = |most: Most| count > most.count || (bytes > 0 && sum > most.bytes);
        if most.is_some_and(over) {
            return false;
        }
        (self.count, self.bytes) = (count, sum);
        true
    }

    /// Counts one less that was added with so many bytes.
    pub(crate) fn remove(&mut self, bytes: u64) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// True if the user has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_prefetch_share))]
mod tests {
    use super::*;

    const MOST: Option<Most> = Some(Most {
        count: 3,
        bytes: 100,
    });

    #[test]
    fn both_bounds_hold() {
        let mut share = Share::default();
        assert!(share.is_empty());
        assert!(!share.add(101, MOST));
        assert!(share.is_empty());
        assert!(share.add(100, MOST));
        assert!(!share.add(1, MOST));
        assert!(share.add(0, MOST));
        assert!(share.add(0, MOST));
        assert!(!share.add(0, MOST));
        share.remove(100);
        assert!(share.add(60, MOST));
        share.remove(0);
        assert!(!share.add(41, MOST));
        assert!(share.add(40, MOST));
    }

    #[test]
    fn none_is_left_when_all_are_gone() {
        let mut share = Share::default();
        assert!(share.add(7, MOST) && share.add(9, MOST));
        share.remove(7);
        assert!(!share.is_empty());
        share.remove(9);
        assert_eq!(share, Share::default());
    }

    #[test]
    fn a_bound_that_was_lowered_keeps_none_that_reads_nothing() {
        let mut share = Share::default();
        assert!(share.add(100, MOST));
        let lowered = Some(Most { count: 3, bytes: 0 });
        assert!(!share.add(1, lowered));
        assert!(share.add(0, lowered));
    }

    #[test]
    fn who_is_not_bound_has_any_number() {
        let mut share = Share::default();
        for _ in 0..10 {
            assert!(share.add(1 << 30, None));
        }
        assert!(!share.add(u64::MAX, None));
        assert!(!share.add(0, MOST));
    }
}
