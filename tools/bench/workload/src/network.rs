// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of clients: the time of a request on the GPU, and its kernels.

use std::time::Duration;

use clap::ValueEnum;

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
}
