// SPDX-License-Identifier: MIT OR Apache-2.0
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
use crate::predict_properties::Random;
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
        let s = t.settings(e, Conditions { bounds, turns, throttled, ..Conditions::NONE }).unwrap().timeslice.0;
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

/// The timers of all slots of a user.
struct Slots {
    cells: All,
    places: Vec<Option<spread::Place>>,
    windows: std::collections::HashMap<u64, u32>,
    /// The most timers that a window had.
    fullest: u32,
    random: Random,
}

impl Slots {
    const COUNT: u32 = 16_384;
    const LAP: u64 = (CELLS as u64) << WINDOW_BITS;
    const START: u64 = 7 * Self::LAP + 1_234_567;
    /// The most timers of a window where there is no room for all.
    const BOUND: u32 = 4 * MOST;

    fn new() -> Self {
        Self {
            cells: All(vec![0; CELLS]),
            places: vec![None; Self::COUNT as usize],
            windows: Default::default(),
            fullest: 0,
            random: Random(1),
        }
    }

    /// Sets a timer, which expires no more when it was to.
    fn set(&mut self, seed: u32, at: u64, now: u64) {
        let place = &mut self.places[seed as usize];
        if let Some(before) = place.filter(|place| place.at.0 > now) {
            *self.windows.get_mut(&(before.at.0 >> WINDOW_BITS)).unwrap() -= 1;
            if before.is_counted {
                spread::give_back(&mut self.cells, before.at);
            }
        }
        let chance = self.random.bits();
        let new = spread::place(&mut self.cells, Ns(at), Ns(now), || chance);
        *place = Some(new);
        assert!((at..at + 5 * Self::LAP / 2).contains(&new.at.0));
        let count = self.windows.entry(new.at.0 >> WINDOW_BITS).or_default();
        *count += 1;
        self.fullest = self.fullest.max(*count);
    }

    /// Sets these timers one after the other, faster than they could expire, for a time `ahead`.
    fn turn(&mut self, which: std::ops::Range<u32>, from: u64, ahead: u64) {
        const PACE: u64 = 1_500;
        let count = 8 * Self::COUNT as usize;
        let seeds = which.cycle().take(count);
        for (seed, step) in seeds.zip(0..) {
            let now = from + step * PACE;
            self.set(seed, now + ahead, now);
        }
    }
}

/// All slots of a user, a third more than there is room for: at one instant, anew before that is over
/// and as soon as it is, and one after the other without end.
#[test]
fn all_slots_of_a_user_are_spread() {
    let (start, lap) = (Slots::START, Slots::LAP);
    let mut slots = Slots::new();
    for (at, now) in [
        (start, start - 9),
        (start + lap / 4, start),
        (start + 2 * lap, start + 2 * lap),
    ] {
        (0..Slots::COUNT).for_each(|seed| slots.set(seed, at, now));
        assert!(slots.fullest <= Slots::BOUND, "{} at {at}", slots.fullest);
    }
    for ahead in [0, lap / 8, lap * 3 / 4, 2 * lap] {
        let mut slots = Slots::new();
        slots.turn(0..Slots::COUNT, start, ahead);
        assert!(
            slots.fullest <= Slots::BOUND,
            "{} at {ahead}",
            slots.fullest
        );
    }
}

/// Half of them, two thirds of those that there is room for.
#[test]
fn half_of_the_slots_of_a_user_meet_no_full_window() {
    for ahead in [0, Slots::LAP / 8, Slots::LAP * 3 / 4] {
        let mut slots = Slots::new();
        slots.turn(0..Slots::COUNT / 2, Slots::START, ahead);
        assert!(slots.fullest <= MOST, "{} at {ahead}", slots.fullest);
    }
}

/// A timer far ahead in each cell keeps all others from being counted.
#[test]
fn slots_beside_others_far_ahead_are_spread() {
    let (start, lap) = (Slots::START, Slots::LAP);
    let mut slots = Slots::new();
    let far = CELLS as u32;
    for seed in 0..far {
        let at = start + 100 * lap + (u64::from(seed) << WINDOW_BITS);
        slots.set(seed, at, start);
    }
    (far..Slots::COUNT).for_each(|seed| slots.set(seed, start, start));
    assert!(slots.fullest <= Slots::BOUND, "{}", slots.fullest);
    slots.turn(far..Slots::COUNT, start, lap / 8);
    assert!(slots.fullest <= Slots::BOUND, "{}", slots.fullest);
}
