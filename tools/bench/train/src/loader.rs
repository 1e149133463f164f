// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that loads: at the signal, and without one when the computation is over.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use anyhow::Result;
use libzernel::event::Kind;
use libzernel::{EventStream, Target, Timestamp, Tracking, Zernel};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};

use crate::run::Span;
use crate::source::Source;

/// The number of computations that are over.
pub(crate) struct Finished {
    count: AtomicUsize,
    bell: OwnedFd,
}

impl Finished {
    pub(crate) fn new() -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let count = AtomicUsize::new(0);
        Ok(Self { count, bell })
    }

    pub(crate) fn tell(&self, count: usize) -> Result<()> {
        self.count.store(count, Ordering::Release);
        rustix::io::write(&self.bell, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// True if so many are. If not, the bell rings with the next one.
    fn are(&self, count: usize) -> bool {
        // Empty if it has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.count.load(Ordering::Acquire) >= count
    }
}

/// A batch that is to be loaded.
pub(crate) struct Order {
    /// At the latest when so many computations are over.
    pub(crate) after: usize,
    pub(crate) at: Timestamp,
    pub(crate) load: Duration,
}

/// A batch that is there.
pub(crate) struct Batch {
    /// It was loaded for the signal.
    pub(crate) signalled: bool,
    pub(crate) read: Span,
}

/// The thread that loads.
pub(crate) struct Loader<'a> {
    pub(crate) zernel: &'a Zernel,
    pub(crate) source: &'a mut Source,
    pub(crate) stream: EventStream,
    pub(crate) finished: &'a Finished,
}

impl Loader<'_> {
    /// Loads ordered batches.
    pub(crate) fn run(mut self, orders: &Receiver<Order>, batches: &Sender<Result<Batch>>) {
        if let Err(error) = self.zernel.track(&Target::CurrentThread, Tracking::ML) {
            // Nobody waits for it any more if it is not taken.
            let _ = batches.send(Err(error.into()));
            return;
        }
        while let Ok(order) = orders.recv() {
            if batches.send(self.load(&order)).is_err() {
                return;
            }
        }
    }

    fn load(&mut self, order: &Order) -> Result<Batch> {
        let signalled = self.wait(order)?;
        let began = Timestamp::now();
        self.source.read_for(order.load)?;
        let ended = Timestamp::now();
        let read = Span { began, ended };
        Ok(Batch { signalled, read })
    }

    /// Waits until it is time. Returns whether the signal said so.
    fn wait(&mut self, order: &Order) -> Result<bool> {
        loop {
            while let Some(event) = self.stream.next_within(Some(Duration::ZERO))? {
                // One from before tells of another batch.
                let own = event.kind == Kind::Signal && event.pid == std::process::id();
                if own && event.time_ns >= order.at {
                    return Ok(true);
                }
            }
            if self.finished.are(order.after) {
                return Ok(false);
            }
            let mut fds = [
                PollFd::new(&self.stream, PollFlags::IN),
                PollFd::new(&self.finished.bell, PollFlags::IN),
            ];
            poll(&mut fds, None)?;
        }
    }
}
