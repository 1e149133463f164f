// SPDX-License-Identifier: MIT OR Apache-2.0
//! The service of a client: a program known by its name, or one that a workload file describes.

use std::fmt;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::kernels::{self, Draw, Kernels, Piece};
use crate::{Moments, Network, Preparation};

/// A program that a workload file describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// Its name.
    pub name: String,
    /// Time of a request on the GPU alone, in microseconds: a number or a distribution, 1 to
    /// 10,000,000. Not beside a list of kernels, which has the times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_us: Option<Preparation>,
    /// Microseconds more for each unit of a request's size.
    #[serde(default, skip_serializing_if = "kernels::is_nothing")]
    pub us_per_size: f64,
    /// Kernels of a request, 1 to 256: their number, each of at least a microsecond, or a list.
    #[serde(default)]
    pub kernels: Kernels,
    /// Share of the GPU that its kernels can use, in thousandths, where it is not that of a list.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub demand_permille: u32,
    /// True if a kernel that was killed can be started again on the same data.
    #[serde(default)]
    pub idempotent: bool,
}

const fn whole() -> u32 {
    1_000
}

const fn is_whole(permille: &u32) -> bool {
    *permille == whole()
}

impl Own {
    /// A program of one kernel that takes so long.
    pub fn new(name: &str, service_us: u64) -> Self {
        Self {
            name: name.to_owned(),
            service_us: Some(Preparation::Constant(service_us)),
            us_per_size: 0.0,
            kernels: Kernels::default(),
            demand_permille: whole(),
            idempotent: false,
        }
    }

    /// Time of a request of this size on the GPU alone, on average.
    fn service(&self, size: u64) -> Duration {
        match (&self.kernels, &self.service_us) {
            (Kernels::List(list), _) => kernels::mean_of(list, size),
            (_, Some(us)) => kernels::mean(us, self.us_per_size, size),
            (_, None) => Duration::ZERO,
        }
    }

    /// The moments of its time alone for requests of these sizes.
    fn moments(&self, sizes: Moments) -> Option<Moments> {
        match (&self.kernels, &self.service_us) {
            (Kernels::List(list), _) => kernels::moments(list, sizes),
            (_, Some(us)) => Some(us.moments()?.plus(sizes.scaled(self.us_per_size / 1e6))),
            (_, None) => None,
        }
    }

    fn pieces(&self, draw: &Draw) -> Vec<Piece> {
        match (&self.kernels, &self.service_us) {
            (Kernels::List(list), _) => kernels::pieces(list, draw),
            (&Kernels::Count(count), us) => {
                let time = us.map_or(Duration::ZERO, |us| {
                    kernels::time(&us, self.us_per_size, draw, 0)
                });
                // Each of at least a microsecond.
                let least = Duration::from_micros(u64::from(count));
                vec![Piece {
                    time: time.max(least),
                    count,
                    share_permille: self.demand_permille,
                    block: None,
                }]
            }
        }
    }

    fn varies(&self) -> bool {
        match &self.kernels {
            Kernels::List(list) => kernels::vary(list),
            Kernels::Count(_) => {
                self.us_per_size > 0.0 || !matches!(self.service_us, Some(Preparation::Constant(_)))
            }
        }
    }

    fn counts_size(&self) -> bool {
        match &self.kernels {
            Kernels::List(list) => list.iter().any(|one| one.us_per_size > 0.0),
            Kernels::Count(_) => self.us_per_size > 0.0,
        }
    }

    fn check(&self, largest: u64) -> Result<()> {
        let name = &self.name;
        match (&self.kernels, &self.service_us) {
            (Kernels::List(list), service) => {
                ensure!(
                    service.is_none() && self.us_per_size == 0.0 && is_whole(&self.demand_permille),
                    "the kernels of {name} are a list, which has their times and shares; leave out \
                     service_us, us_per_size and demand_permille"
                );
                kernels::check(list, largest).with_context(|| format!("the kernels of {name}"))?;
            }
            (Kernels::Count(_), None) => {
                bail!("{name} has no service_us and no list of kernels; give it one of them");
            }
            (&Kernels::Count(count), Some(us)) => {
                kernels::check_time(us, self.us_per_size, largest)
                    .with_context(|| format!("the service_us of {name}"))?;
                let fits = match us {
                    Preparation::Constant(us) => u64::from(count) <= *us,
                    _ => true,
                };
                ensure!(
                    (1..=kernels::MOST).contains(&count) && fits,
                    "the kernels of {name} are {count}; give it 1 to {}, and at least 1 us of \
                     service_us each",
                    kernels::MOST
                );
            }
        }
        ensure!(
            (1..=1_000).contains(&self.demand_permille),
            "the demand_permille of {name} is {}; give it 1 to 1000",
            self.demand_permille
        );
        Ok(())
    }
}

/// The service of a client: a program known by its name, or one that the workload describes.
#[derive(Debug, Clone, PartialEq)]
pub enum Program {
    /// Known.
    Known(Network),
    /// Described.
    Own(Own),
}

impl Program {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Known(network) => network.name(),
            Self::Own(own) => &own.name,
        }
    }

    /// Time of a request without a size on the GPU alone, on average.
    pub fn service(&self) -> Duration {
        self.service_of(0)
    }

    /// The same of one of this size.
    pub(crate) fn service_of(&self, size: u64) -> Duration {
        match self {
            Self::Known(network) => network.service(),
            Self::Own(own) => own.service(size),
        }
    }

    /// The moments of its time alone for requests of these sizes; none where there is no formula.
    pub(crate) fn moments(&self, sizes: Moments) -> Option<Moments> {
        match self {
            Self::Known(network) => Some(Moments::constant(network.service().as_secs_f64())),
            Self::Own(own) => own.moments(sizes),
        }
    }

    /// The kernels of a request.
    pub fn pieces(&self, draw: &Draw) -> Vec<Piece> {
        match self {
            Self::Known(network) => vec![Piece {
                time: network.service(),
                count: network.kernels(),
                share_permille: network.demand_permille(),
                block: None,
            }],
            Self::Own(own) => own.pieces(draw),
        }
    }

    /// True if its requests do not all have the same kernels.
    pub fn varies(&self) -> bool {
        match self {
            Self::Known(_) => false,
            Self::Own(own) => own.varies(),
        }
    }

    /// True if the time of a request depends on its size.
    pub(crate) fn counts_size(&self) -> bool {
        match self {
            Self::Known(_) => false,
            Self::Own(own) => own.counts_size(),
        }
    }

    /// True if a kernel that was killed can be started again on the same data.
    pub fn idempotent(&self) -> bool {
        match self {
            Self::Known(network) => network.idempotent(),
            Self::Own(own) => own.idempotent,
        }
    }

    /// Checks it, for requests of up to this size.
    pub(crate) fn check(&self, largest: u64) -> Result<()> {
        match self {
            Self::Known(_) => Ok(()),
            Self::Own(own) => own.check(largest),
        }
    }
}

impl From<Network> for Program {
    fn from(network: Network) -> Self {
        Self::Known(network)
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(network) => serializer.serialize_str(network.name()),
            Self::Own(own) => own.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Program;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a network, {name: ..., service_us: ...} or {name: ..., \
                     kernels: [...]}",
                )
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Program, E> {
                Network::named(name).map(Program::Known).ok_or_else(|| {
                    E::custom(format!(
                        "unknown network `{name}`: name one of {}, or describe your own as \
                         {{name: {name}, service_us: ...}}",
                        Network::ALL.map(Network::name).join(", ")
                    ))
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Program, A::Error> {
                Own::deserialize(MapAccessDeserializer::new(map)).map(Program::Own)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Program {
        serde_yaml_ng::from_str(text).unwrap()
    }

    #[test]
    fn a_program_is_a_name_or_a_description() {
        assert_eq!(read("vgg"), Network::Vgg.into());
        let own = read("{name: mine, service_us: 900, kernels: 3, idempotent: true}");
        assert_eq!((own.name(), own.idempotent()), ("mine", true));
        assert_eq!(own.service(), Duration::from_micros(900));
        let piece = Piece {
            time: Duration::from_micros(900),
            count: 3,
            share_permille: 1_000,
            block: None,
        };
        assert_eq!(own.pieces(&Draw::default()), [piece]);
        own.check(0).unwrap();
        assert!(!own.varies());
        let error = serde_yaml_ng::from_str::<Program>("alexnet").unwrap_err();
        assert!(error.to_string().contains("describe your own"), "{error}");
        assert!(serde_yaml_ng::from_str::<Program>("{name: mine, service: 1}").is_err());
    }

    #[test]
    fn descriptions_travel() {
        for text in [
            "{name: mine, service_us: 900, kernels: 3, idempotent: true}",
            "{name: mine, service_us: {bimodal: {low: 5, high: 90}}, us_per_size: 0.5}",
            "{name: mine, kernels: [{us: 5, times: 3}, {us: 9, granularity: {block: 3}}]}",
        ] {
            let own = read(text);
            own.check(10).unwrap();
            let json = serde_json::to_string(&own).unwrap();
            assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), own);
            assert_eq!(read(&serde_yaml_ng::to_string(&own).unwrap()), own);
        }
    }

    #[test]
    fn a_service_can_be_a_distribution() {
        let own = read("{name: mine, service_us: {uniform: {low: 100, high: 300}}, kernels: 2}");
        own.check(0).unwrap();
        assert!(own.varies());
        assert_eq!(own.service(), Duration::from_micros(200));
        let times: Vec<Duration> = (0..500)
            .map(|number| {
                let draw = Draw {
                    number,
                    ..Draw::default()
                };
                own.pieces(&draw)[0].time
            })
            .collect();
        let mean = times.iter().sum::<Duration>() / 500;
        assert!((190..210).contains(&mean.as_micros()), "{mean:?}");
        assert_ne!(times[0], times[1]);
        // A distribution that reaches below a microsecond for each kernel is cut there.
        let short = read("{name: mine, service_us: {uniform: {low: 0, high: 1}}, kernels: 9}");
        let time = short.pieces(&Draw::default())[0].time;
        assert_eq!(time, Duration::from_micros(9));
    }

    #[test]
    fn a_service_can_depend_on_a_size() {
        let own = read("{name: mine, service_us: 100, us_per_size: 0.25}");
        own.check(1_000_000).unwrap();
        let draw = Draw {
            size: 400,
            ..Draw::default()
        };
        assert_eq!(own.pieces(&draw)[0].time, Duration::from_micros(200));
        assert_eq!(own.service_of(400), Duration::from_micros(200));
        assert!(own.varies() && own.counts_size() && !read("vgg").counts_size());
    }

    #[test]
    fn each_bad_description_has_an_error_of_its_own() {
        for (text, said) in [
            ("{name: mine}", "no service_us and no list of kernels"),
            (
                "{name: mine, service_us: 0}",
                "the service_us of mine: 0 us",
            ),
            (
                "{name: mine, service_us: {log-normal: {median: 0, sigma: 1}}}",
                "the service_us of mine: a log-normal",
            ),
            (
                "{name: mine, service_us: 10, kernels: 11}",
                "the kernels of mine are 11",
            ),
            (
                "{name: mine, service_us: 900, kernels: 0}",
                "the kernels of mine are 0",
            ),
            (
                "{name: mine, service_us: 900, kernels: 257}",
                "the kernels of mine are 257",
            ),
            (
                "{name: mine, service_us: 900, demand_permille: 0}",
                "the demand_permille of mine is 0",
            ),
            (
                "{name: mine, service_us: 9, us_per_size: -1}",
                "an us_per_size of -1",
            ),
            (
                "{name: mine, kernels: [{us: 0}]}",
                "the kernels of mine: kernel 1",
            ),
            (
                "{name: mine, service_us: 5, kernels: [{us: 5}]}",
                "are a list",
            ),
            (
                "{name: mine, us_per_size: 5, kernels: [{us: 5}]}",
                "are a list",
            ),
            (
                "{name: mine, demand_permille: 5, kernels: [{us: 5}]}",
                "are a list",
            ),
        ] {
            let error = format!("{:#}", read(text).check(100).unwrap_err());
            assert!(error.contains(said), "{error}, not {said}");
        }
    }
}
