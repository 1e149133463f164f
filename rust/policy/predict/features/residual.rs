// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The errors of an expected time: the moment that follows from it, and the proof that it is a better
//! one than the key's quantile.

use crate::policy::{
    predict::{
        quantile::Quantile,
        Costs,
        Predictor,
        LONGEST, //
    },
    units::{
        Ns,
        Permille,
        Ppm, //
    },
};

/// Bits of the ratio 1. The quantile keeps ratios as it keeps times, 2^-12 to 2^14 of the expected
/// time: times of a preparation err in proportion.
const ONE: u32 = 20;
/// The shortest expected time that a ratio is taken to, so that it has a bound.
const SHORTEST: u64 = 256;
/// Comparisons of both until one is believed.
const ENOUGH: u8 = 16;
/// The newest counts for 1/32.
const NEWEST: u64 = 32;
/// A loss counts up to so many times the usual one of the quantile: an outlier that nobody foresees
/// costs both the same, and says nothing.
const CLIP: u64 = 4;
/// An error that is no miss: 20 % of the time.
const FAIR: u64 = 5;

/// The ratios of times to the expected ones, and the costs of both predictions.
#[derive(Debug)]
pub(crate) struct Residuals {
    ratios: Quantile,
    /// The recent cost of errors of this prediction, and of the quantile's, in ns with eight
    /// fraction bits.
    cost: u64,
    cost_of_quantile: u64,
    /// Share of fair expectations, in 2^16.
    fair: u32,
    expected: u8,
    compared: u8,
    is_better: bool,
}

impl Residuals {
    /// Nothing is known.
    pub(crate) const NEW: Self = Self {
        ratios: Quantile::NEW,
        cost: 0,
        cost_of_quantile: 0,
        fair: 0,
        expected: 0,
        compared: 0,
        is_better: false,
    };

    /// The time that the GPU shall be free at, from the expected one.
    pub(crate) fn told(&self, expected: Option<Ns>, costs: Costs) -> Option<Ns> {
        let expected = expected?.0.clamp(SHORTEST, LONGEST.0);
        let ratio = self.ratios.predict(costs)?;
        // Below 2^34 each, and the ratio mostly near 2^20.
        let told = match expected.checked_mul(ratio.0) {
            Some(product) => product >> ONE,
            None => LONGEST.0,
        };
        Some(Ns(told.min(LONGEST.0)))
    }

    /// A preparation was expected to take so long, and took that.
    pub(crate) fn observe(
        &mut self,
        expected: Option<Ns>,
        took: Ns,
        costs: Costs,
        fallback: Option<Ns>,
    ) {
        let took = took.min(LONGEST);
        if let (Some(told), Some(fallback)) = (self.told(expected, costs), fallback) {
            self.compare(loss(told, took, costs), loss(fallback, took, costs));
        }
        let Some(expected) = expected else { return };
        let is_fair = took.0.abs_diff(expected.0).saturating_mul(FAIR) <= took.0;
        self.expected = self.expected.saturating_add(1);
        let n = NEWEST.min(self.expected.into());
        let now = if is_fair { 1 << 16 } else { 0 };
        self.fair = mixed(self.fair.into(), now, n) as u32;
        let expected = expected.0.clamp(SHORTEST, LONGEST.0);
        let ratio = (took.0 << ONE).checked_div(expected).unwrap_or(u64::MAX);
        self.ratios.observe(Ns(ratio));
    }

    /// Compares what both predictions have cost, in ns.
    fn compare(&mut self, cost: u64, of_quantile: u64) {
        self.compared = self.compared.saturating_add(1);
        let usual = (self.cost_of_quantile >> 8).saturating_add(1_000);
        let most = match self.compared {
            1 => u64::MAX >> 16,
            _ => usual.saturating_mul(CLIP),
        };
        let n = NEWEST.min(self.compared.into());
        self.cost = mixed(self.cost, cost.min(most) << 8, n);
        self.cost_of_quantile = mixed(self.cost_of_quantile, of_quantile.min(most) << 8, n);
        // Once better, it stays so until it is worse.
        let parts = if self.is_better { 8 } else { 7 };
        let (now, then) = (self.cost / 8, self.cost_of_quantile / 8);
        self.is_better =
            self.compared >= ENOUGH && now.saturating_mul(8) < then.saturating_mul(parts);
    }

    /// True if this prediction is the better one.
    pub(crate) fn is_better(&self) -> bool {
        self.is_better
    }

    /// The share of expectations that were fair lately.
    pub(crate) fn confidence(&self) -> Permille {
        Permille((self.fair.saturating_mul(1_000) >> 16).min(1_000))
    }
}

/// The n-th part of the way from `old` to `new`.
fn mixed(old: u64, new: u64, n: u64) -> u64 {
    let up = new.saturating_sub(old).checked_div(n).unwrap_or(0);
    let down = old.saturating_sub(new).checked_div(n).unwrap_or(0);
    old.saturating_add(up).saturating_sub(down)
}

/// The cost of a time that was told, in ns: of being early with the weight of `early`, of being late
/// with that of `late`, both out of their sum.
fn loss(told: Ns, took: Ns, costs: Costs) -> u64 {
    let early = costs.fractile();
    let late = Ppm(Ppm::ONE.0.saturating_sub(early.0));
    match told <= took {
        true => early.of_rounded_up(took.saturating_sub(told).0),
        false => late.of_rounded_up(told.saturating_sub(took).0),
    }
}
