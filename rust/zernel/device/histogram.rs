// SPDX-License-Identifier: GPL-2.0
//! Histograms of durations.

use super::{
    client::Client,
    target::Target, //
};
use crate::{
    glue::{
        abi,
        identity::Viewer,
        uapi, //
    },
    policy::histogram::Latencies,
    registry::{
        self,
        requests, //
    },
};
use kernel::prelude::*;

/// Kinds of target that have a histogram.
const TARGETS: &[u32] = &[
    uapi::ZERNEL_TARGET_TSG,
    uapi::ZERNEL_TARGET_GPU,
    uapi::ZERNEL_TARGET_LEVEL,
];

/// The question about a TSG or level.
#[derive(Clone, Copy)]
enum Kind {
    /// From begin to done.
    Latency,
    /// From the trigger until the TSG has the engine.
    Preemption,
}

/// Fills the buckets of a histogram.
pub(super) fn fill(_: &Client, asked: &mut uapi::zernel_histogram) -> Result {
    if asked.flags != 0 || asked.reserved != 0 {
        return Err(EINVAL);
    }
    let kind = match (asked.kind, asked.target.kind) {
        (uapi::ZERNEL_HISTOGRAM_SWITCH, uapi::ZERNEL_TARGET_GPU) => None,
        (_, uapi::ZERNEL_TARGET_GPU) => return Err(EINVAL),
        (uapi::ZERNEL_HISTOGRAM_LATENCY, _) => Some(Kind::Latency),
        (uapi::ZERNEL_HISTOGRAM_PREEMPTION, _) => Some(Kind::Preemption),
        _ => return Err(EINVAL),
    };
    let viewer = Viewer::current();
    let target = Target::read(&asked.target, TARGETS)?;
    if !viewer.sees_all() && !matches!(target, Target::Tsg(_)) {
        return Err(EPERM);
    }
    let mut sum = KBox::<Latencies>::zeroed(GFP_KERNEL)?;
    match (target, kind) {
        (Target::Gpu(id), _) => {
            registry::requests::count_starts(id)?;
            let requests = registry::with(|r| r.gpu(id).map(|gpu| gpu.requests.clone()))?;
            requests.ok_or(ENOENT)?.add_switches_to(&mut sum);
        }
        (Target::Tsg(id), Some(kind)) => {
            if let Some(gpu) = registry::with(|r| r.tsg(id).map(|tsg| tsg.gpu))? {
                registry::requests::count_starts(gpu)?;
            }
            let group = registry::with(|r| r.known_group(id, &viewer))??;
            if let Some(group) = group {
                group.poll();
                match kind {
                    Kind::Latency => group.stats.add_latencies_to(&mut sum),
                    Kind::Preemption => group.stats.add_preemptions_to(&mut sum),
                }
            }
        }
        (Target::Level(id), Some(kind)) => {
            let of = registry::with(|r| r.level(id))?.ok_or(ENOENT)?;
            requests::count_all_starts()?;
            requests::each_part(of, |part| match kind {
                Kind::Latency => part.add_latencies_to(&mut sum),
                Kind::Preemption => part.add_preemptions_to(&mut sum),
            })?;
        }
        _ => return Err(EINVAL),
    }
    let counts = sum.counts();
    asked.count = counts.len() as u32;
    asked.filled = match asked.buckets {
        0 => 0,
        address => {
            let counts = counts.get(..asked.room as usize).unwrap_or(counts);
            abi::write_words(usize::try_from(address).map_err(|_| EFAULT)?, counts)?;
            counts.len() as u32
        }
    };
    asked.unit_ns = Latencies::UNIT.0 as u32;
    asked.octave = Latencies::PER_OCTAVE;
    asked.samples = sum.count();
    asked.sum_ns = sum.sum().0;
    asked.min_ns = sum.min().unwrap_or_default().0;
    asked.max_ns = sum.max().unwrap_or_default().0;
    Ok(())
}
