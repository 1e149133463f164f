// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of clients: the time of a request on the GPU, and its kernels.

use std::fmt;
use std::time::Duration;

use anyhow::{ensure, Result};
use clap::ValueEnum;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A program of the published workloads, on an A100; networks at batch size 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Network {
    /// VGG.
    Vgg,
    /// ResNet-152.
    Resnet152,
    /// DenseNet.
    Densenet,
    /// Inception.
    Inception,
    /// BERT.
    Bert,
    /// miniWeather: a time step of a weather simulation.
    MiniWeather,
    /// Breadth-first search.
    Bfs,
    /// Single-source shortest paths.
    Sssp,
    /// PageRank.
    Pagerank,
    /// Connected components.
    Cc,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Vgg,
        Self::Resnet152,
        Self::Densenet,
        Self::Inception,
        Self::Bert,
        Self::MiniWeather,
        Self::Bfs,
        Self::Sssp,
        Self::Pagerank,
        Self::Cc,
    ];

    /// The mix of the published workloads.
    pub const MIX: [Self; 5] = [
        Self::Resnet152,
        Self::Densenet,
        Self::Vgg,
        Self::Inception,
        Self::Bert,
    ];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Time on the GPU alone: vgg and resnet152 fit the published tables, the others are
    /// substitutes; those of Y and Z fit the published LC latency without preemption.
    pub const fn service(self) -> Duration {
        Duration::from_micros(match self {
            Self::Vgg => 2_200,
            Self::Resnet152 => 6_800,
            Self::Densenet => 7_500,
            Self::Inception => 2_900,
            Self::Bert => 1_200,
            Self::MiniWeather => 2_400,
            Self::Bfs => 1_500,
            Self::Sssp => 2_250,
            Self::Pagerank => 2_650,
            Self::Cc => 1_700,
        })
    }

    /// Kernels of one request. On a GPU that can preempt anywhere their number changes no
    /// latency; it is small because each costs the simulator time.
    pub const fn kernels(self) -> u32 {
        match self {
            Self::Vgg | Self::Inception => 4,
            Self::Resnet152 | Self::Densenet => 8,
            Self::Bert => 2,
            Self::MiniWeather => 6,
            Self::Bfs | Self::Sssp | Self::Pagerank | Self::Cc => 4,
        }
    }

    /// Share of the GPU that its kernels can use, in thousandths: the rest is for the other
    /// channels of the same TSG, if there are any.
    ///
    /// At batch size 1 a network fills less than half of an A100: the published C and D without
    /// preemption serve, in one TSG, twice the work that the GPU does one after the other. With
    /// this share, the same for all, a replay of them serves as much to within 2 %.
    pub const fn demand_permille(self) -> u32 {
        400
    }

    /// True if a kernel that was killed can be started again on the same data. Inference writes to
    /// buffers that it does not read; a stencil or a graph algorithm updates in place.
    pub const fn idempotent(self) -> bool {
        matches!(
            self,
            Self::Vgg | Self::Resnet152 | Self::Densenet | Self::Inception | Self::Bert
        )
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vgg => "vgg",
            Self::Resnet152 => "resnet152",
            Self::Densenet => "densenet",
            Self::Inception => "inception",
            Self::Bert => "bert",
            Self::MiniWeather => "miniweather",
            Self::Bfs => "bfs",
            Self::Sssp => "sssp",
            Self::Pagerank => "pagerank",
            Self::Cc => "cc",
        }
    }
}

/// A program that a workload file describes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    /// Its name.
    pub name: String,
    /// Time of a request on the GPU alone, in microseconds, 1 to 10,000,000.
    pub service_us: u64,
    /// Kernels of a request, 1 to 256, each of at least a microsecond.
    #[serde(default = "one")]
    pub kernels: u32,
    /// Share of the GPU that its kernels can use, in thousandths.
    #[serde(default = "whole")]
    pub demand_permille: u32,
    /// True if a kernel that was killed can be started again on the same data.
    #[serde(default)]
    pub idempotent: bool,
}

const fn one() -> u32 {
    1
}

const fn whole() -> u32 {
    1_000
}

impl Own {
    fn check(&self) -> Result<()> {
        let name = &self.name;
        ensure!(
            (1..=10_000_000).contains(&self.service_us),
            "the service_us of {name} is {}; give it 1 to 10000000 us",
            self.service_us
        );
        ensure!(
            (1..=256).contains(&self.kernels) && u64::from(self.kernels) <= self.service_us,
            "the kernels of {name} are {}; give it 1 to 256, and at least 1 us of service_us each",
            self.kernels
        );
        ensure!(
            (1..=1_000).contains(&self.demand_permille),
            "the demand_permille of {name} is {}; give it 1 to 1000",
            self.demand_permille
        );
        Ok(())
    }
}

/// The service of a client: a program known by its name, or one that the workload describes.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// Time of a request on the GPU alone.
    pub fn service(&self) -> Duration {
        match self {
            Self::Known(network) => network.service(),
            Self::Own(own) => Duration::from_micros(own.service_us),
        }
    }

    /// Kernels of a request, at least one.
    pub fn kernels(&self) -> u32 {
        match self {
            Self::Known(network) => network.kernels(),
            Self::Own(own) => own.kernels,
        }
    }

    /// Share of the GPU that its kernels can use, in thousandths.
    pub fn demand_permille(&self) -> u32 {
        match self {
            Self::Known(network) => network.demand_permille(),
            Self::Own(own) => own.demand_permille,
        }
    }

    /// True if a kernel that was killed can be started again on the same data.
    pub fn idempotent(&self) -> bool {
        match self {
            Self::Known(network) => network.idempotent(),
            Self::Own(own) => own.idempotent,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Known(_) => Ok(()),
            Self::Own(own) => own.check(),
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
                f.write_str("the name of a network or {name: ..., service_us: ...}")
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

    #[test]
    fn names_are_unique_and_found() {
        for network in Network::ALL {
            assert_eq!(Network::named(network.name()), Some(network));
            let value = network.to_possible_value().unwrap();
            assert_eq!(value.get_name(), network.name());
            assert!(network.kernels() > 0);
        }
    }

    #[test]
    fn a_program_is_a_name_or_a_description() {
        let read = serde_yaml_ng::from_str::<Program>;
        assert_eq!(read("vgg").unwrap(), Network::Vgg.into());
        let own = read("{name: mine, service_us: 900, kernels: 3, idempotent: true}").unwrap();
        assert_eq!((own.name(), own.kernels()), ("mine", 3));
        assert_eq!(own.service(), Duration::from_micros(900));
        assert_eq!((own.demand_permille(), own.idempotent()), (1_000, true));
        own.check().unwrap();

        let json = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), own);
        let error = read("alexnet").unwrap_err().to_string();
        assert!(error.contains("describe your own"), "{error}");
        assert!(read("{name: mine, service: 1}").is_err());
        assert!(read("{name: mine, service_us: 0}")
            .unwrap()
            .check()
            .is_err());
        let many = read("{name: mine, service_us: 10, kernels: 11}").unwrap();
        assert!(many.check().is_err());
    }
}
