// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that share a GPU, in every order of events: the real model of a GPU (`rust/model/`) under the real
//! rotation, requests, budgets and preemption (`rust/policy/`), with a worker and processes around them.
//!
//! A task is a TSG: running, ready, saved (preempted in the middle of its work) or idle. A path is a
//! list of events, each a few ticks after the one before: latency-critical processes begin requests, are
//! ready, give up, or stop; best-effort ones get more to run; calls of the provider are quick, slow, or
//! fail. The machine between two events is deterministic, so that a path has one outcome. No two paths
//! are taken for one, and each ends by a rest in which nothing new comes.
//!
//! The properties are those of [`world`].

mod machine;
// Not everything that the kernel modules use is used here.
#[allow(dead_code)]
#[allow(clippy::assertions_on_constants, clippy::too_many_arguments)]
#[path = "../../../../rust/model/mod.rs"]
mod model;
#[allow(dead_code, clippy::assertions_on_constants)]
#[path = "../../../../rust/policy"]
mod policy {
    pub(crate) mod attribute;
    pub(crate) mod backoff;
    pub(crate) mod buckets;
    pub(crate) mod budget;
    pub(crate) mod class;
    pub(crate) mod control;
    pub(crate) mod deadline;
    pub(crate) mod histogram;
    pub(crate) mod level;
    pub(crate) mod nice;
    pub(crate) mod phase;
    pub(crate) mod predict;
    pub(crate) mod preempt;
    pub(crate) mod prefetch;
    pub(crate) mod refused;
    pub(crate) mod request;
    pub(crate) mod rotation;
    pub(crate) mod slices;
    pub(crate) mod switch_cost;
    pub(crate) mod tunables;
    pub(crate) mod units;
    pub(crate) mod weight;
}
mod process;
mod worker;
pub mod world;
