// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time for which a client prepares the data of a request on the CPU.

use std::fmt;
use std::time::Duration;

use anyhow::{ensure, Result};
use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, StandardUniform};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sized::Sized;
use crate::Moments;

/// The longest preparation.
const MAX_US: u64 = 1_000_000;

/// Distribution of the preparation time; all times in microseconds, at most a second.
///
/// In a workload file a plain number is a constant one; the others are written as `uniform: {low,
/// high}`, `bimodal: {low, high, high_permille}`, `log-normal: {median, sigma}`, `drift: {from, to,
/// seconds}`, `step: {before, after, seconds}` and `sized: {base, low, high, …}` ([`Sized`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Preparation {
    /// Always the same.
    Constant(u64),
    /// Anything in between, equally likely.
    Uniform(Uniform),
    /// One of two.
    Bimodal(Bimodal),
    /// The logarithm is normally distributed; a second at most.
    LogNormal(Logarithmic),
    /// From one value to another and back, evenly.
    Drift(Drift),
    /// One value until some time, another from then on.
    Step(Step),
    /// In proportion to a size that the client tells.
    Sized(Sized),
}

/// Bounds of a uniform distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Shortest.
    pub low: u64,
    /// Longest.
    pub high: u64,
}

/// Two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bimodal {
    /// The short one.
    pub low: u64,
    /// The long one.
    pub high: u64,
    /// The frequency of the long one, in thousandths.
    #[serde(default = "half")]
    pub high_permille: u32,
}

const fn half() -> u32 {
    500
}

/// A log-normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logarithmic {
    /// Median.
    pub median: u64,
    /// Standard deviation of the natural logarithm, 0 to 3.
    pub sigma: f64,
}

/// A value that moves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// At the start of the run.
    pub from: u64,
    /// After `seconds`.
    pub to: u64,
    /// Time from one to the other.
    pub seconds: f64,
}

/// A value that changes once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// At the start of the run.
    pub before: u64,
    /// From `seconds` on.
    pub after: u64,
    /// When it changes.
    pub seconds: f64,
}

impl Preparation {
    /// The time of the request with number `number`, which begins at `at` from the start of the
    /// run. It depends on nothing else, neither on other clients nor on dropped requests.
    pub fn sample(&self, seed: u64, number: u64, at: Duration) -> Duration {
        let us = match self {
            Self::Constant(us) => return Duration::from_micros(*us),
            Self::Uniform(Uniform { low, high }) => {
                let share = share(seed, number);
                *low as f64 + share * (high - low) as f64
            }
            Self::Bimodal(two) => {
                let share = share(seed, number);
                match share * 1e3 < f64::from(two.high_permille) {
                    true => two.high as f64,
                    false => two.low as f64,
                }
            }
            Self::LogNormal(Logarithmic { median, sigma }) => {
                // Checked to be finite and not negative, which is all that it asks for.
                LogNormal::new((*median as f64).ln(), *sigma)
                    .map_or(*median as f64, |log| log.sample(&mut random(seed, number)))
            }
            Self::Drift(Drift { from, to, seconds }) => {
                let turn = (at.as_secs_f64() / seconds) % 2.0;
                let share = if turn <= 1.0 { turn } else { 2.0 - turn };
                *from as f64 + share * (*to as f64 - *from as f64)
            }
            Self::Step(step) => match at.as_secs_f64() < step.seconds {
                true => step.before as f64,
                false => step.after as f64,
            },
            Self::Sized(sized) => sized.sample(&mut random(seed, number), at.as_secs_f64()),
        };
        Duration::from_nanos((us.clamp(0.0, MAX_US as f64) * 1e3).round() as u64)
    }

    /// The time that is typical: the mean, before a step.
    pub fn mean(&self) -> Duration {
        let us = match self {
            Self::Constant(us) => return Duration::from_micros(*us),
            Self::Uniform(Uniform { low, high }) => (low + high) as f64 / 2.0,
            Self::Bimodal(two) => {
                let share = f64::from(two.high_permille) / 1e3;
                two.low as f64 * (1.0 - share) + two.high as f64 * share
            }
            Self::LogNormal(Logarithmic { median, sigma }) => {
                *median as f64 * (sigma * sigma / 2.0).exp()
            }
            Self::Drift(Drift { from, to, .. }) => (from + to) as f64 / 2.0,
            Self::Step(step) => step.before as f64,
            Self::Sized(sized) => sized.mean(),
        };
        Duration::from_nanos((us.clamp(0.0, MAX_US as f64) * 1e3).round() as u64)
    }

    /// The moments of a time that is drawn for each request by itself. None of one that moves with the
    /// run, or that follows from a size; nor of a log-normal one whose tail is cut at a second.
    pub(crate) fn moments(&self) -> Option<Moments> {
        let us = match *self {
            Self::Constant(us) => Moments::constant(us as f64),
            Self::Uniform(Uniform { low, high }) => {
                let (low, high) = (low as f64, high as f64);
                Moments {
                    mean: (low + high) / 2.0,
                    square: (low * low + low * high + high * high) / 3.0,
                }
            }
            Self::Bimodal(two) => {
                let (low, high) = (two.low as f64, two.high as f64);
                let share = f64::from(two.high_permille) / 1e3;
                Moments {
                    mean: low * (1.0 - share) + high * share,
                    square: low * low * (1.0 - share) + high * high * share,
                }
            }
            Self::LogNormal(Logarithmic { median, sigma }) => {
                let (median, square) = (median as f64, sigma * sigma);
                // The part of the mean of the square that is above: the tail of a normal distribution
                // whose mean is higher by twice the square.
                let left = (MAX_US as f64 / median).ln() - 2.0 * square;
                if left < 4.0 * sigma {
                    return None;
                }
                Moments {
                    mean: median * (square / 2.0).exp(),
                    square: median * median * (2.0 * square).exp(),
                }
            }
            Self::Drift(_) | Self::Step(_) | Self::Sized(_) => return None,
        };
        Some(us.scaled(1e-6))
    }

    /// The features that the client tells of the request with this number: those that its time follows
    /// from, or a size that has nothing to do with it.
    pub fn features(&self, seed: u64, number: u64) -> Vec<i64> {
        match self {
            Self::Sized(sized) => sized.features(&mut random(seed, number)),
            // Not the random number of the time.
            _ => vec![(share(!seed, number) * 1e6) as i64],
        }
    }

    /// True if it follows from a size, which a client can tell ahead.
    pub fn has_size(&self) -> bool {
        matches!(self, Self::Sized(_))
    }

    /// True if it is always nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::Constant(0)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (times, seconds) = match *self {
            Self::Constant(us) => ([us, us], 1.0),
            Self::Uniform(Uniform { low, high }) => {
                ensure!(
                    low <= high,
                    "a uniform time goes from {low} down to {high} us; swap low and high"
                );
                ([low, high], 1.0)
            }
            Self::Bimodal(two) => {
                ensure!(
                    two.high_permille <= 1_000,
                    "a high_permille of {} is out of range (0 to 1000)",
                    two.high_permille
                );
                ([two.low, two.high], 1.0)
            }
            Self::LogNormal(Logarithmic { median, sigma }) => {
                ensure!(
                    median > 0 && (0.0..=3.0).contains(&sigma),
                    "a log-normal time needs a median above 0 and a sigma of 0 to 3"
                );
                ([median, median], 1.0)
            }
            Self::Drift(Drift { from, to, seconds }) => ([from, to], seconds),
            Self::Step(step) => ([step.before, step.after], step.seconds),
            Self::Sized(sized) => {
                sized.check()?;
                ([sized.base, sized.high], 1.0)
            }
        };
        for us in times {
            ensure!(
                us <= MAX_US,
                "a time of {us} us is out of range (0 to {MAX_US})"
            );
        }
        ensure!(
            (0.001..=3600.0).contains(&seconds),
            "the seconds of a changing time are {seconds}, out of range (0.001 to 3600)"
        );
        Ok(())
    }
}

/// Random numbers of one request.
fn random(seed: u64, number: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Stream 0 is that of the arrivals.
    random.set_stream(number.wrapping_add(1));
    random
}

/// A number from 0 to 1 for a request.
fn share(seed: u64, number: u64) -> f64 {
    StandardUniform.sample(&mut random(seed, number))
}

impl fmt::Display for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(us) => write!(f, "{us} µs"),
            Self::Uniform(Uniform { low, high }) => write!(f, "uniform {low}–{high} µs"),
            Self::Bimodal(two) => write!(f, "bimodal {}/{} µs", two.low, two.high),
            Self::LogNormal(Logarithmic { median, sigma }) => {
                write!(f, "log-normal {median} µs, sigma {sigma}")
            }
            Self::Drift(Drift { from, to, seconds }) => {
                write!(f, "drift {from}–{to} µs in {seconds} s")
            }
            Self::Step(step) => write!(
                f,
                "step {} to {} µs at {} s",
                step.before, step.after, step.seconds
            ),
            Self::Sized(Sized {
                base, low, high, ..
            }) => {
                write!(f, "{base} µs + size {low}–{high} µs")
            }
        }
    }
}

impl Serialize for Preparation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(us) => serializer.serialize_u64(*us),
            Self::Uniform(value) => serializer.collect_map([("uniform", value)]),
            Self::Bimodal(value) => serializer.collect_map([("bimodal", value)]),
            Self::LogNormal(value) => serializer.collect_map([("log-normal", value)]),
            Self::Drift(value) => serializer.collect_map([("drift", value)]),
            Self::Step(value) => serializer.collect_map([("step", value)]),
            Self::Sized(value) => serializer.collect_map([("sized", value)]),
        }
    }
}

/// Names of the distributions in a file.
const NAMES: &[&str] = &["uniform", "bimodal", "log-normal", "drift", "step", "sized"];

impl<'de> Deserialize<'de> for Preparation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Preparation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a time: a number of microseconds, or one of {}",
                    NAMES.join(", ")
                )
            }

            fn visit_u64<E: Error>(self, us: u64) -> Result<Preparation, E> {
                Ok(Preparation::Constant(us))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Preparation, A::Error> {
                let Some(name) = map.next_key::<String>()? else {
                    return Err(A::Error::custom("a time is missing its distribution"));
                };
                let found = match name.as_str() {
                    "uniform" => map.next_value().map(Preparation::Uniform),
                    "bimodal" => map.next_value().map(Preparation::Bimodal),
                    "log-normal" => map.next_value().map(Preparation::LogNormal),
                    "drift" => map.next_value().map(Preparation::Drift),
                    "step" => map.next_value().map(Preparation::Step),
                    "sized" => map.next_value().map(Preparation::Sized),
                    other => Err(A::Error::unknown_variant(other, NAMES)),
                }?;
                match map.next_key::<String>()? {
                    None => Ok(found),
                    Some(more) => Err(A::Error::custom(format!(
                        "a time is either {name} or {more}; leave one out"
                    ))),
                }
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Preparation {
        serde_yaml_ng::from_str(text).unwrap()
    }

    fn samples(preparation: &Preparation) -> Vec<f64> {
        (0..4_000)
            .map(|number| preparation.sample(7, number, Duration::ZERO).as_secs_f64() * 1e6)
            .collect()
    }

    fn mean(samples: &[f64]) -> f64 {
        samples.iter().sum::<f64>() / samples.len() as f64
    }

    #[test]
    fn distributions_have_their_mean_and_range() {
        let uniform = samples(&read("uniform: {low: 50, high: 500}"));
        assert!(uniform.iter().all(|us| (50.0..=500.0).contains(us)));
        assert!((mean(&uniform) - 275.0).abs() < 8.0, "{}", mean(&uniform));
        let two = samples(&read("bimodal: {low: 80, high: 400}"));
        assert!(two.iter().all(|&us| us == 80.0 || us == 400.0));
        assert!((mean(&two) - 240.0).abs() < 10.0, "{}", mean(&two));
        let rare = samples(&read("bimodal: {low: 80, high: 400, high_permille: 100}"));
        assert!((mean(&rare) - 112.0).abs() < 6.0, "{}", mean(&rare));
        let log = read("log-normal: {median: 200, sigma: 0.5}");
        let mut times = samples(&log);
        assert!((mean(&times) / log.mean().as_secs_f64() / 1e6 - 1.0).abs() < 0.04);
        times.sort_by(f64::total_cmp);
        assert!((times[2_000] - 200.0).abs() < 8.0, "{}", times[2_000]);
    }

    #[test]
    fn what_moves_is_where_it_should_be() {
        let at = |preparation: &Preparation, ms| {
            let time = preparation.sample(1, 0, Duration::from_millis(ms));
            time.as_micros()
        };
        let drift = read("drift: {from: 100, to: 300, seconds: 2}");
        let expected = [
            (0, 100),
            (1_000, 200),
            (2_000, 300),
            (3_000, 200),
            (4_000, 100),
        ];
        for (ms, us) in expected {
            assert_eq!(at(&drift, ms), us, "at {ms} ms");
        }
        let step = read("step: {before: 100, after: 400, seconds: 1.5}");
        assert_eq!((at(&step, 1_499), at(&step, 1_500)), (100, 400));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "1000001",
            "uniform: {low: 3, high: 2}",
            "bimodal: {low: 1, high: 2, high_permille: 1001}",
            "log-normal: {median: 0, sigma: 1}",
            "log-normal: {median: 1, sigma: .nan}",
            "drift: {from: 1, to: 2, seconds: 0}",
            "step: {before: 1, after: 2000000, seconds: 1}",
        ] {
            assert!(read(text).check().is_err(), "{text}");
        }
        for text in [
            "-1",
            "{}",
            "normal: {low: 1, high: 2}",
            "uniform: {low: 1, high: 2, middle: 3}",
            "{uniform: {low: 1, high: 2}, step: {before: 1, after: 2, seconds: 1}}",
        ] {
            let read = serde_yaml_ng::from_str::<Preparation>(text);
            assert!(read.is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_round_trips() {
        for text in [
            "200",
            "uniform: {low: 50, high: 500}",
            "bimodal: {low: 80, high: 400}",
            "log-normal: {median: 200, sigma: 0.5}",
            "drift: {from: 100, to: 300, seconds: 2.0}",
            "step: {before: 100, after: 300, seconds: 2.0}",
            "sized: {base: 40, low: 50, high: 800, kinds: 3, drift_s: 20.0}",
        ] {
            let one = read(text);
            one.check().unwrap();
            let yaml = serde_yaml_ng::to_string(&one).unwrap();
            assert_eq!(read(&yaml), one);
            let json = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Preparation>(&json).unwrap(), one);
        }
        assert_eq!(serde_json::to_string(&read("200")).unwrap(), "200");
    }

    proptest! {
        #[test]
        fn equal_requests_prepare_equally_long(seed: u64, number: u64) {
            let uniform = read("uniform: {low: 50, high: 500}");
            let sample = |number| uniform.sample(seed, number, Duration::ZERO);
            prop_assert_eq!(sample(number), sample(number));
            // Two can be equal by chance.
            let differs = |n| sample(number) != sample(number.wrapping_add(n));
            prop_assert!((1..=4).any(differs));
        }
    }
}
