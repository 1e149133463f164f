// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables of best-effort TSGs that take turns.

use super::{slice, Refused};
use crate::policy::{
    rotation::{
        Discipline,
        Quantum, //
    },
    units::{
        Ns,
        Us, //
    }, //
};

/// The tunables of best-effort TSGs that take turns.
///
/// # Invariants
///
/// `timeslice` lies within [`slice::RANGE`], and `poll` within [`Turns::POLL_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    discipline: Option<Discipline>,
    quantum: Quantum,
    timeslice: Us,
    poll: Us,
}

impl Turns {
    /// The interval of looks at TSGs.
    pub(crate) const POLL_RANGE: (Us, Us) = (Us(50), Us(100_000));

    /// The values before anybody tunes.
    ///
    /// The slice of the TSG in its turn: it bounds the wait of LC, and costs nothing while no other
    /// TSG wants the GPU.
    pub(crate) fn new() -> Self {
        // INVARIANT: 10 <= 50 <= 10,000,000, and 50 <= 250 <= 100,000.
        Self {
            discipline: Some(Discipline::default()),
            quantum: Quantum::DEFAULT,
            timeslice: Us(50),
            poll: Us(250),
        }
    }

    /// The order of turns; `None`: nobody takes turns, all run in slices.
    pub(crate) fn discipline(&self) -> Option<Discipline> {
        self.discipline
    }

    /// The length of a turn.
    pub(crate) fn quantum(&self) -> Quantum {
        self.quantum
    }

    /// The longest time slice of a TSG that takes turns.
    pub(crate) fn timeslice(&self) -> Us {
        self.timeslice
    }

    /// From one look at TSGs to the next, where their driver does not tell of their activity.
    pub(crate) fn poll(&self) -> Us {
        self.poll
    }

    /// Changes [`Self::poll`].
    pub(crate) fn set_poll(&mut self, interval: Us) -> Result<(), Refused> {
        let (least, most) = Self::POLL_RANGE;
        if !(least..=most).contains(&interval) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Checked.
        self.poll = interval;
        Ok(())
    }

    /// Nobody takes turns.
    pub(crate) fn off(mut self) -> Self {
        self.discipline = None;
        self
    }

    /// Changes [`Self::discipline`].
    pub(crate) fn set_discipline(&mut self, discipline: Option<Discipline>) {
        self.discipline = discipline;
    }

    /// Changes [`Self::quantum`].
    pub(crate) fn set_quantum(&mut self, quantum: Us) -> Result<(), Refused> {
        self.quantum = Quantum::new(Ns::from(quantum))?;
        Ok(())
    }

    /// Changes [`Self::timeslice`].
    pub(crate) fn set_timeslice(&mut self, slice: Us) -> Result<(), Refused> {
        // INVARIANT: Checked.
        self.timeslice = slice::in_range(slice)?;
        Ok(())
    }
}
