// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The slices that follow from all tunables together.

use super::slices::Slices;
use super::Tunables;
use crate::policy::{
    level::{
        self,
        Level, //
    },
    slices::{
        pid::{
            Target,
            Terms, //
        },
        slack,
        Policy, //
    },
    units::Us, //
};

impl Tunables {
    /// The slices of all levels that are in force, before they are clamped.
    pub(super) fn slices_in_force(&self) -> [Us; level::COUNT] {
        self.slices.policy.slices(&self.timeslices)
    }

    /// The least slices of TSGs that keep the engine, as long as their budget; 0 of other levels.
    pub(super) fn kept_slices(&self) -> [Us; level::COUNT] {
        let mut slices = [Us(0); level::COUNT];
        for (slice, level) in slices.iter_mut().zip(Level::ALL) {
            if let (true, Some(budget)) = (self.slices.kept.contains(level), self.budget(level)) {
                // A budget is 10 s at most.
                let budget = u32::try_from(budget.budget().0 / 1_000).unwrap_or(u32::MAX);
                *slice = Us(budget);
            }
        }
        slices
    }

    /// The terms of controllers; `None`: slices do not follow latencies, as no level has a target.
    pub(crate) fn feedback(&self) -> Option<Terms> {
        let is_on = self.enabled && self.slices.policy == Policy::Pid;
        let with_target = |target: Target| (target.latency > Us(0)).then_some(target);
        let targets = self.slices.targets.map(with_target);
        (is_on && targets.iter().any(Option::is_some)).then(|| Terms {
            gains: self.slices.gains,
            targets,
            table: self.slices_in_force(),
        })
    }

    /// The terms of slices that follow slacks, if they do.
    pub(crate) fn slack(&self) -> Option<slack::Terms> {
        let is_on = self.enabled && self.slices.policy == Policy::Slack;
        is_on.then_some(self.slices.slack.0)
    }

    /// The tunables of slices by level.
    pub(crate) fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Changes [`Self::slices`].
    pub(crate) fn slices_mut(&mut self) -> &mut Slices {
        &mut self.slices
    }
}
