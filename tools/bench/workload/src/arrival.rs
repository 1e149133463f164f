// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arrival of requests.

use std::fmt;
use std::time::Duration;

use anyhow::{ensure, Result};
use serde::{Deserialize, Serialize};

use crate::trace::Trace;

/// When requests arrive.
///
/// In a workload file: `closed`, `{periodic: 100}`, `{poisson: 100}`, `{gamma: {rate: 100, cv: 3}}`
/// `{on-off: {rate: 100, on_s: 0.5, off_s: 2}}` or `{trace: {file: burst.csv}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// The next as soon as the last is done.
    Closed,
    /// This many per second, evenly spaced.
    Periodic(f64),
    /// This many per second on average, at random.
    Poisson(f64),
    /// At random, with gaps that vary more or less than those of [`Self::Poisson`].
    Gamma(Gamma),
    /// In bursts: at random for a time, and not at all for another (a Markov-modulated Poisson
    /// process of two states).
    OnOff(OnOff),
    /// When a file tells.
    Trace(Trace),
}

/// Gaps with a gamma distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gamma {
    /// Requests per second on average.
    pub rate: f64,
    /// Coefficient of variation of a gap, 0.05 to 20; 1: as [`Arrival::Poisson`].
    pub cv: f64,
}

/// Bursts. The first begins with the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Requests per second within a burst on average.
    pub rate: f64,
    /// Length of a burst in seconds on average, 0.001 to 3600; exponentially distributed.
    pub on_s: f64,
    /// Time from a burst to the next, the same.
    pub off_s: f64,
}

impl Arrival {
    /// Requests per second on average, of a trace those within a run of this length; `None`: as many as
    /// are served, or a trace that has not been read.
    pub fn rate(&self, run: Duration) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Trace(trace) => Some(trace.within(run)? as f64 / run.as_secs_f64()),
            &(Self::Periodic(rate) | Self::Poisson(rate)) => Some(rate),
            Self::Gamma(gamma) => Some(gamma.rate),
            Self::OnOff(OnOff { rate, on_s, off_s }) => Some(rate * on_s / (on_s + off_s)),
        }
    }

    /// Checks that such requests can be made.
    ///
    /// # Errors
    ///
    /// A sentence that names the value and its range.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Closed => Ok(()),
            Self::Trace(trace) => trace.check(),
            &(Self::Periodic(rate) | Self::Poisson(rate)) => check_rate(rate),
            &Self::Gamma(Gamma { rate, cv }) => {
                check_rate(rate)?;
                ensure!(
                    (0.05..=20.0).contains(&cv),
                    "a coefficient of variation of {cv} is out of range (0.05 to 20)"
                );
                Ok(())
            }
            &Self::OnOff(OnOff { rate, on_s, off_s }) => {
                check_rate(rate)?;
                for time in [on_s, off_s] {
                    ensure!(
                        (0.001..=3600.0).contains(&time),
                        "a time of {time} s on or off is out of range (0.001 to 3600)"
                    );
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Arrival {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => write!(out, "closed loop"),
            Self::Periodic(rate) => write!(out, "{rate}/s"),
            Self::Poisson(rate) => write!(out, "Poisson {rate}/s"),
            Self::Gamma(Gamma { rate, cv }) => write!(out, "gamma {rate}/s, cv {cv}"),
            Self::OnOff(OnOff { rate, on_s, off_s }) => {
                write!(out, "bursts {rate}/s, {on_s} s of {}", on_s + off_s)
            }
            Self::Trace(trace) => {
                let name = trace.file.file_name().unwrap_or_default();
                write!(out, "trace {}", name.to_string_lossy())
            }
        }
    }
}

/// Checks that so many requests per second can be made.
pub fn check_rate(rate: f64) -> Result<()> {
    ensure!(
        (0.001..=100_000.0).contains(&rate),
        "a rate of {rate} requests/s is out of range (0.001 to 100000)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Duration = Duration::from_secs(2);

    #[test]
    fn each_has_its_rate_and_its_name() {
        let gamma = Gamma {
            rate: 50.0,
            cv: 3.0,
        };
        let bursts = OnOff {
            rate: 100.0,
            on_s: 0.5,
            off_s: 1.5,
        };
        for (arrival, rate, name) in [
            (Arrival::Closed, None, "closed loop"),
            (Arrival::Periodic(2.5), Some(2.5), "2.5/s"),
            (Arrival::Poisson(80.0), Some(80.0), "Poisson 80/s"),
            (Arrival::Gamma(gamma), Some(50.0), "gamma 50/s, cv 3"),
            (
                Arrival::OnOff(bursts),
                Some(25.0),
                "bursts 100/s, 0.5 s of 2",
            ),
        ] {
            assert_eq!(arrival.rate(RUN), rate);
            assert_eq!(arrival.to_string(), name);
            arrival.check().unwrap();
        }
    }

    #[test]
    fn files_say_it_in_words() {
        let read = |text: &str| {
            let value = serde_yaml_ng::Deserializer::from_str(text);
            serde_yaml_ng::with::singleton_map::deserialize::<Arrival, _>(value)
        };
        assert_eq!(read("closed").unwrap(), Arrival::Closed);
        let gamma = Gamma { rate: 7.0, cv: 2.0 };
        assert_eq!(
            read("{gamma: {rate: 7, cv: 2}}").unwrap(),
            Arrival::Gamma(gamma)
        );
        let bursts = read("{on-off: {rate: 7, on_s: 2, off_s: 3}}").unwrap();
        assert_eq!(bursts.rate(RUN), Some(2.8));
        let trace = read("{trace: {file: day/a.csv, speed: 2, key: 7}}").unwrap();
        assert_eq!(trace.to_string(), "trace a.csv");
        assert_eq!(trace.rate(RUN), None, "it has not been read");
        for bad in [
            "{gamma: 7}",
            "{gamma: {rate: 7}}",
            "{on-off: {rate: 7, on_s: 2}}",
            "{on_off: {rate: 7, on_s: 2, off_s: 3}}",
            "{gamma: {rate: 7, cv: 2, more: 1}}",
            "{trace: a.csv}",
            "{trace: {speed: 2}}",
            "{trace: {file: a.csv, rows: []}}",
            "open",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_have_their_ranges() {
        let gamma = |rate, cv| Arrival::Gamma(Gamma { rate, cv });
        let bursts = |rate, on_s, off_s| Arrival::OnOff(OnOff { rate, on_s, off_s });
        for good in [
            gamma(0.001, 0.05),
            gamma(100_000.0, 20.0),
            bursts(1.0, 0.001, 3600.0),
        ] {
            good.check().unwrap();
        }
        for (bad, word) in [
            (Arrival::Periodic(0.0), "rate"),
            (Arrival::Poisson(f64::NAN), "rate"),
            (gamma(-1.0, 1.0), "rate"),
            (gamma(1.0, 0.0), "variation"),
            (gamma(1.0, f64::INFINITY), "variation"),
            (bursts(1e6, 1.0, 1.0), "rate"),
            (bursts(1.0, 0.0, 1.0), "on or off"),
            (bursts(1.0, 1.0, f64::NAN), "on or off"),
        ] {
            assert!(bad.check().unwrap_err().to_string().contains(word), "{bad}");
        }
    }
}
