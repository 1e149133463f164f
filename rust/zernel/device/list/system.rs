// SPDX-License-Identifier: GPL-2.0
//! The list of the module's counters: one entry.

use super::part::{
    Kind,
    Part, //
};
use crate::{
    device::target::Target,
    glue::{
        identity::Viewer,
        scheduler_hooks,
        uapi, //
    },
    prefetch::quota,
    registry,
    request::share,
    stream,
    tracking::{
        self,
        probes, //
    },
};
use kernel::prelude::*;

/// Id of the entry.
const ID: u64 = 1;

/// The counters.
pub(super) struct System;

impl Kind for System {
    type Entry = uapi::zernel_system_info;
    const FILTERS: &'static [u32] = &[];

    fn changes() -> Result<u64> {
        Ok(0)
    }

    fn fill(part: &mut Part<Self::Entry>, _: &Target, _: &Viewer) -> Result {
        let info = info()?;
        part.fill(|from| (from <= ID).then_some((ID, Some(info))));
        Ok(())
    }
}

fn info() -> Result<uapi::zernel_system_info> {
    let threads = tracking::with(|t| t.count())?;
    let prefetch = quota::counters()?;
    let (streams, events, events_dropped) = stream::counts();
    let slots = share::slots();
    registry::with(|r| {
        let counters = r.counters();
        let (gpus, tsgs, classes) = r.population();
        uapi::zernel_system_info {
            id: ID,
            tsgs_added: counters.tsgs_added,
            tsgs_removed: counters.tsgs_removed,
            tsgs_dead: counters.dead,
            tsgs_missed: counters.tsgs_missed,
            classes_set: counters.classes_set,
            classes_cleared: counters.classes_cleared,
            classes_expired: counters.classes_expired,
            denied: counters.denied,
            coalesced: counters.coalesced,
            applied: counters.applied,
            retries: counters.retries,
            errors: counters.errors,
            controls_denied: counters.controls_denied,
            controls_reapplied: counters.controls_reapplied,
            turns: counters.turns,
            events,
            events_dropped,
            threads_missed: scheduler_hooks::missed(),
            readaheads: prefetch.readaheads,
            readahead_bytes: prefetch.bytes,
            readaheads_failed: prefetch.failed,
            readaheads_skipped: prefetch.skipped,
            gpus: gpus.into(),
            tsgs: tsgs.into(),
            classes: classes.into(),
            streams: streams.into(),
            slots,
            threads: threads.into(),
            subscriptions: prefetch.subscriptions,
            probes: probes::count().into(),
        }
    })
}
