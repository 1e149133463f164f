// SPDX-License-Identifier: GPL-2.0
//! Subscriptions of prefetch signals.

use super::{
    target,
    track,
    Client, //
};
use crate::{
    error::Failure,
    glue::{
        abi,
        eventfd::EventFd,
        identity::{
            Scope,
            Viewer, //
        },
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

/// What a call asks for.
enum Wish {
    Eventfd(i32),
    Word(Place),
    ReadAhead(i32, Ranges),
}

impl Wish {
    /// # Errors
    ///
    /// `EINVAL`.
    fn of(asked: &uapi::zernel_v0_prefetch) -> Result<Self> {
        let no_file = asked.fd == 0;
        let no_word = (asked.page, asked.slot) == (0, 0);
        let no_range = (asked.offset, asked.length, asked.span) == (0, 0, 0);
        match asked.kind {
            uapi::ZERNEL_V0_PREFETCH_EVENTFD if no_word && no_range => Ok(Self::Eventfd(asked.fd)),
            uapi::ZERNEL_V0_PREFETCH_WORD if no_file && no_range => {
                Ok(Self::Word((asked.page, asked.slot)))
            }
            uapi::ZERNEL_V0_PREFETCH_READ_AHEAD if no_word => {
                let ranges = Ranges::new(asked.offset, asked.length, asked.span);
                Ok(Self::ReadAhead(asked.fd, ranges.ok_or(EINVAL)?))
            }
            _ => Err(EINVAL),
        }
    }
}

/// Has something be done at each signal for a process.
pub(super) fn v0_subscribe(client: &Client, arg: usize, size: usize) -> Result {
    let mut asked: uapi::zernel_v0_prefetch = abi::read(arg, size)?;
    if asked.flags & !uapi::ZERNEL_V0_PREFETCH_PIDFD != 0 || asked.subscription != 0 {
        return Err(EINVAL);
    }
    let wish = Wish::of(&asked)?;
    let is_pidfd = asked.flags & uapi::ZERNEL_V0_PREFETCH_PIDFD != 0;
    let process = target::task(asked.id, is_pidfd, Scope::Process)?;
    let thread = Thread::of(&process).filter(Thread::is_program);
    let thread = thread.ok_or(ESRCH)?;
    let viewer = Viewer::current();
    if !viewer.is_in_reach(&process) {
        return Err(ESRCH);
    }
    if !thread.is_seen_by(&viewer) {
        return Err(track::refused(Failure::NotPermitted));
    }
    // Makes sure that the answer can be written, before anything changes.
    abi::write(arg, size, &asked)?;
    let subscribed = |way| Subscription::new(process, viewer, way);
    asked.subscription = match wish {
        Wish::Eventfd(fd) => {
            let bell = Bell::new(EventFd::get(fd)?, charge(0)?)?;
            let subscription = subscribed(Way::Eventfd(bell));
            client.subscriptions.lock().add(subscription, None)?
        }
        Wish::ReadAhead(fd, ranges) => {
            let source = Source::open(fd)?;
            let reader = Reader::new(source, ranges, charge(ranges.length())?)?;
            let subscription = subscribed(Way::ReadAhead(reader));
            client.subscriptions.lock().add(subscription, None)?
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
            subscriptions.add(subscribed(way), Some(place))?
        }
    };
    abi::write(arg, size, &asked).inspect_err(|_| {
        // Nobody knows its number.
        let removed = client.subscriptions.lock().remove(asked.subscription);
        drop(removed);
    })
}

fn charge(bytes: u64) -> Result<Charge> {
    Charge::new(bytes).map_err(track::refused)
}

/// Ends a subscription.
pub(super) fn v0_unsubscribe(client: &Client, arg: usize, size: usize) -> Result {
    let named: uapi::zernel_v0_prefetch_end = abi::read(arg, size)?;
    if named.flags != 0 {
        return Err(EINVAL);
    }
    let removed = client.subscriptions.lock().remove(named.subscription)?;
    // Dropped without the lock.
    drop(removed);
    Ok(())
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
kernel::prelude::static_assert!(Ranges::MAX_LENGTH == uapi::ZERNEL_V0_PREFETCH_MAX_LENGTH as u64);
