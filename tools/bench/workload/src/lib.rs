// SPDX-License-Identifier: MIT OR Apache-2.0
//! Workloads: clients, their networks, the arrival of their requests and the times of preparation.
//! No GPU: `zernel-load` runs them on one, `replay` on a model of one.

mod arrival;
mod network;
mod preparation;
mod published;
mod schedule;
mod sized;
mod workload;

pub use arrival::{check_rate, Arrival, Gamma, OnOff};
pub use network::{Network, Own, Program};
pub use preparation::Preparation;
pub use published::Published;
pub use schedule::{Next, Schedule};
pub use sized::Sized;
pub use workload::{check_seconds, ClientSpec, Deployment, Role, Workload};
