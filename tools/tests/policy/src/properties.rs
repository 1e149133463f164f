// SPDX-License-Identifier: GPL-2.0
//! Properties of every input, tried on random ones.

use crate::policy::{
    backoff::Backoff,
    class::{Assignment, Effective, Source},
    level::{self, Level},
    permit::{self, Caller, Grant, Quota},
    ring::Ring,
    rotation::Weight,
    tunables::{Bounds, Conditions, Tunables},
    units::{Permille, Us},
};
use proptest::prelude::*;
use std::collections::VecDeque;

fn level() -> impl Strategy<Value = Level> {
    (0u32..8).prop_map(|n| Level::new(n).unwrap())
}

fn assignment() -> impl Strategy<Value = Option<Assignment>> {
    proptest::option::of(
        (level(), any::<bool>()).prop_map(|(level, privileged)| Assignment {
            level,
            allowed: privileged.then_some(level),
            weight: Weight::DEFAULT,
        }),
    )
}

fn chain() -> impl Strategy<Value = [Option<Assignment>; 4]> {
    [assignment(), assignment(), assignment(), assignment()]
}

const SOURCES: [Source; 4] = [Source::Cgroup, Source::Process, Source::Thread, Source::Tsg];

fn resolve(default: Option<Level>, chain: &[Option<Assignment>; 4]) -> Effective {
    SOURCES
        .iter()
        .zip(chain)
        .fold(Effective::default_class(default), |e, (&s, &a)| {
            e.over(s, a)
        })
}

proptest! {
    /// With privilege everywhere, precedence is simply "the most specific one".
    #[test]
    fn privileged_precedence(default in proptest::option::of(level()), levels in [
        proptest::option::of(level()), proptest::option::of(level()),
        proptest::option::of(level()), proptest::option::of(level()),
    ]) {
        let chain = levels.map(|l| l.map(|level| Assignment { level, allowed: Some(level), weight: Weight::DEFAULT }));
        let expected = levels.iter().rev().find_map(|l| *l).or(default);
        prop_assert_eq!(resolve(default, &chain).level, expected);
    }

    /// Taking every unprivileged assignment away never lowers the outcome.
    #[test]
    fn unprivileged_never_raises(default in proptest::option::of(level()), chain in chain()) {
        let with = resolve(default, &chain);
        let without = resolve(default, &chain.map(|a| a.filter(|a| a.is_privileged())));
        prop_assert!(!with.rank().is_above(without.rank()));
    }

    /// The source that is named really has an assignment of its own.
    #[test]
    fn source_is_true(default in proptest::option::of(level()), chain in chain()) {
        let e = resolve(default, &chain);
        match e.source {
            Source::None => prop_assert!(e.level.is_none()),
            Source::Default => prop_assert_eq!(e.level, default),
            s => prop_assert!(chain[s as usize - 2].is_some()),
        }
    }

    /// An owner without privilege never makes its target, or a TSG of it, more urgent.
    #[test]
    fn owner_never_rises(chain in chain(), wish in level(), slot in 0usize..4) {
        let caller = Caller { owner: true, capable: false, member: false };
        let quota = Quota { held: 0, most: 1, raised: 0, admission: 0 };
        // In force for the target itself: what is more specific than it does not count.
        let target = |chain: &[Option<Assignment>; 4]| {
            let mut prefix = *chain;
            prefix[slot + 1..].fill(None);
            resolve(None, &prefix)
        };
        let replaced = chain[slot].map(|assignment| Grant { assignment, raised: false });
        if let Ok(grant) = permit::set(caller, target(&chain), replaced, wish.into(), quota) {
            let mut after = chain;
            after[slot] = Some(grant.assignment);
            prop_assert!(!target(&after).rank().is_above(target(&chain).rank()));
            prop_assert!(!resolve(None, &after).rank().is_above(resolve(None, &chain).rank()));
        }
    }

    /// Settings lie within every bound, or the hardware's where the two disagree.
    #[test]
    fn settings_are_bounded(l in level(), min in 10u32..10_000_000, max in 10u32..10_000_000,
                            hw_min in 0u32..1000, hw_max in 1000u32..20_000_000,
                            turns: bool, spent: bool) {
        let mut t = Tunables::new();
        let (min, max) = (min.min(max), min.max(max));
        // Widened first, so that neither order is refused.
        t.set_min_timeslice(Us(10)).unwrap();
        t.set_max_timeslice(Us(max)).unwrap();
        t.set_min_timeslice(Us(min)).unwrap();
        let bounds = Bounds { min: Us(hw_min), max: Us(hw_max) };
        let e = Effective { level: Some(l), source: Source::Tsg, weight: Weight::DEFAULT };
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
