// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables of slices by level.

use super::{
    slack::Slack,
    Refused, //
};
use crate::policy::{
    level::{
        self,
        Level, //
    },
    slices::{
        may_keep,
        pid::{
            Gain,
            Gains,
            Target, //
        },
        Policy, //
    },
    units::{
        Permille,
        Us, //
    }, //
};

/// The tunables of slices by level.
///
/// # Invariants
///
/// Each level of `kept`, and each with a target, is one that [`may_keep`] the engine. `period` lies within
/// [`Slices::PERIOD_RANGE`], targets within [`Slices::TARGET_RANGE`] or 0, quantiles within 1 to
/// 1,000 ‰, gains at most [`Gain::MOST`], `copies` at most [`Slices::COPIES_MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(super) policy: Policy,
    pub(super) kept: level::Set,
    pub(super) gains: Gains,
    period: Us,
    pub(super) targets: [Target; level::COUNT],
    pub(super) slack: Slack,
    copies: Us,
}

impl Slices {
    /// The values before anybody tunes.
    pub(crate) fn new() -> Self {
        // INVARIANT: No level keeps the engine or has a target; the others are in their ranges.
        Self {
            policy: Policy::default(),
            kept: level::Set::NONE,
            gains: Gains::USUAL,
            period: Us(100_000),
            targets: [Target {
                latency: Us(0),
                quantile: Permille(990),
            }; level::COUNT],
            slack: Slack::new(),
            copies: Us(10),
        }
    }

    /// The tunables of slices that follow slacks.
    pub(crate) fn slack(&self) -> &Slack {
        &self.slack
    }

    /// Changes [`Self::slack`].
    pub(crate) fn slack_mut(&mut self) -> &mut Slack {
        &mut self.slack
    }

    /// Longest slice of TSGs that copy, at any level: a copy of some MB.
    pub(crate) const COPIES_MOST: Us = Us(1_000);

    /// The slice of TSGs on engines that copy, of levels that are not above the default; 0: such a TSG
    /// has a class only if it is named itself.
    pub(crate) fn copies(&self) -> Us {
        self.copies
    }

    /// Changes [`Self::copies`].
    pub(crate) fn set_copies(&mut self, slice: Us) -> Result<(), Refused> {
        if slice > Self::COPIES_MOST {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.copies = slice;
        Ok(())
    }

    /// Control periods: 10 ms, some requests, to 10 s.
    pub(crate) const PERIOD_RANGE: (Us, Us) = (Us(10_000), Us(10_000_000));
    /// Targets: 10 µs, the shortest slice, to 10 s.
    pub(crate) const TARGET_RANGE: (Us, Us) = (Us(10), Us(10_000_000));

    /// The gains of controllers.
    pub(crate) fn gains(&self) -> Gains {
        self.gains
    }

    /// Changes [`Self::gains`].
    pub(crate) fn set_gains(&mut self, gains: Gains) -> Result<(), Refused> {
        let all = [gains.proportional, gains.integral, gains.derivative];
        if all.iter().any(|gain| gain.0 > Gain::MOST.0) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.gains = gains;
        Ok(())
    }

    /// The control period.
    pub(crate) fn period(&self) -> Us {
        self.period
    }

    /// Changes [`Self::period`].
    pub(crate) fn set_period(&mut self, period: Us) -> Result<(), Refused> {
        let (least, most) = Self::PERIOD_RANGE;
        if !(least..=most).contains(&period) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.period = period;
        Ok(())
    }

    /// The target of a level; a latency of 0 is none.
    pub(crate) fn target(&self, level: Level) -> Target {
        let target = self.targets.get(level.number() as usize).copied();
        target.unwrap_or(Target {
            latency: Us(0),
            quantile: Permille(1_000),
        })
    }

    /// Changes [`Self::target`].
    ///
    /// # Errors
    ///
    /// `OutOfRange` the level is anybody's to have, who could then shorten the slices of others.
    pub(crate) fn set_target(&mut self, level: Level, target: Target) -> Result<(), Refused> {
        let (least, most) = Self::TARGET_RANGE;
        let is_in = target.latency == Us(0) || (least..=most).contains(&target.latency);
        if !may_keep(level) || !is_in || !(1..=1_000).contains(&target.quantile.0) {
            return Err(Refused::OutOfRange);
        }
        if let Some(place) = self.targets.get_mut(level.number() as usize) {
            // INVARIANT: Just checked.
            *place = target;
        }
        Ok(())
    }

    /// The policy.
    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Changes [`Self::policy`].
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Levels that keep the engine to the end of a burst.
    pub(crate) fn kept(&self) -> level::Set {
        self.kept
    }

    /// True if more urgent work takes the engine from a level.
    pub(crate) fn is_preemptible(&self, level: Level) -> bool {
        !self.kept.contains(level)
    }

    /// Changes [`Self::is_preemptible`].
    ///
    /// # Errors
    ///
    /// `OutOfRange` the level is not to be kept from others.
    pub(crate) fn set_preemptible(&mut self, level: Level, is: bool) -> Result<(), Refused> {
        if !may_keep(level) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.kept.put(level, !is);
        Ok(())
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_tunables_slices))]
mod tests {
    use super::*;
    use crate::policy::tunables::Tunables;

    #[test]
    fn targets_are_of_levels_that_only_privilege_gives() {
        let mut t = Tunables::new();
        let old = *t.slices();
        let target = |latency, quantile| Target {
            latency: Us(latency),
            quantile: Permille(quantile),
        };
        let slices = t.slices_mut();
        for level in [Level::DEFAULT, Level::BE] {
            let refused = slices.set_target(level, target(1_000, 990));
            assert_eq!(refused, Err(Refused::OutOfRange));
        }
        for (latency, quantile) in [(9, 990), (10_000_001, 990), (1_000, 0), (1_000, 1_001)] {
            let refused = slices.set_target(Level::LC, target(latency, quantile));
            assert_eq!(refused, Err(Refused::OutOfRange));
        }
        assert_eq!(*slices, old);
        for (latency, quantile) in [(10, 1), (10_000_000, 1_000), (0, 500)] {
            let new = target(latency, quantile);
            assert_eq!(slices.set_target(Level::LC, new), Ok(()));
            assert_eq!(slices.target(Level::LC), new);
        }
    }

    #[test]
    fn gains_and_periods_are_bounded() {
        let mut s = Slices::new();
        let old = s;
        let gains = |p, i, d| Gains {
            proportional: Gain(p),
            integral: Gain(i),
            derivative: Gain(d),
        };
        for bad in [
            gains(10_001, 0, 0),
            gains(0, 10_001, 0),
            gains(0, 0, u32::MAX),
        ] {
            assert_eq!(s.set_gains(bad), Err(Refused::OutOfRange));
        }
        for bad in [0, 9_999, 10_000_001, u32::MAX] {
            assert_eq!(s.set_period(Us(bad)), Err(Refused::OutOfRange));
        }
        assert_eq!(s, old);
        assert_eq!(s.set_gains(gains(10_000, 0, 1)), Ok(()));
        assert_eq!(s.gains(), gains(10_000, 0, 1));
        assert_eq!(s.set_period(Us(10_000)), Ok(()));
        assert_eq!(s.period(), Us(10_000));
    }

    #[test]
    fn slices_of_copies_are_bounded() {
        let mut s = Slices::new();
        assert_eq!(s.copies(), Us(10));
        for bad in [1_001, u32::MAX] {
            assert_eq!(s.set_copies(Us(bad)), Err(Refused::OutOfRange));
        }
        assert_eq!(s.copies(), Us(10));
        for good in [0, 1, 1_000] {
            assert_eq!(s.set_copies(Us(good)), Ok(()));
            assert_eq!(s.copies(), Us(good));
        }
    }

    #[test]
    fn slices_follow_where_that_is_chosen() {
        let mut t = Tunables::new();
        assert!(t.feedback().is_none());
        t.slices_mut().set_policy(Policy::Pid);
        // Nobody has a target.
        assert!(t.feedback().is_none());
        let target = Target {
            latency: Us(2_000),
            quantile: Permille(990),
        };
        assert_eq!(t.slices_mut().set_target(Level::LC, target), Ok(()));
        let terms = t.feedback();
        assert!(terms.is_some_and(|t| t.targets[0] == Some(target) && t.targets[1].is_none()));
        t.set_enabled(false);
        assert!(t.feedback().is_none());
    }
}
