// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every cause of a sleep, by everything that counts as it: each system call, and a disk; bursts, waits
//! for a CPU; and that all of them add up.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::thread::{Cause, Does, Sleeps, Sum};
use libzernel::{Level, Target, Thread, Timestamp, Tracking, Zernel};
use rustix::event::epoll;
use rustix::fs::{fadvise, Advice};
use rustix::pipe::pipe;
use rustix::thread::{sched_setaffinity, CpuSet};
use rustix::time::{clock_gettime, ClockId};

use super::{own, MS};
use crate::block::{device, disk};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tid, wait_until, Lab};
use crate::gpuwait::spin;
use crate::group::ROOT;
use crate::harness::Outcome;
use crate::sys::Sleeping;

/// The time of a sleep that is over by itself.
const PAUSE: Duration = Duration::from_millis(3);

/// Sleeps of a cause after which there was enough of it.
const ENOUGH: u64 = 10;

/// Has a thread do nothing but sleep in one way, again and again, until there was enough of it, of
/// `least` each on average. That is counted as `cause`, and as no other. `nudge` has a thread go on
/// that waits for somebody.
fn sleeps_as(
    cause: Cause,
    least: Duration,
    mut sleep: impl FnMut() -> Outcome + Send,
    mut nudge: impl FnMut() -> Outcome,
) -> Outcome {
    let zernel = Zernel::open()?;
    let (stop, number) = (AtomicBool::new(false), AtomicU32::new(0));
    let mut seen: Vec<Sleeps> = Vec::new();
    let slept = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| -> Outcome {
            number.store(tid(), Relaxed);
            while !stop.load(Relaxed) {
                sleep()?;
            }
            Ok(())
        });
        let slept = wait_until(&format!("it sleeps as {cause:?}"), || {
            nudge()?;
            // One that cannot sleep says why below.
            ensure!(!sleeper.is_finished(), "it ended");
            let Some(now) = super::thread(&zernel, number.load(Relaxed))? else {
                let _ = zernel.track(&Target::Thread(number.load(Relaxed)), Tracking::PLAIN);
                return Ok(false);
            };
            if now.does == Does::Arrive {
                return Ok(false);
            }
            seen.truncate(1);
            seen.push(now.sleeps);
            let (was, is) = (seen[0].of(cause), now.sleeps.of(cause));
            let (count, ns) = (is.count - was.count, is.ns - was.ns);
            // A part of the time may be over before it sleeps.
            Ok(count >= ENOUGH && ns >= MS.max(count * least.as_nanos() as u64))
        });
        stop.store(true, Relaxed);
        while !sleeper.is_finished() && nudge().is_ok() {
            std::thread::sleep(PAUSE);
        }
        sleeper.join().expect("a thread that sleeps").and(slept)
    });
    slept.with_context(|| format!("{seen:?}"))?;
    let [before, after] = seen[..] else {
        bail!("it was seen {} times", seen.len());
    };
    for other in Cause::ALL {
        // Locks that user space comes upon by itself, in page faults, count as others.
        if other != cause && other != Cause::Other {
            check_eq!(after.of(other), before.of(other), "{other:?} for {cause:?}");
        }
    }
    Ok(())
}

pub(super) fn every_call_has_its_cause() -> Outcome {
    for call in Sleeping::ALL {
        let (reader, _writer) = pipe()?;
        let slept = match call {
            Sleeping::Futex | Sleeping::FutexWait | Sleeping::FutexWaitv => {
                pause(call, Cause::Futex, &reader)
            }
            Sleeping::Poll | Sleeping::Ppoll | Sleeping::Select | Sleeping::Pselect6 => {
                pause(call, Cause::Poll, &reader)
            }
            Sleeping::EpollWait | Sleeping::EpollPwait | Sleeping::EpollPwait2 => {
                let teller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                let nothing = epoll::EventData::new_u64(0);
                epoll::add(&teller, &reader, nothing, epoll::EventFlags::IN)?;
                pause(call, Cause::Poll, teller)
            }
            Sleeping::Read | Sleeping::Readv | Sleeping::Write | Sleeping::Writev => {
                for_the_other_end(call)
            }
            Sleeping::Preadv2 | Sleeping::Pwritev2 => for_the_other_end(call),
            Sleeping::Pread64 | Sleeping::Preadv => for_an_event(call),
            Sleeping::Pwrite64 | Sleeping::Pwritev => for_readers_of_a_lock(call),
        };
        slept.with_context(|| format!("{call:?}"))?;
    }
    in_a_driver().context("ioctl")?;
    in_another_call().context("recvfrom")
}

/// A sleep that is over by itself.
fn pause(call: Sleeping, cause: Cause, fd: impl AsFd + Send) -> Outcome {
    let sleep = move || {
        check_eq!(call.call(fd.as_fd(), &mut [], PAUSE)?, 0, "nothing comes");
        Ok(())
    };
    sleeps_as(cause, PAUSE / 2, sleep, || Ok(()))
}

/// A file with places to read from does not wait as a rule. The stream of events does: its files
/// have places, which mean nothing.
fn for_an_event(call: Sleeping) -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let stream = lab.zernel.events()?;
    rustix::io::ioctl_fionbio(&stream, false)?;
    let sleep = move || {
        let length = call.call(stream.as_fd(), &mut [0; 4096], PAUSE)?;
        ensure!(length > 0, "no event");
        Ok(())
    };
    let mut levels = [Level::BE, Level::LC].into_iter().cycle();
    let nudge = || {
        let level = levels.next().unwrap_or(Level::BE);
        lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
        Ok(())
    };
    sleeps_as(Cause::ReadWrite, Duration::ZERO, sleep, nudge)
}

fn for_the_other_end(call: Sleeping) -> Outcome {
    let (own, mut other) = UnixStream::pair()?;
    other.set_nonblocking(true)?;
    let sleep = move || {
        call.call(own.as_fd(), &mut [0; 4096], PAUSE)?;
        Ok(())
    };
    let nudge = || {
        // Either may have to wait.
        let _ = (other.read(&mut [0; 1 << 20]), other.write(&[0; 64]));
        Ok(())
    };
    sleeps_as(Cause::ReadWrite, Duration::ZERO, sleep, nudge)
}

/// A move of a process to a cgroup, also to its own, waits for the readers of a lock, if nobody has
/// done so just before.
fn for_readers_of_a_lock(call: Sleeping) -> Outcome {
    let members = File::options()
        .write(true)
        .open(format!("{ROOT}/cgroup.procs"))?;
    let sleep = move || {
        check_eq!(call.call(members.as_fd(), &mut [b'0'], PAUSE)?, 1);
        spin(10 * PAUSE);
        Ok(())
    };
    sleeps_as(Cause::ReadWrite, Duration::ZERO, sleep, || Ok(()))
}

fn in_a_driver() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let sleep = move || {
        let submitted = context.submit(0, &[Item::work(PAUSE)])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    };
    sleeps_as(Cause::Ioctl, Duration::ZERO, sleep, || Ok(()))
}

/// One of those that have no cause of their own.
fn in_another_call() -> Outcome {
    let (socket, _other) = UnixDatagram::pair()?;
    socket.set_read_timeout(Some(PAUSE))?;
    let sleep = move || {
        ensure!(socket.recv(&mut [0; 8]).is_err(), "nobody sends");
        Ok(())
    };
    sleeps_as(Cause::Other, PAUSE / 2, sleep, || Ok(()))
}

/// A read of a disk is waited for as long as the disk takes, past the page cache and into it.
pub(super) fn waits_for_a_disk() -> Outcome {
    const LATENCY: Duration = Duration::from_millis(4);
    let mut source = disk(LATENCY)?;
    let direct = move || source.read();
    sleeps_as(Cause::Io, LATENCY / 2, direct, || Ok(())).context("past the page cache")?;

    let slow = device(LATENCY, None)?;
    let file = File::open(slow.node())?;
    let cached = move || {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(file.read_exact_at(&mut [0; 4096], 0)?)
    };
    sleeps_as(Cause::Io, LATENCY / 2, cached, || Ok(())).context("into the page cache")
}

/// Spends CPU time of the calling thread, in ns.
fn spend(time: u64) {
    let spent = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as u64 * 1_000 * MS + now.tv_nsec as u64
    };
    let end = spent() + time;
    while spent() < end {
        std::hint::spin_loop();
    }
}

/// Work on a CPU is a burst, up to the next sleep; and two threads on one CPU wait for each other.
pub(super) fn bursts() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::CurrentThread, Tracking::PLAIN)?;
        std::thread::sleep(Duration::from_millis(1));
        let before = own(&zernel)?;
        spend(30 * MS);
        let during = own(&zernel)?;
        check_eq!(during.bursts.count, before.bursts.count, "a burst goes on");
        ensure!(during.burst_now_ns >= 30 * MS, "{during:?}");
        let mut after = own(&zernel)?;
        while after.bursts.count == during.bursts.count {
            // On a slow machine a short time is over before it sleeps.
            std::thread::sleep(Duration::from_millis(1));
            after = own(&zernel)?;
        }
        // The list itself is a part of the next one.
        ensure!(after.burst_last_ns >= 30 * MS, "{after:?}");
        let spent = after.bursts.ns - before.bursts.ns;
        ensure!(spent >= 30 * MS, "{spent} ns of CPU time");

        let mut one_cpu = CpuSet::new();
        one_cpu.set(0);
        sched_setaffinity(None, &one_cpu)?;
        let queued = own(&zernel)?.queued;
        // On a machine that stands still, time that nobody had counts as that of a CPU.
        wait_until("it waits for its CPU", || {
            std::thread::scope(|scope| {
                scope.spawn(|| spend(60 * MS));
                spend(60 * MS);
            });
            let now = own(&zernel)?.queued;
            Ok(now.count > queued.count && now.ns >= queued.ns + 10 * MS)
        })
    })
}

/// All times together are the time since it is recorded, to the nanosecond: between two looks as
/// much has passed as on the clock; and none ever decreases.
pub(super) fn add_up() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::CurrentThread, Tracking::PLAIN)?;
        let look = || -> Result<(u64, Thread, u64)> {
            let before = Timestamp::now().as_ns();
            let thread = own(&zernel)?;
            Ok((before, thread, Timestamp::now().as_ns()))
        };
        let sums = |thread: &Thread| {
            let mut sums = vec![thread.bursts, thread.queued];
            sums.extend(Cause::ALL.map(|cause| thread.sleeps.of(cause)));
            sums
        };
        let mut last = look()?;
        for round in 0..200 {
            match round % 4 {
                0 => std::thread::yield_now(),
                1 => std::thread::sleep(Duration::from_micros(300)),
                2 => std::thread::park_timeout(Duration::from_millis(40)),
                _ => drop(std::fs::read("/proc/self/status")?),
            }
            let now = look()?;
            let passed = now.1.recorded_ns() - last.1.recorded_ns();
            let (least, most) = (now.0 - last.2, now.2 - last.0);
            let right = (least..=most).contains(&passed);
            ensure!(right, "{passed} ns recorded, {least} to {most} passed");
            let grew = |(was, is): (Sum, Sum)| is.count >= was.count && is.ns >= was.ns;
            let mut both = sums(&last.1).into_iter().zip(sums(&now.1));
            ensure!(both.all(grew), "{:?} became {:?}", last.1, now.1);
            last = now;
        }
        Ok(())
    })
}
