// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subscriptions: actions at the prefetch signals of a process.
//!
//! ```no_run
//! use std::os::fd::AsFd;
//! use libzernel::{Target, Zernel};
//! use rustix::event::{eventfd, EventfdFlags};
//!
//! # fn load_next_batch() {}
//! let zernel = Zernel::open()?;
//! let bell = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
//! let subscription = zernel.subscribe_eventfd(&Target::current_process(), bell.as_fd())?;
//! while rustix::io::read(&bell, &mut [0; 8]).is_ok() {
//!     load_next_batch();
//! }
//! subscription.unsubscribe()?;
//! # Ok::<(), libzernel::Error>(())
//! ```

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytemuck::Zeroable;
use rustix::io::Errno;

use crate::request::Slot;
use crate::sys::{abi, zernel as calls};
use crate::{Call, Error, Result, Target, Zernel};

/// Most bytes of a file that are read ahead at a signal.
pub const MAX_LENGTH: u64 = abi::ZERNEL_READ_AHEAD_MAX as u64;

/// Which part of a file is read ahead at which signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    /// Where the first range begins.
    pub offset: u64,
    /// Bytes for each signal, 1 to [`MAX_LENGTH`].
    pub length: u64,
    /// After so many bytes it begins anew at `offset`; 0: the range is the same each time.
    pub span: u64,
}

/// A subscription. Dropping it ends it.
///
/// It keeps the file of its [`Zernel`] open.
#[derive(Debug)]
pub struct Subscription {
    file: Arc<OwnedFd>,
    handle: u32,
    ended: bool,
}

impl Subscription {
    /// Its handle in its file.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Ends it now, and tells if that failed.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`.
    pub fn unsubscribe(mut self) -> Result<()> {
        self.end().map_err(Error::call(Call::Unsubscribe))
    }

    /// Leaves it alone: it ends when the file is closed.
    pub fn keep(mut self) {
        self.ended = true;
    }

    fn end(&mut self) -> std::result::Result<(), Errno> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        let mut raw = abi::zernel_remove {
            handle: self.handle,
            flags: 0,
        };
        calls::remove(self.file.as_fd(), &mut raw)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Fails only if it has ended behind our back.
        let _ = self.end();
    }
}

impl Zernel {
    /// Has 1 be added to an eventfd at each signal for a process.
    ///
    /// Errors: [`Error::Call`] with `EBADF` when it is not an eventfd, `EINVAL` when the target is not
    /// a process, `ESRCH`, `EPERM` or `EDQUOT`.
    pub fn subscribe_eventfd(
        &self,
        process: &Target,
        eventfd: BorrowedFd<'_>,
    ) -> Result<Subscription> {
        subscribe(self.file(), process, |raw| {
            raw.action = abi::ZERNEL_ACTION_EVENTFD;
            raw.fd = eventfd.as_raw_fd();
        })
    }

    /// Has a range of a file, which is open for reading, be read into the page cache at each signal
    /// for a process.
    ///
    /// Errors: [`Error::Call`] with `EBADF` also when it is neither a regular file nor a block device,
    /// `EINVAL` when the ranges are out of bounds or the target is not a process, `ESRCH`, `EPERM`
    /// or `EDQUOT`.
    pub fn subscribe_read_ahead(
        &self,
        process: &Target,
        file: BorrowedFd<'_>,
        ranges: &Ranges,
    ) -> Result<Subscription> {
        subscribe(self.file(), process, |raw| {
            raw.action = abi::ZERNEL_ACTION_READ_AHEAD;
            raw.fd = file.as_raw_fd();
            (raw.offset, raw.length, raw.span) = (ranges.offset, ranges.length, ranges.span);
        })
    }
}

impl Slot<'_> {
    /// Has the word [`Signals`](crate::request::Word::Signals) count the signals for a process,
    /// from its present value.
    ///
    /// Errors: [`Error::Call`] with `EBUSY` when it does already, `EINVAL` when the target is not a
    /// process, `ENOENT`, `ESRCH`, `EPERM` or `EDQUOT`.
    pub fn subscribe(&self, process: &Target) -> Result<Subscription> {
        subscribe(self.slots().file(), process, |raw| {
            raw.action = abi::ZERNEL_ACTION_WORD;
            raw.slot = self.number();
        })
    }
}

fn subscribe(
    file: &Arc<OwnedFd>,
    process: &Target,
    fill: impl FnOnce(&mut abi::zernel_subscribe),
) -> Result<Subscription> {
    let mut raw = abi::zernel_subscribe {
        target: process.raw(),
        signal: abi::ZERNEL_SIGNAL_PREFETCH,
        ..abi::zernel_subscribe::zeroed()
    };
    fill(&mut raw);
    calls::subscribe(file.as_fd(), &mut raw).map_err(Error::call(Call::Subscribe))?;
    Ok(Subscription {
        file: file.clone(),
        handle: raw.handle,
        ended: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn another_file_takes_no_subscription() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        let me = Target::current_process();
        let error = zernel.subscribe_eventfd(&me, zernel.as_fd()).unwrap_err();
        assert_eq!(error.cause(), Cause::Unsupported);
    }
}
