// SPDX-License-Identifier: GPL-2.0
//! The visibility of events, and the quota of streams.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{bail, ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{EventStream, Target, Zernel};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::reading::{open, start_at};
use super::{level, Reader};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{wait_until, Lab};
use crate::harness::Outcome;
use crate::sys;
use testkit::passing;

const ALICE: u32 = 1000;
const BOB: u32 = 1001;
/// Number of CAP_PERFMON.
const PERFMON: u32 = 38;
/// Streams of a user without it.
const QUOTA: usize = 64;

fn become_user(uid: u32) -> Result<()> {
    Ok(sys::become_user(uid, uid, &[])?)
}

/// Adds a TSG, lowers it a bit, lets it go: three events at least.
fn live(level_number: usize) -> Result<()> {
    let (zernel, sim) = (Zernel::open()?, Sim::open()?);
    let context = sim.create_context(&ContextSpec::compute("live"))?;
    zernel.set_class(&Target::current_process(), level(level_number))?;
    drop(context);
    Ok(())
}

/// Users of the events that a stream got.
fn users(reader: &mut Reader) -> Result<Vec<u32>> {
    let mut users = Vec::new();
    for event in reader.drain()? {
        ensure!(event.pid != 0, "no owner: {event:?}");
        if event.kind == Kind::TsgAdded {
            users.push(event.uid);
        }
    }
    users.sort_unstable();
    Ok(users)
}

/// Starts a child as soon as it is told to by a number, once its stream is there.
fn watcher(
    lab: &Lab,
    prepare: impl FnOnce() -> Result<()>,
    expected: &'static [u32],
) -> Result<(Child, OwnedFd)> {
    let (ours, its) = passing::pair()?;
    let streams = lab.stats()?.streams;
    let child = Child::spawn(move || {
        prepare()?;
        let mut reader = Reader::of(EventStream::open()?);
        passing::receive_number(&its)?;
        check_eq!(users(&mut reader)?, expected, "owners of the TSGs");
        Ok(())
    })?;
    wait_until("the watcher is there", || {
        Ok(lab.stats()?.streams == streams + 1)
    })?;
    Ok((child, ours))
}

pub(super) fn users_see_their_own() -> Outcome {
    let lab = Lab::open()?;
    let watchers = [
        watcher(&lab, || Ok(()), &[0, ALICE, BOB])?,
        watcher(&lab, || become_user(ALICE), &[ALICE])?,
        watcher(&lab, || become_user(BOB), &[BOB])?,
        watcher(&lab, || become_user(1002), &[])?,
        watcher(
            &lab,
            || Ok(sys::become_user_with(ALICE, ALICE, PERFMON)?),
            &[0, ALICE, BOB],
        )?,
    ];
    for uid in [0, ALICE, BOB] {
        in_child(|| {
            become_user(uid)?;
            live(7)
        })?;
    }
    wait_until("the TSGs are gone", || Ok(lab.stats()?.tsgs == 0))?;
    for (child, socket) in watchers {
        passing::send_number(&socket, 1)?;
        child.join()?;
    }
    Ok(())
}

/// The stream shows what its opener could see, whoever reads it.
pub(super) fn opener_decides() -> Outcome {
    let lab = Lab::open()?;
    // Opened by root, first used by alice.
    let stream = Zernel::open()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        become_user(ALICE)?;
        start_at(stream.as_fd())?;
        passing::send_number(&its, 1)?;
        passing::receive_number(&its)?;
        let mut bytes = [0; 8000];
        let read = rustix::io::read(&stream, &mut bytes)?;
        match libzernel::event::parse(&bytes[..read])? {
            Some((event, _)) => check_eq!((event.kind, event.uid), (Kind::TsgAdded, 0), "event"),
            None => bail!("nothing to read"),
        }
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    live(7)?;
    passing::send_number(&ours, 1)?;
    child.join()?;
    check_eq!(lab.stats()?.streams, 0, "streams");
    Ok(())
}

fn first() -> Result<(OwnedFd, Result<(), Errno>)> {
    let fd = open(OFlags::NONBLOCK)?;
    let answer = start_at(fd.as_fd());
    Ok((fd, answer))
}

pub(super) fn stream_quota() -> Outcome {
    let lab = Lab::open()?;
    in_child(|| {
        become_user(ALICE)?;
        let mut streams = Vec::new();
        for _ in 0..QUOTA {
            let (fd, answer) = first()?;
            check_eq!(answer, Ok(()), "within the quota");
            streams.push(fd);
        }
        check_eq!(lab.stats()?.streams, QUOTA as u64, "streams");
        // Files are free.
        let (more, answer) = first()?;
        check_eq!(answer, Err(Errno::DQUOT), "over the quota");
        let mut fds = [PollFd::from_borrowed_fd(more.as_fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default()))?;
        check_eq!(fds[0].revents(), PollFlags::ERR, "poll over the quota");
        in_child(|| {
            check_eq!(first()?.1, Err(Errno::DQUOT), "another process");
            Ok(())
        })?;
        streams.pop();
        check_eq!(start_at(more.as_fd()), Ok(()), "after one was closed");
        check_eq!(first()?.1, Err(Errno::DQUOT), "full again");
        Ok(())
    })?;
    let left = lab.stats()?.streams;
    check_eq!(left, 0, "streams of a process that has ended");
    in_child(|| {
        let mut streams = Vec::new();
        for _ in 0..QUOTA + 6 {
            let (fd, answer) = first()?;
            check_eq!(answer, Ok(()), "root");
            streams.push(fd);
        }
        Ok(())
    })
}
