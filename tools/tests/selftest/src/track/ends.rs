// SPDX-License-Identifier: GPL-2.0
//! The end of tracking: with the thread, when it is not wanted, and never by the module's going.

use std::time::Duration;

use anyhow::ensure;
use libzernel::thread::Does;
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::{kill_process, Pid, Signal};

use super::{thread, threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, try_unload, wait_until};
use crate::harness::Outcome;

fn sleeping() -> anyhow::Result<Child> {
    let child = Child::spawn(|| loop {
        std::thread::sleep(Duration::from_secs(600));
    })?;
    wait_until("it sleeps", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(stat.contains(") S "))
    })?;
    Ok(child)
}

/// A thread that sleeps is recorded when it comes back to user space, and let go likewise.
pub(super) fn sleeper() -> Outcome {
    let zernel = Zernel::open()?;
    let child = sleeping()?;
    let target = || Target::Process(child.pid());
    check_eq!(zernel.track(&target(), Tracking::PLAIN)?, 1);
    std::thread::sleep(Duration::from_millis(20));
    let there = thread(&zernel, child.pid())?;
    check_eq!(
        there.map(|t| (t.does, t.recorded_ns())),
        Some((Does::Arrive, 0))
    );
    // It has not come, and is not wanted any more: there is nothing to see of it.
    zernel.untrack(&target())?;
    check_eq!(threads_of(&zernel, child.pid())?.len(), 0);
    check_eq!(errno(zernel.untrack(&target())), Some(Errno::NODATA));
    check_eq!(zernel.track(&target(), Tracking::PLAIN)?, 1);
    // A signal without effect brings it back.
    let pid = Pid::from_raw(child.pid() as i32).expect("a process");
    kill_process(pid, Signal::STOP)?;
    kill_process(pid, Signal::CONT)?;
    let threads = wait_recorded(&zernel, child.pid(), 1)?;
    wait_until("it sleeps again", || {
        let there = thread(&zernel, child.pid())?;
        Ok(matches!(there.map(|t| t.does), Some(Does::Sleep(_))))
    })?;
    ensure!(threads[0].bursts.count >= 1, "{threads:?}");
    drop(child);
    wait_count(&zernel, 0)
}

pub(super) fn exit_and_kill() -> Outcome {
    let zernel = Zernel::open()?;
    for kill in [false, true] {
        let child = Child::session(move || {
            let zernel = Zernel::open()?;
            zernel.track(&Target::current_process(), Tracking::CHILDREN)?;
            let threads: Vec<_> = (0..20)
                .map(|_| std::thread::spawn(|| std::thread::sleep(Duration::from_millis(50))))
                .collect();
            for _ in 0..5 {
                let _left_behind = Child::spawn(|| {
                    std::thread::sleep(Duration::from_millis(if kill { 600_000 } else { 1 }));
                    Ok(())
                })?;
                if kill {
                    std::mem::forget(_left_behind);
                }
            }
            for thread in threads {
                thread.join().expect("a thread that sleeps");
            }
            if kill {
                std::thread::sleep(Duration::from_secs(600));
            }
            Ok(())
        })?;
        if kill {
            wait_until(
                "its children are there",
                || Ok(zernel.stats()?.threads == 6),
            )?;
            drop(child);
        } else {
            child.join()?;
        }
        wait_count(&zernel, 0)?;
        check_eq!(zernel.threads().count(), 0);
    }
    Ok(())
}

/// While a thread has a record, or is still to let it go, the module stays.
pub(super) fn unload() -> Outcome {
    crate::common::unload_all()?;
    crate::common::load("zernel", "")?;
    let child = sleeping()?;
    {
        let zernel = Zernel::open()?;
        zernel.track(&Target::Process(child.pid()), Tracking::PLAIN)?;
    }
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "tracked");
    {
        let zernel = Zernel::open()?;
        zernel.untrack(&Target::Process(child.pid()))?;
        check_eq!(zernel.stats()?.threads, 0);
    }
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "not let go yet");
    drop(child);
    wait_until("the module can go", || match try_unload("zernel") {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    })?;
    crate::common::load_all()
}
