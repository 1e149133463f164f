// SPDX-License-Identifier: GPL-2.0
//! Every cause of a sleep, by everything that counts as it: each system call, and a disk.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::thread::{Cause, Does, Sum};
use libzernel::{Level, Target, Thread, Timestamp, Tracking, Zernel};
use rustix::event::epoll;
use rustix::fs::{fadvise, Advice};
use rustix::io::Errno;
use rustix::pipe::{pipe, pipe_with, PipeFlags};
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
    Timespec,
};

use super::MS;
use crate::block::{device, disk};
use crate::check_eq;
use crate::common::{tid, wait_until, Lab};
use crate::gpuwait::spin;
use crate::group::ROOT;
use crate::harness::Outcome;
use crate::sys::Sleeping;

/// The time of a sleep that is over by itself.
const PAUSE: Duration = Duration::from_millis(3);

/// Sleeps of a cause after which there was enough of it.
const ENOUGH: Sum = Sum { count: 5, ns: MS };

/// Has a thread do nothing but sleep in one way, again and again, until there was enough of it.
/// That is counted as `cause`, and as no other. `nudge` has a thread go on that waits for somebody.
/// Returns what there was of the cause.
fn sleeps_as(
    cause: Cause,
    enough: Sum,
    mut sleep: impl FnMut() -> Result<()> + Send + 'static,
    mut nudge: impl FnMut() -> Result<()>,
) -> Result<Sum> {
    let zernel = Zernel::open()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (say, said) = mpsc::channel();
    let stopped = stop.clone();
    let sleeper = std::thread::spawn(move || -> Result<()> {
        say.send(tid())?;
        while !stopped.load(Relaxed) {
            sleep()?;
        }
        Ok(())
    });
    let tid = said.recv()?;
    zernel.track(&Target::Thread(tid), Tracking::PLAIN)?;
    let mut look = || -> Result<Option<Thread>> {
        nudge()?;
        // One that cannot sleep says why below.
        ensure!(!sleeper.is_finished() || stop.load(Relaxed), "it ended");
        let thread = super::thread(&zernel, tid)?;
        Ok(thread.filter(|thread| thread.does != Does::Arrive))
    };
    let mut seen = Vec::new();
    let slept = wait_until(&format!("it sleeps as {cause:?}"), || {
        let Some(now) = look()? else {
            return Ok(false);
        };
        let sleeps = now.sleeps;
        seen.truncate(1);
        seen.push(sleeps);
        let grown = grown(seen[0].of(cause), sleeps.of(cause));
        Ok(grown.count >= enough.count && grown.ns >= enough.ns)
    });
    stop.store(true, Relaxed);
    let ended = wait_until("it ends", || {
        look()?;
        Ok(sleeper.is_finished())
    });
    if sleeper.is_finished() {
        sleeper.join().expect("a thread that sleeps")?;
    }
    slept.with_context(|| format!("{seen:?}"))?;
    ended?;
    let [before, after] = seen[..] else {
        bail!("it was seen {} times", seen.len());
    };
    for other in Cause::ALL {
        // Locks that user space comes upon by itself, in page faults, count as others.
        if other != cause && other != Cause::Other {
            check_eq!(after.of(other), before.of(other), "{other:?} for {cause:?}");
        }
    }
    Ok(grown(before.of(cause), after.of(cause)))
}

fn grown(before: Sum, after: Sum) -> Sum {
    Sum {
        count: after.count - before.count,
        ns: after.ns - before.ns,
    }
}

fn nobody() -> Result<()> {
    Ok(())
}

pub(super) fn every_call_has_its_cause() -> Outcome {
    for call in Sleeping::ALL {
        let slept = match call {
            Sleeping::Futex | Sleeping::FutexWait | Sleeping::FutexWaitv => for_a_thread(call),
            Sleeping::Poll | Sleeping::Ppoll | Sleeping::Select | Sleeping::Pselect6 => {
                until_ready(call)
            }
            Sleeping::EpollWait | Sleeping::EpollPwait | Sleeping::EpollPwait2 => until_told(call),
            Sleeping::Read | Sleeping::Readv | Sleeping::Preadv2 => for_a_timer(call),
            Sleeping::Pread64 | Sleeping::Preadv => for_an_event(call),
            Sleeping::Write | Sleeping::Writev | Sleeping::Pwritev2 => for_a_reader(call),
            Sleeping::Pwrite64 | Sleeping::Pwritev => for_readers_of_a_lock(call),
        };
        slept.with_context(|| format!("{call:?}"))?;
    }
    in_a_driver().context("ioctl")?;
    in_another_call().context("recvfrom")
}

/// One that is over by itself.
fn pause(call: Sleeping, cause: Cause, fd: OwnedFd) -> Outcome {
    let sleep = move || {
        check_eq!(call.call(fd.as_fd(), &mut [], PAUSE)?, 0, "nothing comes");
        Ok(())
    };
    sleeps_as(cause, ENOUGH, sleep, nobody)?;
    Ok(())
}

fn for_a_thread(call: Sleeping) -> Outcome {
    let (any, _writer) = pipe()?;
    pause(call, Cause::Futex, any)
}

fn until_ready(call: Sleeping) -> Outcome {
    let (reader, _writer) = pipe()?;
    pause(call, Cause::Poll, reader)
}

fn until_told(call: Sleeping) -> Outcome {
    let (reader, _writer) = pipe()?;
    let teller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let nothing = epoll::EventData::new_u64(0);
    epoll::add(&teller, &reader, nothing, epoll::EventFlags::IN)?;
    pause(call, Cause::Poll, teller)
}

fn for_a_timer(call: Sleeping) -> Outcome {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: PAUSE.as_nanos() as i64,
    };
    let always = Itimerspec {
        it_interval: time,
        it_value: time,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &always)?;
    let sleep = move || {
        check_eq!(call.call(timer.as_fd(), &mut [0; 8], PAUSE)?, 8);
        Ok(())
    };
    sleeps_as(Cause::ReadWrite, ENOUGH, sleep, nobody)?;
    Ok(())
}

/// A file with places to read from does not wait as a rule. The stream of events does: its files
/// have places, which mean nothing.
fn for_an_event(call: Sleeping) -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let stream = lab.zernel.events()?;
    rustix::io::ioctl_fionbio(&stream, false)?;
    let sleep = move || {
        ensure!(
            call.call(stream.as_fd(), &mut [0; 4096], PAUSE)? > 0,
            "no event"
        );
        Ok(())
    };
    let mut levels = [Level::BE, Level::LC].into_iter().cycle();
    let nudge = || {
        let level = levels.next().unwrap_or(Level::BE);
        lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
        Ok(())
    };
    sleeps_as(Cause::ReadWrite, ENOUGH, sleep, nudge)?;
    Ok(())
}

fn for_a_reader(call: Sleeping) -> Outcome {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let sleep = move || {
        call.call(writer.as_fd(), &mut [0; 4096], PAUSE)?;
        Ok(())
    };
    let nudge = || match rustix::io::read(&reader, &mut [0; 1 << 16]) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(errno.into()),
    };
    sleeps_as(Cause::ReadWrite, ENOUGH, sleep, nudge)?;
    Ok(())
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
    sleeps_as(Cause::ReadWrite, ENOUGH, sleep, nobody)?;
    Ok(())
}

fn in_a_driver() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let sleep = move || {
        let submitted = context.submit(0, &[Item::work(PAUSE)])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    };
    sleeps_as(Cause::Ioctl, ENOUGH, sleep, nobody)?;
    Ok(())
}

/// One of those that have no cause of their own.
fn in_another_call() -> Outcome {
    let (socket, _other) = UnixDatagram::pair()?;
    socket.set_read_timeout(Some(PAUSE))?;
    let sleep = move || {
        ensure!(socket.recv(&mut [0; 8]).is_err(), "nobody sends");
        Ok(())
    };
    sleeps_as(Cause::Other, ENOUGH, sleep, nobody)?;
    Ok(())
}

/// A read of a disk is waited for as long as the disk takes, past the page cache and into it.
pub(super) fn waits_for_a_disk() -> Outcome {
    const LATENCY: Duration = Duration::from_millis(4);
    const READS: u64 = 25;
    let latency = LATENCY.as_nanos() as u64;
    let enough = Sum {
        count: READS,
        ns: READS * latency,
    };
    let check = |slept: Sum| -> Outcome {
        // A part of it may be over before it sleeps.
        ensure!(slept.ns >= slept.count * latency / 2, "{slept:?}");
        Ok(())
    };
    let mut source = disk(LATENCY)?;
    let direct = move || source.read();
    check(sleeps_as(Cause::Io, enough, direct, nobody)?).context("past the page cache")?;

    let slow = device(LATENCY, None)?;
    let file = File::open(slow.node())?;
    let cached = move || {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(file.read_exact_at(&mut [0; 4096], 0)?)
    };
    check(sleeps_as(Cause::Io, enough, cached, nobody)?).context("into the page cache")
}
