// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store of objects over HTTP, for measurements and tests: it waits before it answers, stalls, fails
//! and sends slowly, as a [`weather::Weather`] says. A seed gives the same weather again.
//!
//! [`weather`] has the delays and faults of requests, [`link`] the bandwidth that all connections share,
//! [`objects`] the objects and the answers to requests for them, and [`server`] the connections.

#![warn(missing_docs)]

pub mod link;
pub mod objects;
pub mod server;
pub mod weather;
