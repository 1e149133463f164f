// SPDX-License-Identifier: MIT OR Apache-2.0
//! `read()`, `poll()` and epoll of a stream: sizes, waiting, signals, addresses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::event::parse;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Event, Level, Tsg, Zernel};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::{read, Errno};
use rustix::process::{kill_process, Pid, Signal};

use super::raw::{catch_usr1, read_at};
use super::{classify, known, level};
use crate::check_eq;
use crate::child::{Child, End};
use crate::common::{tune, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::sys::Area;

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
fn start(flags: OFlags) -> Result<OwnedFd> {
    let fd = open(flags)?;
    start_at(fd.as_fd())?;
    Ok(fd)
}

/// The answer of `poll()`: at once, or as soon as there is one.
pub(super) fn ready(fd: BorrowedFd<'_>, at_once: bool) -> Result<PollFlags> {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, at_once.then(Timespec::default).as_ref())?;
    Ok(fds[0].revents())
}

/// The first event that a read of at most `length` bytes returns.
pub(super) fn read_event(fd: impl AsFd, length: usize) -> Result<Event> {
    let mut bytes = vec![0; length];
    let read = read(fd, bytes.as_mut_slice())?;
    let (event, _) = parse(&bytes[..read])?.context("an empty read")?;
    Ok(event)
}

/// The reports to both kinds.
pub const KINDS: [EventFlags; 2] = [EventFlags::IN, EventFlags::IN.union(EventFlags::ET)];

/// The number by which an epoll knows the stream.
const NUMBER: u64 = 0x5eed_0000_0007;

/// A stream that nobody has read, and an epoll that it was added to.
pub struct Watched {
    epoll: OwnedFd,
    stream: OwnedFd,
}

impl Watched {
    /// A new stream, of which nothing is known but this.
    pub fn new(kind: EventFlags) -> Result<Self> {
        let stream = open(OFlags::NONBLOCK)?;
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

    /// True if the epoll tells of the stream, now or as soon as its watchers are woken.
    fn is_told_soon(&self) -> Result<bool> {
        self.wait(Some(&Timespec::try_from(SOON)?))
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
        let room = size_of::<abi::zernel_event_signal>();
        read_event(&self.stream, room)
    }

    /// The next event, as soon as there is one.
    pub(super) fn sleep(&self) -> Result<Event> {
        check_eq!(self.wait(None)?, true);
        self.read()
    }

    /// True if nothing is left.
    fn is_read(&self) -> bool {
        read(&self.stream, &mut [0; 4096]) == Err(Errno::AGAIN)
    }
}

/// A TSG while classes are not applied: each change of its class is one event.
fn quiet(lab: &Lab) -> Result<(libzernel::sim::Context, Tsg)> {
    let known = known(lab)?;
    tune("enabled", 0)?;
    Ok(known)
}

fn change(lab: &Lab, tsg: &Tsg, count: usize) -> Outcome {
    (0..count).try_for_each(|number| classify(lab, tsg, level(number)))
}

pub(super) fn read_sizes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = quiet(&lab)?;
    let fd = open(OFlags::NONBLOCK)?;
    let mut bytes = [0; 4 * SIZE];
    let mut get = |length: usize| read(&fd, &mut bytes[..length]);
    check_eq!(get(SIZE), Err(Errno::NODATA), "before the start");
    check_eq!(ready(fd.as_fd(), true)?, PollFlags::ERR);
    start_at(fd.as_fd())?;
    check_eq!(get(SIZE), Err(Errno::AGAIN), "the first read");
    check_eq!(ready(fd.as_fd(), true)?, PollFlags::empty());
    change(&lab, &tsg, 7)?;
    check_eq!(ready(fd.as_fd(), true)?, PollFlags::IN);
    for (room, expected) in [
        (0, Err(Errno::INVAL)),
        (SIZE - 1, Err(Errno::INVAL)),
        (SIZE, Ok(SIZE)),
        (2 * SIZE - 1, Ok(SIZE)),
        (3 * SIZE + 7, Ok(3 * SIZE)),
        (4 * SIZE, Ok(2 * SIZE)),
        (4 * SIZE, Err(Errno::AGAIN)),
    ] {
        check_eq!(get(room), expected, "room for {room}");
    }
    check_eq!(ready(fd.as_fd(), true)?, PollFlags::empty());
    // The records themselves.
    change(&lab, &tsg, 3)?;
    let length = read(&fd, &mut bytes)?;
    let mut rest = &bytes[..length];
    for seq in 8..=10 {
        let (event, size) = parse(rest)?.context("no event")?;
        check_eq!((event.seq, event.dropped, size), (seq, 0, SIZE));
        rest = &rest[size..];
    }
    check_eq!(rest.len(), 0);
    Ok(())
}

/// An event that could not be handed over counts as dropped.
pub(super) fn read_to_bad_address() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = quiet(&lab)?;
    let fd = start(OFlags::NONBLOCK)?;
    let page = Area::new()?;
    let end = page.address(Area::PAGE) as usize;
    let bad = |address: usize, events: usize| read_at(fd.as_fd(), address, events * SIZE);
    check_eq!(bad(end, 1), Err(Errno::AGAIN), "with nothing there");
    change(&lab, &tsg, 5)?;
    // Room for two and a half of three: the third is lost, two are still there.
    let start = end - 2 * SIZE - SIZE / 2;
    check_eq!(bad(start, 3), Ok(2 * SIZE), "a page that ends");
    let next = read_event(&fd, SIZE)?;
    check_eq!((next.seq, next.dropped), (4, 1), "after one was lost");
    check_eq!(bad(end, 8), Err(Errno::FAULT), "no memory");
    check_eq!(bad(end, 8), Err(Errno::AGAIN), "once more");
    change(&lab, &tsg, 2)?;
    for seq in [6, 7] {
        let event = read_event(&fd, SIZE)?;
        check_eq!((event.seq, event.dropped), (seq, 2), "after the last");
    }
    Ok(())
}

/// Starts a child that blocks in `run`, and waits until it does.
fn blocked(lab: &Lab, run: impl FnOnce() -> Result<()>) -> Result<Child> {
    let streams = lab.stats()?.streams;
    let child = Child::spawn(run)?;
    wait_until("the child blocks", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(lab.stats()?.streams == streams + 1 && stat.contains(") S "))
    })?;
    Ok(child)
}

/// A reader that sleeps in `read()`, `poll()` or epoll.
pub(super) fn sleepers_wake() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = quiet(&lab)?;
    let ways: [fn() -> Result<Event>; 4] = [
        || read_event(start(OFlags::empty())?, SIZE),
        || {
            let fd = start(OFlags::NONBLOCK)?;
            check_eq!(ready(fd.as_fd(), false)?, PollFlags::IN);
            read_event(&fd, SIZE)
        },
        || Watched::new(KINDS[0])?.sleep(),
        || Watched::new(KINDS[1])?.sleep(),
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let child = blocked(&lab, || {
            let event = way().with_context(|| format!("way {number}"))?;
            check_eq!((event.seq, event.level), (1, Some(level(number))));
            Ok(())
        })?;
        classify(&lab, &tsg, level(number))?;
        child.join()?;
    }
    Ok(())
}

/// A read ends, or goes on if that is wanted; one whose process is killed leaves no stream.
pub(super) fn signals_meet_a_read() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = quiet(&lab)?;
    for restart in [false, true] {
        let child = blocked(&lab, || {
            catch_usr1(restart);
            let read = read(start(OFlags::empty())?, &mut [0; SIZE]);
            let expected = if restart { Ok(SIZE) } else { Err(Errno::INTR) };
            check_eq!(read, expected, "restarted: {restart}");
            Ok(())
        })?;
        let pid = Pid::from_raw(child.pid() as i32).context("no number")?;
        kill_process(pid, Signal::USR1)?;
        if restart {
            let goes_on = child.wait_ended(std::time::Duration::from_millis(50));
            ensure!(goes_on.is_err(), "the read ended by the signal");
            classify(&lab, &tsg, Level::BE)?;
        }
        child.join()?;
    }
    let child = blocked(&lab, || {
        read_event(start(OFlags::empty())?, SIZE)?;
        bail!("a read without an event");
    })?;
    child.kill()?;
    check_eq!(child.end()?, End::Signal(9));
    check_eq!(lab.stats()?.streams, 0, "streams");
    Ok(())
}

pub(super) fn epoll_tells() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = quiet(&lab)?;
    for kind in KINDS {
        // A level alone tells once more of events that are left.
        let level = !kind.contains(EventFlags::ET);
        let watched = Watched::new(kind)?;
        check_eq!(watched.is_told()?, false, "{kind:?}, with nothing there");
        classify(&lab, &tsg, Level::BE)?;
        check_eq!(watched.is_told_soon()?, true, "{kind:?}, the first event");
        check_eq!(watched.is_told()?, level, "{kind:?}, the first once more");
        classify(&lab, &tsg, Level::LC)?;
        check_eq!(watched.is_told_soon()?, true, "{kind:?}, the second event");
        check_eq!(watched.read()?.level, Some(Level::BE), "{kind:?}");
        check_eq!(watched.is_told()?, level, "{kind:?}, one of two was read");
        check_eq!(watched.read()?.level, Some(Level::LC), "{kind:?}");
        check_eq!(watched.is_told()?, false, "{kind:?}, all was read");
        // An event that was read before anybody has asked is not told.
        classify(&lab, &tsg, Level::BE)?;
        watched.read()?;
        check_eq!(watched.is_told()?, false, "{kind:?}, all was read at once");
        classify(&lab, &tsg, Level::LC)?;
        check_eq!(watched.is_told_soon()?, true, "{kind:?}, the last event");
        check_eq!(watched.read()?.seq, 4, "{kind:?}");
        check_eq!(watched.is_read(), true, "{kind:?}");
    }
    Ok(())
}
