// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata of sharded arrays, read before a loader asks for it.
//!
//! - [`cache`]: entries of one stage, kept for the batches that asked for them.
//! - [`budget`]: bytes that the stages share.
//! - `pace`: how far a loader is ahead, by its own measures or zernel's prefetch signals.
//! - `request`: a request of zernel that becomes ready with its batch.
//! - [`batch`]: what is in flight for a batch, and the one word that says that nothing is.

#![warn(missing_docs)]

#[cfg(not(loom))]
pub mod array;
pub mod batch;
pub mod budget;
pub mod cache;
#[cfg(not(loom))]
pub mod decode;
#[cfg(not(loom))]
pub mod decoders;
#[cfg(not(loom))]
pub mod direct;
mod fault;
pub mod gate;
#[cfg(not(loom))]
pub mod gpu;
#[cfg(not(loom))]
pub mod layout;
#[cfg(not(loom))]
mod line;
#[cfg(not(loom))]
pub mod loader;
#[cfg(not(loom))]
pub mod order;
#[cfg(not(loom))]
pub mod pace;
#[cfg(not(loom))]
pub mod plan;
#[cfg(not(loom))]
pub mod prefetcher;
#[cfg(not(loom))]
mod probe;
#[cfg(not(loom))]
pub mod read;
pub mod region;
#[cfg(not(loom))]
pub mod request;
#[cfg(not(loom))]
pub mod source;
mod sync;
#[cfg(not(loom))]
mod sys;
pub mod turnstile;
#[cfg(not(loom))]
pub mod wave;
#[cfg(not(loom))]
mod whole;

pub use fault::{Fault, Kind};
