// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: clients, their networks, the arrival of their requests and the times of preparation.
//! No GPU: `zernel-load` runs them on one, `replay` on a model of one.

mod arrival;
mod client;
mod kernels;
mod moments;
mod network;
mod preparation;
mod program;
mod published;
mod schedule;
mod sized;
mod trace;
mod transfer;
mod workload;

pub use arrival::{check_rate, Arrival, Gamma, OnOff};
pub use client::{ClientSpec, Role};
pub use kernels::{Draw, Granularity, Kernel, Kernels, Piece};
pub use moments::Moments;
pub use network::Network;
pub use preparation::Preparation;
pub use program::{Own, Program};
pub use published::Published;
pub use schedule::{Next, Schedule};
pub use sized::Sized;
pub use trace::{Trace, Traced};
pub use transfer::Transfer;
pub use workload::{check_seconds, Deployment, Workload};
