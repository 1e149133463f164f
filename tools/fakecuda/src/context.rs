// SPDX-License-Identifier: MIT OR Apache-2.0
//! A context: its streams on the GPU, and the effects of their work on memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::command::{has_come, Command, Effect, Point};
use crate::driver;
use crate::gpu::Gpu;
use crate::helper::Helpers;
use crate::queue::{Full, Queue, LEGACY};
use crate::space::{Kind, Space};
use crate::status::{Result, Status};
use crate::sys::memory;

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
    /// Streams that are captured.
    pub(crate) captures: AtomicU32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    pub(crate) fn new(handle: u64, device: u32, flags: u32) -> Result<Arc<Self>> {
        let gpu = Arc::new(Gpu::new(device)?);
        let mut queue = Queue::new();
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
            captures: AtomicU32::new(0),
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

    /// Makes an error that stays. The work of the context is of no use any more.
    pub(crate) fn fail(&self, status: Status) {
        let swapped =
            self.failed
                .compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Acquire);
        if swapped.is_ok() {
            self.gpu.stop();
            lock(&self.queue).clear();
            self.helpers.forget();
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

    pub(crate) fn has_stream(&self, number: u64) -> bool {
        lock(&self.queue).has(number)
    }

    /// Queues commands of a stream. Waits while the GPU has no room for them.
    pub(crate) fn queue(&self, stream: u64, mut commands: VecDeque<Command>) -> Result<()> {
        while !commands.is_empty() {
            self.status()?;
            let submitted = lock(&self.queue).submit(&self.gpu, stream, &commands);
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

    /// The point where a stream is now.
    pub(crate) fn point(&self, stream: u64) -> Result<Point> {
        lock(&self.queue).point(stream, self.handle)
    }

    /// True if the GPU has come to a point, and all effects before it are there.
    pub(crate) fn has_passed(self: &Arc<Self>, point: &Point) -> Result<bool> {
        self.status()?;
        let is_over = has_come(self.gpu.load(point.word), point.ticket);
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

    fn wait_items(self: &Arc<Self>, items: &[(crate::gpu::Place, u64)]) -> Result<()> {
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
                let effect = lock(&self.queue).take(completion.tag);
                if let Some(effect) = effect {
                    self.apply_one(effect, completion.end.as_ns());
                }
            }
            if taken.len() < BATCH {
                return;
            }
        }
    }

    fn apply_one(self: &Arc<Self>, effect: Effect, end_ns: u64) {
        let is_of_data = effect.is_of_data();
        let space = || driver::space();
        let outcome = match effect {
            Effect::Copy(rows) => rows.copy(),
            Effect::Put(rows, bytes) => rows.put(&bytes),
            Effect::Fill {
                to,
                value,
                unit,
                pitch,
                width,
                height,
            } => fill(to, value, unit, pitch, width, height),
            Effect::Compute(compute) => compute.run(&space()),
            Effect::Fault => Err(Status::ILLEGAL_ADDRESS),
            Effect::Free(base) => free(&mut space(), base),
            Effect::Store { word, value } => memory::store_word(word.host, value, word.is_wide),
            Effect::Time(clock) => {
                clock.set(end_ns);
                Ok(())
            }
            Effect::Open(gate) => {
                self.gpu.open(gate);
                Ok(())
            }
            Effect::Call(callback, gate) => {
                self.helpers.call(self, callback, gate);
                Ok(())
            }
            Effect::Watch(check, gate) => {
                self.helpers.watch(self, check, gate);
                Ok(())
            }
        };
        lock(&self.queue).is_done(is_of_data);
        if outcome.is_err() {
            // On a GPU such an access is a fault.
            self.fail(Status::ILLEGAL_ADDRESS);
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

/// Memory that was freed in stream order.
fn free(space: &mut Space, base: u64) -> Result<()> {
    space.remove(base, Kind::Device).map(|_| ())
}

impl crate::command::Rows {
    /// Writes bytes that are in rows without gaps.
    fn put(&self, bytes: &[u8]) -> Result<()> {
        for (row, bytes) in (0..).zip(bytes.chunks(self.width.max(1) as usize)) {
            memory::write(self.to + row * self.to_pitch, bytes)?;
        }
        Ok(())
    }

    fn copy(&self) -> Result<()> {
        let rows = 0..self.height;
        let is_plain = self.to_pitch == self.width && self.from_pitch == self.width;
        if is_plain {
            return memory::copy(self.to, self.from, self.width * self.height);
        }
        for row in rows {
            let (to, from) = (row * self.to_pitch, row * self.from_pitch);
            memory::copy(self.to + to, self.from + from, self.width)?;
        }
        Ok(())
    }
}

/// Fills rows. `width`: units of a row; `pitch`: bytes from row to row.
fn fill(to: u64, value: u32, unit: u64, pitch: u64, width: u64, height: u64) -> Result<()> {
    /// Bytes that are written at once.
    const MOST: u64 = 1 << 20;
    let bytes = value.to_le_bytes();
    let unit_bytes = bytes.get(..unit as usize).ok_or(Status::INVALID_VALUE)?;
    let length = width * unit;
    let part = unit_bytes.repeat((length.min(MOST) / unit) as usize);
    for row in 0..height {
        let mut done = 0;
        while done < length {
            let count = (length - done).min(part.len() as u64);
            memory::write(to + row * pitch + done, &part[..count as usize])?;
            done += count;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Rows;
    use crate::sys::memory::Pages;

    #[test]
    fn rows_are_copied_and_filled() {
        let pages = Pages::map(4_096).unwrap();
        let base = pages.base();
        fill(base, 0x0201, 2, 8, 3, 2).unwrap();
        let filled = [1, 2, 1, 2, 1, 2, 0, 0, 1, 2, 1, 2, 1, 2, 0, 0, 0];
        assert_eq!(memory::read::<u8>(base, 17).unwrap(), filled);
        let rows = Rows {
            to: base + 100,
            to_pitch: 4,
            from: base,
            from_pitch: 8,
            width: 3,
            height: 2,
        };
        rows.copy().unwrap();
        let copied = [1, 2, 1, 0, 1, 2, 1, 0];
        assert_eq!(memory::read::<u8>(base + 100, 8).unwrap(), copied);
        let outside = Rows { to: 8, ..rows };
        assert_eq!(outside.copy(), Err(Status::INVALID_VALUE));
        fill(base, 7, 1, 0, 3 << 10, 1).unwrap();
        assert_eq!(memory::read::<u8>(base + 3_071, 2).unwrap(), [7, 0]);
    }
}
