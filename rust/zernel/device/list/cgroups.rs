// SPDX-License-Identifier: GPL-2.0
//! The list of tracked cgroups.

use super::{
    part::{
        Kind,
        Part, //
    },
    threads::phases, //
};
use crate::{
    device::{
        encode::combine,
        target::Target, //
    },
    glue::{
        identity::Viewer,
        uapi, //
    },
    tracking::{
        self,
        group::Terms,
        groups::Sums, //
    }, //
};
use kernel::prelude::*;

/// Tracked cgroups.
pub(super) struct Cgroups;

impl Kind for Cgroups {
    type Entry = uapi::zernel_cgroup_info;
    const FILTERS: &'static [u32] = &[uapi::ZERNEL_TARGET_CGROUP];

    fn changes() -> Result<u64> {
        tracking::with(|t| t.changes().cgroups)
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        let only = match filter {
            Target::Cgroup(cgroup, _) => Some(cgroup.id()),
            _ => None,
        };
        part.fill(|from| {
            // The order of its ids: one is found at once.
            let from = only.map_or(from, |only| only.max(from));
            // Without a table there are none.
            let found = tracking::with(|t| t.group_from(from)).ok().flatten();
            let (id, terms) = found.filter(|(id, _)| only.is_none_or(|only| only == *id))?;
            // By privilege also processes of others are tracked.
            let is_ones_own = terms.uid == viewer.uid() && !terms.privileged;
            let is_shown = viewer.sees_all() || is_ones_own;
            let sums = is_shown.then(|| tracking::with(|t| t.sums_of(id)).ok().flatten());
            let sums = sums.flatten();
            Some((id, sums.map(|sums| info(id, terms, &sums, viewer))))
        });
        Ok(())
    }
}

fn info(id: u64, terms: Terms, sums: &Sums, viewer: &Viewer) -> uapi::zernel_cgroup_info {
    let [unknown_ns, data_loading_ns, gpu_compute_ns, collective_ns, optimizer_step_ns] =
        phases(&sums.times);
    uapi::zernel_cgroup_info {
        id,
        uid: viewer.number_of_user(terms.uid),
        flags: combine(&[
            (true, uapi::ZERNEL_TRACKED_CGROUP),
            (terms.privileged, uapi::ZERNEL_TRACKED_PRIVILEGED),
            (terms.ml, uapi::ZERNEL_TRACKED_ML),
        ]),
        processes: sums.processes,
        threads: sums.threads,
        unknown_ns,
        data_loading_ns,
        gpu_compute_ns,
        collective_ns,
        optimizer_step_ns,
    }
}
