// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A preparation takes a share of each feature, and a constant.
//!
//! Recursive least squares with a forgetting factor, by coordinate descent (Zakharov, White, Liu:
//! "Low-complexity RLS algorithms using dichotomous coordinate descent iterations", 2008): means and
//! covariances of features x and times y follow each observation with the weight 1/n, n growing to
//! the memory, and the weights w go on from the last ones towards the solution of C w = c. Each step
//! sets one weight to where the squared error is least for it:
//!
//! ```text
//! w_i = (c_i - sum over j != i of C_ij w_j) / (C_ii + ridge)
//! ```
//!
//! C has no negative eigenvalue, so a step never makes the error larger, from any state; there is no
//! inverse that rounding could spoil.
//!
//! # Form
//!
//! A feature is taken as its distance from the first one seen, as a share of the largest power of two
//! that these need: -2^[`UNIT`] to 2^[`UNIT`]. When that grows, what is known of the feature is
//! rescaled. When a window of [`WINDOW`] observations has needed far less of it, everything is learnt
//! anew.

use crate::policy::{
    predict::LONGEST,
    units::Ns, //
};

/// The features that a caller can give.
pub(crate) const GIVEN: usize = 8;
/// Those that zernel adds.
const MEASURED: usize = 3;
/// All of them.
pub(super) const ALL: usize = GIVEN + MEASURED;

/// The observations that a regression remembers: one that is n others old has the weight
/// (1 - 1/memory)^n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory(u32);

impl Memory {
    /// Bounds: fewer than 16 cannot tell eleven features apart, and 1,024 are ten seconds of a
    /// hundred requests each.
    pub(crate) const RANGE: (u32, u32) = (16, 1_024);

    /// So many observations, or the nearest number within the bounds.
    pub(crate) fn new(observations: u32) -> Self {
        let (least, most) = Self::RANGE;
        Self(observations.clamp(least, most))
    }

    /// Their number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The usual one: Documentation/prediction.rst has the replays that speak for it.
    pub(crate) const DEFAULT: Self = Self(128);
}

impl Default for Memory {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Bits of a feature at its full scale.
const UNIT: u32 = 22;
/// Bits of a covariance that [`Linear::descend`] leaves out, so that a product with a weight fits.
const COARSE: u32 = 18;
/// The largest weight: [`LONGEST`] for a feature at its full scale.
const HEAVIEST: i64 = LONGEST.0 as i64;
/// Largest value of a covariance with the time: 2^23 by 2^35.
const MOST: i64 = 1 << 58;
/// Fraction bits of the mean time.
const FRACTION: u32 = 4;
/// Rounds of steps per observation. One is enough for features that have nothing to do with each
/// other; weights go on from the last ones.
const ROUNDS: usize = 4;
/// Observations after which the scale of features is looked at.
const WINDOW: u8 = 64;
/// A feature that spreads over so many bits fewer in a window has too coarse a scale: 1/256 of it is left.
const TOO_COARSE: u8 = 8;
/// Bits of those that zernel measures: shares in millionths, and a rate up to a thousand.
const MEASURED_BITS: [u8; MEASURED] = [20, 20, 10];
/// Errors beyond so many times the usual one count as that.
const CLIP: u64 = 6;

/// Pairs of features.
const PAIRS: usize = ALL * (ALL + 1) / 2;

/// The place of a pair.
const fn pair(one: usize, other: usize) -> usize {
    let (row, column) = if one > other {
        (one, other)
    } else {
        (other, one)
    };
    row * (row + 1) / 2 + column
}

/// One feature.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// The first value.
    origin: i64,
    /// Mean of the distances, as a share.
    mean: i64,
    /// Nanoseconds at the full scale.
    weight: i64,
    /// Covariance with the time.
    with_time: i64,
    /// Bits that a distance has needed.
    bits: u8,
    /// The first value of the window, and the bits that distances from that have needed in it.
    first: i64,
    lately: u8,
}

impl Axis {
    const NEW: Self = Self {
        origin: 0,
        mean: 0,
        weight: 0,
        with_time: 0,
        bits: 0,
        first: 0,
        lately: 0,
    };

    /// The distance of a value from the origin.
    fn distance(&self, value: i64) -> i64 {
        value.saturating_sub(self.origin)
    }

    /// The distance as a share of the scale, at most all of it.
    fn share(&self, value: i64) -> i64 {
        let distance = self.distance(value);
        let bits = u32::from(self.bits);
        let most = 1i64 << UNIT;
        let share = match bits.checked_sub(UNIT) {
            Some(less) => distance >> less.min(63),
            None => {
                let room = 1i64 << bits;
                distance.clamp(-room, room) << UNIT.saturating_sub(bits)
            }
        };
        share.clamp(-most, most)
    }
}

/// Bits that a distance needs.
fn bits_of(distance: i64) -> u8 {
    // 64 at most.
    64u32.saturating_sub(distance.unsigned_abs().leading_zeros()) as u8
}

/// The square root, rounded up to a power of two; 1 at least.
fn root(square: u64) -> u64 {
    let bits = 64u32.saturating_sub(square.leading_zeros());
    1 << bits.div_ceil(2)
}

/// `value` goes on to `to` by the n-th part.
fn towards(value: i64, to: i64, n: i64) -> i64 {
    let step = to.saturating_sub(value).checked_div(n).unwrap_or(0);
    value.saturating_add(step)
}

/// Weights of all features, and the moments that they follow from.
///
/// # Invariants
///
/// No mean is beyond 2^[`UNIT`], no covariance beyond 2^46, none with the time beyond [`MOST`], no
/// weight beyond [`HEAVIEST`].
#[derive(Debug)]
pub(super) struct Linear {
    axes: [Axis; ALL],
    /// Covariances of each feature with those before it and itself, one feature after the other.
    with: [i64; PAIRS],
    /// Mean time, with [`FRACTION`].
    mean: i64,
    /// The usual error, in ns.
    usual: u64,
    /// Observations, up to the memory.
    seen: u32,
    window: u8,
}

impl Linear {
    /// Those that zernel measures have their whole range as a scale, so that no rare value of one, which
    /// others can bring about, changes it.
    const AXES: [Axis; ALL] = {
        let mut axes = [Axis::NEW; ALL];
        let [busy, io, stalls] = MEASURED_BITS;
        axes[GIVEN].bits = busy;
        axes[GIVEN + 1].bits = io;
        axes[GIVEN + 2].bits = stalls;
        axes
    };

    /// Nothing is known.
    pub(super) const NEW: Self = Self {
        axes: Self::AXES,
        with: [0; PAIRS],
        mean: 0,
        usual: 0,
        seen: 0,
        window: 0,
    };

    /// The expected time; `None` if nothing is known.
    pub(super) fn expected(&self, values: [i64; ALL]) -> Option<Ns> {
        if self.seen == 0 {
            return None;
        }
        let mut sum = self.mean >> FRACTION;
        for (axis, value) in self.axes.iter().zip(values) {
            // 2^34 by 2^23.
            let part = axis.share(value).saturating_sub(axis.mean);
            sum = sum.saturating_add(part.saturating_mul(axis.weight) >> UNIT);
        }
        Some(Ns(sum.clamp(0, HEAVIEST) as u64))
    }

    /// Learns from a preparation. Returns true if it has forgotten all others for a finer scale.
    pub(super) fn observe(&mut self, values: [i64; ALL], took: Ns, memory: Memory) -> bool {
        let took = took.min(LONGEST);
        if self.seen == 0 {
            self.begin(values);
            self.mean = (took.0 as i64) << FRACTION;
            self.usual = took.0 / 4;
            self.seen = 1;
            return false;
        }
        // A value beyond the scale counts as at its end here: nothing is known of what lies there.
        let took = self.clipped(values, took);
        self.rescale(values);
        self.seen = self.seen.saturating_add(1).min(memory.number());
        self.follow(values, took);
        for _ in 0..ROUNDS {
            self.descend();
        }
        self.look_at_window(values)
    }

    /// The time, not further from the expected one than errors usually are.
    fn clipped(&mut self, values: [i64; ALL], took: Ns) -> Ns {
        let expected = self.expected(values).unwrap_or(took);
        let error = took.0.abs_diff(expected.0);
        let least = (self.mean >> FRACTION).unsigned_abs() / 64;
        let usual = self.usual.max(least).saturating_add(1);
        // A change of the times passes, as the usual error grows by a fifth with each.
        let counted = error.min(usual.saturating_mul(4));
        let (part, less) = (counted / 16, self.usual / 16);
        self.usual = self.usual.saturating_add(part).saturating_sub(less);
        let most = usual.saturating_mul(CLIP);
        let low = expected.0.saturating_sub(most);
        Ns(took
            .0
            .clamp(low, expected.0.saturating_add(most))
            .min(LONGEST.0))
    }

    /// Has the scale of each feature reach its value.
    fn rescale(&mut self, values: [i64; ALL]) {
        for at in 0..ALL {
            let (Some(axis), Some(&value)) = (self.axes.get_mut(at), values.get(at)) else {
                continue;
            };
            let needed = bits_of(axis.distance(value));
            let lately = bits_of(value.saturating_sub(axis.first));
            axis.lately = axis.lately.max(lately);
            let Some(more) = needed.checked_sub(axis.bits).filter(|&more| more > 0) else {
                continue;
            };
            let by = u32::from(more).min(63);
            axis.bits = needed;
            axis.mean >>= by;
            axis.with_time >>= by;
            // INVARIANT: Clamped.
            axis.weight = match axis.weight.checked_mul(1i64 << by.min(62)) {
                Some(weight) => weight.clamp(-HEAVIEST, HEAVIEST),
                None => axis.weight.signum().saturating_mul(HEAVIEST),
            };
            for other in 0..ALL {
                if let Some(one) = self.with.get_mut(pair(at, other)) {
                    // Twice with itself.
                    *one >>= if at == other { (2 * by).min(63) } else { by };
                }
            }
        }
    }

    /// Means and covariances follow an observation.
    fn follow(&mut self, values: [i64; ALL], took: Ns) {
        let n = i64::from(self.seen);
        // From the mean before, and from the one after it: their product has no bias.
        let mut before = [0i64; ALL];
        let mut after = [0i64; ALL];
        let both = before.iter_mut().zip(&mut after);
        for ((axis, value), (before, after)) in self.axes.iter_mut().zip(values).zip(both) {
            let share = axis.share(value);
            *before = share.saturating_sub(axis.mean);
            // INVARIANT: Between two that are within the bounds.
            axis.mean = towards(axis.mean, share, n);
            *after = share.saturating_sub(axis.mean);
        }
        let time = (took.0 as i64) << FRACTION;
        self.mean = towards(self.mean, time, n);
        let late = time.saturating_sub(self.mean) >> FRACTION;
        for (axis, first) in self.axes.iter_mut().zip(before) {
            // INVARIANT: 2^23 by 2^35.
            let product = first.saturating_mul(late).clamp(-MOST, MOST);
            axis.with_time = towards(axis.with_time, product, n);
        }
        let mut left = self.with.iter_mut();
        for (row, first) in before.into_iter().enumerate() {
            for (second, one) in after.iter().take(row + 1).zip(&mut left) {
                // INVARIANT: 2^23 by 2^23.
                *one = towards(*one, first.saturating_mul(*second), n);
            }
        }
    }

    /// One step for each weight.
    fn descend(&mut self) {
        for at in 0..ALL {
            let own = self.covariance(at, at) >> COARSE;
            if own <= 0 {
                if let Some(axis) = self.axes.get_mut(at) {
                    axis.weight = 0;
                }
                continue;
            }
            let mut left = self.axes.get(at).map_or(0, |axis| axis.with_time);
            for (other, axis) in self.axes.iter().enumerate() {
                if other != at && axis.weight != 0 {
                    // 2^28 by 2^34.
                    let both = self.covariance(at, other) >> COARSE;
                    let part = both.saturating_mul(axis.weight);
                    left = left.saturating_sub(part >> (UNIT - COARSE));
                }
            }
            // A weight that few observations speak for is kept small.
            let ridge = own / i64::from(self.seen).saturating_mul(4).max(1);
            let left = self.certain(at, left.clamp(-MOST, MOST)) << (UNIT - COARSE);
            let weight = left.checked_div(own.saturating_add(ridge)).unwrap_or(0);
            if let Some(axis) = self.axes.get_mut(at) {
                // INVARIANT: Clamped.
                axis.weight = weight.clamp(-HEAVIEST, HEAVIEST);
            }
        }
    }

    /// The part of a covariance with the time that is no chance: all of it for a feature that the caller
    /// gives. Those that zernel measures are there for every key, whether they matter or not, and lose
    /// twice the error that the covariance of a feature without meaning has (R. Tibshirani: "Regression
    /// shrinkage and selection via the lasso", 1996).
    fn certain(&self, at: usize, covariance: i64) -> i64 {
        if at < GIVEN {
            return covariance;
        }
        let spread = root(self.covariance(at, at).unsigned_abs());
        // 2^35 by 2^24.
        let error = self.usual.saturating_mul(spread);
        let error = error.checked_div(root(self.seen.into())).unwrap_or(error);
        let chance = i64::try_from(error.saturating_mul(2)).unwrap_or(i64::MAX);
        match covariance < 0 {
            true => covariance.saturating_add(chance).min(0),
            false => covariance.saturating_sub(chance).max(0),
        }
    }

    fn covariance(&self, one: usize, other: usize) -> i64 {
        self.with.get(pair(one, other)).copied().unwrap_or(0)
    }

    /// Learns anew where the scale of a feature has become too coarse for the caller's values of late.
    /// Returns true if so.
    fn look_at_window(&mut self, values: [i64; ALL]) -> bool {
        self.window = self.window.saturating_add(1);
        if self.window < WINDOW {
            return false;
        }
        self.window = 0;
        let is_too_coarse =
            |axis: &Axis| axis.lately > 0 && axis.lately.saturating_add(TOO_COARSE) <= axis.bits;
        let given = self.axes.iter().take(GIVEN);
        let is_anew = given.into_iter().any(is_too_coarse);
        if is_anew {
            let (mean, usual) = (self.mean, self.usual);
            *self = Self::NEW;
            self.begin(values);
            (self.mean, self.usual, self.seen) = (mean, usual, 1);
        }
        for (axis, value) in self.axes.iter_mut().zip(values) {
            (axis.first, axis.lately) = (value, 0);
        }
        is_anew
    }

    /// The first values are the origins of the caller's features.
    fn begin(&mut self, values: [i64; ALL]) {
        let given = self.axes.iter_mut().take(GIVEN);
        for (axis, value) in given.zip(values) {
            (axis.origin, axis.first) = (value, value);
        }
    }
}
