// SPDX-License-Identifier: GPL-2.0
//! The list of processes with tracked threads.

use super::{
    part::{
        Kind,
        Part, //
    },
    threads::{
        numbers,
        phases,
        tracked,
        Filter, //
    },
};
use crate::{
    device::{
        encode::combine,
        target::Target, //
    },
    glue::{
        identity::Viewer,
        thread::Thread,
        uapi, //
    },
    registry,
    tracking::{
        self,
        programs::Listed, //
    },
};
use kernel::prelude::*;

/// Processes with tracked threads.
pub(super) struct Processes;

impl Kind for Processes {
    type Entry = uapi::zernel_process_info;
    const FILTERS: &'static [u32] = &[uapi::ZERNEL_TARGET_PROCESS, uapi::ZERNEL_TARGET_CGROUP];

    fn changes() -> Result<u64> {
        tracking::with(|t| t.changes().processes)
    }

    fn fill(part: &mut Part<Self::Entry>, filter: &Target, viewer: &Viewer) -> Result {
        let filter = Filter::new(filter);
        part.fill(|from| {
            // Without a table there are none.
            let listed = tracking::with(|t| t.listed_from(from)).ok().flatten()?;
            let is_shown = filter.lets_process(&listed.process);
            Some((listed.id, is_shown.then(|| info(&listed, viewer)).flatten()))
        });
        Ok(())
    }
}

fn info(listed: &Listed, viewer: &Viewer) -> Option<uapi::zernel_process_info> {
    let thread = Thread::of(listed.process.pid())?;
    let (_, pid) = numbers(&thread, viewer)?;
    let report = &listed.report;
    let (counts, sums) = (report.counts, report.times);
    let node = |gpu| registry::with(|r| r.gpu(gpu).and_then(|gpu| gpu.names.numa_node));
    let node = report.used.and_then(|gpu| node(gpu).ok().flatten());
    let [unknown_ns, data_loading_ns, gpu_compute_ns, collective_ns, optimizer_step_ns] =
        phases(&listed.times);
    Some(uapi::zernel_process_info {
        id: listed.id,
        gpu: report.used.map_or(0, |gpu| gpu.0),
        pid,
        uid: viewer.number_of_user(thread.uid()),
        flags: tracked(&listed.process)
            | combine(&[
                (report.gpu.synced.is_some(), uapi::ZERNEL_TRACKED_SYNCED),
                (report.collective, uapi::ZERNEL_TRACKED_COLLECTIVE),
            ]),
        threads: listed.threads,
        numa_node: node.unwrap_or(-1),
        reserved: 0,
        synced_at: report.gpu.synced.map_or(0, |at| at.0),
        sample_at: report.sampled.0,
        sample_ns: report.sample.0,
        sample_gpu_ns: report.gpu.share.of_time(report.sample).0,
        unknown_ns,
        data_loading_ns,
        gpu_compute_ns,
        collective_ns,
        optimizer_step_ns,
        computations: counts.computations,
        compute_ns: sums.compute.0,
        loadings: counts.loadings,
        loading_ns: sums.loading.0,
        lead_ns: sums.lead.0,
        predicted_compute_ns: report.predicted.0.map_or(0, |ns| ns.0),
        predicted_lead_ns: report.predicted.1.map_or(0, |ns| ns.0),
        signals: counts.signals,
        early: counts.early,
        early_ns: counts.early_time.0,
        late: counts.late,
        late_ns: counts.late_time.0,
        useless: counts.useless,
        comm: thread.comm(),
    })
}
