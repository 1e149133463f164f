// SPDX-License-Identifier: MIT OR Apache-2.0
//! The visibility of events, and the quota of streams.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{EventStream, Level, Target, Zernel};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use testkit::passing;

use super::reading::{open, read_event, ready, start_at};
use super::Reader;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{wait_until, Lab};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{ALICE, BOB};
use crate::sys::{become_user, become_user_with};

/// Streams of a user without `CAP_PERFMON`.
const QUOTA: usize = 64;

/// Adds a TSG, lowers it a bit, lets it go: three events at least.
fn live() -> Outcome {
    let (zernel, sim) = (Zernel::open()?, Sim::open()?);
    let _context = sim.create_context(&ContextSpec::compute("live"))?;
    Ok(zernel.set_class(&Target::current_process(), Level::BE)?)
}

pub(super) fn users_see_their_own() -> Outcome {
    let lab = Lab::open()?;
    let all = &[0, ALICE, BOB][..];
    let mut watchers = Vec::new();
    for (uid, sees_all, expected) in [
        (0, true, all),
        (ALICE, false, &[ALICE]),
        (BOB, false, &[BOB]),
        (1002, false, &[]),
        (ALICE, true, all),
    ] {
        let (ours, its) = passing::pair()?;
        let child = Child::spawn(move || {
            match sees_all && uid != 0 {
                true => become_user_with(uid, uid, PERFMON)?,
                false => become_user(uid, uid, &[])?,
            }
            let mut reader = Reader::of(EventStream::open()?);
            passing::send_number(&its, 1)?;
            passing::receive_number(&its)?;
            let events = reader.drain()?;
            ensure!(events.iter().all(|event| event.pid != 0), "{events:?}");
            let added = events.iter().filter(|event| event.kind == Kind::TsgAdded);
            let mut users: Vec<_> = added.map(|event| event.uid).collect();
            users.sort_unstable();
            check_eq!(users, expected, "owners of the TSGs");
            Ok(())
        })?;
        passing::receive_number(&ours)?;
        watchers.push((child, ours));
    }
    for &uid in all {
        in_child(|| {
            become_user(uid, uid, &[])?;
            live()
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
        become_user(ALICE, ALICE, &[])?;
        start_at(stream.as_fd())?;
        passing::send_number(&its, 1)?;
        passing::receive_number(&its)?;
        let event = read_event(&stream, 8_000)?;
        check_eq!((event.kind, event.uid), (Kind::TsgAdded, 0));
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    in_child(live)?;
    passing::send_number(&ours, 1)?;
    child.join()?;
    check_eq!(lab.stats()?.streams, 0, "streams");
    Ok(())
}

/// A file, and the answer when its stream is started.
fn first() -> Result<(OwnedFd, Result<(), Errno>)> {
    let fd = open(OFlags::NONBLOCK)?;
    let answer = start_at(fd.as_fd());
    Ok((fd, answer))
}

/// So many streams.
fn streams(count: usize) -> Result<Vec<OwnedFd>> {
    let one = |_| first().and_then(|(fd, answer)| Ok(answer.map(|()| fd)?));
    (0..count).map(one).collect()
}

pub(super) fn stream_quota() -> Outcome {
    let lab = Lab::open()?;
    in_child(|| {
        become_user(ALICE, ALICE, &[])?;
        let mut within = streams(QUOTA)?;
        check_eq!(lab.stats()?.streams, QUOTA as u64, "streams");
        // Files are free.
        let (more, answer) = first()?;
        check_eq!(answer, Err(Errno::DQUOT), "over the quota");
        check_eq!(ready(more.as_fd(), true)?, PollFlags::ERR);
        in_child(|| {
            check_eq!(first()?.1, Err(Errno::DQUOT), "another process");
            Ok(())
        })?;
        within.pop();
        check_eq!(start_at(more.as_fd()), Ok(()), "after one was closed");
        check_eq!(first()?.1, Err(Errno::DQUOT), "full again");
        Ok(())
    })?;
    let left = lab.stats()?.streams;
    check_eq!(left, 0, "streams of a process that has ended");
    in_child(|| streams(QUOTA + 6).map(drop))
}
