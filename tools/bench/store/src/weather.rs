// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delays and faults of requests, drawn from a seed.

use std::str::FromStr;
use std::time::Duration;

use rand::Rng as _;
use rand_chacha::rand_core::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, LogNormal};

/// Delays and faults.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weather {
    /// The time of a connection until its first request is looked at.
    pub connect: Duration,
    /// The time until a request is answered, or the median of it.
    pub latency: Duration,
    /// The spread of that time: the deviation of its natural logarithm. 0: it is always the same.
    pub sigma: f64,
    /// The part of requests that take [`Self::stall`] more, from 0 to 1.
    pub stalls: f64,
    /// Their time.
    pub stall: Duration,
    /// The part of requests that are answered with 503, from 0 to 1.
    pub errors: f64,
    /// Bytes a second of all connections together; `None`: no bound.
    pub bandwidth: Option<u64>,
    /// Requests with the same numbers have the same fates.
    pub seed: u64,
}

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fate {
    /// The time until it is answered.
    pub wait: Duration,
    /// It is answered with 503.
    pub fails: bool,
}

/// A text that describes no weather.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWeather {
    /// There is no such word.
    #[error("'{0}' is none of connect, latency, sigma, stalls, stall, errors, bandwidth, seed")]
    Word(String),
    /// The word is not followed by `=` and a number that it can have.
    #[error("'{0}' is no word with a number that it can have")]
    Number(String),
}

impl Weather {
    /// The fate of a request.
    pub fn fate(&self, request: u64) -> Fate {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(request);
        // All are drawn, so that a request stalls with a latency as it does with another.
        let (fails, stalls) = (random.random::<f64>(), random.random::<f64>());
        // A spread that is finite makes a distribution.
        let spread = LogNormal::new(0.0, self.sigma).map_or(1.0, |all| all.sample(&mut random));
        let mut wait = self.latency.mul_f64(spread);
        if stalls < self.stalls {
            wait += self.stall;
        }
        Fate {
            wait,
            fails: fails < self.errors,
        }
    }
}

impl FromStr for Weather {
    type Err = NoWeather;

    /// Words with commas between them: `latency=50,sigma=0.5,stalls=0.01,stall=2000,errors=0.01`.
    /// Times are milliseconds, the bandwidth is bytes a second.
    fn from_str(text: &str) -> Result<Self, NoWeather> {
        let mut weather = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let no_number = || NoWeather::Number(part.to_owned());
            let (word, number) = part.split_once('=').ok_or_else(no_number)?;
            let any = |most: f64| {
                let number: f64 = number.parse().map_err(|_| no_number())?;
                let is_good = (0.0..=most).contains(&number);
                is_good.then_some(number).ok_or_else(no_number)
            };
            let time = || Ok(Duration::from_secs_f64(any(600_000.0)? / 1_000.0));
            match word {
                "connect" => weather.connect = time()?,
                "latency" => weather.latency = time()?,
                "stall" => weather.stall = time()?,
                "sigma" => weather.sigma = any(4.0)?,
                "stalls" => weather.stalls = any(1.0)?,
                "errors" => weather.errors = any(1.0)?,
                "bandwidth" => {
                    let bytes = number.parse().ok().filter(|bytes| *bytes > 0);
                    weather.bandwidth = Some(bytes.ok_or_else(no_number)?);
                }
                "seed" => weather.seed = number.parse().map_err(|_| no_number())?,
                _ => return Err(NoWeather::Word(word.to_owned())),
            }
        }
        Ok(weather)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weather(text: &str) -> Weather {
        text.parse().expect("a weather")
    }

    #[test]
    fn texts_describe_weathers() {
        let all =
            "connect=1,latency=50,sigma=0.5,stalls=0.01,stall=2000,errors=0.02,bandwidth=9,seed=7";
        let ms = Duration::from_millis;
        let expected = Weather {
            connect: ms(1),
            latency: ms(50),
            sigma: 0.5,
            stalls: 0.01,
            stall: ms(2_000),
            errors: 0.02,
            bandwidth: Some(9),
            seed: 7,
        };
        assert_eq!(weather(all), expected);
        assert_eq!(weather(""), Weather::default());
        let word = |text: &str| text.parse::<Weather>().expect_err("no weather");
        assert_eq!(word("wind=1"), NoWeather::Word("wind".into()));
        for text in [
            "latency",
            "latency=",
            "latency=-1",
            "latency=NaN",
            "latency=1e9",
            "errors=1.1",
            "sigma=5",
            "bandwidth=0",
            "bandwidth=1.5",
            "seed=-1",
        ] {
            assert_eq!(word(text), NoWeather::Number(text.into()));
        }
    }

    #[test]
    fn a_seed_gives_the_same_fates_again() {
        let fates = |text: &str| -> Vec<Fate> {
            let weather = weather(text);
            (0..1_000).map(|request| weather.fate(request)).collect()
        };
        let text = "latency=50,sigma=0.5,stalls=0.1,stall=2000,errors=0.1";
        assert_eq!(fates(text), fates(text));
        assert_ne!(fates(text), fates(&format!("{text},seed=1")));
        // Of another latency the same requests fail and stall.
        let stalled = |text: &str| -> Vec<_> {
            let stall = Duration::from_secs(2);
            fates(text)
                .iter()
                .map(|fate| (fate.fails, fate.wait >= stall))
                .collect()
        };
        assert_eq!(
            stalled("latency=1,stalls=0.1,stall=2000,errors=0.1"),
            stalled("latency=50,sigma=0.2,stalls=0.1,stall=2000,errors=0.1")
        );
    }

    #[test]
    fn parts_and_medians_are_as_they_are_said() {
        let weather = weather("latency=100,sigma=0.5,errors=0.2,seed=3");
        let mut waits: Vec<_> = (0..10_000)
            .map(|request| weather.fate(request).wait)
            .collect();
        waits.sort();
        let ratio = waits[5_000].as_secs_f64() / 0.1;
        assert!((0.97..1.03).contains(&ratio), "median {ratio}");
        // One of a hundred takes more than e^(0.5 * 2.33) times as long.
        let ratio = waits[9_900].as_secs_f64() / 0.1;
        assert!((2.8..3.7).contains(&ratio), "p99 {ratio}");
        let fails = (0..10_000)
            .filter(|request| weather.fate(*request).fails)
            .count();
        assert!((1_850..2_150).contains(&fails), "{fails}");
    }
}
