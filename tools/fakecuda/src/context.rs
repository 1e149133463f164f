// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context: its streams on the GPU, and the effects of their work on memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::command::{has_come, Command, Point};
use crate::driver::lock;
use crate::gpu::{Gpu, Place};
use crate::helper::Helpers;
use crate::knobs::knobs;
use crate::queue::{Full, Queue, LEGACY};
use crate::status::{Result, Status};

/// Longest wait for room between two tries.
const RETRY: Duration = Duration::from_millis(20);
/// Time between two looks at the state of the context, during a long wait.
const LOOK: Duration = Duration::from_millis(100);
/// Completions taken at once.
const BATCH: usize = 64;

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: u64,
    pub(crate) device: u32,
    pub(crate) flags: AtomicU32,
    pub(crate) limits: Mutex<BTreeMap<u32, u64>>,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) helpers: Helpers,
    queue: Mutex<Queue>,
    /// Of who takes completions: effects come one after the other.
    taking: Mutex<()>,
    /// The error that stays, or 0.
    failed: AtomicI32,
}

impl Context {
    pub(crate) fn new(handle: u64, device: u32, flags: u32) -> Result<Arc<Self>> {
        let gpu = Arc::new(Gpu::new(device)?);
        let mut queue = Queue::new(knobs().connections.unwrap_or(u32::MAX));
        queue.add(LEGACY, false, &gpu)?;
        let context = Arc::new(Self {
            handle,
            device,
            flags: AtomicU32::new(flags),
            limits: Mutex::default(),
            gpu,
            helpers: Helpers::new()?,
            queue: Mutex::new(queue),
            taking: Mutex::new(()),
            failed: AtomicI32::new(0),
        });
        context.helpers.start(&context)?;
        Ok(context)
    }

    /// Fails with the error that stays, if there is one.
    pub(crate) fn status(&self) -> Result<()> {
        match self.failed.load(Ordering::Acquire) {
            0 => Ok(()),
            failed => Err(Status(failed)),
        }
    }

    /// Makes an error that stays. The work of the context is of no use any more, but callbacks of
    /// streams get the error.
    pub(crate) fn fail(self: &Arc<Self>, status: Status) {
        let swapped =
            self.failed
                .compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Acquire);
        if swapped.is_ok() {
            self.gpu.stop();
            let functions = lock(&self.queue).clear();
            self.helpers.forget();
            for (callback, gate) in functions {
                self.helpers.call(self, callback, gate);
            }
        }
    }

    /// The error of a wait: that which stays, if there is one.
    fn error(&self, status: Status) -> Status {
        self.status().err().unwrap_or(status)
    }

    pub(crate) fn add_stream(&self, number: u64, is_blocking: bool) -> Result<()> {
        lock(&self.queue).add(number, is_blocking, &self.gpu)
    }

    pub(crate) fn remove_stream(&self, number: u64) {
        lock(&self.queue).remove(number, &self.gpu);
    }

    /// True if a stream waits for the legacy default stream.
    pub(crate) fn is_blocking(&self, number: u64) -> bool {
        lock(&self.queue).is_blocking(number)
    }

    pub(crate) fn has_stream(&self, number: u64) -> bool {
        lock(&self.queue).has(number)
    }

    /// Queues commands of a stream. Waits while the GPU has no room for them.
    pub(crate) fn queue(&self, stream: u64, mut commands: VecDeque<Command>) -> Result<()> {
        while !commands.is_empty() {
            let mut queue = lock(&self.queue);
            // A context that fails drops what is in the queue then.
            self.status()?;
            let submitted = queue.submit(&self.gpu, stream, &commands);
            drop(queue);
            match submitted.map_err(|status| self.error(status))? {
                Ok(count) => drop(commands.drain(..count)),
                Err(full) => self.wait_for_room(full)?,
            }
        }
        Ok(())
    }

    fn wait_for_room(&self, full: Full) -> Result<()> {
        match full {
            Full::Channel(place, item) => {
                let wait = self.gpu.wait(place, item, RETRY);
                wait.map_err(|status| self.error(status))?;
            }
            Full::Completions => {
                let mut fds = [PollFd::from_borrowed_fd(self.gpu.as_fd(), PollFlags::IN)];
                let time = Timespec {
                    tv_sec: 0,
                    tv_nsec: RETRY.subsec_nanos().into(),
                };
                // It is tried again anyway.
                let _ = poll(&mut fds, Some(&time));
            }
        }
        self.status()
    }

    /// The point where a stream is now: that of the legacy default stream is behind the work of
    /// blocking streams.
    pub(crate) fn point(&self, stream: u64) -> Result<Point> {
        match stream {
            LEGACY => self.record(stream),
            _ => lock(&self.queue).point(stream),
        }
    }

    /// A point behind all that the next command of a stream would wait for.
    pub(crate) fn record(&self, stream: u64) -> Result<Point> {
        loop {
            let mut queue = lock(&self.queue);
            self.status()?;
            if !queue.is_behind(&self.gpu, stream) {
                return queue.point(stream);
            }
            let submitted = queue.submit(&self.gpu, stream, &VecDeque::new());
            if let Err(full) = submitted.map_err(|status| self.error(status))? {
                drop(queue);
                self.wait_for_room(full)?;
            }
        }
    }

    /// True if the GPU has come to a point, and all effects before it are there.
    pub(crate) fn has_passed(self: &Arc<Self>, point: &Point) -> Result<bool> {
        self.has_come_to((point.word, point.ticket))
    }

    /// The same of the word of a stream, and the ticket that it has there.
    pub(crate) fn has_come_to(self: &Arc<Self>, (word, ticket): (u32, u32)) -> Result<bool> {
        self.status()?;
        let is_over = has_come(self.gpu.load(word), ticket);
        if is_over {
            self.settle()?;
        }
        Ok(is_over)
    }

    /// Waits for a point.
    pub(crate) fn wait(self: &Arc<Self>, point: &Point) -> Result<()> {
        self.wait_items(&[(point.place, point.item)])
    }

    /// Waits for all work of all streams.
    pub(crate) fn synchronize(self: &Arc<Self>) -> Result<()> {
        let items = lock(&self.queue).last_items();
        self.wait_items(&items)
    }

    fn wait_items(self: &Arc<Self>, items: &[(Place, u64)]) -> Result<()> {
        self.status()?;
        for &(place, item) in items.iter().filter(|(_, item)| *item > 0) {
            while !self
                .gpu
                .wait(place, item, LOOK)
                .map_err(|status| self.error(status))?
            {
                // Work of a context that has failed has no end.
                self.status()?;
            }
        }
        self.settle()
    }

    /// Applies what is complete.
    fn settle(self: &Arc<Self>) -> Result<()> {
        let is_outstanding = lock(&self.queue).is_outstanding();
        if is_outstanding {
            self.apply();
        }
        self.status()
    }

    /// Applies the effects of all items that are complete, in their order.
    pub(crate) fn apply(self: &Arc<Self>) {
        let _taking = lock(&self.taking);
        loop {
            let taken = self.gpu.completions(BATCH);
            for completion in &taken {
                let taken = lock(&self.queue).take(completion.tag);
                let Some((stream, effect)) = taken else {
                    continue;
                };
                let is_of_data = effect.is_of_data();
                let outcome = effect.apply(self, completion.end.as_ns());
                lock(&self.queue).is_done(stream, is_of_data);
                if outcome.is_err() {
                    // On a GPU such an access is a fault.
                    self.fail(Status::ILLEGAL_ADDRESS);
                }
            }
            if taken.len() < BATCH {
                return;
            }
        }
    }

    /// Ends it when its work is over.
    pub(crate) fn end(self: &Arc<Self>) {
        // A context that has failed has no work.
        let _ = self.synchronize();
        self.failed
            .store(Status::CONTEXT_IS_DESTROYED.0, Ordering::Release);
        self.gpu.end();
        self.helpers.stop();
    }
}
