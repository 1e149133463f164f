// SPDX-License-Identifier: GPL-2.0
//! Lists of tracked threads, processes and cgroups: filters, what they say of each other, and sums.

use std::os::fd::AsFd;

use bytemuck::Zeroable;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;

use super::cgroups::busy;
use super::{wait_count, wait_recorded};
use crate::check_eq;
use crate::child::Child;
use crate::common::wait_until;
use crate::group::Group;
use crate::harness::Outcome;

/// Ids of the entries that a filter lets through, and the number of changes.
fn list(zernel: &Zernel, kind: u32, filter: &Target) -> Result<(Vec<u64>, u64), Errno> {
    // The longest; the id is the first field of each.
    let mut entries = [abi::zernel_thread_info::zeroed(); 8];
    let mut list = abi::zernel_list {
        kind,
        filter: filter.raw(),
        ..abi::zernel_list::zeroed()
    };
    let filled = calls::list(zernel.as_fd(), &mut list, &mut entries)?;
    let ids = entries[..filled].iter().map(|entry| entry.id).collect();
    Ok((ids, list.changes))
}

pub(super) fn filters() -> Outcome {
    const ALL: [u32; 3] = [
        abi::ZERNEL_LIST_THREADS,
        abi::ZERNEL_LIST_PROCESSES,
        abi::ZERNEL_LIST_CGROUPS,
    ];
    let zernel = Zernel::open()?;
    let group = Group::new("filters")?;
    let (inside, outside) = (busy(2)?, Child::idle(|| Ok(()))?);
    let all = group.target()?;
    let changes = || -> Result<Vec<u64>, Errno> {
        let of = |kind| list(&zernel, kind, &all).map(|(_, changes)| changes);
        ALL.into_iter().map(of).collect()
    };
    let before = changes()?;
    group.enter(inside.pid())?;
    zernel.track(&all, Tracking::ML)?;
    zernel.track(&Target::Process(outside.pid()), Tracking::PLAIN)?;
    let threads = wait_recorded(&zernel, inside.pid(), 2)?;
    wait_recorded(&zernel, outside.pid(), 1)?;
    let some = Target::Thread(threads[1].tid);
    let process = Target::Process(inside.pid());
    let count = |kind, filter: &Target| list(&zernel, kind, filter).map(|(ids, _)| ids.len());
    for (filter, expected) in [
        (&some, [Ok(1), Err(Errno::INVAL), Err(Errno::INVAL)]),
        (&process, [Ok(2), Ok(1), Err(Errno::INVAL)]),
        (&all, [Ok(2), Ok(1), Ok(1)]),
        (
            &Target::current_process(),
            [Ok(0), Ok(0), Err(Errno::INVAL)],
        ),
        (
            &Target::Process(outside.pid()),
            [Ok(1), Ok(1), Err(Errno::INVAL)],
        ),
    ] {
        check_eq!(ALL.map(|kind| count(kind, filter)), expected, "{filter:?}");
    }
    let ids = |kind| list(&zernel, kind, &all).map(|(ids, _)| ids);
    check_eq!(ids(ALL[1])?, [threads[0].process]);
    for thread in zernel.threads_of(&all) {
        let thread = thread?;
        check_eq!(thread.process, threads[0].process);
        // Both are the time since it is recorded, of the same moment.
        check_eq!(thread.recorded_ns(), thread.phase_ns.sum(), "{thread:?}");
        check_eq!((thread.ml, thread.cgroup), (true, true));
    }
    drop((inside, outside));
    zernel.untrack(&all)?;
    wait_count(&zernel, 0)?;
    wait_until("what has come has gone", || {
        let came_and_went = changes()?
            .into_iter()
            .zip(&before)
            .map(|(now, before)| now - before);
        Ok(came_and_went.collect::<Vec<_>>() == [6, 4, 2])
    })
}
