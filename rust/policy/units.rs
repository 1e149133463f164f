// SPDX-License-Identifier: GPL-2.0
//! Units as types, so that a signature never takes a bare integer.

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Us(pub(crate) u32);

/// A duration in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ms(pub(crate) u32);

/// A share in thousandths, 0 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_units))]
mod tests {
    use super::*;

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
