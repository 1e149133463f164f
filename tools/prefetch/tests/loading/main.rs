// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetcher and loader on a store whose round trip is counted in simulated time.
#![cfg(not(loom))]

mod disk;
mod group;
mod kept;
mod lab;
mod loader;
mod pace;
mod prefetcher;
mod published;
mod read;
mod ready;
mod source;
mod wave;
mod whole;
