// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Units as types, so that a signature never takes a bare integer.

/// A duration in nanoseconds, or a point in time as nanoseconds since an origin that its user names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ns(pub(crate) u64);

impl Ns {
    /// No time at all.
    pub(crate) const ZERO: Self = Self(0);

    /// The sum, or the longest duration there is.
    pub(crate) const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or nothing if `other` is longer.
    pub(crate) const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Us> for Ns {
    fn from(us: Us) -> Self {
        // A `u32` of microseconds is below 2^42 ns.
        Self(u64::from(us.0).saturating_mul(1000))
    }
}

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Us(pub(crate) u32);

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ms(pub(crate) u32);

/// A share in thousandths, 0 to 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permille(pub(crate) u32);

impl Permille {
    /// The share of `part` in `whole`; 0 if `whole` is 0, at most 1000.
    pub(crate) fn of(part: u64, whole: u64) -> Self {
        if whole == 0 {
            return Self(0);
        }
        if part >= whole {
            return Self(1000);
        }
        // Scaled down together, so that the product fits: 1000 needs 10 bits.
        let shift = (64 - whole.leading_zeros()).saturating_sub(54);
        let share = ((part >> shift) * 1000).checked_div(whole >> shift);
        Self(share.map_or(0, |s| s as u32))
    }
}

impl Permille {
    /// This share of a time, rounded down.
    pub(crate) fn of_time(self, whole: Ns) -> Ns {
        let share = u64::from(self.0);
        let thousands = (whole.0 / 1000).saturating_mul(share);
        Ns(thousands.saturating_add((whole.0 % 1000).saturating_mul(share) / 1000))
    }
}

/// A share in millionths, 0 to 1,000,000: fine enough to tell the 99.9th percentile from the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ppm(pub(crate) u32);

impl Ppm {
    /// The whole.
    pub(crate) const ONE: Self = Self(1_000_000);

    /// This share of `whole`, rounded up; `whole` if the share is larger than one.
    pub(crate) fn of_rounded_up(self, whole: u64) -> u64 {
        let one = u64::from(Self::ONE.0);
        let share = u64::from(self.min(Self::ONE).0);
        // In two parts, so that neither product passes 64 bits.
        let large = whole.saturating_div(one).saturating_mul(share);
        let small = (whole % one).saturating_mul(share).div_ceil(one);
        large.saturating_add(small)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_units))]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_saturate() {
        assert_eq!(Ns(3).saturating_sub(Ns(5)), Ns::ZERO);
        assert_eq!(Ns(5).saturating_sub(Ns(3)), Ns(2));
        assert_eq!(Ns(u64::MAX).saturating_add(Ns(1)), Ns(u64::MAX));
        assert_eq!(Ns(1).saturating_add(Ns(2)), Ns(3));
    }

    #[test]
    fn microseconds_are_thousands() {
        assert_eq!(Ns::from(Us(7)), Ns(7_000));
        assert_eq!(Ns::from(Us(u32::MAX)), Ns(4_294_967_295_000));
    }

    #[test]
    fn millionths_round_up() {
        assert_eq!(Ppm(500_000).of_rounded_up(3), 2);
        assert_eq!(Ppm(999_000).of_rounded_up(1000), 999);
        assert_eq!(Ppm(999_001).of_rounded_up(1000), 1000);
        assert_eq!(Ppm(0).of_rounded_up(1000), 0);
    }

    #[test]
    fn millionths_of_large_numbers() {
        assert_eq!(Ppm::ONE.of_rounded_up(u64::MAX), u64::MAX);
        assert_eq!(Ppm(u32::MAX).of_rounded_up(u64::MAX), u64::MAX);
        assert_eq!(Ppm(500_000).of_rounded_up(u64::MAX), 1 << 63);
    }

    #[test]
    fn a_share_of_a_time_rounds_down() {
        for (share, whole, part) in [(500, 3_001, 1_500), (3, 999, 2), (1000, 12_345, 12_345)] {
            assert_eq!(Permille(share).of_time(Ns(whole)), Ns(part));
        }
        assert_eq!(Permille(1000).of_time(Ns(u64::MAX)), Ns(u64::MAX));
    }

    #[test]
    fn permille_of_nothing_is_zero() {
        assert_eq!(Permille::of(5, 0), Permille(0));
        assert_eq!(Permille::of(0, 5), Permille(0));
    }

    #[test]
    fn permille_rounds_down_and_is_bounded() {
        assert_eq!(Permille::of(1, 3), Permille(333));
        assert_eq!(Permille::of(3, 3), Permille(1000));
        assert_eq!(Permille::of(4, 3), Permille(1000));
    }

    #[test]
    fn permille_of_large_numbers() {
        assert_eq!(Permille::of(u64::MAX / 2, u64::MAX), Permille(499));
        assert_eq!(Permille::of(u64::MAX, u64::MAX), Permille(1000));
        assert_eq!(Permille::of(u64::MAX, 1), Permille(1000));
    }
}
