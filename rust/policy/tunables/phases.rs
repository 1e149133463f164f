// SPDX-License-Identifier: GPL-2.0
//! What an administrator can tune about the phases of machine-learning programs.

use super::Refused;
use crate::policy::{
    phase::Thresholds,
    prefetch::Params,
    units::{
        Ns,
        Us, //
    },
};

/// What is tunable about phases.
///
/// # Invariants
///
/// `tick` lies within [`Self::TICK_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    thresholds: Thresholds,
    tick: Us,
    prefetch: Params,
    owners: bool,
}

impl Phases {
    /// From one sample to the next: 100 µs to 1 s.
    pub(crate) const TICK_RANGE: (Us, Us) = (Us(100), Us(1_000_000));

    /// The values before anybody tunes.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 100 <= 1,000 <= 1,000,000.
        Self {
            thresholds: Thresholds::new(),
            tick: Us(1_000),
            prefetch: Params::new(),
            owners: false,
        }
    }

    /// What phases are told by.
    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// The same, to be changed.
    pub(crate) fn thresholds_mut(&mut self) -> &mut Thresholds {
        &mut self.thresholds
    }

    /// Whether processes are tracked as machine-learning programs when they get a compute TSG.
    pub(crate) fn owners(&self) -> bool {
        self.owners
    }

    /// Changes [`Self::owners`].
    pub(crate) fn set_owners(&mut self, on: bool) {
        self.owners = on;
    }

    /// How the prefetch signal is timed.
    pub(crate) fn prefetch(&self) -> &Params {
        &self.prefetch
    }

    /// The same, to be changed.
    pub(crate) fn prefetch_mut(&mut self) -> &mut Params {
        &mut self.prefetch
    }

    /// The time from one sample to the next while something happens.
    pub(crate) fn tick(&self) -> Ns {
        Ns::from(self.tick)
    }

    /// Changes [`Self::tick`].
    ///
    /// # Errors
    ///
    /// Outside of [`Self::TICK_RANGE`].
    pub(crate) fn set_tick(&mut self, tick: Us) -> Result<(), Refused> {
        if tick < Self::TICK_RANGE.0 || tick > Self::TICK_RANGE.1 {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.tick = tick;
        Ok(())
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_tunables_phases))]
mod tests {
    use super::*;

    #[test]
    fn a_tick_has_its_range() {
        let mut phases = Phases::new();
        for tick in [Us(99), Us(1_000_001)] {
            assert_eq!(phases.set_tick(tick), Err(Refused::OutOfRange));
        }
        assert_eq!(phases, Phases::new());
        assert_eq!(phases.tick(), Ns(1_000_000));
        for tick in [Us(100), Us(1_000_000)] {
            assert_eq!(phases.set_tick(tick), Ok(()));
            assert_eq!(phases.tick(), Ns::from(tick));
        }
    }
}
