// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: points in streams, and their times.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::capture;
use crate::command::{Clock, Command, Effect, Point};
use crate::context::Context;
use crate::driver::{driver, lock, Target};
use crate::status::{Result, Status};

/// It keeps no time.
pub(crate) const DISABLE_TIMING: u32 = 2;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Arc<Context>,
    pub(crate) flags: u32,
    state: Mutex<State>,
}

/// Its last record.
#[derive(Debug, Clone, Default)]
pub(crate) enum State {
    #[default]
    Never,
    Recorded(Point, Option<Arc<Clock>>),
    /// In a capture: the nodes that come before it.
    Captured(capture::Mark),
}

impl Event {
    pub(crate) fn new(context: Arc<Context>, flags: u32) -> Self {
        Self {
            context,
            flags,
            state: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Fails for a context that is not its own.
    pub(crate) fn check_context(&self, context: &Context) -> Result<()> {
        match context.handle == self.context.handle {
            true => Ok(()),
            false => Err(Status::INVALID_HANDLE),
        }
    }

    /// Records it in a stream of its context.
    pub(crate) fn record(&self, target: &Target) -> Result<()> {
        self.check_context(&target.context)?;
        let clock = (self.flags & DISABLE_TIMING == 0).then(Arc::<Clock>::default);
        if let Some(clock) = &clock {
            let time = Command::Then(Effect::Time(clock.clone()));
            target
                .context
                .queue(target.number, VecDeque::from([time]))?;
        }
        let point = target.context.record(target.number)?;
        *self.state() = State::Recorded(point, clock);
        Ok(())
    }

    /// The point of its last record; `None`: it was never recorded, and so is over.
    fn point(&self) -> Result<Option<Point>> {
        match &*self.state() {
            State::Never => Ok(None),
            State::Recorded(point, _) => Ok(Some(*point)),
            State::Captured(_) => Err(Status::CAPTURED_EVENT),
        }
    }

    /// Fails if a stream cannot wait for it.
    pub(crate) fn check(&self) -> Result<()> {
        self.point().map(|_| ())
    }

    pub(crate) fn has_passed(&self) -> Result<bool> {
        self.context.status()?;
        match self.point()? {
            Some(point) => self.context.has_passed(&point),
            None => Ok(true),
        }
    }

    pub(crate) fn wait(&self) -> Result<()> {
        self.context.status()?;
        match self.point()? {
            Some(point) => self.context.wait(&point),
            None => Ok(()),
        }
    }

    /// The command of a stream that waits for it; `None`: it is over.
    pub(crate) fn command(&self, context: &Context) -> Result<Option<Command>> {
        let Some(point) = self.point()? else {
            return Ok(None);
        };
        // One of a context that has failed or is gone is over.
        if self.context.has_passed(&point).unwrap_or(true) {
            return Ok(None);
        }
        let is_other = context.handle != self.context.handle;
        let other = is_other.then(|| Arc::downgrade(&self.context));
        Ok(Some(Command::After(point, other)))
    }

    /// Its time, in nanoseconds of the GPU's timer.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_HANDLE`]: it was never recorded, or keeps no time;
    /// [`Status::NOT_READY`].
    fn time(&self) -> Result<u64> {
        let State::Recorded(point, Some(clock)) = self.state().clone() else {
            return Err(Status::INVALID_HANDLE);
        };
        if !self.context.has_passed(&point)? {
            return Err(Status::NOT_READY);
        }
        clock.get().ok_or(Status::NOT_READY)
    }

    /// Milliseconds from one event to another.
    pub(crate) fn elapsed(&self, end: &Self) -> Result<f32> {
        driver()?;
        let (begin, end) = (self.time()?, end.time()?);
        Ok((end as i64).wrapping_sub(begin as i64) as f32 / 1e6)
    }
}
