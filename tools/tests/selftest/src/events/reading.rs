// SPDX-License-Identifier: GPL-2.0
//! `read()` and `poll()` of a stream: sizes, waiting, signals, addresses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{bail, ensure, Result};
use libzernel::event::parse;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Event, Level, Tsg, Zernel};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use super::raw::{catch_usr1, read_at};
use super::{classify, known, level};
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::{tune, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::sim::raw::{Guarded, PAGE};

/// Size of an event of a TSG.
const SIZE: usize = size_of::<abi::zernel_event_tsg>();

/// An open file without a stream, blocking unless told otherwise.
pub(super) fn open(flags: OFlags) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
    Ok(rustix::fs::open(Zernel::PATH, flags, Mode::empty())?)
}

/// Starts the stream of a file: all events of TSGs, and signals.
pub(super) fn start_at(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let kinds = [
        abi::ZERNEL_EVENT_TSG_ADDED,
        abi::ZERNEL_EVENT_TSG_REMOVED,
        abi::ZERNEL_EVENT_TSG_CLASS,
        abi::ZERNEL_EVENT_TSG_APPLIED,
        abi::ZERNEL_EVENT_TSG_ERROR,
        abi::ZERNEL_EVENT_SIGNAL,
    ];
    let mut wanted = abi::zernel_events {
        kinds: kinds.iter().fold(0, |all, kind| all | 1 << kind),
        ..bytemuck::Zeroable::zeroed()
    };
    calls::events(fd, &mut wanted)
}

/// A file whose stream has been started.
pub(super) fn start(flags: OFlags) -> Result<OwnedFd> {
    let fd = open(flags)?;
    start_at(fd.as_fd())?;
    Ok(fd)
}

fn ready(fd: BorrowedFd<'_>) -> Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(fds[0].revents())
}

fn read_event(fd: &OwnedFd) -> Result<Event> {
    let mut bytes = [0; SIZE];
    let read = rustix::io::read(fd, &mut bytes)?;
    match parse(&bytes[..read])? {
        Some((event, _)) => Ok(event),
        None => bail!("an empty read"),
    }
}

/// As many changes as told, of which each is one event.
fn change(lab: &Lab, tsg: &Tsg, count: usize) -> Result<()> {
    for number in 0..count {
        classify(lab, tsg, level(number))?;
    }
    Ok(())
}

pub(super) fn read_sizes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let fd = open(OFlags::NONBLOCK)?;
    let mut bytes = [0; 4 * SIZE];
    let mut read = |length: usize| rustix::io::read(&fd, &mut bytes[..length]);
    check_eq!(read(SIZE), Err(Errno::NODATA), "before the start");
    check_eq!(ready(fd.as_fd())?, PollFlags::ERR, "ready before the start");
    start_at(fd.as_fd())?;
    check_eq!(read(SIZE), Err(Errno::AGAIN), "the first read");
    check_eq!(
        ready(fd.as_fd())?,
        PollFlags::empty(),
        "ready with nothing there"
    );
    change(&lab, &tsg, 7)?;
    check_eq!(ready(fd.as_fd())?, PollFlags::IN, "ready with events there");
    check_eq!(read(0), Err(Errno::INVAL), "no room");
    check_eq!(read(SIZE - 1), Err(Errno::INVAL), "room for less than one");
    check_eq!(read(SIZE), Ok(SIZE), "room for one");
    check_eq!(read(2 * SIZE - 1), Ok(SIZE), "room for nearly two");
    check_eq!(read(3 * SIZE + 7), Ok(3 * SIZE), "room for three");
    check_eq!(read(4 * SIZE), Ok(2 * SIZE), "what is left");
    check_eq!(read(4 * SIZE), Err(Errno::AGAIN), "nothing left");
    check_eq!(
        ready(fd.as_fd())?,
        PollFlags::empty(),
        "ready with nothing left"
    );
    // The records themselves.
    change(&lab, &tsg, 3)?;
    let read = rustix::io::read(&fd, &mut bytes)?;
    let mut rest = &bytes[..read];
    for seq in 8..=10 {
        let Some((event, size)) = parse(rest)? else {
            bail!("no event {seq}");
        };
        check_eq!((event.seq, event.dropped, size), (seq, 0, SIZE), "event");
        rest = &rest[size..];
    }
    check_eq!(rest.len(), 0);
    Ok(())
}

/// An event that could not be handed over counts as dropped.
pub(super) fn read_to_bad_address() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let fd = start(OFlags::NONBLOCK)?;
    let page = Guarded::new()?;
    check_eq!(
        read_at(fd.as_fd(), page.end(), SIZE),
        Err(Errno::AGAIN),
        "with nothing there"
    );
    change(&lab, &tsg, 5)?;
    // Room for two and a half of three: the third is lost, two are still there.
    let start = page.end() - 2 * SIZE - SIZE / 2;
    check_eq!(
        read_at(fd.as_fd(), start, 3 * SIZE),
        Ok(2 * SIZE),
        "a page that ends"
    );
    let next = read_event(&fd)?;
    check_eq!((next.seq, next.dropped), (4, 1), "after one was lost");
    check_eq!(
        read_at(fd.as_fd(), page.end(), 8 * SIZE),
        Err(Errno::FAULT),
        "no memory"
    );
    check_eq!(
        read_at(fd.as_fd(), page.end(), 8 * SIZE),
        Err(Errno::AGAIN),
        "once more"
    );
    change(&lab, &tsg, 2)?;
    for (seq, dropped) in [(6, 2), (7, 2)] {
        let event = read_event(&fd)?;
        check_eq!(
            (event.seq, event.dropped),
            (seq, dropped),
            "after the last one was lost"
        );
    }
    ensure!(page.end() % PAGE == 0, "the guard is not a page");
    Ok(())
}

/// Starts a child that blocks in `run`, and waits until it does.
pub(super) fn blocked(lab: &Lab, run: impl FnOnce() -> Result<()>) -> Result<Child> {
    let streams = lab.stats()?.streams;
    let child = Child::spawn(run)?;
    wait_until("the child blocks", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(lab.stats()?.streams == streams + 1 && stat.contains(") S "))
    })?;
    Ok(child)
}

pub(super) fn blocked_read_wakes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let child = blocked(&lab, || {
        let event = read_event(&start(OFlags::empty())?)?;
        check_eq!((event.seq, event.level), (1, Some(Level::BE)), "event");
        Ok(())
    })?;
    classify(&lab, &tsg, Level::BE)?;
    child.join_within(SOON)
}

pub(super) fn poll_wakes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let child = blocked(&lab, || {
        let fd = start(OFlags::NONBLOCK)?;
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        check_eq!(poll(&mut fds, None)?, 1);
        check_eq!(fds[0].revents(), PollFlags::IN);
        check_eq!(read_event(&fd)?.level, Some(Level::BE));
        Ok(())
    })?;
    classify(&lab, &tsg, Level::BE)?;
    child.join_within(SOON)
}

fn interrupt(child: &Child) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(child.pid() as i32);
    match pid {
        Some(pid) => Ok(rustix::process::kill_process(pid, Signal::USR1)?),
        None => bail!("a child without a number"),
    }
}

pub(super) fn signal_ends_a_read() -> Outcome {
    let lab = Lab::open()?;
    let child = blocked(&lab, || {
        catch_usr1(false);
        let fd = start(OFlags::empty())?;
        check_eq!(
            rustix::io::read(&fd, &mut [0; SIZE]),
            Err(Errno::INTR),
            "read"
        );
        Ok(())
    })?;
    interrupt(&child)?;
    child.join_within(SOON)
}

pub(super) fn restarted_read_goes_on() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let child = blocked(&lab, || {
        catch_usr1(true);
        check_eq!(read_event(&start(OFlags::empty())?)?.seq, 1);
        Ok(())
    })?;
    interrupt(&child)?;
    child
        .wait_ended(std::time::Duration::from_millis(50))
        .map_or(Ok(()), |()| bail!("the read ended by the signal"))?;
    classify(&lab, &tsg, Level::BE)?;
    child.join_within(SOON)
}

pub(super) fn kill_ends_a_read() -> Outcome {
    let lab = Lab::open()?;
    let child = blocked(&lab, || {
        read_event(&start(OFlags::empty())?)?;
        Ok(())
    })?;
    child.kill()?;
    check_eq!(child.end()?, End::Signal(9));
    check_eq!(lab.stats()?.streams, 0, "streams");
    Ok(())
}
