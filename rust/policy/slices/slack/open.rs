// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The deadlines of a TSG's requests.

use crate::policy::units::Ns;

/// The deadlines of the requests of a TSG that are not over, the earliest first.
///
/// # Invariants
///
/// The first `count` are there, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    deadlines: [Ns; Self::ROOM],
    count: usize,
}

impl Open {
    /// As many count, the earliest of all.
    pub(crate) const ROOM: usize = 16;

    /// A deadline counts for so long after it.
    const STALE: Ns = Ns(1_000_000_000);

    /// None.
    pub(crate) const NONE: Self = Self {
        deadlines: [Ns::ZERO; Self::ROOM],
        count: 0,
    };

    /// One more. Of too many the latest does not count; nor does one that passed long before `now`, whose
    /// request nobody may ever end.
    pub(crate) fn add(&mut self, deadline: Ns, now: Ns) {
        if now.saturating_sub(deadline) > Self::STALE {
            return;
        }
        let mut next = deadline;
        for place in self.deadlines.iter_mut().take(self.count) {
            if next < *place {
                core::mem::swap(place, &mut next);
            }
        }
        // INVARIANT: It is the latest.
        if let Some(place) = self.deadlines.get_mut(self.count) {
            *place = next;
            self.count += 1;
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Ns> + '_ {
        self.deadlines.iter().take(self.count).copied()
    }

    /// The earliest.
    pub(crate) fn first(&self) -> Option<Ns> {
        self.iter().next()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_slices_slack_open)
)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadlines_come_first() {
        let mut all = Open::NONE;
        for deadline in (1..=20).rev() {
            all.add(Ns(deadline), Ns::ZERO);
        }
        all.add(Ns(30), Ns::ZERO);
        all.add(Ns(0), Ns(1_000_000_001));
        assert!(all.iter().eq((1..=16).map(Ns)));
        assert_eq!(all.first(), Some(Ns(1)));
        assert_eq!(Open::NONE.first(), None);
    }
}
