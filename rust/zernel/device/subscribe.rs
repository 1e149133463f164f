// SPDX-License-Identifier: GPL-2.0
//! Actions at signals.

use super::{
    client::Client,
    target::Target, //
};
use crate::{
    error::Failure,
    glue::{
        errno,
        eventfd::EventFd,
        identity::Viewer,
        readahead::Source,
        scheduler_hooks,
        thread::Thread,
        uapi, //
    },
    policy::prefetch::ranges::Ranges,
    prefetch::{
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
    Word(u32),
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
            uapi::ZERNEL_ACTION_WORD if asked.fd == 0 && no_range => Ok(Self::Word(asked.slot)),
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
    if !scheduler_hooks::IS_SUPPORTED {
        return Err(errno::unsupported());
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
        return Err(EPERM);
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
        Wish::Word(slot) => {
            let charge = charge(0)?;
            let words = client.slots.lock().words(slot)?;
            let mut subscriptions = client.subscriptions.lock();
            if subscriptions.has_word(slot) {
                return Err(EBUSY);
            }
            let way = Way::word(words, charge)?;
            subscriptions.add(handle, subscribed(way), Some(slot))?;
        }
    }
    asked.handle = handle;
    Ok(())
}

fn charge(bytes: u64) -> Result<Charge> {
    Charge::new(bytes).map_err(Failure::errno)
}

// The bounds are the same.
kernel::prelude::static_assert!(Ranges::MAX_LENGTH == uapi::ZERNEL_READ_AHEAD_MAX as u64);
