// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunable parameters of prefetch signals.

use super::durations::Durations;
use crate::policy::{
    refused::Refused,
    units::Ns, //
};

/// The way in which durations are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The exponential moving average, α 0.3.
    Ema,
    /// Fractiles of the last ones.
    #[default]
    Quantile,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Ema, Self::Quantile];

    /// Its name for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ema => "ema",
            Self::Quantile => "quantile",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The tunable parameters.
///
/// # Invariants
///
/// `history` lies within [`Self::HISTORY_RANGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    /// The way in which durations are predicted.
    pub(crate) kind: Kind,
    /// The time before the end of a computation at which the signal is due; `None`: the time that
    /// loading takes.
    pub(crate) lead: Option<Ns>,
    history: u32,
}

impl Params {
    /// Bounds of the number of durations that are remembered.
    pub(crate) const HISTORY_RANGE: (u32, u32) = (1, Durations::MOST as u32);

    /// The values before anybody tunes.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 1 <= 64 <= 128.
        Self {
            kind: Kind::Quantile,
            lead: None,
            history: 64,
        }
    }

    /// The number of durations that are remembered.
    pub(crate) fn history(&self) -> u32 {
        self.history
    }

    /// Changes [`Self::history`].
    ///
    /// # Errors
    ///
    /// Outside of [`Self::HISTORY_RANGE`].
    pub(crate) fn set_history(&mut self, count: u32) -> Result<(), Refused> {
        if count < Self::HISTORY_RANGE.0 || count > Self::HISTORY_RANGE.1 {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.history = count;
        Ok(())
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_prefetch_params))]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_bounded() {
        let mut params = Params::new();
        for bad in [0, 129, u32::MAX] {
            assert_eq!(params.set_history(bad), Err(Refused::OutOfRange));
        }
        assert_eq!(params.history(), 64);
        assert_eq!(params.set_history(128), Ok(()));
        assert_eq!(params.history(), 128);
    }

    #[test]
    fn names_lead_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        for bad in ["", "Ema", "fixed", "quantile "] {
            assert_eq!(Kind::named(bad), None);
        }
    }
}
