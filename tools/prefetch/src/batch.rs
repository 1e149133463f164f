// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches: what is in flight for each, its first fault, and its end.
//!
//! A [`Batch`] is made with its guard, a [`Ticket`]. Each piece of work in flight has a ticket of its
//! own, split off from one that is held. A gate belongs to its batch and to the tickets: it cannot be
//! used again while one of them could touch it.
//!
//! The end of a batch can be told to a [`Ready`], by the thread that brings it about: no other thread
//! wakes up for it.

use std::fmt;
use std::sync::OnceLock;

use event_listener::Event;

use crate::gate::{Gate, Misuse, State};
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::{Fault, Kind};

/// One who is told of the end of a batch ([`Batch::tell`]), once, in one of two ways. The thread that
/// ends it calls: it is not to wait in there.
pub trait Ready: fmt::Debug + Send + Sync {
    /// All is there. What was written for the batch can be read.
    fn ready(&self);

    /// The batch has failed, with this as its first fault.
    fn failed(&self, fault: &Fault);
}

#[derive(Debug, Default)]
struct Shared {
    gate: Gate,
    fault: OnceLock<Fault>,
    /// One who is told of its end, and that this was done or is not to be done any more.
    target: OnceLock<Box<dyn Ready>>,
    is_told: AtomicBool,
    /// It is notified when the gate becomes ready, at its first failure, and when nothing is in flight.
    changed: Event,
}

impl Shared {
    fn left(&self, left: Result<State, Misuse>) {
        match left {
            Ok(State::Pending(_)) => {}
            Ok(State::Failed(pending)) if pending > 0 => {}
            Ok(State::Failed(_)) => drop(self.changed.notify(usize::MAX)),
            Ok(State::Ready) => {
                self.tell(|target| target.ready());
                self.changed.notify(usize::MAX);
            }
            Err(misuse) => self.fail(Fault::new(Kind::Misuse, misuse.to_string())),
        }
    }

    fn fail(&self, fault: Fault) {
        // A fault is there before the bit says so; that of another that came first stands.
        let is_first = self.fault.set(fault).is_ok();
        if self.gate.fail() || is_first {
            self.tell(|target| target.failed(&self.fault()));
            self.changed.notify(usize::MAX);
        }
    }

    /// Tells of the end, if there is one who is to be told and was not.
    fn tell(&self, how: impl FnOnce(&dyn Ready)) {
        if let Some(target) = self.target.get() {
            if !self.is_told.swap(true, Ordering::AcqRel) {
                how(&**target);
            }
        }
    }

    fn fault(&self) -> Fault {
        let unknown = || Fault::new(Kind::Misuse, "a gate that was changed beside its batch");
        self.fault.get().cloned().unwrap_or_else(unknown)
    }
}

/// The work that a batch still waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// This many pieces are in flight.
    Pending(u64),
    /// All is there.
    Ready,
    /// The first fault. Other pieces may be in flight.
    Failed(Fault),
}

/// A batch that has work in flight, and was not to wait for it.
#[derive(Debug, thiserror::Error)]
#[error("the batch has {pending} pieces of work in flight")]
pub struct InFlight {
    /// The number of pieces.
    pub pending: u64,
    /// The batch: it is not released.
    pub batch: Batch,
}

/// A batch that somebody is told of already.
#[derive(Debug, thiserror::Error)]
#[error("somebody is told of the end of the batch already")]
pub struct Taken(
    /// The one who was to be told.
    pub Box<dyn Ready>,
);

/// A batch, seen by its consumer. Dropping it cancels what is in flight.
#[derive(Debug)]
pub struct Batch(Arc<Shared>);

impl Batch {
    /// A batch, and the guard that its walk holds to the end.
    pub fn new() -> (Self, Ticket) {
        let shared = Arc::new(Shared::default());
        let guard = Ticket {
            shared: Arc::clone(&shared),
            counts: true,
        };
        (Self(shared), guard)
    }

    /// All is there.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.0.gate.is_ready()
    }

    /// All is there, or it has failed.
    pub fn is_over(&self) -> bool {
        !matches!(self.0.gate.state(), State::Pending(_))
    }

    /// The work that it waits for, by one look at the gate.
    pub fn progress(&self) -> Progress {
        match self.0.gate.state() {
            State::Ready => Progress::Ready,
            State::Pending(pending) => Progress::Pending(pending),
            State::Failed(_) => Progress::Failed(self.0.fault()),
        }
    }

    /// Pieces of work in flight.
    pub fn in_flight(&self) -> u64 {
        match self.0.gate.state() {
            State::Ready => 0,
            State::Pending(pending) | State::Failed(pending) => pending,
        }
    }

    /// Waits until all is there, or for the first fault.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub async fn ready(&self) -> Result<(), Fault> {
        loop {
            let listener = self.0.changed.listen();
            match self.progress() {
                Progress::Ready => return Ok(()),
                Progress::Failed(fault) => return Err(fault),
                Progress::Pending(_) => listener.await,
            }
        }
    }

    /// Has `target` be told of its end: at once, if that has come. A batch that is dropped before its end
    /// tells nobody.
    ///
    /// # Errors
    ///
    /// [`Taken`]: another one is told.
    pub fn tell(&self, target: Box<dyn Ready>) -> Result<(), Taken> {
        let shared = &self.0;
        shared.target.set(target).map_err(Taken)?;
        // Those who end the batch behind this unit find the target; one who was before it may have.
        match shared.gate.join() {
            Ok(()) => shared.left(shared.gate.leave()),
            Err(State::Failed(_)) => shared.tell(|target| target.failed(&shared.fault())),
            Err(State::Ready | State::Pending(_)) => shared.tell(|target| target.ready()),
        }
        Ok(())
    }

    /// Has its work end early: those who hold tickets see it, and no result is used. It does not wait.
    pub fn cancel(&self) {
        self.0
            .fail(Fault::new(Kind::Cancelled, "the batch was given up"));
    }

    /// Waits until nothing is in flight.
    pub async fn drained(&self) {
        loop {
            let listener = self.0.changed.listen();
            if self.in_flight() == 0 {
                return;
            }
            listener.await;
        }
    }

    /// Ends a batch that has nothing in flight.
    ///
    /// # Errors
    ///
    /// [`InFlight`], with the batch as it was.
    pub fn release(self) -> Result<(), InFlight> {
        match self.in_flight() {
            0 => Ok(()),
            pending => Err(InFlight {
                pending,
                batch: self,
            }),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.0.is_told.store(true, Ordering::Release);
        if !self.0.gate.is_ready() {
            self.cancel();
        }
    }
}

/// One piece of work in flight. Dropped before its end, it fails its batch.
#[derive(Debug)]
#[must_use = "a ticket that is dropped fails its batch"]
pub struct Ticket {
    shared: Arc<Shared>,
    /// It has a unit of the gate.
    counts: bool,
}

impl Ticket {
    /// One more, for further work.
    pub fn split(&self) -> Self {
        let entered = self.shared.gate.enter(1);
        if let Err(misuse) = entered {
            self.shared
                .fail(Fault::new(Kind::Misuse, misuse.to_string()));
        }
        Self {
            shared: Arc::clone(&self.shared),
            counts: entered.is_ok(),
        }
    }

    /// The batch has failed or was given up: the work may end at once.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.shared.gate.state(), State::Failed(_))
    }

    /// Waits until [`Self::is_cancelled`].
    pub async fn cancelled(&self) {
        loop {
            let listener = self.shared.changed.listen();
            if self.is_cancelled() {
                return;
            }
            listener.await;
        }
    }

    /// The piece has ended well. What was written before can be read by one who sees the gate ready.
    pub fn done(mut self) {
        self.leave();
    }

    /// The piece has failed, and its batch with it.
    pub fn fail(mut self, fault: Fault) {
        self.shared.fail(fault);
        self.leave();
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.shared.left(self.shared.gate.leave());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.counts {
            self.shared.fail(Fault::new(
                Kind::Cancelled,
                "work for the batch was given up",
            ));
            self.leave();
        }
    }
}
