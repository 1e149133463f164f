// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU work that checks submit: contexts that spin, short items, holders of requests.
//!
//! All times are of `CLOCK_MONOTONIC`: where the GPU has a clock of its own, it is compared with that.

pub mod cuda;
pub mod software;

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use libzernel::request::{Number, Slot, Slots};
use libzernel::{tsg, Timestamp};

use crate::runs::Runs;

/// A reason for which a check cannot be done here. It is no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotHere(pub String);

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotHere {}

/// The error of a check that cannot be done here.
pub fn not_here<T>(why: impl Into<String>) -> Result<T> {
    Err(NotHere(why.into()).into())
}

/// The GPU's clock and the kernel's, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// The GPU's, in nanoseconds.
    pub gpu_ns: u64,
    /// The kernel's, in the middle of the question.
    pub cpu: Timestamp,
    /// Half of the time that the question took.
    pub error: Duration,
}

/// An item or a holder that was submitted; its number is unique in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An item or a holder that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When it first ran.
    pub started: Timestamp,
    /// When it was over.
    pub ended: Timestamp,
}

/// An answer to a program that changes its own TSG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done, as the driver says.
    Done,
    /// The driver refuses.
    Refused,
}

/// Work on one GPU.
pub trait Work {
    /// Its name.
    fn name(&self) -> &'static str;

    /// True if the GPU is hardware.
    fn is_hardware(&self) -> bool;

    /// Makes a context on the compute engine, with a TSG of its own. Dropping it ends its work.
    fn context(&self, label: &str) -> Result<Box<dyn Context>>;

    /// Records the runs of all contexts from now on; forgets those until now.
    fn record(&self) -> Result<()>;

    /// The runs since [`Self::record`]; one that goes on may be missing.
    fn runs(&self) -> Result<Runs>;

    /// The two clocks.
    fn clocks(&self) -> Result<Clocks>;

    /// Makes a call of the driver that takes its locks.
    ///
    /// Errors: [`NotHere`] where the GPU has no such driver.
    fn call_driver(&self) -> Result<()>;
}

/// A context with a TSG.
pub trait Context {
    /// Its compute TSGs: one, unless its runtime makes more.
    fn tsgs(&self) -> &[tsg::Id];

    /// Starts work that does not end before the context does.
    fn spin(&self) -> Result<()>;

    /// A number that grows while the spinning work has the GPU.
    fn progress(&self) -> Result<u64>;

    /// Submits an item of work of this length.
    fn item(&self, length: Duration) -> Result<Ticket>;

    /// Gives it the words of slots, which holders wait for.
    fn use_slots(&mut self, slots: &Slots) -> Result<()>;

    /// Submits the wait and the holder of a request. Items that are submitted later run behind it.
    fn hold(&self, slot: &Slot<'_>, request: Number) -> Result<Ticket>;

    /// The program has stored to a word of its slots: a GPU that looks at words seldom looks now.
    fn stored(&self) -> Result<()> {
        Ok(())
    }

    /// The times of an item or a holder, once it is over.
    fn ran(&self, ticket: Ticket) -> Result<Option<Ran>>;

    /// Asks the driver for another time slice, as a program can.
    ///
    /// Errors: [`NotHere`] where the runtime has no such call.
    fn ask_slice(&self, us: u32) -> Result<Answer>;

    /// The time slice that the driver tells, in microseconds.
    ///
    /// Errors: as [`Self::ask_slice`].
    fn slice_us(&self) -> Result<u64>;

    /// The first of its TSGs.
    fn tsg(&self) -> tsg::Id {
        self.tsgs()[0]
    }
}

/// Longest time that a holder keeps the GPU by itself.
pub const HOLDER_BOUND: Duration = Duration::from_secs(2);
