// SPDX-License-Identifier: MIT OR Apache-2.0
//! The software GPU under the stand-in for CUDA: its kernels are names, and see no timer. Its file
//! tells instead what a TSG of this process went through.

use std::os::fd::OwnedFd;

use anyhow::Result;
use libzernel::sim::TsgStats;

use crate::sys::files;

const DEVICE: &str = "/dev/zernel-sim";
/// Contexts that the library makes in a file: for compute, and for copies.
const CONTEXTS: u32 = 4;
/// The engine for compute.
const COMPUTE: u32 = 0;

/// The TSGs of compute of this process: the file of each, its context there, and its statistics.
fn compute() -> Result<Vec<(OwnedFd, u32, TsgStats)>> {
    let mut found = Vec::new();
    for number in files::open_of(DEVICE)? {
        for context in 0..=CONTEXTS {
            let file = files::duplicate(number)?;
            match TsgStats::of_file(&file, context) {
                Ok(stats) if stats.engine == COMPUTE => found.push((file, context, stats)),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Sets their time slice, in microseconds; the number of those that have taken it.
pub fn set_slices(us: u32) -> Result<usize> {
    let set = |(file, context, _): &(OwnedFd, u32, TsgStats)| {
        libzernel::sim::set_timeslice(file, *context, us).is_ok()
    };
    Ok(compute()?.iter().filter(|tsg| set(tsg)).count())
}

/// The time slices that they have, in microseconds.
pub fn slices() -> Result<Vec<u32>> {
    Ok(compute()?
        .iter()
        .map(|(.., stats)| stats.timeslice_us)
        .collect())
}

/// Their number of times of losing the GPU with work left.
pub fn preemptions() -> Result<u64> {
    Ok(compute()?.iter().map(|(.., stats)| stats.preemptions).sum())
}
