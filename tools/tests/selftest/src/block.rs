// SPDX-License-Identifier: MIT OR Apache-2.0
//! A block device that takes its time, where the kernel has what it is made of.

use std::time::Duration;

use anyhow::{Error, Result};
use testkit::harness::Skip;
use zernel_train::{Disk, Missing, Source};

/// Batches from a device each of whose requests takes `latency`.
///
/// Errors: [`Skip`] where the kernel has no null_blk.
pub fn disk(latency: Duration) -> Result<Source> {
    Source::throttled(latency).map_err(skip)
}

/// A device each of whose requests takes `latency`; with a depth, so many at a time, of 128 KiB at
/// most.
///
/// Errors: [`Skip`] where the kernel has no null_blk.
pub fn device(latency: Duration, depth: Option<u64>) -> Result<Disk> {
    Disk::with_depth(latency, depth).map_err(skip)
}

fn skip(error: Error) -> Error {
    match error.downcast::<Missing>() {
        Ok(missing) => Skip(missing.to_string().leak()).into(),
        Err(error) => error,
    }
}
