// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Levels: the urgency of a target's work, and its settings of the GPU.

use super::units::Us;

/// Number of levels.
pub(crate) const COUNT: usize = 8;

/// An urgency from 0 (latency-critical) to 7 (best-effort).
///
/// # Invariants
///
/// The number is below [`COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Level(u8);

impl Level {
    /// Latency-critical.
    pub(crate) const LC: Self = Self(0);
    /// The rank of a TSG without a class: the level with the driver's default time slice.
    pub(crate) const DEFAULT: Self = Self(6);
    /// Best-effort.
    pub(crate) const BE: Self = Self(7);
    /// Every level, the most urgent first.
    pub(crate) const ALL: [Self; COUNT] = [
        Self(0),
        Self(1),
        Self(2),
        Self(3),
        Self(4),
        Self(5),
        Self(6),
        Self(7),
    ];

    /// The level with this number, if there is one.
    pub(crate) fn new(number: u32) -> Option<Self> {
        // INVARIANT: Bounded by the filter.
        u8::try_from(number)
            .ok()
            .filter(|&n| usize::from(n) < COUNT)
            .map(Self)
    }

    /// Its number, 0 to 7.
    pub(crate) const fn number(self) -> u32 {
        self.0 as u32
    }

    /// True if this is more urgent than `other`.
    pub(crate) fn is_above(self, other: Self) -> bool {
        self < other
    }

    /// The time slice that a level has until it is tuned.
    ///
    /// LC 5 s and BE 200 µs are the constants of GPreempt (USENIX ATC'25); level 6 is the
    /// default of NVIDIA's driver, 1024 µs; between LC and that, a slice doubles or more per
    /// level, so that two levels are always told apart.
    pub(crate) const fn default_timeslice(self) -> Us {
        Us(match self.0 {
            0 => 5_000_000,
            1 => 50_000,
            2 => 20_000,
            3 => 10_000,
            4 => 5_000,
            5 => 2_000,
            6 => 1_024,
            _ => 200,
        })
    }

    /// The run-list interleave of a level.
    ///
    /// The run list gives every runnable TSG of a higher interleave its turn between any two of
    /// a lower one. It bounds the wait of LC by one BE slice, and the switches around it, however
    /// many BE TSGs there are.
    pub(crate) const fn interleave(self) -> Interleave {
        match self.0 {
            0 | 1 => Interleave::High,
            2..=5 => Interleave::Medium,
            _ => Interleave::Low,
        }
    }
}

/// A set of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u8);

impl Set {
    /// None.
    pub(crate) const NONE: Self = Self(0);

    /// True if `level` is in it.
    pub(crate) fn contains(self, level: Level) -> bool {
        self.0 & Self::bit(level) != 0
    }

    /// Puts `level` in, or takes it out.
    pub(crate) fn put(&mut self, level: Level, is_in: bool) {
        if is_in {
            self.0 |= Self::bit(level);
        } else {
            self.0 &= !Self::bit(level);
        }
    }

    /// The levels that are in one of the two at least.
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The levels that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// A bit for each level, the most urgent first.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits.
    pub(crate) const fn of_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The levels that are in one of the two only.
    pub(crate) fn difference(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    fn bit(level: Level) -> u8 {
        // By its invariant a level is below 8.
        1u8.checked_shl(level.number()).unwrap_or(0)
    }
}

/// The frequency of a TSG in the run list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interleave {
    /// Once per round.
    Low = 0,
    /// Once between any two low ones.
    Medium = 1,
    /// Once between any two others.
    High = 2,
}

impl Interleave {
    /// The number that providers use.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_level))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(Level::new(0), Some(Level::LC));
        assert_eq!(Level::new(7), Some(Level::BE));
        assert_eq!(Level::new(8), None);
        assert_eq!(Level::new(256), None);
        assert_eq!(Level::new(u32::MAX), None);
    }

    #[test]
    fn numbers_round_trip() {
        for (n, level) in Level::ALL.iter().enumerate() {
            assert_eq!(Ok(level.number()), u32::try_from(n));
            assert_eq!(Level::new(level.number()), Some(*level));
        }
    }

    #[test]
    fn smaller_is_more_urgent() {
        assert!(Level::LC.is_above(Level::BE));
        assert!(!Level::BE.is_above(Level::BE));
    }

    #[test]
    fn slices_shrink_with_urgency() {
        let mut above = Us(u32::MAX);
        for level in Level::ALL {
            assert!(level.default_timeslice() < above);
            above = level.default_timeslice();
        }
    }

    #[test]
    fn slices_of_lc_default_and_be() {
        assert_eq!(Level::LC.default_timeslice(), Us(5_000_000));
        assert_eq!(Level::DEFAULT.default_timeslice(), Us(1_024));
        assert_eq!(Level::BE.default_timeslice(), Us(200));
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let mut set = Set::default();
        for level in Level::ALL {
            assert!(!set.contains(level));
            set.put(level, true);
            assert!(set.contains(level));
        }
        let all = set;
        set.put(Level::LC, false);
        assert!(!set.contains(Level::LC) && set.contains(Level::BE));
        assert!(set.difference(all).contains(Level::LC));
        assert!(!set.difference(all).contains(Level::BE));
        assert_eq!(set.union(set.difference(all)), all);
        assert_eq!(all.without(set), set.difference(all));
        assert_eq!(set.without(all), Set::NONE);
        assert_eq!(Set::of_bits(set.bits()), set);
    }

    #[test]
    fn interleave_never_grows_with_the_number() {
        let mut above = Interleave::High;
        for level in Level::ALL {
            assert!(level.interleave() <= above);
            above = level.interleave();
        }
        assert_eq!(Level::LC.interleave().number(), 2);
        assert_eq!(Level::BE.interleave().number(), 0);
    }
}
