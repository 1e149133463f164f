// SPDX-License-Identifier: GPL-2.0
//! Waits that are counted, and their times.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::sim::Item;
use libzernel::{Target, Timestamp, Tracking, Zernel};
use rustix::io::Errno;

use super::{own, spin, synchronize, synchronize_context, track, wait_waiting, waits, Probed, MS};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tid, Lab};
use crate::harness::Outcome;

/// The driver of the software GPU waits in its call, and in no other.
pub(super) fn provider() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        // Nobody looks yet.
        let submitted = context.submit(0, &[Item::work(MS)])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        track(&lab.zernel)?;
        check_eq!(waits(&lab.zernel, tid())?.1, Default::default());
        let (mut longest, mut count) = (0, 0);
        while longest < 10 {
            ensure!(count < 100, "waited {longest} ms of 20 at most");
            let before = own(&lab.zernel)?;
            let submitted = context.submit(0, &[Item::work(20 * MS)])?;
            let begin = Instant::now();
            context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
            let most = begin.elapsed().as_nanos() as u64;
            let after = own(&lab.zernel)?;
            count += 1;
            check_eq!((after.gpu_wait, after.gpu_waits.count), (false, count));
            let ns = after.gpu_waits.ns - before.gpu_waits.ns;
            ensure!(ns <= most, "{ns} ns in a call of {most} ns");
            // On a slow machine a part of the work is done before it is waited for.
            longest = longest.max(ns / 1_000_000);
        }
        // One that fails is over, too.
        let wait = context.wait(0, u64::MAX, Timestamp::NEVER);
        check_eq!(errno(wait), Some(Errno::INVAL));
        let wait = context.wait(0, submitted.last_seq, Timestamp::NEVER);
        check_eq!(wait.is_ok(), true);
        let (waiting, sum) = waits(&lab.zernel, tid())?;
        check_eq!((waiting, sum.count), (false, count + 2));
        Ok(())
    })
}

/// From the call to the return: longer than what the function does, shorter than its call.
pub(super) fn function() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        for count in 1..=20 {
            let before = own(zernel)?;
            let mut least = Duration::ZERO;
            let begin = Instant::now();
            synchronize(&mut || {
                let begin = Instant::now();
                spin(MS);
                least = begin.elapsed();
            });
            let most = begin.elapsed();
            let after = own(zernel)?;
            let time = Duration::from_nanos(after.gpu_waits.ns - before.gpu_waits.ns);
            ensure!(
                least <= time && time <= most,
                "{least:?} <= {time:?} <= {most:?}"
            );
            check_eq!((after.gpu_wait, after.gpu_waits.count), (false, count));
            // Beside what it did with its time, which is what it was.
            let recorded = after.recorded_ns() - before.recorded_ns();
            ensure!(
                time.as_nanos() as u64 <= recorded,
                "{time:?} of {recorded} ns"
            );
        }
        Ok(())
    })
}

/// A nested wait is a part of the outer one, whoever tells.
pub(super) fn nested() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        track(&lab.zernel)?;
        let mut inside = Ok(());
        synchronize(&mut || {
            inside = (|| -> Result<()> {
                for _ in 0..2 {
                    synchronize_context(&mut || spin(MS));
                }
                synchronize(&mut || spin(MS));
                let submitted = context.submit(0, &[Item::work(MS)])?;
                context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
                check_eq!(waits(&lab.zernel, tid())?.0, true);
                Ok(())
            })();
        });
        inside?;
        let (waiting, sum) = waits(&lab.zernel, tid())?;
        check_eq!((waiting, sum.count), (false, 1));
        // And each on its own.
        synchronize(&mut || {});
        synchronize_context(&mut || {});
        let (waiting, sum) = waits(&lab.zernel, tid())?;
        check_eq!((waiting, sum.count), (false, 3));
        drop(probed);
        // Nobody looks any more.
        synchronize(&mut || spin(MS));
        check_eq!(waits(&lab.zernel, tid())?.1, sum);
        Ok(())
    })
}

/// It is told while it goes on, of the thread that waits alone.
pub(super) fn another_thread() -> Outcome {
    static WAITER: AtomicU32 = AtomicU32::new(0);
    static STOP: AtomicBool = AtomicBool::new(false);
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        track(zernel)?;
        let waiter = std::thread::spawn(|| {
            WAITER.store(tid(), Relaxed);
            synchronize(&mut || {
                while !STOP.load(Relaxed) {
                    std::thread::sleep(MS);
                }
            });
            while STOP.load(Relaxed) {
                std::thread::sleep(MS);
            }
        });
        crate::common::wait_until("it runs", || Ok(WAITER.load(Relaxed) != 0))?;
        let waiter_tid = WAITER.load(Relaxed);
        let first = wait_waiting(zernel, waiter_tid, true)?;
        check_eq!((first.count, waits(zernel, tid())?.0), (1, false));
        // Asleep or not, the time goes on, and never back.
        let mut last = first.ns;
        let enough = first.ns + 5_000_000;
        while last < enough {
            let (waiting, sum) = waits(zernel, waiter_tid)?;
            ensure!(waiting && sum.ns >= last, "{sum:?} after {last} ns");
            last = sum.ns;
        }
        STOP.store(true, Relaxed);
        let sum = wait_waiting(zernel, waiter_tid, false)?;
        ensure!(sum.count == 1 && sum.ns >= last, "{sum:?}");
        check_eq!(waits(zernel, waiter_tid)?.1, sum);
        STOP.store(false, Relaxed);
        waiter.join().expect("a thread that sleeps");
        Ok(())
    })
}

/// Whoever is not tracked runs as ever, and what it began before it was counts not.
pub(super) fn untracked() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        let mut ran = 0;
        let mut inside = Ok(());
        synchronize(&mut || {
            synchronize_context(&mut || ran += 1);
            inside = track(zernel);
        });
        inside?;
        check_eq!(ran, 1);
        let (waiting, sum) = waits(zernel, tid())?;
        check_eq!((waiting, sum.count, sum.ns), (false, 0, 0));
        synchronize(&mut || ran += 1);
        check_eq!((ran, waits(zernel, tid())?.1.count), (2, 1));
        Ok(())
    })
}

/// A thread that is called back is recorded anew, and with it what it waits.
pub(super) fn begun_anew() -> Outcome {
    in_child(|| {
        let probed = Probed::new()?;
        let zernel = &probed.zernel;
        let me = Target::current_process;
        track(zernel)?;
        synchronize(&mut || spin(MS));
        check_eq!(waits(zernel, tid())?.1.count, 1);
        let mut inside = Ok(());
        synchronize(&mut || {
            inside = (|| -> Result<()> {
                zernel.untrack(&me())?;
                Zernel::open()?.track(&me(), Tracking::PLAIN)?;
                Ok(())
            })();
        });
        inside?;
        let (waiting, sum) = waits(zernel, tid())?;
        check_eq!((waiting, sum.count, sum.ns), (false, 0, 0));
        synchronize(&mut || spin(MS));
        check_eq!(waits(zernel, tid())?.1.count, 1);
        Ok(())
    })
}
