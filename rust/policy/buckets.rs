// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which bucket a duration falls into when every octave is cut into equal parts.
//!
//! Buckets that widen with the value bound the *relative* error with few of them. Below the first
//! full octave they are linear; from there an octave has `2^sub_bits` buckets, each of them
//! `2^-sub_bits` of the octave's start wide. This is the layout of HdrHistogram (G. Tene).

use super::units::Ns;

/// A way to cut durations into buckets.
///
/// The first bucket begins at 0. Longer times belong to the last bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    unit_bits: u32,
    sub_bits: u32,
    buckets: usize,
}

impl Scale {
    /// Buckets that are at least `2^unit_bits` ns wide, `2^sub_bits` of them per octave, `buckets`
    /// in all.
    ///
    /// They reach up to `2^unit_bits * 2^sub_bits` ns linearly and an octave further for every
    /// `2^sub_bits` of them.
    pub(crate) const fn new(unit_bits: u32, sub_bits: u32, buckets: usize) -> Self {
        Self {
            unit_bits,
            sub_bits,
            buckets,
        }
    }

    /// The bucket of a duration.
    #[inline]
    pub(crate) fn index(self, value: Ns) -> usize {
        let units = value.0.checked_shr(self.unit_bits).unwrap_or(0);
        let shift = units
            .checked_ilog2()
            .unwrap_or(0)
            .saturating_sub(self.sub_bits);
        // The upper bits of `units`: below 2^sub_bits only where `shift` is 0.
        let upper = units.checked_shr(shift).unwrap_or(0);
        let octaves = u64::from(shift)
            .checked_shl(self.sub_bits)
            .unwrap_or(u64::MAX);
        usize::try_from(octaves.saturating_add(upper))
            .unwrap_or(usize::MAX)
            .min(self.buckets.saturating_sub(1))
    }

    /// The shortest duration of a bucket; the longest duration there is if nothing is in its reach.
    #[inline]
    pub(crate) fn lower(self, index: usize) -> Ns {
        let shift = self.shift(index);
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        let octaves = u64::from(shift).saturating_mul(self.per_octave());
        let units = index.saturating_sub(octaves);
        let bits = shift.saturating_add(self.unit_bits);
        Ns(shifted(units, bits))
    }

    /// The difference that a duration must have from its shortest to be in the next bucket.
    #[inline]
    pub(crate) fn width(self, index: usize) -> Ns {
        Ns(shifted(1, self.shift(index).saturating_add(self.unit_bits)))
    }

    /// The middle of a bucket: no duration of it is further away than half its width.
    #[inline]
    pub(crate) fn midpoint(self, index: usize) -> Ns {
        let half = Ns(self.width(index).0 >> 1);
        self.lower(index).saturating_add(half)
    }

    /// The number of doublings in width before this bucket.
    #[inline]
    fn shift(self, index: usize) -> u32 {
        let octave = index.checked_shr(self.sub_bits).unwrap_or(0);
        u32::try_from(octave).unwrap_or(u32::MAX).saturating_sub(1)
    }

    #[inline]
    fn per_octave(self) -> u64 {
        shifted(1, self.sub_bits)
    }
}

/// `value * 2^bits`, or the largest number there is.
#[inline]
fn shifted(value: u64, bits: u32) -> u64 {
    if bits > value.leading_zeros() {
        return if value == 0 { 0 } else { u64::MAX };
    }
    value.checked_shl(bits).unwrap_or(0)
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_buckets))]
mod tests {
    use super::*;

    /// 32 ns units, 32 per octave, up to 2^34 ns.
    const SCALE: Scale = Scale::new(5, 5, 800);

    #[test]
    fn first_bucket_begins_at_nothing() {
        assert_eq!(SCALE.index(Ns(0)), 0);
        assert_eq!(SCALE.index(Ns(31)), 0);
        assert_eq!(SCALE.index(Ns(32)), 1);
        assert_eq!(SCALE.lower(0), Ns(0));
        assert_eq!(SCALE.width(0), Ns(32));
        assert_eq!(SCALE.midpoint(0), Ns(16));
    }

    #[test]
    fn linear_part_goes_over_into_the_first_octave() {
        assert_eq!(SCALE.index(Ns(1023)), 31);
        assert_eq!(SCALE.index(Ns(1024)), 32);
        assert_eq!(SCALE.width(32), Ns(32));
        assert_eq!(SCALE.index(Ns(2047)), 63);
        assert_eq!(SCALE.index(Ns(2048)), 64);
        assert_eq!(SCALE.width(64), Ns(64));
    }

    #[test]
    fn buckets_follow_each_other() {
        for index in 0..799 {
            let end = SCALE.lower(index).saturating_add(SCALE.width(index));
            assert_eq!(end, SCALE.lower(index + 1));
            assert_eq!(SCALE.index(SCALE.lower(index)), index);
            assert_eq!(SCALE.index(SCALE.midpoint(index)), index);
            assert_eq!(SCALE.index(end.saturating_sub(Ns(1))), index);
        }
    }

    #[test]
    fn what_is_too_long_belongs_to_the_last() {
        assert_eq!(SCALE.index(Ns((1 << 34) - 1)), 799);
        assert_eq!(SCALE.index(Ns(1 << 34)), 799);
        assert_eq!(SCALE.index(Ns(u64::MAX)), 799);
    }

    #[test]
    fn no_index_is_too_large_to_ask_about() {
        for index in [800, 2_000, 1 << 40, usize::MAX] {
            assert!(SCALE.lower(index) > SCALE.lower(799));
            assert!(SCALE.midpoint(index) >= SCALE.lower(index));
        }
        assert_eq!(SCALE.lower(usize::MAX), Ns(u64::MAX));
        assert_eq!(SCALE.width(usize::MAX), Ns(u64::MAX));
    }

    #[test]
    fn whole_range_without_a_last_bucket() {
        let all = Scale::new(0, 2, usize::MAX);
        assert_eq!(all.index(Ns(u64::MAX)), 61 * 4 + 7);
        assert_eq!(all.lower(61 * 4 + 7), Ns(7 << 61));
    }

    #[test]
    fn no_buckets_at_all_is_one() {
        assert_eq!(Scale::new(5, 5, 0).index(Ns(u64::MAX)), 0);
    }
}
