// SPDX-License-Identifier: GPL-2.0
//! Actions at signals.

use super::{
    target::Target,
    track,
    Client, //
};
use crate::{
    error::Failure,
    glue::{
        eventfd::EventFd,
        identity::Viewer,
        readahead::Source,
        thread::Thread,
        uapi, //
    },
    policy::prefetch::ranges::Ranges,
    prefetch::{
        file::Place,
        Bell,
        Charge,
        Reader,
        Subscription,
        Way, //
    },
};
use kernel::prelude::*;

/// The content of a call.
enum Wish {
    Eventfd(i32),
    Word(Place),
    ReadAhead(i32, Ranges),
}

impl Wish {
    /// # Errors
    ///
    /// `EINVAL`.
    fn of(asked: &uapi::zernel_subscribe) -> Result<Self> {
        let no_range = (asked.offset, asked.length, asked.span) == (0, 0, 0);
        match asked.action {
            uapi::ZERNEL_ACTION_EVENTFD if asked.slot == 0 && no_range => {
                Ok(Self::Eventfd(asked.fd))
            }
            uapi::ZERNEL_ACTION_WORD if asked.fd == 0 && no_range => {
                // Pages are numbered from 1, and full of slots.
                const SLOTS: u32 = uapi::ZERNEL_V0_PAGE_SLOTS;
                Ok(Self::Word((asked.slot / SLOTS + 1, asked.slot % SLOTS)))
            }
            uapi::ZERNEL_ACTION_READ_AHEAD if asked.slot == 0 => {
                let ranges = Ranges::new(asked.offset, asked.length, asked.span);
                Ok(Self::ReadAhead(asked.fd, ranges.ok_or(EINVAL)?))
            }
            _ => Err(EINVAL),
        }
    }
}

/// Subscribes to the signals of a process.
pub(super) fn subscribe(client: &Client, asked: &mut uapi::zernel_subscribe) -> Result {
    let is_prefetch = asked.signal == uapi::ZERNEL_SIGNAL_PREFETCH;
    if !is_prefetch || asked.flags != 0 || asked.reserved != 0 {
        return Err(EINVAL);
    }
    let wish = Wish::of(asked)?;
    let target = Target::read(&asked.target, &[uapi::ZERNEL_TARGET_PROCESS])?;
    let Target::Process(process) = target else {
        return Err(EINVAL);
    };
    let thread = Thread::of(&process).filter(Thread::is_program);
    let thread = thread.ok_or(ESRCH)?;
    let viewer = Viewer::current();
    if !viewer.is_in_reach(&process) {
        return Err(ESRCH);
    }
    if !thread.is_seen_by(&viewer) {
        return Err(track::refused(Failure::NotPermitted));
    }
    let handle = client.handles.next()?;
    let subscribed = |way| Subscription::new(process, viewer, way);
    match wish {
        Wish::Eventfd(fd) => {
            // As an eventfd that is not open: it is not of the right kind.
            let eventfd = EventFd::get(fd).map_err(|error| match error {
                EINVAL => EBADF,
                error => error,
            })?;
            let subscription = subscribed(Way::Eventfd(Bell::new(eventfd, charge(0)?)?));
            client
                .subscriptions
                .lock()
                .add(handle, subscription, None)?;
        }
        Wish::ReadAhead(fd, ranges) => {
            let source = Source::open(fd).map_err(|error| match error {
                EINVAL => EBADF,
                error => error,
            })?;
            let reader = Reader::new(source, ranges, charge(ranges.length())?)?;
            let subscription = subscribed(Way::ReadAhead(reader));
            client
                .subscriptions
                .lock()
                .add(handle, subscription, None)?;
        }
        Wish::Word(place) => {
            let charge = charge(0)?;
            // Locked until it is there: a page that goes ends it.
            let pages = client.pages.lock();
            let words = pages.words(place.0, place.1)?;
            let mut subscriptions = client.subscriptions.lock();
            if subscriptions.has_word(place) {
                return Err(EBUSY);
            }
            let way = Way::word(words, place.1, charge)?;
            subscriptions.add(handle, subscribed(way), Some(place))?;
        }
    }
    asked.handle = handle;
    Ok(())
}

fn charge(bytes: u64) -> Result<Charge> {
    Charge::new(bytes).map_err(track::refused)
}

/// Ends the subscriptions that count in words of a page.
pub(super) fn end_words_of(client: &Client, page: u32) {
    loop {
        let removed = client.subscriptions.lock().remove_of(page);
        if removed.is_none() {
            return;
        }
        // Dropped without the lock.
        drop(removed);
    }
}

// The bounds are the same.
kernel::prelude::static_assert!(Ranges::MAX_LENGTH == uapi::ZERNEL_READ_AHEAD_MAX as u64);
