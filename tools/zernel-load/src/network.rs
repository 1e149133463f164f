// SPDX-License-Identifier: GPL-2.0
//! The networks that clients serve: how long an inference takes, and in how many kernels.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A network at batch size 1 on an A100.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
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
}

impl Network {
    /// The mix of the published workloads.
    pub const MIX: [Self; 5] = [
        Self::Resnet152,
        Self::Densenet,
        Self::Vgg,
        Self::Inception,
        Self::Bert,
    ];

    /// Time on the GPU alone: vgg and resnet152 fit the published tables, the others are
    /// substitutes.
    pub const fn service(self) -> Duration {
        Duration::from_micros(match self {
            Self::Vgg => 2_200,
            Self::Resnet152 => 6_800,
            Self::Densenet => 7_500,
            Self::Inception => 2_900,
            Self::Bert => 1_200,
        })
    }

    /// Kernels of one inference. Kernels can be preempted anywhere, so their number changes no
    /// latency; it is small because each costs the simulator time.
    pub const fn kernels(self) -> u32 {
        match self {
            Self::Vgg | Self::Inception => 4,
            Self::Resnet152 | Self::Densenet => 8,
            Self::Bert => 2,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vgg => "vgg",
            Self::Resnet152 => "resnet152",
            Self::Densenet => "densenet",
            Self::Inception => "inception",
            Self::Bert => "bert",
        }
    }
}
