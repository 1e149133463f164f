// SPDX-License-Identifier: GPL-2.0
//! The requests without a holder that hold a GPU.

use super::kicks::Urgent;
use crate::policy::{
    level::{
        self,
        Level, //
    },
    units::Ns, //
};
use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

/// The effect of a request without a holder on less urgent TSGs.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    /// They are kept off the GPU.
    Exclude(Level),
    /// Their slice is ended for this TSG, at the trigger and when the data is ready.
    Kick(Urgent),
}

/// Those of a level.
struct Holders {
    count: Atomic<u32>,
    /// The end of the last of their leases: the timers of a user with very many slots come late.
    until: Atomic<u64>,
}

/// Those of a GPU, by level.
pub(super) struct Holds {
    /// Their number since the GPU appeared.
    arrivals: Atomic<u64>,
    levels: [Holders; level::COUNT],
}

impl Holds {
    /// None.
    pub(super) fn new() -> Self {
        Self {
            arrivals: Atomic::new(0),
            levels: core::array::from_fn(|_| Holders {
                count: Atomic::new(0),
                until: Atomic::new(0),
            }),
        }
    }

    fn of(&self, level: Level) -> Option<&Holders> {
        self.levels.get(level.number() as usize)
    }

    /// Their number since the GPU appeared.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals.load(Relaxed)
    }

    /// The least urgent level that holds the GPU, of those that are not `throttled`.
    pub(super) fn level(&self, throttled: level::Set, now: Ns) -> Option<Level> {
        let holds = |holders: &Holders| {
            holders.count.load(Relaxed) > 0 && holders.until.load(Relaxed) > now.0
        };
        Level::ALL
            .into_iter()
            .zip(&self.levels)
            .filter(|(level, holders)| !throttled.contains(*level) && holds(holders))
            .map(|(level, _)| level)
            .next_back()
    }

    /// The end of the last lease of a level.
    pub(super) fn until(&self, level: Level) -> Ns {
        Ns(self
            .of(level)
            .map_or(0, |holders| holders.until.load(Relaxed)))
    }

    /// One of a level more, `until` then at the latest. One call at a time.
    pub(super) fn add(&self, level: Level, until: Ns) {
        self.arrivals.fetch_add(1, Relaxed);
        if let Some(holders) = self.of(level) {
            if holders.until.load(Relaxed) < until.0 {
                holders.until.store(until.0, Relaxed);
            }
            holders.count.fetch_add(1, Relaxed);
        }
    }

    /// One of a level less.
    pub(super) fn remove(&self, level: Level) {
        if let Some(holders) = self.of(level) {
            holders.count.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_holds)]
mod tests {
    use crate::request::holds::*;

    const NOBODY: level::Set = level::Set::NONE;

    #[test]
    fn a_hold_ends_with_its_lease_though_nobody_says_so() {
        let holds = Holds::new();
        holds.add(Level::DEFAULT, Ns(100));
        assert_eq!(holds.level(NOBODY, Ns(99)), Some(Level::DEFAULT));
        assert_eq!(holds.level(NOBODY, Ns(100)), None);
        assert_eq!(holds.until(Level::DEFAULT), Ns(100));
    }

    #[test]
    fn the_last_lease_of_a_level_counts() {
        let holds = Holds::new();
        for until in [100, 300, 200] {
            holds.add(Level::DEFAULT, Ns(until));
        }
        assert_eq!(holds.arrivals(), 3);
        assert_eq!(holds.until(Level::DEFAULT), Ns(300));
        assert_eq!(holds.level(NOBODY, Ns(299)), Some(Level::DEFAULT));
        for _ in 0..3 {
            holds.remove(Level::DEFAULT);
        }
        assert_eq!(holds.level(NOBODY, Ns(0)), None);
    }

    #[test]
    fn the_least_urgent_level_counts_whose_lease_is_not_over() {
        let holds = Holds::new();
        holds.add(Level::LC, Ns(300));
        holds.add(Level::DEFAULT, Ns(200));
        holds.add(Level::BE, Ns(100));
        for (now, level) in [
            (0, Some(Level::BE)),
            (100, Some(Level::DEFAULT)),
            (200, Some(Level::LC)),
            (300, None),
        ] {
            assert_eq!(holds.level(NOBODY, Ns(now)), level);
        }
    }
}
