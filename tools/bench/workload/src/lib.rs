// SPDX-License-Identifier: GPL-2.0
//! Workloads: which clients run, what they serve, when their requests arrive and how long the
//! preparation of each takes. No GPU: `zernel-load` runs them on one, `replay` on a model of one.

mod network;
mod preparation;
mod published;
mod schedule;
mod workload;

pub use network::{Network, Own, Program};
pub use preparation::Preparation;
pub use published::Published;
pub use schedule::{Next, Schedule};
pub use workload::{check_rate, check_seconds, Arrival, ClientSpec, Deployment, Role, Workload};
