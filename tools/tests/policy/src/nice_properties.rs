// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of nice values, whatever is asked for and whatever others set.

use crate::policy::nice::{base, next, Ask, Delta, Held, Lowest, Nice, Seen};
use proptest::prelude::*;

fn nice() -> impl Strategy<Value = Nice> {
    (-20..=19).prop_map(Nice::nearest)
}

fn ask() -> impl Strategy<Value = Ask> {
    (-20..=19, any::<bool>()).prop_map(|(delta, privileged)| Ask {
        delta: Delta::new(delta).unwrap(),
        privileged,
    })
}

/// An event of a thread.
#[derive(Debug, Clone)]
enum Step {
    /// These are asked for.
    Ask(Vec<Ask>),
    /// Its user sets a value, as far as it may.
    UserSets(Nice),
    /// An administrator does.
    RootSets(Nice),
    /// It has another scheduler, or the fair one.
    Fair(bool),
    /// Its limit is another one.
    Limit(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(ask(), 0..3).prop_map(Step::Ask),
        3 => nice().prop_map(Step::UserSets),
        1 => nice().prop_map(Step::RootSets),
        1 => any::<bool>().prop_map(Step::Fair),
        1 => (-20..=20).prop_map(Step::Limit),
    ]
}

proptest! {
    /// Without anybody else the base always comes back, and nothing is below what may be.
    #[test]
    fn the_base_comes_back(
        own in nice(),
        limit in -20..=20,
        all in prop::collection::vec(prop::collection::vec(ask(), 0..3), 1..20),
    ) {
        let mut held = None;
        let mut now = own;
        for asks in all {
            let seen = Seen { now, lowest: Lowest::of(limit), fair: true };
            prop_assert_eq!(base(held, &seen), own);
            (now, held) = next(held, &seen, &asks);
            let asks = || asks.iter().filter(|ask| !ask.is_none());
            if !asks().any(|ask| ask.privileged) {
                prop_assert!(now >= own.min(Nice::nearest(limit)), "{now:?}");
            }
            let least = asks().map(|ask| ask.delta.number()).min().unwrap_or(0);
            prop_assert!(now >= Nice::nearest(own.number() + least.min(0)));
            prop_assert_eq!(held.is_none(), now == own);
            prop_assert_eq!(held.map_or(0, Held::delta), now.beyond(own));
        }
        let seen = Seen { now, lowest: Lowest::of(limit), fair: true };
        prop_assert_eq!(next(held, &seen, &[]), (own, None));
    }

    /// A thread never gets for itself what neither its limit nor an administrator allowed.
    #[test]
    fn nobody_climbs(own in nice(), steps in prop::collection::vec(step(), 0..60)) {
        let (mut held, mut now, mut fair, mut limit) = (None, own, true, 20);
        // The lowest that it ever was allowed to have by itself.
        let mut allowed = own;
        for step in steps {
            let mut asks = Vec::new();
            match step {
                Step::UserSets(nice) => {
                    // As the kernel has it.
                    if nice >= now || nice.number() >= limit {
                        now = nice;
                    }
                    if nice.number() >= limit {
                        allowed = allowed.min(nice);
                    }
                }
                Step::RootSets(nice) => {
                    now = nice;
                    allowed = allowed.min(nice);
                }
                Step::Fair(is) => fair = is,
                Step::Limit(nice) => {
                    limit = nice;
                    allowed = allowed.min(Nice::nearest(nice));
                }
                Step::Ask(asked) => {
                    asks = asked;
                    let seen = Seen { now, lowest: Lowest::of(limit), fair };
                    (now, held) = next(held, &seen, &asks);
                }
            }
            let seen = Seen { now, lowest: Lowest::of(limit), fair };
            let own = base(held, &seen);
            prop_assert!(own >= allowed, "a base of {own:?} below {allowed:?}");
            if !fair && !asks.is_empty() {
                prop_assert_eq!((now, held), (own, None));
            }
        }
        let seen = Seen { now, lowest: Lowest::of(limit), fair };
        prop_assert!(next(held, &seen, &[]).0 >= allowed);
    }
}
