// SPDX-License-Identifier: MIT OR Apache-2.0
//! The software GPU under the stand-in for CUDA: its kernels are names, and see no timer. Its file
//! tells instead what a TSG of this process went through.

use anyhow::Result;
use libzernel::sim::OwnTsg;

/// Sets their time slice, in microseconds; the number of those that have taken it.
pub fn set_slices(us: u32) -> Result<usize> {
    let set = |tsg: &&OwnTsg| libzernel::sim::set_timeslice(&tsg.file, tsg.context, us).is_ok();
    Ok(OwnTsg::for_compute()?.iter().filter(set).count())
}

/// The time slices that they have, in microseconds.
pub fn slices() -> Result<Vec<u32>> {
    let tsgs = OwnTsg::for_compute()?;
    Ok(tsgs.iter().map(|tsg| tsg.stats.timeslice_us).collect())
}

/// Their number of times of losing the GPU with work left.
pub fn preemptions() -> Result<u64> {
    let tsgs = OwnTsg::for_compute()?;
    Ok(tsgs.iter().map(|tsg| tsg.stats.preemptions).sum())
}
