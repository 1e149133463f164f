// SPDX-License-Identifier: GPL-2.0
//! Out of memory: nothing has changed, or what was missed is counted.

use std::time::Duration;

use anyhow::{ensure, Context as _};
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::faults::Faults;

use super::cgroups::{busy, sums};
use super::{threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::wait_until;
use crate::group::{self, Group};
use crate::harness::Outcome;

fn wait_threads(child: &Child, count: usize) -> Outcome {
    wait_until("its threads are there", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid()))?;
        Ok(tasks.count() == count)
    })
}

/// Each step of the call fails, one after the other.
pub(super) fn each_step() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let zernel = Zernel::open()?;
    let group = Group::new("memory")?;
    group.enter(0)?;
    for target in [
        Target::current_thread(),
        Target::current_process(),
        group.target()?,
    ] {
        let count = thread.each(|n| {
            let (result, failed) = thread.nth(n, || zernel.track(&target, Tracking::PLAIN))?;
            if let Err(error) = result {
                ensure!(failed, "{error} of itself");
                let cause = error.errno();
                let causes = [Errno::NOMEM, Errno::FAULT];
                ensure!(cause.is_some_and(|e| causes.contains(&e)), "{error}");
                if cause == Some(Errno::NOMEM) {
                    check_eq!(zernel.stats()?.threads, 0, "threads after {error}");
                    check_eq!(zernel.cgroups().count(), 0, "cgroups after {error}");
                }
                zernel.track(&target, Tracking::PLAIN)?;
            }
            let own = threads_of(&zernel, std::process::id())?;
            check_eq!(own.len(), 1);
            zernel.untrack(&target)?;
            Ok(failed)
        })?;
        println!("    # {target:?}: {count} steps that can fail");
        ensure!(count > 0, "to track cannot fail");
    }
    group::leave()?;
    wait_count(&zernel, 0)
}

/// The same for a process that comes to a second tracked cgroup, below the one that it is in.
pub(super) fn each_step_of_a_move() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let zernel = Zernel::open()?;
    let outer = Group::new("memory")?;
    let inner = outer.below("inner")?;
    inner.enter(0)?;
    let count = thread.each(|n| {
        zernel.track(&outer.target()?, Tracking::PLAIN)?;
        let target = inner.target()?;
        let (result, failed) = thread.nth(n, || zernel.track(&target, Tracking::PLAIN))?;
        if let Err(error) = result {
            ensure!(failed, "{error} of itself");
            check_eq!(sums(&zernel, &outer)?.processes, 1, "after {error}");
            zernel.track(&target, Tracking::PLAIN)?;
        }
        for group in [&outer, &inner] {
            let sums = sums(&zernel, group)?;
            check_eq!(
                (sums.processes, sums.threads),
                (1, 1),
                "in {}",
                group.path().display()
            );
        }
        zernel.untrack(&target)?;
        zernel.untrack(&outer.target()?)?;
        Ok(failed)
    })?;
    println!("    # {count} steps that can fail");
    ensure!(count > 0, "to track cannot fail");
    group::leave()?;
    wait_count(&zernel, 0)
}

/// There is memory for the first steps of the call and none for the others, wherever that begins.
pub(super) fn none_from_there_on() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let zernel = Zernel::open()?;
    let group = Group::new("memory")?;
    let child = busy(4)?;
    wait_threads(&child, 4)?;
    group.enter(child.pid())?;
    for target in [Target::Process(child.pid()), group.target()?] {
        let mut refused = 0;
        loop {
            let none = faults.no_memory_after(refused * 64)?;
            let result = zernel.track(&target, Tracking::PLAIN);
            drop(none);
            let Err(error) = result else {
                break;
            };
            check_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
            check_eq!(zernel.stats()?.threads, 0, "threads after {refused}");
            check_eq!(zernel.cgroups().count(), 0, "cgroups after {refused}");
            refused += 1;
            ensure!(refused < 1_000, "{target:?} takes more than 64 KB");
        }
        wait_recorded(&zernel, child.pid(), 4)?;
        zernel.untrack(&target)?;
        wait_count(&zernel, 0)?;
        println!("    # {target:?}: {refused} refusals");
        ensure!(refused > 4, "to track takes memory of four threads");
    }
    drop(child);
    wait_count(&zernel, 0)
}

/// A process comes to a tracked cgroup while there is no memory: it is tracked when there is some.
pub(super) fn of_members() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let zernel = Zernel::open()?;
    let group = Group::new("members")?;
    zernel.track(&group.target()?, Tracking::PLAIN)?;
    let child = busy(2)?;
    let none = faults.no_memory()?;
    group.enter(child.pid())?;
    std::thread::sleep(Duration::from_millis(100));
    // A list takes memory as a record does.
    let error = zernel.stats().err().and_then(|error| error.errno());
    check_eq!(error, Some(Errno::NOMEM), "there is memory");
    drop(none);
    wait_recorded(&zernel, child.pid(), 2)?;
    zernel.untrack(&group.target()?)?;
    drop(child);
    wait_count(&zernel, 0)
}

/// A process comes to two tracked cgroups at once while there is memory for some steps only: it is
/// tracked in both when there is more.
pub(super) fn of_both_cgroups() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let zernel = Zernel::open()?;
    let outer = Group::new("memory")?;
    let inner = outer.below("inner")?;
    for group in [&outer, &inner] {
        zernel.track(&group.target()?, Tracking::PLAIN)?;
    }
    let child = busy(2)?;
    wait_threads(&child, 2)?;
    for step in 2..20 {
        let none = faults.little_memory(step)?;
        inner.enter(child.pid())?;
        std::thread::sleep(Duration::from_millis(50));
        drop(none);
        wait_recorded(&zernel, child.pid(), 2)?;
        wait_until("it is in both", || {
            let counts = |group| sums(&zernel, group).map(|sums| (sums.processes, sums.threads));
            Ok(counts(&outer)? == (1, 2) && counts(&inner)? == (1, 2))
        })
        .with_context(|| format!("step {step}"))?;
        group::put(child.pid())?;
        wait_count(&zernel, 0)?;
    }
    Ok(())
}

/// A tracked thread makes others while there is no memory: they are not tracked, which is counted.
/// When there is some again, those that live still are.
pub(super) fn of_followers() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let none = faults.no_memory()?;
    drop(none);
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        let before = zernel.stats()?.threads_missed;
        let none = faults.no_memory()?;
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let lives = std::thread::spawn(move || {
            let _ = wait.recv();
        });
        drop(none);
        let missed = zernel.stats()?.threads_missed - before;
        ensure!(missed > 0, "nobody was missed");
        // Whoever is made next is tracked again.
        std::thread::spawn(|| ())
            .join()
            .expect("a thread that ends");
        drop(stop);
        lives.join().expect("a thread that waits");
        wait_recorded(&zernel, std::process::id(), 1)?;
        Ok(())
    })?;
    wait_count(&Zernel::open()?, 0)
}
