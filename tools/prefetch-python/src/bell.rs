// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bell that a thread without Python rings: a counter of the kernel, which a thread of Python, or a
//! loop of asyncio, waits for.

use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> Result<Arc<Self>, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Arc::new(Self(eventfd(0, flags)?)))
    }

    /// Wakes one who waits, or the next one who does.
    pub(crate) fn ring(&self) {
        // A counter that is full rings.
        let _is_full = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes what has rung.
    pub(crate) fn hush(&self) {
        let _was_silent = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits until it rings, for a signal, or for so long, and hushes it.
    pub(crate) fn wait(&self, time: Duration) {
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // One who waits looks for itself: an error is a look too early.
        let _rang = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time));
        self.hush();
    }

    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
