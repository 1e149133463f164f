// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gate of a batch: one word, `[error: 1 | pending: 63]`. It is 0 when all that the batch needs
//! is there.
//!
//! A gate starts with one pending unit, the guard of the walk that adds the others. So the word is 0
//! once at the most, and stays so: nothing is added to a gate without a unit of one's own.

use crate::sync::{AtomicU64, Ordering};

/// The bit of an error.
const ERROR: u64 = 1 << 63;

/// The most units that are pending at once. More would be a fault of the caller's.
pub const MOST: u64 = 1 << 61;

/// A number of units that a gate cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// A unit was given back that nobody had. The gate has failed.
    #[error("a gate was left more often than entered")]
    Underflow,
    /// There were more units than [`MOST`]. The gate has failed.
    #[error("a gate has too many units in flight")]
    Overflow,
    /// Units were added by somebody who held none.
    #[error("a gate that may be open was entered")]
    Open,
}

/// The state of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// This many units are in flight.
    Pending(u64),
    /// All units have ended well.
    Ready,
    /// One has failed; this many are in flight still.
    Failed(u64),
}

/// The word.
#[derive(Debug)]
pub struct Gate {
    word: AtomicU64,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate with the guard alone.
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(1),
        }
    }

    /// All has ended well: what was written before each unit's end can be read.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// The state of now.
    pub fn state(&self) -> State {
        Self::state_of(self.word.load(Ordering::Acquire))
    }

    fn state_of(word: u64) -> State {
        match (word & ERROR != 0, word & !ERROR) {
            (true, pending) => State::Failed(pending),
            (false, 0) => State::Ready,
            (false, pending) => State::Pending(pending),
        }
    }

    /// Adds units. The caller has a unit of its own.
    ///
    /// # Errors
    ///
    /// [`Misuse::Open`] where nothing was pending, [`Misuse::Overflow`]: the gate has failed then.
    pub fn enter(&self, units: u64) -> Result<(), Misuse> {
        if units > MOST {
            self.fail();
            return Err(Misuse::Overflow);
        }
        let pending = self.word.fetch_add(units, Ordering::Relaxed) & !ERROR;
        let misuse = match pending {
            0 => Misuse::Open,
            // Far from the bit of an error: no number of threads gets there before one sees this.
            _ if pending + units > MOST => Misuse::Overflow,
            _ => return Ok(()),
        };
        self.word.fetch_or(ERROR, Ordering::AcqRel);
        self.word.fetch_sub(units, Ordering::AcqRel);
        Err(misuse)
    }

    /// Adds a unit for one who has none, while others are pending.
    ///
    /// # Errors
    ///
    /// The state, if that is no longer pending. With [`MOST`] units the gate has failed.
    pub fn join(&self) -> Result<(), State> {
        let one_more = |word| match Self::state_of(word) {
            State::Pending(pending) if pending < MOST => Some(word + 1),
            _ => None,
        };
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        match self.word.fetch_update(set, get, one_more) {
            Ok(_) => Ok(()),
            Err(word) => match Self::state_of(word) {
                State::Pending(_) => {
                    self.fail();
                    Err(self.state())
                }
                state => Err(state),
            },
        }
    }

    /// Gives a unit back. Returns the state from then on.
    ///
    /// # Errors
    ///
    /// [`Misuse::Underflow`]: the gate has failed then.
    pub fn leave(&self) -> Result<State, Misuse> {
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        if before & !ERROR == 0 {
            // The word is anything but 0, before and after: nobody sees a gate that is ready.
            let mended = |word: u64| Some(word.wrapping_add(1) | ERROR);
            let (set, get) = (Ordering::AcqRel, Ordering::Relaxed);
            let _always_some = self.word.fetch_update(set, get, mended);
            return Err(Misuse::Underflow);
        }
        Ok(Self::state_of(before - 1))
    }

    /// Marks a failure. Returns whether it is the first.
    pub fn fail(&self) -> bool {
        self.word.fetch_or(ERROR, Ordering::AcqRel) & ERROR == 0
    }
}
