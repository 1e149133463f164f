// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes: each is a slot, and has one request at a time. Taking one never waits.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Which lanes of up to 64 are in use.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// A bit for each that is free.
    free: AtomicU64,
    /// Of each that is free once its stream has stored a number to its done word, that number.
    ending: Vec<AtomicU32>,
}

impl Lanes {
    /// All of them free; `count`: 1 to 64.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            free: AtomicU64::new(u64::MAX >> (64 - count.clamp(1, 64))),
            ending: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Takes a lane. `has_ended`: the stream of a lane has stored a number.
    pub(crate) fn take(&self, has_ended: impl Fn(u32, u32) -> bool) -> Option<u32> {
        let lowest = |free: u64| free.checked_sub(1).map(|below| free & below);
        if let Ok(free) = self.free.fetch_update(AcqRel, Acquire, lowest) {
            return Some(free.trailing_zeros());
        }
        (0..).zip(&self.ending).find_map(|(lane, ending)| {
            let number = ending.load(Acquire);
            let is_over = number != 0 && has_ended(lane, number);
            let taken = is_over && ending.compare_exchange(number, 0, AcqRel, Relaxed).is_ok();
            taken.then_some(lane)
        })
    }

    /// The number that the stream of a lane is to store before the lane is free.
    pub(crate) fn ending(&self, lane: u32) -> Option<u32> {
        let number = self.ending.get(lane as usize)?.load(Acquire);
        (number != 0).then_some(number)
    }

    /// Gives a lane back that was taken.
    pub(crate) fn give(&self, lane: u32) {
        self.free.fetch_or(1 << lane, Release);
    }

    /// Gives it back for when its stream has stored a number.
    pub(crate) fn give_after(&self, lane: u32, number: u32) {
        match self.ending.get(lane as usize) {
            Some(ending) => ending.store(number, Release),
            None => self.give(lane),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    fn never(_: u32, _: u32) -> bool {
        false
    }

    #[test]
    fn each_is_taken_once() {
        for count in [1, 4, 63, 64] {
            let lanes = Lanes::new(count);
            let taken: BTreeSet<_> = (0..count).filter_map(|_| lanes.take(never)).collect();
            assert_eq!(taken, (0..count).collect());
            assert_eq!(lanes.take(never), None);
            lanes.give(count - 1);
            assert_eq!(lanes.take(never), Some(count - 1));
            assert_eq!(lanes.take(never), None);
        }
    }

    #[test]
    fn one_that_ends_is_free_when_it_has() {
        let lanes = Lanes::new(2);
        assert_eq!((lanes.take(never), lanes.take(never)), (Some(0), Some(1)));
        lanes.give_after(1, 7);
        assert_eq!(lanes.take(never), None);
        assert_eq!(
            [0, 1, 2].map(|lane| lanes.ending(lane)),
            [None, Some(7), None]
        );
        let ended = |lane, number| (lane, number) == (1, 7);
        assert_eq!(lanes.take(ended), Some(1));
        assert_eq!(lanes.take(ended), None);
    }

    #[test]
    fn threads_never_share_one() {
        const ROUNDS: usize = if cfg!(miri) { 10 } else { 2_000 };
        let lanes = Lanes::new(3);
        let used = Mutex::new(BTreeSet::new());
        let ended = |_: u32, _: u32| true;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (lanes, used) = (&lanes, &used);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let Some(lane) = lanes.take(ended) else {
                            continue;
                        };
                        assert!(used.lock().unwrap().insert(lane), "lane {lane} twice");
                        assert!(used.lock().unwrap().remove(&lane));
                        match (thread + round) % 2 {
                            0 => lanes.give(lane),
                            _ => lanes.give_after(lane, 1),
                        }
                    }
                });
            }
        });
        let left: BTreeSet<_> = (0..3).filter_map(|_| lanes.take(ended)).collect();
        assert_eq!(left.len(), 3);
    }
}
