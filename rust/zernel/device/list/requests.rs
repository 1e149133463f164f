// SPDX-License-Identifier: GPL-2.0
//! The lists of the outcomes of requests: by TSG, and by level.

use super::{
    levels,
    part::{
        Kind,
        Part,
        MAX, //
    },
    tsgs, //
};
use crate::{
    device::{
        encode,
        target::Target, //
    },
    glue::{
        identity::Viewer,
        uapi, //
    },
    policy::{
        counters::Counters,
        units::Ppm, //
    },
    registry::{
        self,
        tsg, //
    },
    request::group::Group, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Requests by TSG.
pub(super) struct OfTsgs;

/// Requests by level.
pub(super) struct OfLevels;

impl Kind for OfTsgs {
    type Entry = uapi::zernel_request_info;
    const FILTERS: &'static [u32] = tsgs::FILTERS;

    fn changes() -> Result<u64> {
        tsgs::changes()
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        let mut groups = KVec::<Option<Arc<Group>>>::with_capacity(MAX + 1, GFP_KERNEL)?;
        let filter = registry::with(|r| tsgs::Filter::new(r, filter, viewer))??;
        part.fill_each(|from| {
            registry::with(|r| {
                let (id, tsg, is_shown) = filter.find(r, viewer, from)?;
                let info = is_shown.then(|| {
                    // There is room for the one that is not shown any more, too.
                    let _ = groups.push_within_capacity(tsg.requests.clone());
                    uapi::zernel_request_info {
                        id: id.0,
                        gpu: tsg.gpu.0,
                        level: encode::level(tsg.effective.level),
                        ..Default::default()
                    }
                });
                Some((id.0, info))
            })
        })?;
        let mut counters = KBox::<Counters>::zeroed(GFP_KERNEL)?;
        for (info, group) in part.entries_mut().iter_mut().zip(&groups) {
            let Some(group) = group else {
                continue;
            };
            group.poll();
            counters.clear();
            group.stats.add_to(&mut counters);
            tell(info, &counters);
        }
        Ok(())
    }
}

/// Most TSGs in one call about levels, with a look at the slots of those with requests.
const LOOKS: usize = 16 * MAX;

/// Marks a cursor of a list of levels before its first entry: looks at the requests of all TSGs
/// come first, of some in each call. No id is that large.
const LOOKING: u64 = 1 << 63;

impl Kind for OfLevels {
    type Entry = uapi::zernel_request_info;
    const FILTERS: &'static [u32] = levels::FILTERS;
    const PRIVATE: bool = true;

    fn changes() -> Result<u64> {
        registry::with(|r| r.gpu_changes())
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, _: &Viewer) -> Result {
        let filter = registry::with(|r| levels::Filter::new(r, filter))??;
        if part.cursor() == 0 || part.cursor() >= LOOKING {
            let after = tsg::Id(part.cursor() & !LOOKING);
            match take_up(after)? {
                Some(after) => {
                    part.skip_to(after.0 | LOOKING);
                    return Ok(());
                }
                None => part.skip_to(0),
            }
        }
        let mut counters = KBox::<Counters>::zeroed(GFP_KERNEL)?;
        part.fill_each(|from| {
            let Some((id, of)) = registry::with(|r| filter.find(r, from))? else {
                return Ok(None);
            };
            counters.clear();
            registry::requests::each_part(of, |part| part.add_to(&mut counters))?;
            let mut info = uapi::zernel_request_info {
                id,
                gpu: of.gpu.map_or(0, |id| id.0),
                level: encode::level(of.level),
                ..Default::default()
            };
            tell(&mut info, &counters);
            Ok(Some((id, Some(info))))
        })
    }
}

/// Takes up the stores of processes for the requests of some TSGs behind `after`. Returns the TSG
/// to go on from.
fn take_up(after: tsg::Id) -> Result<Option<tsg::Id>> {
    let mut after = after;
    for _ in 0..LOOKS {
        let Some((id, group)) = registry::with(|r| r.next_group(after))? else {
            return Ok(None);
        };
        if let Some(group) = group {
            group.poll();
        }
        after = id;
    }
    Ok(Some(after))
}

fn tell(info: &mut uapi::zernel_request_info, counters: &Counters) {
    let latency = &counters.latency;
    let quantile = |share| latency.quantile(share).unwrap_or_default().0;
    info.begun = counters.begun;
    info.done = counters.done;
    info.cancelled = counters.cancelled;
    info.expired = counters.expired;
    info.closed = counters.closed;
    info.gone = counters.gone;
    info.suspended = counters.suspended;
    info.in_flight = counters.in_flight();
    info.triggers = counters.triggers;
    info.early = counters.early;
    info.early_ns = counters.early_time.0;
    info.late = counters.late;
    info.late_ns = counters.late_time.0;
    info.lost_ns = counters.lost_time.0;
    info.violations = counters.slo_violations;
    info.latency_ns = latency.sum().0;
    info.latency_min_ns = latency.min().unwrap_or_default().0;
    info.latency_max_ns = latency.max().unwrap_or_default().0;
    info.latency_p50_ns = quantile(Ppm(500_000));
    info.latency_p99_ns = quantile(Ppm(990_000));
    info.latency_p999_ns = quantile(Ppm(999_000));
    info.preempt_done = counters.preempted;
    info.preempt_timeouts = counters.preempt_timeouts;
    info.preempt_no_memory = counters.preempt_no_memory;
    info.preempt_unresponsive = counters.preempt_unresponsive;
    info.preempt_invalid = counters.preempt_invalid;
    info.accepted = counters.accepted;
    info.refused = counters.refused;
    info.missed = counters.missed;
}
