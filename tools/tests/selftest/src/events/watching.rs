// SPDX-License-Identifier: GPL-2.0
//! Streams that are waited for by epoll, level- and edge-triggered.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{bail, ensure, Result};
use libzernel::event::parse;
use libzernel::{Event, Level};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::reading::{blocked, open, start_at};
use super::{classify, known};
use crate::check_eq;
use crate::common::{tune, Lab, SOON};
use crate::harness::Outcome;

/// The reports to both kinds.
pub const KINDS: [EventFlags; 2] = [EventFlags::IN, EventFlags::IN.union(EventFlags::ET)];

/// The number by which an epoll knows the stream.
const NUMBER: u64 = 0x5eed_0000_0007;

/// A stream that nobody has read, and an epoll that it was added to.
pub struct Watched {
    epoll: OwnedFd,
    stream: File,
}

impl Watched {
    /// A new stream, of which nothing is known but this.
    pub fn new(kind: EventFlags) -> Result<Self> {
        let stream = File::from(open(OFlags::NONBLOCK)?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stream, EventData::new_u64(NUMBER), kind)?;
        // Also a file that was there before its stream is told of.
        start_at(stream.as_fd())?;
        Ok(Self { epoll, stream })
    }

    /// True if the epoll tells of the stream now.
    pub fn is_told(&self) -> Result<bool> {
        self.wait(Some(&Timespec::default()))
    }

    fn wait(&self, time: Option<&Timespec>) -> Result<bool> {
        let mut told = Vec::with_capacity(2);
        epoll::wait(&self.epoll, spare_capacity(&mut told), time)?;
        for event in &told {
            check_eq!({ event.flags }, EventFlags::IN);
            check_eq!({ event.data }.u64(), NUMBER);
        }
        ensure!(told.len() <= 1, "{} files are ready", told.len());
        Ok(!told.is_empty())
    }

    /// The next event that is there.
    pub fn read(&self) -> Result<Event> {
        // Room for one of each kind, and never for two.
        let mut bytes = [0; size_of::<libzernel::sys::abi::zernel_event_signal>()];
        let read = rustix::io::read(&self.stream, &mut bytes)?;
        match parse(&bytes[..read])? {
            Some((event, _)) => Ok(event),
            None => bail!("an empty read"),
        }
    }

    /// True if nothing is left.
    fn is_read(&self) -> bool {
        rustix::io::read(&self.stream, &mut [0; 4096]) == Err(Errno::AGAIN)
    }
}

pub(super) fn epoll_tells() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    // A change is one event.
    tune("enabled", 0)?;
    for kind in KINDS {
        // A level alone tells once more of events that are left.
        let level = !kind.contains(EventFlags::ET);
        let watched = Watched::new(kind)?;
        check_eq!(watched.is_told()?, false, "{kind:?}, with nothing there");
        classify(&lab, &tsg, Level::BE)?;
        check_eq!(watched.is_told()?, true, "{kind:?}, the first event");
        check_eq!(watched.is_told()?, level, "{kind:?}, the first once more");
        classify(&lab, &tsg, Level::LC)?;
        check_eq!(watched.is_told()?, true, "{kind:?}, the second event");
        check_eq!(watched.read()?.level, Some(Level::BE), "{kind:?}");
        check_eq!(watched.is_told()?, level, "{kind:?}, one of two was read");
        check_eq!(watched.read()?.level, Some(Level::LC), "{kind:?}");
        check_eq!(watched.is_told()?, false, "{kind:?}, all was read");
        // An event that was read before anybody has asked is not told.
        classify(&lab, &tsg, Level::BE)?;
        watched.read()?;
        check_eq!(watched.is_told()?, false, "{kind:?}, all was read at once");
        classify(&lab, &tsg, Level::LC)?;
        check_eq!(watched.is_told()?, true, "{kind:?}, the last event");
        check_eq!(watched.read()?.seq, 4, "{kind:?}");
        check_eq!(watched.is_read(), true, "{kind:?}");
    }
    Ok(())
}

pub(super) fn epoll_wakes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    for (kind, level) in KINDS.into_iter().zip([Level::BE, Level::LC]) {
        let child = blocked(&lab, || {
            let watched = Watched::new(kind)?;
            check_eq!(watched.wait(None)?, true, "{kind:?}");
            check_eq!(watched.read()?.level, Some(level), "{kind:?}");
            Ok(())
        })?;
        classify(&lab, &tsg, level)?;
        child.join_within(SOON)?;
    }
    Ok(())
}
