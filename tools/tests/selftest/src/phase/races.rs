// SPDX-License-Identifier: GPL-2.0
//! Threads of a machine-learning program that come and go beside samples, lists and hints.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::ensure;
use libzernel::{Phase, Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::Repeat;

use super::{own, own_process};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, tid, tune};
use crate::harness::Outcome;
use crate::track::{wait_count, wait_recorded};

/// Longer than any case takes.
const PATIENCE: Duration = Duration::from_secs(3_000);

/// Threads that end as soon as they begin: the sums of the process grow all the time, and hold
/// what its threads did.
pub(super) fn short_lived() -> Outcome {
    const AT_ONCE: u64 = 10;
    tune("phase_tick_us", 100)?;
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    let mut repeat = Repeat::new(300, "times 10 threads that end at once");
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML_CHILDREN)?;
        let mut last = 0;
        while repeat.next().is_some() {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| std::thread::spawn(|| ())).collect();
            for thread in threads {
                thread.join().expect("a thread that ends");
            }
            if repeat.done() % 20 == 0 {
                let first = own(&zernel)?.phase_ns.sum();
                let all = own_process(&zernel)?.phase_ns.sum();
                ensure!(
                    all >= first && all >= last,
                    "{all} ns after {last} ns, {first} ns"
                );
                last = all;
            }
        }
        println!("    # {}", repeat.report());
        wait_recorded(&zernel, std::process::id(), 1)?;
        Ok(())
    })?;
    child.join_within(PATIENCE)?;
    wait_count(&zernel, 0)?;
    check_eq!(zernel.phases().count(), 0);
    check_eq!(zernel.processes().count(), 0);
    check_eq!(zernel.stats()?.threads_missed, missed);
    Ok(())
}

/// Hints for threads that end at that moment, and for whoever is tracked no more.
pub(super) fn hints_beside_ends() -> Outcome {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    let mut repeat = Repeat::new(500, "threads and hints for them");
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let target = Target::current_process();
        zernel.track(&target, Tracking::ML)?;
        let hinter = std::thread::spawn(|| -> Outcome {
            let zernel = Zernel::open()?;
            let mut turn = 0;
            while !STOP.load(Relaxed) {
                let thread = NEXT.load(Relaxed);
                turn += 1;
                let phase = Phase::ALL[turn % Phase::ALL.len()];
                let answer =
                    errno(zernel.hint(&Target::Thread(thread), phase, Duration::from_micros(50)));
                let fine = [None, Some(Errno::SRCH), Some(Errno::NODATA)];
                ensure!(fine.contains(&answer), "a hint for {thread}: {answer:?}");
            }
            Ok(())
        });
        while repeat.next().is_some() {
            let thread = std::thread::spawn(|| NEXT.store(tid(), Relaxed));
            thread.join().expect("a thread that ends");
            if repeat.done() % 16 == 0 {
                zernel.untrack(&target)?;
                zernel.track(&target, Tracking::ML)?;
            }
        }
        println!("    # {}", repeat.report());
        STOP.store(true, Relaxed);
        hinter.join().expect("a thread that gives hints")
    })?;
    child.join_within(PATIENCE)?;
    wait_count(&Zernel::open()?, 0)
}
