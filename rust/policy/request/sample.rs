// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The look at a switch: one bit per request for the cost that is learned.

use super::{
    words::Observed,
    Actions,
    Slot, //
};
use crate::policy::{
    switch_cost::Switched,
    units::Ns, //
};

impl Slot {
    /// A late sample says nothing: it may be late by this part of the cost, 1/8.
    const LATE_SAMPLE: u32 = 3;

    pub(super) fn sample_if_due(&mut self, now: Ns, seen: &Observed, actions: &mut Actions) {
        let (Some(due), Some(number)) = (self.sample, self.active()) else {
            return;
        };
        if now < due {
            return;
        }
        self.sample = None;
        if now.saturating_sub(due) <= Ns(self.plan.cost.0 >> Self::LATE_SAMPLE) {
            actions.sample = Some(if number.is(seen.held) {
                Switched::InTime
            } else {
                Switched::NotYet
            });
        }
    }

    /// A request that is done at `done`, before the switch was to be looked at, had the switch in
    /// time. Without this, short requests would tell of slow switches alone.
    pub(super) fn sample_if_done(&mut self, done: Ns, seen: &Observed, actions: &mut Actions) {
        if let (Some(due), Some(number)) = (self.sample, self.active()) {
            if done <= due && number.is(seen.held) {
                actions.sample = Some(Switched::InTime);
            }
        }
    }
}
