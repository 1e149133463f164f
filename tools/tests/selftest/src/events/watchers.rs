// SPDX-License-Identifier: MIT OR Apache-2.0
//! Very many who wait for one stream: all of them are told, and nobody else pays for it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use bytemuck::Zeroable;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{tsg, Target, Zernel};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::{clock_gettime, ClockId};
use testkit::passing;

use super::reading::{open, read_event, ready, start_at};
use super::{classify, known, level};
use crate::check_eq;
use crate::child::Child;
use crate::common::{tid, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys::become_user;

/// Epolls, and descriptors of the stream that each of them watches: 10,000 watchers.
const EPOLLS: usize = 100;
const EACH: usize = 100;

/// One stream and those who watch it.
struct Crowd {
    stream: OwnedFd,
    /// To the same open file; each counts for itself in an epoll.
    others: Vec<OwnedFd>,
    epolls: Vec<OwnedFd>,
}

impl Crowd {
    /// `each` watchers in every epoll, told of each event anew.
    fn new(each: usize) -> Result<Self> {
        let stream = open(OFlags::NONBLOCK)?;
        start_at(stream.as_fd())?;
        let others = (0..each).map(|_| stream.try_clone());
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let mut epolls = Vec::new();
        for _ in 0..EPOLLS {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for other in &others {
                let kind = EventFlags::IN | EventFlags::ET;
                epoll::add(&epoll, other, EventData::new_u64(0), kind)?;
            }
            epolls.push(epoll);
        }
        Ok(Self {
            stream,
            others,
            epolls,
        })
    }

    /// Waits until all watchers are told, each once.
    fn wait_told(&self) -> Outcome {
        let all = self.others.len();
        for epoll in &self.epolls {
            let mut told = 0;
            wait_until("all watchers of an epoll are told", || {
                let mut events = Vec::with_capacity(EACH);
                epoll::wait(
                    epoll,
                    spare_capacity(&mut events),
                    Some(&Timespec::default()),
                )?;
                told += events.len();
                Ok(told >= all)
            })?;
            check_eq!(told, all, "watchers that are told");
        }
        Ok(())
    }
}

/// CPU time of the caller's thread for changes of a class.
fn cost(lab: &Lab, id: tsg::Id) -> Result<Duration> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let began = now();
    for number in 0..200 {
        lab.zernel.set_class(&Target::Tsg(id), level(number))?;
    }
    Ok(now() - began)
}

/// A TSG of alice, whose stream so many watch in each epoll, costs root this for changes.
fn cost_with(lab: &Lab, each: usize) -> Result<Duration> {
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        become_user(ALICE, ALICE, &[])?;
        let (_context, _) = Lab::open()?.compute()?;
        let crowd = Crowd::new(each)?;
        passing::send_number(&its, 1)?;
        passing::receive_number(&its)?;
        // More than one event, and possibly more than one wake-up.
        crowd.epolls.iter().try_for_each(|epoll| {
            wait_until("a watcher is told", || {
                let mut events = Vec::with_capacity(1);
                epoll::wait(
                    epoll,
                    spare_capacity(&mut events),
                    Some(&Timespec::default()),
                )?;
                Ok(each == 0 || !events.is_empty())
            })
        })
    })?;
    passing::receive_number(&ours)?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    let cost = cost(lab, tsg.id)?;
    passing::send_number(&ours, 1)?;
    child.join()?;
    Ok(cost)
}

/// A change costs its caller the same however many watch the streams of others.
pub(super) fn callers_wake_nobody() -> Outcome {
    let lab = Lab::open()?;
    tune("enabled", 0)?;
    let few = cost_with(&lab, 0)?;
    let many = cost_with(&lab, EACH)?;
    // With wake-ups it would be several hundred times as much.
    ensure!(many < 10 * few, "{few:?} without watchers, {many:?} with");
    Ok(())
}

/// Each watcher is told of an event, also of one that comes while others are being woken; then they
/// go while events come.
pub(super) fn crowds_are_told() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let mut crowd = Crowd::new(EACH)?;
    for round in 0..3 {
        classify(&lab, &tsg, level(round))?;
        crowd
            .wait_told()
            .with_context(|| format!("round {round}"))?;
        let event = read_event(&crowd.stream, 8_000)?;
        check_eq!(event.seq, round as u64 + 1);
    }
    let id = tsg.id;
    let writer = Child::spawn(move || {
        let zernel = Zernel::open()?;
        for number in 0..2_000 {
            zernel.set_class(&Target::Tsg(id), level(number))?;
        }
        Ok(())
    })?;
    while let Some(epoll) = crowd.epolls.pop() {
        drop(epoll);
        if crowd.epolls.len() == EPOLLS / 2 {
            // Out of all epolls at once, with the file itself.
            drop((std::mem::take(&mut crowd.others), crowd.stream));
            break;
        }
    }
    wait_until("the stream is gone", || Ok(lab.stats()?.streams == 0))?;
    writer.join()
}

/// Threads that sleep in read() share the events, and all learn of the end, as do those in poll().
pub(super) fn sleepers_learn_of_the_end() -> Outcome {
    const SLEEPERS: usize = 8;
    const EVENTS: u64 = 100;
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let stream = open(OFlags::empty())?;
    start_at(stream.as_fd())?;
    let stream = stream.as_fd();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let read = move || {
            let mut numbers = Vec::new();
            loop {
                match read_event(stream, 100) {
                    Ok(event) => numbers.push(event.seq),
                    Err(error) => return (numbers, error.downcast::<Errno>().ok()),
                }
            }
        };
        let readers: Vec<_> = (0..SLEEPERS)
            .map(|_| {
                let tell = tell.clone();
                scope.spawn(move || tell.send(tid()).map(|()| read()))
            })
            .collect();
        let poll = move || loop {
            // Events are the readers'.
            if ready(stream, false)? == PollFlags::ERR {
                return Outcome::Ok(());
            }
        };
        let pollers: Vec<_> = (0..SLEEPERS)
            .map(|_| {
                let tell = tell.clone();
                scope.spawn(move || tell.send(tid()).map(|()| poll()))
            })
            .collect();
        let write = || -> Outcome {
            for tid in told.iter().take(2 * SLEEPERS) {
                wait_until("the thread sleeps", || {
                    let path = format!("/proc/self/task/{tid}/stat");
                    Ok(std::fs::read_to_string(path)?.contains(") S "))
                })?;
            }
            for number in 0..EVENTS as usize {
                classify(&lab, &tsg, level(number))?;
            }
            wait_until("all is read", || Ok(ready(stream, true)?.is_empty()))
        };
        let written = write();
        // In any case, for the threads are waited for.
        calls::events(stream, &mut abi::zernel_events::zeroed())?;
        written?;
        let mut numbers = Vec::new();
        for reader in readers {
            let (mut read, end) = reader.join().ok().context("a reader")??;
            check_eq!(read.is_sorted(), true, "{read:?}");
            check_eq!(end, Some(Errno::NODATA));
            numbers.append(&mut read);
        }
        numbers.sort_unstable();
        let expected: Vec<_> = (1..=EVENTS).collect();
        check_eq!(numbers, expected, "events, each to one reader");
        for poller in pollers {
            poller.join().ok().context("a poller")???;
        }
        Ok(())
    })
}
