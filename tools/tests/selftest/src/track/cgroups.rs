// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups as what is tracked: who comes, goes, is made there, and was named besides; and lists of all
//! that is tracked, by filters.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use bytemuck::Zeroable;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Cgroup, Target, Thread, Tracking, Zernel};
use rustix::io::Errno;

use super::{busy, find, rest, thread, threads_of, wait_count, wait_recorded};
use crate::abi::unchanged;
use crate::child::{in_child, Child};
use crate::common::{errno, load, load_all, unload_all, unload_soon, wait_until};
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::{check_eq, sys};

/// The entry of a tracked cgroup.
pub(super) fn sums(zernel: &Zernel, group: &Group) -> Result<Cgroup> {
    let id = group.id()?;
    let found = find(zernel.cgroups(), |cgroup| cgroup.id == id)?;
    found.context("the cgroup is not listed")
}

/// Its processes and threads.
pub(super) fn counts(zernel: &Zernel, group: &Group) -> Result<(u32, u32)> {
    let sums = sums(zernel, group)?;
    Ok((sums.processes, sums.threads))
}

pub(super) fn wait_counts(zernel: &Zernel, group: &Group, expected: (u32, u32)) -> Outcome {
    let what = format!("{} has {expected:?}", group.path().display());
    wait_until(&what, || Ok(counts(zernel, group)? == expected))
}

/// Threads, processes and programs that are made inside are tracked from the start, and those that
/// are put there as they are made; those that are put elsewhere are not.
pub(super) fn born() -> Outcome {
    let zernel = Zernel::open()?;
    let (group, other) = (Group::new("born")?, Group::new("elsewhere")?);
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    let missed = zernel.stats()?.threads_missed;
    let put_into = |group: &Group| -> Result<Child> {
        let Target::Cgroup(directory) = group.target()? else {
            bail!("no directory");
        };
        Child::into_cgroup(directory.as_fd())
    };
    let parent = Child::session(|| {
        group.enter(0)?;
        wait_recorded(&Zernel::open()?, std::process::id(), 1)?;
        let _outside = put_into(&other)?;
        let _program = Child::spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(sys::exec_sleep()?)
        })?;
        std::thread::spawn(|| rest());
        rest()
    })?;
    wait_count(&zernel, 3)?;
    wait_until("the child is another program", || {
        let program = find(zernel.threads(), |thread| thread.comm == "sleep")?;
        Ok(program.is_some_and(|thread| thread.cgroup))
    })?;
    // It is made there by one who is not, nor is tracked.
    let put = put_into(&group)?;
    wait_recorded(&zernel, put.pid(), 1)?;
    check_eq!(counts(&zernel, &group)?, (3, 4));
    wait_until("a child is elsewhere", || {
        let procs = std::fs::read_to_string(other.path().join("cgroup.procs"))?;
        Ok(!procs.is_empty())
    })?;
    std::thread::sleep(Duration::from_millis(30));
    check_eq!(zernel.stats()?.threads, 4, "nobody from elsewhere");
    check_eq!(zernel.stats()?.threads_missed, missed);
    drop((put, parent));
    wait_counts(&zernel, &group, (0, 0))?;
    let left = sums(&zernel, &group)?.phase_ns.sum();
    ensure!(left > 0, "the time of those that ended is gone");
    zernel.untrack(&group.target()?)?;
    Ok(())
}

/// One below the other: each counts, and each ends for itself. Whoever comes is tracked with all
/// threads, whoever goes is not.
pub(super) fn nested() -> Outcome {
    let zernel = Zernel::open()?;
    let outer = Group::new("outer")?;
    let inner = outer.below("inner")?;
    let (child, outside) = (busy(2)?, busy(1)?);
    inner.enter(child.pid())?;
    check_eq!(zernel.track(&inner.target()?, Tracking::PLAIN)?, 2);
    check_eq!(zernel.track(&outer.target()?, Tracking::ML)?, 2);
    let before = wait_recorded(&zernel, child.pid(), 2)?;
    let right = |t: &Thread| t.whole && t.cgroup && t.privileged && t.ml;
    ensure!(before.iter().all(right), "{before:?}");
    check_eq!(zernel.stats()?.threads, 2, "nobody else");
    check_eq!(sums(&zernel, &inner)?.ml, false);
    check_eq!(sums(&zernel, &outer)?.ml, true);
    for _ in 0..3 {
        outer.enter(child.pid())?;
        wait_counts(&zernel, &inner, (0, 0))?;
        inner.enter(outside.pid())?;
        wait_recorded(&zernel, outside.pid(), 1)?;
        let both = (counts(&zernel, &outer)?, counts(&zernel, &inner)?);
        check_eq!(both, ((2, 3), (1, 1)));
        group::put(outside.pid())?;
        wait_count(&zernel, 2)?;
        check_eq!(threads_of(&zernel, outside.pid())?, []);
        inner.enter(child.pid())?;
        wait_counts(&zernel, &inner, (1, 2))?;
    }
    let after = wait_recorded(&zernel, child.pid(), 2)?;
    let ids = |threads: &[Thread]| threads.iter().map(|t| t.id).collect::<Vec<_>>();
    check_eq!(ids(&after), ids(&before), "records");
    check_eq!(zernel.untrack(&outer.target()?)?, 0);
    let left = threads_of(&zernel, child.pid())?;
    check_eq!(left.len(), 2, "the inner one has it");
    check_eq!(zernel.phases().count(), 0, "they end with the outer one");
    check_eq!(zernel.untrack(&inner.target()?)?, 0);
    check_eq!((zernel.threads().count(), zernel.cgroups().count()), (0, 0));
    Ok(())
}

/// A process that was named stays when the cgroup does not track it any more, and the reverse.
pub(super) fn named_besides() -> Outcome {
    let zernel = Zernel::open()?;
    let group = Group::new("named")?;
    let child = busy(3)?;
    let process = Target::Process(child.pid());
    let one = Target::Thread(child.pid());
    let there = || threads_of(&zernel, child.pid()).map(|threads| threads.len());
    // A single thread, then all of them by the cgroup.
    zernel.track(&one, Tracking::ML)?;
    group.enter(child.pid())?;
    check_eq!(zernel.track(&group.target()?, Tracking::PLAIN)?, 3);
    zernel.untrack(&group.target()?)?;
    check_eq!(there()?, 1);
    let named = thread(&zernel, child.pid())?;
    ensure!(named.is_some(), "not the one that was named");
    // It ends while the cgroup goes on, and is no program with phases any more.
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    check_eq!(zernel.phases().count(), 3);
    check_eq!(zernel.untrack(&one)?, 1, "the cgroup has it");
    check_eq!(zernel.phases().count(), 0);
    for target in [&one, &process] {
        let answer = unchanged(&zernel, || Ok(errno(zernel.untrack(target))))?;
        check_eq!(answer, Some(Errno::BUSY), "{target:?} by the cgroup");
    }
    // All of it, by both.
    check_eq!(zernel.track(&process, Tracking::CHILDREN)?, 3);
    group::put(child.pid())?;
    wait_counts(&zernel, &group, (0, 0))?;
    check_eq!(there()?, 3);
    group.enter(child.pid())?;
    wait_counts(&zernel, &group, (1, 3))?;
    check_eq!(zernel.untrack(&process)?, 3);
    let left = threads_of(&zernel, child.pid())?;
    ensure!(left.iter().all(|t| t.cgroup && !t.children), "{left:?}");
    zernel.untrack(&group.target()?)?;
    check_eq!(there()?, 0);
    check_eq!(errno(zernel.untrack(&process)), Some(Errno::NODATA));
    Ok(())
}

/// A cgroup that is removed is tracked no more; another one of its name is not it.
pub(super) fn removed() -> Outcome {
    let zernel = Zernel::open()?;
    for _ in 0..3 {
        let group = Group::new("removed")?;
        let target = group.target()?;
        zernel.track(&target, Tracking::PLAIN)?;
        let child = busy(1)?;
        group.enter(child.pid())?;
        wait_recorded(&zernel, child.pid(), 1)?;
        drop(child);
        group.remove()?;
        wait_until("it is listed no more", || Ok(zernel.cgroups().count() == 0))?;
        let again = errno(zernel.track(&target, Tracking::PLAIN));
        check_eq!(
            [errno(zernel.untrack(&target)), again],
            [Some(Errno::SRCH); 2]
        );
        check_eq!(zernel.cgroups().count(), 0);
    }
    wait_count(&zernel, 0)
}

/// The module goes beside moves of a process that forks, while a cgroup is tracked: it does so when
/// nobody has a record, or not, and never while it gives one to somebody. It knows nothing afterwards.
pub(super) fn unload() -> Outcome {
    unload_all()?;
    let group = Group::new("leaves")?;
    let mover = Child::session(|| loop {
        group.enter(0)?;
        in_child(|| Ok(()))?;
        std::thread::sleep(Duration::from_millis(4));
        group::leave()?;
        std::thread::sleep(Duration::from_millis(15));
    })?;
    for _ in 0..3 {
        load("zernel", "")?;
        Zernel::open()?.track(&group.target()?, Tracking::ML)?;
        std::thread::sleep(Duration::from_millis(40));
        unload_soon("zernel")?;
        // The setting of the kernel is taken back.
        std::thread::sleep(Duration::from_millis(40));
    }
    drop(mover);
    load_all()?;
    check_eq!(Zernel::open()?.cgroups().count(), 0);
    Ok(())
}

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
    let process = |child: &Child| Target::Process(child.pid());
    let count = |kind, filter: &Target| list(&zernel, kind, filter).map(|(ids, _)| ids.len());
    for (filter, expected) in [
        (&some, [1].as_slice()),
        (&process(&inside), &[2, 1]),
        (&all, &[2, 1, 1]),
        (&Target::current_process(), &[0, 0]),
        (&process(&outside), &[1, 1]),
    ] {
        for (kind, expected) in ALL.into_iter().zip(expected) {
            check_eq!(count(kind, filter), Ok(*expected), "{filter:?}");
        }
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
        let now = changes()?.into_iter();
        Ok(now
            .zip(&before)
            .map(|(now, before)| now - before)
            .eq([6, 4, 2]))
    })
}
