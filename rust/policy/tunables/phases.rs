// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables of the phases of machine-learning programs.

use super::Refused;
use crate::policy::{
    nice::Delta,
    phase::{
        self,
        libraries::Libraries,
        Phase,
        Thresholds, //
    },
    prefetch::Params,
    units::{
        Ns,
        Us, //
    },
};

/// The tunables of phases.
///
/// # Invariants
///
/// `tick` lies within [`Self::TICK_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phases {
    thresholds: Thresholds,
    libraries: Libraries,
    tick: Us,
    prefetch: Params,
    owners: bool,
    readahead: u32,
    /// True if threads have the nice values of their phases.
    nice: bool,
    /// The addition of each phase to the nice value of a thread, by its number.
    deltas: [Delta; phase::COUNT],
}

const fn delta(number: i32) -> Delta {
    match Delta::new(number) {
        Some(delta) => delta,
        None => Delta::NONE,
    }
}

impl Phases {
    /// From one sample to the next: 100 µs to 1 s.
    pub(crate) const TICK_RANGE: (Us, Us) = (Us(100), Us(1_000_000));

    /// The values before anybody tunes.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 100 <= 1,000 <= 1,000,000.
        Self {
            thresholds: Thresholds::new(),
            libraries: Libraries::DEFAULT,
            tick: Us(1_000),
            prefetch: Params::new(),
            owners: false,
            readahead: 256 << 20,
            nice: false,
            deltas: [Delta::NONE, delta(-5), delta(5), delta(-5), delta(-5)],
        }
    }

    /// True if threads have the nice values of their phases.
    pub(crate) fn nice(&self) -> bool {
        self.nice
    }

    /// Changes [`Self::nice`].
    pub(crate) fn set_nice(&mut self, on: bool) {
        self.nice = on;
    }

    /// The addition of a phase to the nice value of a thread while [`Self::nice`] is on.
    pub(crate) fn delta(&self, phase: Phase) -> Delta {
        let delta = self.deltas.get(phase.number());
        delta.copied().unwrap_or(Delta::NONE)
    }

    /// Changes [`Self::delta`].
    ///
    /// # Errors
    ///
    /// `Unknown` always adds nothing.
    pub(crate) fn set_delta(&mut self, phase: Phase, delta: Delta) -> Result<(), Refused> {
        match self.deltas.get_mut(phase.number()) {
            Some(known) if phase != Phase::Unknown => *known = delta,
            _ => return Err(Refused::OutOfRange),
        }
        Ok(())
    }

    /// The bounds by which phases are told apart.
    pub(crate) fn thresholds(&self) -> &Thresholds {
        &self.thresholds
    }

    /// The same, to be changed.
    pub(crate) fn thresholds_mut(&mut self) -> &mut Thresholds {
        &mut self.thresholds
    }

    /// Names of libraries of collectives.
    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// Changes [`Self::libraries`].
    pub(crate) fn set_libraries(&mut self, libraries: Libraries) {
        self.libraries = libraries;
    }

    /// True if processes are tracked as machine-learning programs when they get a compute TSG.
    pub(crate) fn owners(&self) -> bool {
        self.owners
    }

    /// Changes [`Self::owners`].
    pub(crate) fn set_owners(&mut self, on: bool) {
        self.owners = on;
    }

    /// The parameters of the prefetch signal.
    pub(crate) fn prefetch(&self) -> &Params {
        &self.prefetch
    }

    /// The same, to be changed.
    pub(crate) fn prefetch_mut(&mut self) -> &mut Params {
        &mut self.prefetch
    }

    /// Bytes of files that may be read ahead at a signal, for all subscriptions of a user together.
    pub(crate) fn readahead(&self) -> u64 {
        self.readahead.into()
    }

    /// Changes [`Self::readahead`].
    pub(crate) fn set_readahead(&mut self, bytes: u32) {
        self.readahead = bytes;
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

    #[test]
    fn owners_are_tracked_when_it_is_tuned() {
        let mut phases = Phases::new();
        let by_default = phases.owners();
        for on in [!by_default, by_default] {
            phases.set_owners(on);
            assert_eq!(phases.owners(), on);
        }
    }

    #[test]
    fn every_phase_but_unknown_has_its_delta() {
        let mut phases = Phases::new();
        assert!(!phases.nice());
        let numbers = Phase::ALL.map(|phase| phases.delta(phase).number());
        assert_eq!(numbers, [0, -5, 5, -5, -5]);
        let unknown = phases.set_delta(Phase::Unknown, delta(3));
        assert_eq!(unknown, Err(Refused::OutOfRange));
        assert_eq!(phases, Phases::new());
        for (number, phase) in (1..).zip(Phase::ALL.into_iter().skip(1)) {
            assert_eq!(phases.set_delta(phase, delta(number)), Ok(()));
        }
        let numbers = Phase::ALL.map(|phase| phases.delta(phase).number());
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
    }
}
