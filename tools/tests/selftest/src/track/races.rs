// SPDX-License-Identifier: GPL-2.0
//! Threads that come and go, stop, are traced and become other programs while they are tracked.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::{Target, Tracking, Zernel};
use rustix::process::{kill_process, Pid, Signal};
use testkit::Repeat;

use super::{threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::harness::Outcome;
use crate::sys;

/// Longer than any case takes.
const LONG: Duration = Duration::from_secs(3_600);

/// 100,000 threads that end as soon as they begin, of a process that is tracked.
pub(super) fn short_lived() -> Outcome {
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    const AT_ONCE: u64 = 20;
    let mut repeat = Repeat::new(100_000 / AT_ONCE, "times 20 threads that end at once");
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::CHILDREN)?;
        while repeat.next().is_some() {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| std::thread::spawn(|| ())).collect();
            for thread in threads {
                thread.join().expect("a thread that ends");
            }
        }
        println!("    # {}", repeat.report());
        wait_recorded(&zernel, std::process::id(), 1)?;
        Ok(())
    })?;
    child.join_within(LONG)?;
    wait_count(&zernel, 0)?;
    check_eq!(zernel.stats()?.threads_missed, missed);
    Ok(())
}

/// A process is tracked, and not any more, while it makes threads and processes: none is left out
/// when it is tracked at the end, and none left over when it is not.
pub(super) fn on_and_off() -> Outcome {
    const ROUNDS: u64 = 400;
    let zernel = Zernel::open()?;
    static STOP: AtomicBool = AtomicBool::new(false);
    let child = Child::session(|| {
        let makers: Vec<_> = (0..3)
            .map(|number| {
                std::thread::spawn(move || -> Result<()> {
                    while !STOP.load(Relaxed) {
                        if number == 0 {
                            in_child(|| Ok(()))?;
                        } else {
                            std::thread::spawn(std::thread::yield_now)
                                .join()
                                .expect("a thread that ends");
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for maker in makers {
            maker.join().expect("a thread that makes others")?;
        }
        Ok(())
    })?;
    let target = Target::Process(child.pid());
    let mut repeat = Repeat::new(ROUNDS, "times on and off");
    while repeat.next().is_some() {
        let tracking = Tracking {
            children: repeat.done() % 2 == 0,
            ..Tracking::PLAIN
        };
        zernel.track(&target, tracking)?;
        zernel.untrack(&target)?;
    }
    println!("    # {}", repeat.report());
    zernel.track(&target, Tracking::PLAIN)?;
    // The first and three that make others are there all the time.
    crate::common::wait_until("all that stay are recorded", || {
        let tids = threads_of(&zernel, child.pid())?;
        let stay: Vec<_> = std::fs::read_dir(format!("/proc/{}/task", child.pid()))?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .collect();
        let there = |tid: &u32| tids.iter().any(|thread| thread.tid == *tid);
        let known = stay.iter().filter(|tid| there(tid)).count();
        Ok(known >= 4 && known + 3 >= stay.len())
    })?;
    drop(child);
    wait_count(&zernel, 0)
}

/// Stopped, traced and continued, again and again.
pub(super) fn stop_and_trace() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::spawn(|| loop {
        std::thread::sleep(Duration::from_micros(100));
    })?;
    let pid = Pid::from_raw(child.pid() as i32).expect("a process");
    let target = Target::Process(child.pid());
    for round in 0..60 {
        // Each with all that differs from round to round below.
        let tracking = match round / 6 % 2 {
            0 => Tracking::PLAIN,
            _ => Tracking::ML_CHILDREN,
        };
        kill_process(pid, Signal::STOP)?;
        zernel.track(&target, tracking)?;
        kill_process(pid, Signal::CONT)?;
        wait_recorded(&zernel, child.pid(), 1)?;
        if round % 3 == 0 {
            sys::trace_for_a_moment(child.pid())?;
        }
        kill_process(pid, Signal::STOP)?;
        zernel.untrack(&target)?;
        if round % 2 == 0 {
            // Asked for again while it is stopped with the old one.
            zernel.track(&target, tracking)?;
            zernel.untrack(&target)?;
        }
        kill_process(pid, Signal::CONT)?;
    }
    check_eq!(zernel.stats()?.threads, 0);
    zernel.track(&target, Tracking::ML_CHILDREN)?;
    kill_process(pid, Signal::STOP)?;
    child.kill()?;
    drop(child);
    wait_count(&zernel, 0)
}

/// Processes that become other programs, and their children do.
pub(super) fn exec_storm() -> Outcome {
    for tracking in [Tracking::CHILDREN, Tracking::ML_CHILDREN] {
        exec_storm_of(tracking)?;
    }
    Ok(())
}

fn exec_storm_of(tracking: Tracking) -> Outcome {
    const ROUNDS: u64 = 150;
    let zernel = Zernel::open()?;
    let mut repeat = Repeat::new(ROUNDS, "programs");
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), tracking)?;
        while repeat.next().is_some() {
            let status = std::process::Command::new("/bin/sh")
                .args(["-c", "/bin/true; exec /bin/true"])
                .status()?;
            ensure!(status.success(), "{status}");
        }
        println!("    # {}: {tracking:?}", repeat.report());
        Ok(())
    })?;
    child.join_within(LONG)?;
    wait_count(&zernel, 0)?;
    check_eq!(zernel.phases().count(), 0, "{tracking:?}");
    Ok(())
}
