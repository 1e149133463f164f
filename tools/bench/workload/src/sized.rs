// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preparation times that follow from the size and the kind of a request's data.

use anyhow::{ensure, Result};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use serde::{Deserialize, Serialize};

/// A time in proportion to a size; all times in microseconds.
///
/// A request has a size between `low` and `high`, and one of `kinds` kinds, both equally likely. Its
/// preparation takes `base + size * kind`, give or take `noise_permille`; an outlier takes eight times as
/// long. With `drift_s` the part that follows the size grows to its double in that time, and falls back
/// in the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sized {
    /// Time for a size of nothing.
    pub base: u64,
    /// The smallest size: the time that it takes of kind 1.
    pub low: u64,
    /// The largest.
    pub high: u64,
    /// Kinds, 1 to 8.
    #[serde(default = "one")]
    pub kinds: u64,
    /// Standard deviation of the noise, in thousandths of the time.
    #[serde(default)]
    pub noise_permille: u32,
    /// The frequency of outliers, in thousandths.
    #[serde(default)]
    pub outlier_permille: u32,
    /// Seconds until everything takes twice as long; 0: never.
    #[serde(default)]
    pub drift_s: f64,
}

const fn one() -> u64 {
    1
}

/// An outlier takes so many times as long.
const OUTLIER: f64 = 8.0;

impl Sized {
    /// The size and the kind of a request.
    fn drawn(&self, random: &mut ChaCha8Rng) -> (f64, u64) {
        let share: f64 = StandardUniform.sample(random);
        let size = self.low as f64 + share * (self.high - self.low) as f64;
        let share: f64 = StandardUniform.sample(random);
        let kind = (share * self.kinds as f64) as u64 + 1;
        (size, kind.min(self.kinds))
    }

    /// The time of a request that begins `at` seconds after the start of the run.
    pub(crate) fn sample(&self, random: &mut ChaCha8Rng, at: f64) -> f64 {
        let (size, kind) = self.drawn(random);
        let noise: f64 = StandardNormal.sample(random);
        let share: f64 = StandardUniform.sample(random);
        let drift = match self.drift_s > 0.0 {
            true => {
                let turn = (at / self.drift_s) % 2.0;
                1.0 + turn.min(2.0 - turn)
            }
            false => 1.0,
        };
        let time = self.base as f64 + size * kind as f64 * drift;
        let noisy = time * (1.0 + noise * f64::from(self.noise_permille) / 1e3).max(0.1);
        match share * 1e3 < f64::from(self.outlier_permille) {
            true => noisy * OUTLIER,
            false => noisy,
        }
    }

    /// The features of a request that a client can tell: its size and, where there are several, its kind as well as
    /// both multiplied.
    pub(crate) fn features(&self, random: &mut ChaCha8Rng) -> Vec<i64> {
        let (size, kind) = self.drawn(random);
        // In bytes, say.
        let (size, kind) = ((size * 1e3) as i64, kind as i64);
        match self.kinds {
            1 => vec![size],
            _ => vec![size, kind, size * kind],
        }
    }

    /// The mean without outliers, at the start of the run.
    pub(crate) fn mean(&self) -> f64 {
        let size = (self.low + self.high) as f64 / 2.0;
        self.base as f64 + size * (self.kinds + 1) as f64 / 2.0
    }

    pub(crate) fn check(&self) -> Result<()> {
        let Self { low, high, .. } = *self;
        ensure!(
            low <= high,
            "a sized preparation goes from {low} down to {high}; swap low and high"
        );
        ensure!(
            (1..=8).contains(&self.kinds),
            "{} kinds are out of range (1 to 8)",
            self.kinds
        );
        for (name, value) in [
            ("noise_permille", self.noise_permille),
            ("outlier_permille", self.outlier_permille),
        ] {
            ensure!(
                value <= 1_000,
                "a {name} of {value} is out of range (0 to 1000)"
            );
        }
        ensure!(
            (0.0..=3600.0).contains(&self.drift_s),
            "a drift_s of {} is out of range (0 to 3600)",
            self.drift_s
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::Preparation;

    fn read(text: &str) -> Preparation {
        serde_yaml_ng::from_str(text).unwrap()
    }

    fn time(one: &Preparation, number: u64, at_s: u64) -> f64 {
        let time = one.sample(7, number, Duration::from_secs(at_s));
        time.as_secs_f64() * 1e6
    }

    #[test]
    fn the_time_is_what_the_features_say() {
        let one = read("sized: {base: 40, low: 50, high: 800}");
        let kinds = read("sized: {base: 40, low: 50, high: 800, kinds: 3}");
        for number in 0..200 {
            let features = one.features(7, number);
            assert_eq!(features.len(), 1);
            let expected = 40.0 + features[0] as f64 / 1e3;
            assert!((time(&one, number, 0) - expected).abs() < 0.1);
            let features = kinds.features(7, number);
            assert_eq!(features[2], features[0] * features[1]);
            let expected = 40.0 + features[2] as f64 / 1e3;
            assert!((time(&kinds, number, 0) - expected).abs() < 0.1);
        }
    }

    #[test]
    fn drift_doubles_what_follows_the_size() {
        let one = read("sized: {base: 40, low: 100, high: 100, drift_s: 10}");
        let told: Vec<_> = [0, 5, 10, 15, 20]
            .map(|at| time(&one, 3, at).round())
            .into();
        assert_eq!(told, [140.0, 190.0, 240.0, 190.0, 140.0]);
    }

    #[test]
    fn outliers_and_noise_have_their_frequency() {
        let one =
            read("sized: {base: 0, low: 100, high: 100, noise_permille: 50, outlier_permille: 20}");
        let times: Vec<_> = (0..4_000).map(|number| time(&one, number, 0)).collect();
        let outliers = times.iter().filter(|&&us| us > 400.0).count();
        assert!((50..110).contains(&outliers), "{outliers} outliers");
        let usual: Vec<_> = times.into_iter().filter(|&us| us < 400.0).collect();
        let mean = usual.iter().sum::<f64>() / usual.len() as f64;
        assert!((mean - 100.0).abs() < 0.5, "a mean of {mean}");
        let square = usual.iter().map(|us| (us - mean).powi(2)).sum::<f64>();
        let deviation = (square / usual.len() as f64).sqrt();
        assert!((4.5..5.5).contains(&deviation), "{deviation}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "sized: {base: 1, low: 3, high: 2}",
            "sized: {base: 1, low: 1, high: 2, kinds: 0}",
            "sized: {base: 1, low: 1, high: 2, kinds: 9}",
            "sized: {base: 1, low: 1, high: 2, noise_permille: 1001}",
            "sized: {base: 1, low: 1, high: 2, outlier_permille: 1001}",
            "sized: {base: 1, low: 1, high: 2, drift_s: -1}",
            "sized: {base: 1, low: 1, high: 2000000}",
        ] {
            assert!(read(text).check().is_err(), "{text}");
        }
    }
}
