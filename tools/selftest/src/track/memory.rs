// SPDX-License-Identifier: GPL-2.0
//! Out of memory: nothing has changed, or what was missed is counted.

use anyhow::ensure;
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::faults::Faults;

use super::{threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::in_child;
use crate::harness::Outcome;

/// Each step of the call fails, one after the other.
pub(super) fn each_step() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let zernel = Zernel::open()?;
    for target in [Target::current_thread(), Target::current_process()] {
        let count = thread.each(|n| {
            let (result, failed) = thread.nth(n, || zernel.track(&target, Tracking::PLAIN))?;
            if let Err(error) = result {
                ensure!(failed, "{error} of itself");
                let cause = error.errno();
                let causes = [Errno::NOMEM, Errno::FAULT];
                ensure!(cause.is_some_and(|e| causes.contains(&e)), "{error}");
                if cause == Some(Errno::NOMEM) {
                    check_eq!(zernel.stats()?.threads, 0, "threads after {error}");
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
    wait_count(&zernel, 0)
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
        let missed = zernel.stats()?.threads_missed - before;
        drop(none);
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
