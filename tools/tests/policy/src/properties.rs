// SPDX-License-Identifier: GPL-2.0
//! Invariants for all inputs, tried on random ones.

use crate::policy::{
    attribute::{Attribute, Origin, Own},
    backoff::Backoff,
    class::Effective,
    level::{self, Level},
    ring::Ring,
    tunables::{
        settings::{Bounds, Conditions},
        Tunables,
    },
    units::{Permille, Us},
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
