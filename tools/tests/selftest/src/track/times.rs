// SPDX-License-Identifier: GPL-2.0
//! The records: sleeps by cause, bursts, waits for a CPU; and that they add up.

use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::thread::{Cause, Sum};
use libzernel::{Target, Thread, Timestamp, Tracking};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

use super::MS;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tid, wait_until, Lab};
use crate::harness::Outcome;

/// The calling thread, which is tracked.
fn own(lab: &Lab) -> Result<Thread> {
    super::thread(&lab.zernel, tid())?.context("the calling thread is not listed")
}

const SLEEP: Duration = Duration::from_millis(40);

fn in_a_while() -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: SLEEP.as_nanos() as i64,
    }
}

/// Sleeps for [`SLEEP`] at least, for this cause.
fn sleep_for(lab: &Lab, cause: Cause) -> Result<()> {
    match cause {
        Cause::Futex => {
            let (lock, event) = (Mutex::new(()), Condvar::new());
            let guard = lock.lock().expect("a lock of its own");
            let (_guard, result) = event.wait_timeout(guard, SLEEP).expect("a lock of its own");
            ensure!(result.timed_out(), "woken by nobody");
        }
        Cause::Poll => {
            let (reader, _writer) = rustix::pipe::pipe()?;
            let ready = poll(
                &mut [PollFd::new(&reader.as_fd(), PollFlags::IN)],
                Some(&in_a_while()),
            )?;
            check_eq!(ready, 0, "an empty pipe");
        }
        Cause::ReadWrite => {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: in_a_while(),
            };
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
            rustix::io::read(&timer, &mut [0; 8])?;
        }
        Cause::Ioctl => {
            let (context, _) = lab.compute()?;
            let submitted = context.submit(0, &[Item::work(SLEEP)])?;
            context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        }
        _ => std::thread::sleep(SLEEP),
    }
    Ok(())
}

/// A sleep counts under its cause and nowhere else.
pub(super) fn causes() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::CurrentThread, Tracking::PLAIN)?;
        // Disks have a case of their own: nothing here waits for one for sure.
        for cause in [
            Cause::Futex,
            Cause::Poll,
            Cause::ReadWrite,
            Cause::Ioctl,
            Cause::Other,
        ] {
            let before = own(&lab)?;
            // On a slow machine a part of the time is over before it sleeps, or is waited for a CPU
            // after it.
            let mut times = 0;
            let after = loop {
                sleep_for(&lab, cause)?;
                times += 1;
                let after = own(&lab)?;
                let slept = after.sleeps.of(cause).ns - before.sleeps.of(cause).ns;
                if slept >= times * SLEEP.as_nanos() as u64 / 2 || times > 100 {
                    break after;
                }
            };
            for other in Cause::ALL {
                let (was, is) = (before.sleeps.of(other), after.sleeps.of(other));
                ensure!(
                    is.count >= was.count && is.ns >= was.ns,
                    "{other:?} decreased"
                );
                let slept = is.ns - was.ns;
                if other == cause {
                    ensure!(is.count > was.count, "{cause:?}: {was:?} became {is:?}");
                    ensure!(
                        slept >= times * SLEEP.as_nanos() as u64 / 2,
                        "{cause:?}: {slept} ns in {times} sleeps of {SLEEP:?}"
                    );
                } else if other != Cause::Io && other != Cause::Other {
                    // Locks of the kernel count as others.
                    check_eq!(
                        (was.count, was.ns),
                        (is.count, is.ns),
                        "{cause:?} in {other:?}"
                    );
                }
            }
        }
        Ok(())
    })
}

/// Work on a CPU is a burst, up to the next sleep; and two threads on one CPU wait for each other.
pub(super) fn bursts() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::CurrentThread, Tracking::PLAIN)?;
        std::thread::sleep(Duration::from_millis(1));
        let before = own(&lab)?;
        let begin = cpu_time();
        while cpu_time() - begin < 30 * MS {
            std::hint::spin_loop();
        }
        let during = own(&lab)?;
        check_eq!(during.bursts.count, before.bursts.count, "a burst goes on");
        ensure!(during.burst_now_ns >= 30 * MS, "{during:?}");
        let mut after = own(&lab)?;
        while after.bursts.count == during.bursts.count {
            // On a slow machine a short time is over before it sleeps.
            std::thread::sleep(Duration::from_millis(1));
            after = own(&lab)?;
        }
        // The list itself is a part of the next one.
        ensure!(after.burst_last_ns >= 30 * MS, "{after:?}");
        let spent = after.bursts.ns - before.bursts.ns;
        ensure!(spent >= 30 * MS, "{spent} ns of CPU time");

        rustix::thread::sched_setaffinity(None, &one_cpu())?;
        let queued = own(&lab)?.queued;
        // On a machine that stands still, time that nobody had counts as that of a CPU.
        wait_until("it waits for its CPU", || {
            let rival = std::thread::spawn(|| {
                let begin = cpu_time();
                while cpu_time() - begin < 60 * MS {
                    std::hint::spin_loop();
                }
            });
            let begin = cpu_time();
            while cpu_time() - begin < 60 * MS {
                std::hint::spin_loop();
            }
            rival.join().expect("a thread that spins");
            let now = own(&lab)?.queued;
            Ok(now.count > queued.count && now.ns >= queued.ns + 10 * MS)
        })
    })
}

fn one_cpu() -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    set
}

/// CPU time of the calling thread in ns.
fn cpu_time() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000 * MS + now.tv_nsec as u64
}

/// All times together are the time since it is recorded, to the nanosecond: between two looks as
/// much has passed as on the clock; and none ever decreases.
pub(super) fn add_up() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::CurrentThread, Tracking::PLAIN)?;
        let look = || -> Result<(u64, Thread, u64)> {
            let before = Timestamp::now().as_ns();
            let thread = own(&lab)?;
            Ok((before, thread, Timestamp::now().as_ns()))
        };
        let mut last = look()?;
        for round in 0..200 {
            match round % 4 {
                0 => std::thread::yield_now(),
                1 => std::thread::sleep(Duration::from_micros(300)),
                2 => sleep_for(&lab, Cause::Poll)?,
                _ => drop(std::fs::read("/proc/self/status")?),
            }
            let now = look()?;
            let passed = now.1.recorded_ns() - last.1.recorded_ns();
            let (least, most) = (now.0 - last.2, now.2 - last.0);
            ensure!(
                (least..=most).contains(&passed),
                "{passed} ns recorded, {least} to {most} ns passed"
            );
            let sums = |thread: &Thread| {
                let mut sums = vec![thread.bursts, thread.queued];
                sums.extend(Cause::ALL.map(|cause| thread.sleeps.of(cause)));
                sums
            };
            let grew = |(was, is): (Sum, Sum)| is.count >= was.count && is.ns >= was.ns;
            ensure!(
                sums(&last.1).into_iter().zip(sums(&now.1)).all(grew),
                "{:?} became {:?}",
                last.1,
                now.1
            );
            last = now;
        }
        Ok(())
    })
}
