// SPDX-License-Identifier: GPL-2.0
//! Invariants for all inputs, tried on random ones.

use crate::policy::{
    attribute::{Attribute, Origin, Own},
    backoff::Backoff,
    class::Effective,
    level::{self, Level},
    ring::Ring,
    spread::{self, Cells, CELLS, MOST, WINDOW_BITS},
    tunables::{
        settings::{Bounds, Conditions},
        Tunables,
    },
    units::{Ns, Permille, Us},
};
use proptest::prelude::*;
use std::collections::VecDeque;

fn level() -> impl Strategy<Value = Level> {
    (0u32..8).prop_map(|n| Level::new(n).unwrap())
}

proptest! {
    /// Settings lie within every bound, or the hardware's where the two disagree.
    #[test]
    fn settings_are_bounded(l in level(), min in 10u32..10_000_000, max in 10u32..10_000_000,
                            hw_min in 0u32..1000, hw_max in 1000u32..20_000_000,
                            turns: bool, spent: bool,
                            own in proptest::option::of(10u32..10_000_000)) {
        let mut t = Tunables::new();
        let (min, max) = (min.min(max), min.max(max));
        // Widened first, so that neither order is refused.
        t.set_min_timeslice(Us(10)).unwrap();
        t.set_max_timeslice(Us(max)).unwrap();
        t.set_min_timeslice(Us(min)).unwrap();
        let bounds = Bounds { min: Us(hw_min), max: Us(hw_max) };
        let own = own.map(|us| Own::privileged(Us(us), false));
        let e = Effective { timeslice: Attribute::NONE.over(own, Origin::NONE), ..Effective::of(l) };
        let mut throttled = level::Set::NONE;
        throttled.put(l, spent);
        let s = t.settings(e, Conditions { bounds, turns, throttled }).unwrap().timeslice.0;
        prop_assert!(s >= hw_min && s <= hw_max);
        prop_assert!(s >= min || s == hw_max);
        prop_assert!(s <= max || s == hw_min);
    }

    /// A ring is a queue that loses its oldest, and says how many.
    #[test]
    fn ring_is_a_bounded_queue(capacity in 1usize..9, ops in proptest::collection::vec(any::<bool>(), 0..200)) {
        let mut ring = Ring::new(capacity);
        let mut slots = vec![0u64; capacity];
        let mut model = VecDeque::new();
        let mut lost = 0;
        let mut seq = 0;
        for push in ops {
            if push {
                let p = ring.push();
                seq += 1;
                prop_assert_eq!(p.seq, seq);
                slots[p.slot] = seq;
                model.push_back(seq);
                if model.len() > capacity {
                    model.pop_front();
                    lost += 1;
                }
            } else {
                prop_assert_eq!(ring.pop().map(|slot| slots[slot]), model.pop_front());
            }
            prop_assert_eq!(ring.lost(), lost);
            prop_assert_eq!(ring.is_empty(), model.is_empty());
        }
    }

    /// The delay never shrinks and stays within its bound.
    #[test]
    fn backoff_grows(tries in 1usize..100) {
        let mut b = Backoff::default();
        let mut last = b.next();
        for _ in 0..tries {
            let next = b.next();
            prop_assert!(next >= last && next <= Backoff::LONGEST);
            last = next;
        }
    }

    /// A share is what 128-bit arithmetic says, to within the precision lost by scaling.
    #[test]
    fn permille_is_right(part in any::<u64>(), whole in 1u64..) {
        let exact = ((u128::from(part) * 1000) / u128::from(whole)).min(1000) as u32;
        let got = Permille::of(part, whole).0;
        // Scaling only drops bits of numbers above 2^54, and then of both.
        if part.max(whole) < 1 << 54 {
            prop_assert_eq!(got, exact);
        }
        prop_assert!(got <= 1000);
    }
}

/// The cells of a user.
struct All(Vec<u32>);

impl Cells for All {
    fn change(&mut self, cell: usize, next: impl Fn(u32) -> Option<u32>) -> bool {
        next(self.0[cell]).map(|next| self.0[cell] = next).is_some()
    }
}

/// All slots of a user at one instant, again before that is over, and as soon as it is.
#[test]
fn all_slots_of_a_user_at_one_instant_are_spread() {
    const SLOTS: u32 = 16_384;
    const LAP: u64 = (CELLS as u64) << WINDOW_BITS;
    let mut cells = All(vec![0; CELLS]);
    let start = 7 * LAP + 1_234_567;
    for (at, now, most) in [
        (start, start - 9, MOST),
        // Half of the room is taken by those that have not come yet.
        (start + LAP / 4, start, 4 * MOST),
        (start + 2 * LAP, start + 2 * LAP, MOST),
    ] {
        let mut windows = vec![0; CELLS];
        for seed in 0..SLOTS {
            let placed = spread::place(&mut cells, Ns(at), Ns(now), seed);
            windows[((placed.0 - at) >> WINDOW_BITS) as usize] += 1;
        }
        let fullest = *windows.iter().max().unwrap();
        assert!(fullest <= most, "{fullest} at {at}");
        assert_eq!(windows.iter().sum::<u32>(), SLOTS);
    }
}
