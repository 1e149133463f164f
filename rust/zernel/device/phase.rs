// SPDX-License-Identifier: GPL-2.0
//! Phases: of threads, of processes, and what threads say themselves.

use super::{
    list,
    target,
    track, //
};
use crate::{
    error::Failure,
    glue::{
        abi,
        identity::{
            self,
            Scope,
            Viewer, //
        },
        memory::with_memory,
        thread::Thread,
        time::now_ns,
        uapi, //
    },
    policy::{
        phase::{
            account::Times,
            task::Task,
            Phase, //
        },
        units::Ns,
    },
    tracking::{
        self,
        programs::{
            Listed,
            Seen, //
        },
    },
};
use kernel::prelude::*;

/// Fills a page with the phases of threads that the caller may see.
pub(super) fn v0_threads(arg: usize, size: usize) -> Result {
    let viewer = Viewer::current();
    track::page(arg, size, |t, from| {
        let (id, seen) = t.phases_from(from)?;
        let info = |seen: Seen<'_>| {
            let mut info = thread_info(id, &seen, &viewer)?;
            info.nice = t.nice_delta(seen.record.thread());
            Some(info)
        };
        Some((id, seen.and_then(info)))
    })
}

fn thread_info(id: u64, seen: &Seen<'_>, viewer: &Viewer) -> Option<uapi::zernel_v0_thread_phases> {
    let thread = seen.record.thread();
    let (tid, pid) = track::numbers(thread, viewer)?;
    let now = Ns(now_ns());
    let times = seen.times(now);
    let (phase, present, transitions) = match seen.task {
        Some(task) => task.phase(now),
        None => (Phase::Unknown, times.sum(), 0),
    };
    let hinted = seen.task.is_some_and(|task| task.is_hinted(now));
    Some(uapi::zernel_v0_thread_phases {
        id,
        pid,
        tid,
        uid: viewer.number_of_user(thread.uid()),
        flags: list::combine(&[(hinted, uapi::ZERNEL_V0_PHASE_HINTED)]),
        phase: phase.number() as u32,
        nice: 0,
        present_ns: present.0,
        phase_ns: numbers(&times),
        transitions,
        samples: seen.task.map_or(0, Task::samples),
        comm: thread.comm(),
    })
}

fn numbers(times: &Times) -> [u64; uapi::ZERNEL_V0_NR_PHASES as usize] {
    Phase::ALL.map(|phase| times.of(phase).0)
}

/// Fills a page with the processes that the caller may see.
pub(super) fn v0_processes(arg: usize, size: usize) -> Result {
    let viewer = Viewer::current();
    list::page(arg, size, |page| {
        let mut from = page.from();
        // One at a time, for a process may have many threads.
        while let Some(at) = from {
            let Some(listed) = tracking::with(|t| t.listed_from(at))? else {
                break;
            };
            from = listed.id.checked_add(1);
            if let Some(info) = process_info(&listed, &viewer)? {
                if !page.push(listed.id, info) {
                    break;
                }
            }
        }
        Ok(())
    })
}

fn process_info(
    listed: &Listed,
    viewer: &Viewer,
) -> Result<Option<uapi::zernel_v0_process_phases>> {
    let Some(thread) = Thread::of(listed.process.pid()) else {
        return Ok(None);
    };
    let Some((_, pid)) = track::numbers(&thread, viewer) else {
        return Ok(None);
    };
    // Only of those that are shown: there may be many threads.
    let Some(times) = tracking::with(|t| t.times_of(listed.id))? else {
        return Ok(None);
    };
    let now = Ns(now_ns());
    let setting = listed.process.setting();
    let (synced, counts) = (listed.gpu.synced, listed.prefetch.counts);
    let flags = [
        (setting.whole, uapi::ZERNEL_V0_PROCESS_WHOLE),
        (setting.children, uapi::ZERNEL_V0_PROCESS_CHILDREN),
        (setting.privileged, uapi::ZERNEL_V0_PROCESS_PRIVILEGED),
        (setting.ml, uapi::ZERNEL_V0_PROCESS_ML),
        (
            listed.process.grouped().whole,
            uapi::ZERNEL_V0_PROCESS_CGROUP,
        ),
        (synced.is_some(), uapi::ZERNEL_V0_PROCESS_SYNCED),
    ];
    Ok(Some(uapi::zernel_v0_process_phases {
        id: listed.id,
        pid,
        uid: viewer.number_of_user(thread.uid()),
        flags: list::combine(&flags),
        threads: listed.threads,
        gpu_permille: listed.gpu.share.0,
        reserved: 0,
        sync_ns: synced.map_or(0, |at| now.saturating_sub(at).0),
        phase_ns: numbers(&times),
        comm: thread.comm(),
        computations: counts.computations,
        signals: counts.signals,
        early: counts.early,
        early_ns: counts.early_time.0,
        late: counts.late,
        late_ns: counts.late_time.0,
        useless: counts.useless,
        overlap_permille: listed.prefetch.overlap,
    }))
}

/// Fills a page with the tracked cgroups that the caller may see.
pub(super) fn v0_cgroups(arg: usize, size: usize) -> Result {
    let viewer = Viewer::current();
    list::page(arg, size, |page| {
        let mut from = page.from();
        // One at a time, for many threads may be in it.
        while let Some((id, terms)) = match from {
            Some(at) => tracking::with(|t| t.group_from(at))?,
            None => None,
        } {
            from = id.checked_add(1);
            // By privilege also processes of others are tracked.
            let is_ones_own = terms.uid == viewer.uid() && !terms.privileged;
            if !viewer.sees_all() && !is_ones_own {
                continue;
            }
            let Some(sums) = tracking::with(|t| t.sums_of(id))? else {
                continue;
            };
            let flags = [
                (terms.privileged, uapi::ZERNEL_V0_CGROUP_PRIVILEGED),
                (terms.ml, uapi::ZERNEL_V0_CGROUP_ML),
            ];
            let info = uapi::zernel_v0_cgroup_phases {
                id,
                uid: viewer.number_of_user(terms.uid),
                flags: list::combine(&flags),
                processes: sums.processes,
                threads: sums.threads,
                phase_ns: numbers(&sums.times),
            };
            if !page.push(id, info) {
                break;
            }
        }
        Ok(())
    })
}

/// A thread says what it does.
pub(super) fn v0_hint(arg: usize, size: usize) -> Result {
    let hint: uapi::zernel_v0_phase_hint = abi::read(arg, size)?;
    let phase = Phase::ALL.get(hint.phase as usize).copied();
    let (Some(phase), 0) = (phase, hint.reserved) else {
        return Err(EINVAL);
    };
    let duration = Ns(hint.duration_ns);
    if duration > Task::LONGEST_HINT {
        return Err(EINVAL);
    }
    let pid = target::task(hint.tid.into(), false, Scope::Thread)?;
    let owner = pid.is_callers(Scope::Thread);
    let caller = target::asker(identity::caller_uid(), owner)?.caller;
    if !owner && !track::is_privileged(caller) {
        return Err(track::refused(Failure::NotPermitted));
    }
    let thread = Thread::of(&pid).filter(Thread::is_program).ok_or(ESRCH)?;
    let process = thread.process()?;
    let hint = || tracking::with(|t| t.hint(&process, &thread, (phase, duration)))?;
    with_memory(hint).map_err(Failure::errno)
}

// The numbers are the same.
kernel::prelude::static_assert!(
    Phase::Unknown.number() == uapi::ZERNEL_V0_PHASE_UNKNOWN as usize
        && Phase::DataLoading.number() == uapi::ZERNEL_V0_PHASE_DATA_LOADING as usize
        && Phase::GpuCompute.number() == uapi::ZERNEL_V0_PHASE_GPU_COMPUTE as usize
        && Phase::NcclCollective.number() == uapi::ZERNEL_V0_PHASE_NCCL_COLLECTIVE as usize
        && Phase::OptimizerStep.number() == uapi::ZERNEL_V0_PHASE_OPTIMIZER_STEP as usize
        && Task::LONGEST_HINT.0 == uapi::ZERNEL_V0_HINT_MAX_NS
);
