// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Deadlines of requests: the order of their triggers, and the deadlines that can be met.

pub(crate) mod admission;
pub(crate) mod burst;
pub(crate) mod company;
mod credit;
mod entry;
#[cfg(any(test, zernel_kunit))]
mod fresh;
mod held;
mod lies;
pub(crate) mod line;
mod load;
pub(crate) mod preemptive;
pub(crate) mod quota;
pub(crate) mod trust;
mod turns;
mod users;

use super::units::Ns;

/// A deadline that is later than this after begin counts as this, and so does one that is not told. A
/// request waits for no longer for its turn, and so do requests without a deadline.
pub(crate) const HORIZON: Ns = Ns(10_000_000_000);

/// The order of triggers among requests of one level on one run list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they fall due.
    #[default]
    Fifo,
    /// The earliest deadline first, one at a time, without preemption.
    Edf,
    /// The earliest deadline first: one that comes takes the GPU from a later one.
    EdfPreemptive,
}

impl Order {
    const ALL: [Self; 3] = [Self::Fifo, Self::Edf, Self::EdfPreemptive];

    /// The name of the tunable's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Edf => "edf",
            Self::EdfPreemptive => "edf-preemptive",
        }
    }

    /// The value with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }
}
