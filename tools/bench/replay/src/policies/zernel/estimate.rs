// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predictions from features: the kernel's regression, and others that it is compared with, which have the
//! same quantile of their errors on top, and the same fall-back.

use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Uniform};

use crate::policy::predict::features::residual::Residuals;
use crate::policy::predict::features::{Features, Memory, Regression, GIVEN};
use crate::policy::predict::holt::Holt;
use crate::policy::predict::{Costs, Predictor};
use crate::policy::units::Ns;

/// The way to an expected time from features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Estimator {
    /// The kernel's regression.
    #[default]
    Linear,
    /// A random forest: 100 trees, trained again every 100 preparations from the last 1,000.
    Forest,
    /// Normalised least mean squares with a step of a half.
    Lms,
    /// Level and trend, without a look at the features.
    Holt,
    /// Level, trend and seasons, without a look at the features.
    HoltWinters,
}

impl Estimator {
    /// Its name beside the predictor's.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Linear => "",
            Self::Forest => " forest",
            Self::Lms => " lms",
            Self::Holt => " holt",
            Self::HoltWinters => " holt-winters",
        }
    }
}

/// The state of a client.
pub(crate) enum Estimate {
    Linear(Box<Regression>),
    Other(Box<(Residuals, Other)>),
}

pub(crate) enum Other {
    Forest(Forest),
    Lms(Lms),
    Holt(Holt),
    HoltWinters(HoltWinters),
}

impl Estimate {
    pub(crate) fn new(estimator: Estimator) -> Self {
        let other = match estimator {
            Estimator::Linear => return Self::Linear(Box::new(Regression::NEW)),
            Estimator::Forest => Other::Forest(Forest::default()),
            Estimator::Lms => Other::Lms(Lms::default()),
            Estimator::Holt => Other::Holt(Holt::new(Holt::ALPHA, Holt::BETA)),
            Estimator::HoltWinters => Other::HoltWinters(HoltWinters::default()),
        };
        Self::Other(Box::new((Residuals::NEW, other)))
    }

    pub(crate) fn predict(
        &self,
        features: &Features,
        costs: Costs,
        fallback: Option<Ns>,
    ) -> Option<Ns> {
        match self {
            Self::Linear(regression) => regression.predict(features, costs, fallback),
            Self::Other(both) => match both.0.is_better() {
                true => both.0.told(both.1.expect(features, costs), costs),
                false => fallback,
            },
        }
    }

    pub(crate) fn observe(
        &mut self,
        features: &Features,
        took: Ns,
        costs: Costs,
        fallback: Option<Ns>,
        memory: Memory,
    ) {
        match self {
            Self::Linear(regression) => {
                regression.observe(features, took, costs, fallback, memory);
            }
            Self::Other(both) => {
                let expected = both.1.expect(features, costs);
                both.0.observe(expected, took, costs, fallback);
                match &mut both.1 {
                    Other::Forest(forest) => forest.observe(features.given, took),
                    Other::Lms(lms) => lms.observe(features.given, took),
                    Other::Holt(holt) => holt.observe(took),
                    Other::HoltWinters(one) => one.observe(took),
                }
            }
        }
    }
}

impl Other {
    fn expect(&self, features: &Features, costs: Costs) -> Option<Ns> {
        match self {
            Self::Forest(forest) => forest.expect(&features.given),
            Self::Lms(lms) => lms.expect(&features.given),
            Self::Holt(holt) => holt.predict(costs),
            Self::HoltWinters(one) => one.expect(),
        }
    }
}

/// Level, trend and seasons that add up (P. R. Winters: "Forecasting sales by exponentially weighted moving
/// averages", 1960). A season is a place in a period of preparations.
#[derive(Default)]
pub(crate) struct HoltWinters {
    level: f64,
    trend: f64,
    seasons: [f64; Self::PERIOD],
    seen: usize,
}

impl HoltWinters {
    const PERIOD: usize = 8;
    /// Weights of the newest in the level, the trend and the season.
    const ALPHA: f64 = 0.3;
    const BETA: f64 = 0.1;
    const GAMMA: f64 = 0.3;

    fn expect(&self) -> Option<Ns> {
        let season = self.seasons[self.seen % Self::PERIOD];
        let told = self.level + self.trend + season;
        (self.seen > 0).then_some(Ns(told.max(0.0) as u64))
    }

    fn observe(&mut self, took: Ns) {
        let (took, before) = (took.0 as f64, self.level);
        let season = &mut self.seasons[self.seen % Self::PERIOD];
        self.seen += 1;
        if self.seen == 1 {
            self.level = took;
            return;
        }
        let towards = |from: f64, to: f64, weight: f64| from + weight * (to - from);
        self.level = towards(before + self.trend, took - *season, Self::ALPHA);
        self.trend = towards(self.trend, self.level - before, Self::BETA);
        *season = towards(*season, took - self.level, Self::GAMMA);
    }
}

/// Normalised least mean squares (Nagumo, Noda, 1967), of features as shares of their largest values.
#[derive(Default)]
pub(crate) struct Lms {
    largest: [f64; GIVEN],
    /// That of the constant comes last.
    weights: [f64; GIVEN + 1],
    seen: bool,
}

impl Lms {
    const STEP: f64 = 0.5;

    fn shares(&self, given: &[i64; GIVEN]) -> [f64; GIVEN + 1] {
        let mut shares = [1.0; GIVEN + 1];
        for ((share, value), largest) in shares.iter_mut().zip(given).zip(self.largest) {
            *share = *value as f64 / largest.max(1.0);
        }
        shares
    }

    fn expect(&self, given: &[i64; GIVEN]) -> Option<Ns> {
        let shares = self.shares(given);
        let told: f64 = self.weights.iter().zip(shares).map(|(w, x)| w * x).sum();
        self.seen.then_some(Ns(told.max(0.0) as u64))
    }

    fn observe(&mut self, given: [i64; GIVEN], took: Ns) {
        for ((weight, largest), value) in self.weights.iter_mut().zip(&mut self.largest).zip(given)
        {
            let value = (value as f64).abs();
            if value > *largest {
                *weight *= value / largest.max(1.0);
                *largest = value;
            }
        }
        let shares = self.shares(&given);
        let told: f64 = self.weights.iter().zip(shares).map(|(w, x)| w * x).sum();
        let squares: f64 = shares.iter().map(|x| x * x).sum();
        let step = Self::STEP * (took.0 as f64 - told) / squares;
        for (weight, share) in self.weights.iter_mut().zip(shares) {
            *weight += step * share;
        }
        self.seen = true;
    }
}

type Row = ([i64; GIVEN], f64);

/// A random forest for regression (L. Breiman, 2001): the mean of trees, each grown from rows drawn with
/// replacement, with the split of least squares over all features.
#[derive(Default)]
pub(crate) struct Forest {
    rows: std::collections::VecDeque<Row>,
    trees: Vec<Tree>,
    seen: usize,
}

enum Tree {
    Leaf(f64),
    Split(usize, i64, Box<(Tree, Tree)>),
}

impl Forest {
    const TREES: usize = 100;
    const ROWS: usize = 1_000;
    const EVERY: usize = 100;
    /// Rows that are not split any more.
    const SMALL: usize = 10;

    fn expect(&self, given: &[i64; GIVEN]) -> Option<Ns> {
        let sum: f64 = self.trees.iter().map(|tree| tree.expect(given)).sum();
        (!self.trees.is_empty()).then(|| Ns((sum / self.trees.len() as f64) as u64))
    }

    fn observe(&mut self, given: [i64; GIVEN], took: Ns) {
        if self.rows.len() == Self::ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back((given, took.0 as f64));
        self.seen += 1;
        if self.seen % Self::EVERY == 0 {
            self.train();
        }
    }

    fn train(&mut self) {
        let mut random = ChaCha8Rng::seed_from_u64(self.seen as u64);
        let Ok(any) = Uniform::new(0, self.rows.len()) else {
            return;
        };
        self.trees = (0..Self::TREES)
            .map(|_| {
                let rows = (0..self.rows.len()).map(|_| self.rows[any.sample(&mut random)]);
                Tree::grow(&mut rows.collect::<Vec<_>>())
            })
            .collect();
    }
}

impl Tree {
    fn grow(rows: &mut [Row]) -> Self {
        let count = rows.len() as f64;
        let sum: f64 = rows.iter().map(|row| row.1).sum();
        // The split that leaves least squares is that with most squares of sums.
        let mut best = (sum * sum / count * (1.0 + 1e-9), 0, 0);
        if rows.len() > Forest::SMALL {
            for feature in 0..GIVEN {
                rows.sort_unstable_by_key(|row| row.0[feature]);
                let mut left = 0.0;
                for at in 1..rows.len() {
                    left += rows[at - 1].1;
                    if rows[at].0[feature] == rows[at - 1].0[feature] {
                        continue;
                    }
                    let right = sum - left;
                    let squares = left * left / at as f64 + right * right / (count - at as f64);
                    if squares > best.0 {
                        best = (squares, feature, at);
                    }
                }
            }
        }
        let (_, feature, at) = best;
        if at == 0 {
            return Self::Leaf(sum / count);
        }
        rows.sort_unstable_by_key(|row| row.0[feature]);
        let border = rows[at].0[feature];
        let (left, right) = rows.split_at_mut(at);
        Self::Split(
            feature,
            border,
            Box::new((Self::grow(left), Self::grow(right))),
        )
    }

    fn expect(&self, given: &[i64; GIVEN]) -> f64 {
        match self {
            Self::Leaf(mean) => *mean,
            Self::Split(feature, border, both) => match given[*feature] < *border {
                true => both.0.expect(given),
                false => both.1.expect(given),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_mean_squares_find_a_line() {
        let mut lms = Lms::default();
        for n in 0..2_000 {
            let given = [n * 37 % 100, 0, 0, 0, 0, 0, 0, 0];
            lms.observe(given, Ns(50_000 + 3_000 * given[0] as u64));
        }
        let told = lms.expect(&[50, 0, 0, 0, 0, 0, 0, 0]).unwrap_or_default();
        assert!(told.0.abs_diff(200_000) < 4_000, "{told:?}");
    }

    #[test]
    fn seasons_are_found_where_there_are_some() {
        let mut one = HoltWinters::default();
        assert_eq!(one.expect(), None);
        let took = |n: u64| Ns(100_000 + 40_000 * (n * n % 8) + 20 * n);
        for n in 0..400 {
            one.observe(took(n));
        }
        for n in 400..416 {
            let told = one.expect().unwrap_or_default();
            assert!(told.0.abs_diff(took(n).0) < 2_000, "{told:?} for {n}");
            one.observe(took(n));
        }
    }

    #[test]
    fn a_forest_learns_a_step_that_no_line_has() {
        let mut forest = Forest::default();
        let row = |n: i64| {
            let mut given = [0; GIVEN];
            (given[0], given[1]) = (n * 37 % 100, n * 53 % 10);
            let took = if given[0] < 50 { 100_000 } else { 700_000 };
            (given, took)
        };
        assert_eq!(forest.expect(&[0; GIVEN]), None);
        for n in 0..300 {
            let (given, took) = row(n);
            forest.observe(given, Ns(took));
        }
        for n in 300..400 {
            let (given, took) = row(n);
            let told = forest.expect(&given).unwrap_or_default();
            assert!(told.0.abs_diff(took) * 20 < took, "{told:?} for {took}");
        }
    }
}
