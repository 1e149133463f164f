// SPDX-License-Identifier: GPL-2.0
//! Cgroups as what is tracked: who comes, goes, is made there, and was named besides.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Cgroup, Target, Tracking, Zernel};
use rustix::io::Errno;

use super::{thread, threads_of, wait_count, wait_recorded};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, load_all, try_unload, unload_all, wait_until};
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::sys;

/// The entry of a tracked cgroup.
pub(super) fn listed(zernel: &Zernel, group: &Group) -> Result<Option<Cgroup>> {
    let id = group.id()?;
    for cgroup in zernel.cgroups() {
        let cgroup = cgroup?;
        if cgroup.id == id {
            return Ok(Some(cgroup));
        }
    }
    Ok(None)
}

/// The same of one that is tracked.
pub(super) fn sums(zernel: &Zernel, group: &Group) -> Result<Cgroup> {
    listed(zernel, group)?.context("the cgroup is not listed")
}

/// A process of so many threads that come back to user space all the time.
pub(super) fn busy(threads: usize) -> Result<Child> {
    Child::session(move || {
        let rest = || loop {
            std::thread::sleep(Duration::from_millis(2));
        };
        for _ in 1..threads {
            std::thread::spawn(rest);
        }
        rest()
    })
}

/// Whoever comes is tracked with all threads, whoever goes is not, again and again.
pub(super) fn moves() -> Outcome {
    let zernel = Zernel::open()?;
    let group = Group::new("moves")?;
    let below = group.below("below")?;
    let (inside, outside) = (busy(3)?, busy(2)?);
    group.enter(inside.pid())?;
    wait_until("its threads are there", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", inside.pid()))?;
        Ok(tasks.count() == 3)
    })?;
    check_eq!(zernel.track(&group.target()?, Tracking::PLAIN)?, 3);
    let threads = wait_recorded(&zernel, inside.pid(), 3)?;
    ensure!(
        threads.iter().all(|t| t.whole && t.cgroup && t.privileged),
        "{threads:?}"
    );
    check_eq!(zernel.stats()?.threads, 3, "nobody else");
    for round in 0..5 {
        let to = if round % 2 == 0 { &group } else { &below };
        to.enter(outside.pid())?;
        wait_recorded(&zernel, outside.pid(), 2)?;
        let there = sums(&zernel, &group)?;
        check_eq!((there.processes, there.threads), (2, 5), "round {round}");
        group::put(outside.pid())?;
        wait_count(&zernel, 3)?;
        check_eq!(threads_of(&zernel, outside.pid())?.len(), 0);
        check_eq!(sums(&zernel, &group)?.threads, 3);
    }
    // Within it nothing changes.
    let before = wait_recorded(&zernel, inside.pid(), 3)?;
    below.enter(inside.pid())?;
    group.enter(outside.pid())?;
    wait_recorded(&zernel, outside.pid(), 2)?;
    let after = wait_recorded(&zernel, inside.pid(), 3)?;
    ensure!(
        before.iter().zip(&after).all(|(a, b)| a.id == b.id),
        "new records"
    );
    check_eq!(zernel.untrack(&group.target()?)?, 0);
    check_eq!(zernel.threads().count(), 0);
    check_eq!(zernel.cgroups().count(), 0);
    drop((inside, outside));
    wait_count(&zernel, 0)
}

/// Threads, processes and programs that are made inside are tracked from the start, and those that
/// are put there as they are made.
pub(super) fn born_inside() -> Outcome {
    let zernel = Zernel::open()?;
    let group = Group::new("born")?;
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    let missed = zernel.stats()?.threads_missed;
    let parent = Child::session(|| {
        group.enter(0)?;
        wait_recorded(&Zernel::open()?, std::process::id(), 1)?;
        std::mem::forget(Child::spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            Ok(sys::exec_sleep()?)
        })?);
        std::thread::spawn(|| loop {
            std::thread::sleep(Duration::from_millis(2));
        });
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_count(&zernel, 3)?;
    wait_until("the child is another program", || {
        Ok(zernel
            .threads()
            .any(|thread| thread.is_ok_and(|t| t.comm == "sleep" && t.cgroup)))
    })?;
    // It is made there by one who is not, nor is tracked.
    let Target::Cgroup(directory) = group.target()? else {
        anyhow::bail!("no directory");
    };
    let put = Child::into_cgroup(directory.as_fd())?;
    wait_recorded(&zernel, put.pid(), 1)?;
    check_eq!(sums(&zernel, &group)?.processes, 3);
    check_eq!(zernel.stats()?.threads_missed, missed);
    drop((put, parent));
    wait_until("all are forgotten", || {
        let left = sums(&zernel, &group)?;
        Ok((left.processes, left.threads) == (0, 0))
    })?;
    let left = sums(&zernel, &group)?;
    ensure!(
        left.phase_ns.sum() > 0,
        "the time of those that ended is gone"
    );
    zernel.untrack(&group.target()?)?;
    Ok(())
}

/// Made by one who is inside and tracked, and put outside.
pub(super) fn born_outside() -> Outcome {
    let zernel = Zernel::open()?;
    let (group, other) = (Group::new("maker")?, Group::new("elsewhere")?);
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    let Target::Cgroup(directory) = other.target()? else {
        anyhow::bail!("no directory");
    };
    let parent = Child::session(|| {
        group.enter(0)?;
        wait_recorded(&Zernel::open()?, std::process::id(), 1)?;
        std::mem::forget(Child::into_cgroup(directory.as_fd())?);
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_until("the child is there", || {
        let procs = std::fs::read_to_string(other.path().join("cgroup.procs"))?;
        Ok(!procs.is_empty())
    })?;
    std::thread::sleep(Duration::from_millis(30));
    wait_count(&zernel, 1)?;
    let all: Vec<_> = zernel.threads().collect::<libzernel::Result<_>>()?;
    check_eq!(all[0].pid, parent.pid());
    drop(parent);
    zernel.untrack(&group.target()?)?;
    wait_count(&zernel, 0)
}

/// One below the other: each counts, and each ends for itself.
pub(super) fn nested() -> Outcome {
    let zernel = Zernel::open()?;
    let outer = Group::new("outer")?;
    let inner = outer.below("inner")?;
    let child = busy(2)?;
    inner.enter(child.pid())?;
    zernel.track(&inner.target()?, Tracking::PLAIN)?;
    zernel.track(&outer.target()?, Tracking::ML)?;
    wait_recorded(&zernel, child.pid(), 2)?;
    check_eq!(sums(&zernel, &inner)?.threads, 2);
    check_eq!(sums(&zernel, &outer)?.threads, 2);
    check_eq!(
        zernel.phases().count(),
        2,
        "the outer one is of such programs"
    );
    ensure!(
        !sums(&zernel, &inner)?.ml && sums(&zernel, &outer)?.ml,
        "ml"
    );
    outer.enter(child.pid())?;
    wait_until("it has left the inner one", || {
        Ok(sums(&zernel, &inner)?.threads == 0)
    })?;
    check_eq!(sums(&zernel, &outer)?.threads, 2);
    inner.enter(child.pid())?;
    wait_until("it is back", || Ok(sums(&zernel, &inner)?.threads == 2))?;
    check_eq!(zernel.untrack(&outer.target()?)?, 0);
    check_eq!(
        threads_of(&zernel, child.pid())?.len(),
        2,
        "the inner one has it"
    );
    check_eq!(
        zernel.phases().count(),
        0,
        "phases ended with the outer one"
    );
    zernel.untrack(&inner.target()?)?;
    check_eq!(zernel.threads().count(), 0);
    drop(child);
    wait_count(&zernel, 0)
}

/// A process that was named stays when the cgroup does not track it any more, and the reverse.
pub(super) fn named_besides() -> Outcome {
    let zernel = Zernel::open()?;
    let group = Group::new("named")?;
    let child = busy(3)?;
    let process = Target::Process(child.pid());
    let one = Target::Thread(child.pid());
    let there = || Ok::<_, anyhow::Error>(threads_of(&zernel, child.pid())?.len());
    wait_until("its threads are there", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid()))?;
        Ok(tasks.count() == 3)
    })?;
    // A single thread, then all of them by the cgroup.
    zernel.track(&one, Tracking::ML)?;
    group.enter(child.pid())?;
    check_eq!(zernel.track(&group.target()?, Tracking::PLAIN)?, 3);
    zernel.untrack(&group.target()?)?;
    check_eq!(there()?, 1);
    ensure!(
        thread(&zernel, child.pid())?.is_some(),
        "not the one that was named"
    );
    // It ends while the cgroup goes on, and is no program with phases any more.
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    check_eq!(zernel.phases().count(), 3);
    check_eq!(zernel.untrack(&one)?, 1, "the cgroup has it");
    check_eq!(zernel.phases().count(), 0);
    for target in [&one, &process] {
        let answer = unchanged(&zernel, || Ok(errno(zernel.untrack(target))))?;
        check_eq!(
            answer,
            Some(Errno::BUSY),
            "{target:?} is tracked with the cgroup alone"
        );
    }
    // All of it, by both.
    check_eq!(zernel.track(&process, Tracking::CHILDREN)?, 3);
    group::put(child.pid())?;
    wait_until("it has left", || Ok(sums(&zernel, &group)?.processes == 0))?;
    check_eq!(there()?, 3);
    group.enter(child.pid())?;
    wait_until("it is back", || Ok(sums(&zernel, &group)?.processes == 1))?;
    check_eq!(zernel.untrack(&process)?, 3);
    ensure!(
        threads_of(&zernel, child.pid())?
            .iter()
            .all(|t| t.cgroup && !t.children),
        "named"
    );
    zernel.untrack(&group.target()?)?;
    check_eq!(there()?, 0);
    check_eq!(errno(zernel.untrack(&process)), Some(Errno::NODATA));
    drop(child);
    wait_count(&zernel, 0)
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
        check_eq!(errno(zernel.untrack(&target)), Some(Errno::SRCH));
        check_eq!(
            errno(zernel.track(&target, Tracking::PLAIN)),
            Some(Errno::SRCH)
        );
        check_eq!(zernel.cgroups().count(), 0);
    }
    wait_count(&zernel, 0)
}

pub(super) fn refused() -> Outcome {
    let zernel = Zernel::open()?;
    let group = Group::new("refused")?;
    let target = group.target()?;
    // A thread and a cgroup make no processes of their own.
    for target in [&target, &Target::current_thread()] {
        let answer = unchanged(&zernel, || {
            Ok(errno(zernel.track(target, Tracking::CHILDREN)))
        })?;
        check_eq!(answer, Some(Errno::INVAL), "{target:?}");
    }
    check_eq!(errno(zernel.untrack(&target)), Some(Errno::NODATA));
    check_eq!(zernel.cgroups().count(), 0);
    Ok(())
}

/// The module goes beside moves: it does so when nobody has a record, or not, and never while it gives
/// one to somebody.
pub(super) fn unload_beside_moves() -> Outcome {
    unload_all()?;
    let group = Group::new("leaves")?;
    let mover = Child::session(|| loop {
        group.enter(0)?;
        std::thread::sleep(Duration::from_millis(4));
        group::leave()?;
        std::thread::sleep(Duration::from_millis(15));
    })?;
    for _ in 0..3 {
        crate::common::load("zernel", "")?;
        Zernel::open()?.track(&group.target()?, Tracking::PLAIN)?;
        std::thread::sleep(Duration::from_millis(40));
        wait_until("the module can go", || Ok(try_unload("zernel").is_ok()))?;
    }
    drop(mover);
    load_all()
}

/// The module goes while a cgroup is tracked in which nobody is, and knows nothing of it afterwards.
pub(super) fn unload() -> Outcome {
    unload_all()?;
    crate::common::load("zernel", "")?;
    let group = Group::new("unload")?;
    let child = busy(2)?;
    group.enter(child.pid())?;
    Zernel::open()?.track(&group.target()?, Tracking::ML)?;
    wait_recorded(&Zernel::open()?, child.pid(), 2)?;
    check_eq!(
        try_unload("zernel"),
        Err(Errno::AGAIN),
        "threads are tracked"
    );
    drop(child);
    wait_until("the module can go", || Ok(try_unload("zernel").is_ok()))?;
    // The setting of the kernel is taken back.
    in_child(|| {
        group.enter(0)?;
        in_child(|| Ok(()))?;
        group::leave()
    })?;
    load_all()?;
    check_eq!(Zernel::open()?.cgroups().count(), 0);
    Ok(())
}
