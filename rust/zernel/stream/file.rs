// SPDX-License-Identifier: GPL-2.0
//! The stream of an open file: its reader, and those who wait for events.

use super::{
    event::{
        Event,
        Filter, //
    },
    running::{
        Named,
        Running,
        Taken, //
    },
};
use crate::{
    glue::{
        errno,
        identity::Viewer,
        uapi,
        waiters::Waiters, //
    },
    policy::units::Ns,
};
use kernel::{
    fs::File,
    iov::IovIterDest,
    new_spinlock,
    prelude::*,
    sync::{
        poll::PollTable,
        Arc,
        SpinLock, //
    },
};

/// Events handed to user space at a time.
const BATCH: usize = 32;

/// The readiness of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not run.
    Stopped,
    /// Nothing is there.
    Empty,
    /// There are events to read.
    Filled,
}

/// The part of a stream that its spinlock protects.
struct Ring {
    running: Option<Running>,
    /// Somebody waits, and is to be woken for events that came.
    told: bool,
}

/// The stream of an open file, which gets events while it runs.
#[pin_data]
pub(crate) struct Stream {
    viewer: Arc<Viewer>,
    #[pin]
    ring: SpinLock<Ring>,
    #[pin]
    waiters: Waiters,
}

/// The fate of an event at a stream that it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    /// Another event was lost for it.
    pub(super) overwrote: bool,
    /// Its waiters are to be woken, and nobody was asked to do so yet.
    pub(super) tells: bool,
}

impl Stream {
    /// A stream with the view of `viewer` that does not run yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(viewer: Arc<Viewer>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                viewer,
                ring <- new_spinlock!(
                    Ring {
                        running: None,
                        told: false,
                    },
                    "zernel_ring"
                ),
                waiters <- Waiters::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Its view.
    pub(super) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    /// The number of its run, if it runs.
    pub(super) fn run(&self) -> Option<u64> {
        self.ring.lock().running.as_ref().map(Running::id)
    }

    /// Has it run, with a ring that is dropped when it stops.
    pub(super) fn start(&self, running: Running) {
        let before = self.ring.lock().running.replace(running);
        drop(before);
    }

    /// Takes other events from now on, if it runs. Events that were not read stay.
    ///
    /// # Errors
    ///
    /// `EBUSY` it has another capacity.
    pub(crate) fn change(
        &self,
        kinds: u64,
        filter: Filter,
        capacity: Option<usize>,
    ) -> Result<Changed> {
        let mut ring = self.ring.lock();
        let Some(running) = &mut ring.running else {
            return Ok(Changed::Stopped(filter));
        };
        if capacity.is_some_and(|capacity| capacity != running.capacity()) {
            drop(ring);
            return Err(EBUSY);
        }
        let before = running.change(kinds, filter);
        drop(ring);
        drop(before);
        Ok(Changed::Done)
    }

    /// Ends it, after [`super::forget`]; a reader gets `ENODATA`.
    pub(crate) fn stop(&self) {
        let running = self.ring.lock().running.take();
        // By the caller, who decides how many wait.
        self.waiters.wake();
        drop(running);
    }

    /// Takes an event that is for this stream. Neither sleeps nor allocates.
    pub(super) fn push<'a>(&'a self, named: &mut Named<'a>) -> Option<Pushed> {
        let mut ring = self.ring.lock();
        let Taken { overwrote } = ring.running.as_mut()?.push(named, &self.viewer)?;
        // A waiter that is not there yet looks at the ring later.
        let tells = !ring.told && self.waiters.is_any();
        ring.told |= tells;
        Some(Pushed { overwrote, tells })
    }

    /// True once if waiters are to be woken.
    pub(super) fn take_told(&self) -> bool {
        core::mem::take(&mut self.ring.lock().told)
    }

    /// Wakes all who wait. Returns the time that it took, less pauses. May sleep.
    pub(super) fn wake(&self) -> Ns {
        self.waiters.wake()
    }

    /// Has a poll wait for it, if it does, and returns the readiness.
    pub(crate) fn poll(&self, file: &File, table: &PollTable<'_>) -> State {
        // First, so that no event comes in between unnoticed.
        self.waiters.register(file, table);
        match &self.ring.lock().running {
            None => State::Stopped,
            Some(running) if running.is_empty() => State::Empty,
            Some(_) => State::Filled,
        }
    }

    /// Moves whole events to user space, as many as fit; waits for the first unless told not to.
    ///
    /// # Errors
    ///
    /// `ENODATA` it does not run, `EINVAL` no room for the next event, `EAGAIN` none there and not to
    /// wait, `ERESTARTSYS` a signal, `EFAULT` (the events that could not be copied count as
    /// dropped), `ENOMEM`.
    pub(crate) fn read(&self, iov: &mut IovIterDest<'_>, wait: bool) -> Result<usize> {
        let mut batch = KVec::with_capacity(BATCH, GFP_KERNEL)?;
        let mut written = 0;
        loop {
            batch.clear();
            let taken = self.take(&mut batch, iov.len(), wait && written == 0);
            let run = match taken {
                Ok(run) => run,
                Err(error) if written == 0 => return Err(error),
                Err(_) => return Ok(written),
            };
            for (i, event) in batch.iter().enumerate() {
                let bytes = event.bytes();
                if iov.copy_to_iter(bytes) < bytes.len() {
                    self.lose(run, (batch.len() - i) as u64);
                    return if written > 0 {
                        Ok(written)
                    } else {
                        Err(EFAULT)
                    };
                }
                written += bytes.len();
            }
        }
    }

    /// Takes events that fit into so many bytes, one or more. Returns the number of the run.
    fn take(&self, batch: &mut KVec<Event>, room: usize, wait: bool) -> Result<u64> {
        let mut ring = self.ring.lock();
        let running = loop {
            match &ring.running {
                None => return Err(errno::no_data()),
                _ if room < size_of::<uapi::zernel_event>() => return Err(EINVAL),
                Some(running) if running.is_empty() => {}
                // Once more for the borrow checker: the guard to wait with is not borrowed.
                Some(_) => break ring.running.as_mut().ok_or_else(errno::no_data)?,
            }
            if !wait {
                return Err(EAGAIN);
            }
            if self.waiters.wait(&mut ring) {
                return Err(ERESTARTSYS);
            }
        };
        running.take(batch, room);
        if batch.is_empty() {
            return Err(EINVAL);
        }
        Ok(running.id())
    }

    /// Counts events as dropped that were taken from a run.
    fn lose(&self, run: u64, count: u64) {
        match &mut self.ring.lock().running {
            Some(running) if running.id() == run => running.lose(count),
            _ => {}
        }
    }
}

/// Outcome of a change.
pub(crate) enum Changed {
    /// It is in force.
    Done,
    /// The stream does not run. The filter comes back.
    Stopped(Filter),
}
