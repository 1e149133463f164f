// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tuning of features, in one word, and its epochs: with each change of the numbers that count, all
//! that was learned from others is void.

use super::Memory;

/// The time from one change of the features that count to the next. Wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u32);

/// The tuning of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tuning {
    /// The observations that a regression remembers; `None`: features do not count.
    pub(crate) memory: Option<Memory>,
    /// The state of the machine counts as features, too.
    pub(crate) measured: bool,
    /// The epoch that this is.
    pub(crate) epoch: Epoch,
}

/// The bit for the state of the machine.
const MEASURED: u32 = 1 << 31;

const _: () = assert!(Memory::RANGE.0 > 0 && Memory::RANGE.1 < MEASURED);

impl Tuning {
    /// The tuning that follows this one. Its epoch is another one if other features count.
    pub(crate) fn then(self, memory: Option<Memory>, measured: bool) -> Self {
        let counts = |tuning: Self| tuning.memory.map(|_| tuning.measured);
        let mut next = Self {
            memory,
            measured,
            epoch: self.epoch,
        };
        if counts(next) != counts(self) {
            next.epoch = Epoch(self.epoch.0.wrapping_add(1));
        }
        next
    }

    /// All in one word, so that it is read as it was written.
    pub(crate) fn packed(self) -> u64 {
        let measured = if self.measured { MEASURED } else { 0 };
        let low = self.memory.map_or(0, Memory::number) | measured;
        u64::from(self.epoch.0) << 32 | u64::from(low)
    }

    /// The tuning in a word.
    pub(crate) fn unpacked(word: u64) -> Self {
        let low = word as u32;
        Self {
            memory: match low & !MEASURED {
                0 => None,
                observations => Some(Memory::new(observations)),
            },
            measured: low & MEASURED != 0,
            epoch: Epoch((word >> 32) as u32),
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_predict_features_tuning)
)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_fits_into_a_word() {
        assert_eq!(Tuning::unpacked(0), Tuning::default());
        for memory in [None, Some(Memory::new(16)), Some(Memory::new(1_024))] {
            for measured in [false, true] {
                for epoch in [0, 1, u32::MAX].map(Epoch) {
                    let tuning = Tuning {
                        memory,
                        measured,
                        epoch,
                    };
                    assert_eq!(Tuning::unpacked(tuning.packed()), tuning);
                }
            }
        }
    }

    #[test]
    fn an_epoch_ends_when_other_features_count() {
        let (short, long) = (Some(Memory::new(16)), Some(Memory::DEFAULT));
        let mut tuning = Tuning::default();
        let mut is_new = |memory, measured| {
            let next = tuning.then(memory, measured);
            assert_eq!((next.memory, next.measured), (memory, measured));
            let is_new = next.epoch != tuning.epoch;
            tuning = next;
            is_new
        };
        // While none count, nothing is learned.
        assert!(!is_new(None, true) && !is_new(None, false));
        assert!(is_new(long, false));
        assert!(!is_new(short, false) && !is_new(short, false));
        assert!(is_new(short, true));
        assert!(!is_new(long, true));
        assert!(is_new(long, false));
        assert!(is_new(None, false));
        assert!(is_new(long, false));
        let last = Tuning {
            epoch: Epoch(u32::MAX),
            ..Tuning::default()
        };
        assert_eq!(last.then(long, false).epoch, Epoch(0));
    }
}
