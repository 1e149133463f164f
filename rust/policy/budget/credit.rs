// SPDX-License-Identifier: GPL-2.0 OR MIT
//! GPU time that best-effort has had, which a level may have beyond its budget.
//!
//! A throttled level goes on slice by slice beside best-effort: a switch for each slice, and all of its
//! requests end late. Where best-effort runs anyway, between requests that end by themselves, as much time
//! for the level comes to the same for best-effort, and without those switches.

use crate::policy::units::Ns;

/// The GPU time of best-effort that a level has not used yet.
#[derive(Debug, Default)]
pub(super) struct Credit {
    saved: u64,
    /// GPU time that best-effort had at the last look, if that is known.
    ran: Option<u64>,
    /// The last look.
    looked: u64,
    /// It has run since then or later.
    served: u64,
}

impl Credit {
    /// Takes in the GPU time that best-effort has had until `now`, if that is known. What is new is saved,
    /// if `counts`, up to `most`.
    pub(super) fn see(&mut self, now: Ns, ran: Option<Ns>, counts: bool, most: u64) {
        let before = self.ran;
        self.ran = ran.map(|ran| ran.0);
        let (Some(before), Some(ran)) = (before, self.ran) else {
            // From here on.
            self.saved = 0;
            self.looked = now.0;
            return;
        };
        let new = ran.saturating_sub(before);
        if new > 0 {
            // It may have been right after the last look.
            self.served = self.served.max(self.looked);
        }
        if counts {
            self.saved = self.saved.saturating_add(new);
        }
        self.saved = self.saved.min(most);
        self.looked = self.looked.max(now.0);
    }

    /// The time that a level may have beyond its budget, if best-effort ran within the last `gap`; and
    /// for how long that is so unless it runs again.
    pub(super) fn left(&self, now: Ns, gap: u64) -> (u64, u64) {
        let until = self.served.saturating_add(gap);
        match until.saturating_sub(now.0) {
            0 => (0, 0),
            _ if self.served == 0 => (0, 0),
            time => (self.saved, time),
        }
    }

    /// Uses some of it.
    pub(super) fn pay(&mut self, time: u64) {
        self.saved = self.saved.saturating_sub(time);
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_budget_credit))]
mod tests {
    use super::*;

    #[test]
    fn what_best_effort_has_had_is_saved_up_to_a_bound() {
        let mut credit = Credit::default();
        credit.see(Ns(100), Some(Ns(50)), true, 1000);
        // The time before the first look says nothing.
        assert_eq!(credit.left(Ns(100), 500), (0, 0));
        credit.see(Ns(200), Some(Ns(80)), true, 1000);
        // It ran after 100.
        assert_eq!(credit.left(Ns(200), 500), (30, 400));
        assert_eq!(credit.left(Ns(599), 500), (30, 1));
        assert_eq!(credit.left(Ns(600), 500), (0, 0));
        credit.see(Ns(700), Some(Ns(80)), true, 1000);
        assert_eq!(credit.left(Ns(700), 500), (0, 0));
        credit.see(Ns(800), Some(Ns(81)), true, 20);
        assert_eq!(credit.left(Ns(800), 500), (20, 400));
        credit.pay(15);
        assert_eq!(credit.left(Ns(800), 500), (5, 400));
        credit.pay(15);
        assert_eq!(credit.left(Ns(800), 500), (0, 400));
    }

    #[test]
    fn time_that_does_not_count_is_not_saved() {
        let mut credit = Credit::default();
        credit.see(Ns(10), Some(Ns(0)), false, 1000);
        credit.see(Ns(20), Some(Ns(8)), false, 1000);
        assert_eq!(credit.left(Ns(20), 500), (0, 490));
        credit.see(Ns(30), Some(Ns(12)), true, 1000);
        assert_eq!(credit.left(Ns(30), 500), (4, 490));
    }

    #[test]
    fn nothing_is_saved_while_nothing_is_known() {
        let mut credit = Credit::default();
        credit.see(Ns(10), Some(Ns(1)), true, 1000);
        credit.see(Ns(20), Some(Ns(9)), true, 1000);
        credit.see(Ns(30), None, true, 1000);
        assert_eq!(credit.left(Ns(30), 500), (0, 480));
        credit.see(Ns(40), Some(Ns(700)), true, 1000);
        assert_eq!(credit.left(Ns(40), 500), (0, 470));
        // A count that begins anew, and a clock that turns back.
        credit.see(Ns(50), Some(Ns(2)), true, 1000);
        assert_eq!(credit.left(Ns(50), 500).0, 0);
        credit.see(Ns(5), Some(Ns(u64::MAX)), true, 1000);
        assert_eq!(credit.left(Ns(50), u64::MAX).0, 1000);
    }
}
