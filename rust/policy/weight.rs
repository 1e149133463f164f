// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The weight of a TSG among those that take turns.

use super::{refused::Refused, units::Ns};

/// The share of a TSG, relative to the others of its run list.
///
/// # Invariants
///
/// The number lies within [`Weight::RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Weight(pub(super) u32);

impl Weight {
    /// Weights that can be asked for, as in cgroups (`cpu.weight`).
    pub(crate) const RANGE: (u32, u32) = (1, 10_000);
    /// The weight of a TSG until it is tuned.
    pub(crate) const DEFAULT: Self = Self(1024);

    /// A weight.
    pub(crate) fn new(number: u32) -> Result<Self, Refused> {
        if !(Self::RANGE.0..=Self::RANGE.1).contains(&number) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        Ok(Self(number))
    }

    /// Its number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// `ran` in virtual time: real time for the default weight, slower for a larger one.
    pub(super) fn slow_down(self, ran: Ns) -> u64 {
        let scaled = ran.0.saturating_mul(u64::from(Self::DEFAULT.0));
        scaled.checked_div(u64::from(self.0)).unwrap_or(scaled)
    }

    /// The credit of a round: a quantum for the default weight, at least 1 ns.
    pub(super) fn grant(self, quantum: Ns) -> Ns {
        let grant = quantum.0.saturating_mul(u64::from(self.0));
        Ns((grant / u64::from(Self::DEFAULT.0)).max(1))
    }
}
