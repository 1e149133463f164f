// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The nice value of a thread that is preferred or held back, and the one that it gets back.
//!
//! A thread has a *base*: the value that it would have without zernel. Every addition counts from
//! there, and without one the thread has its base again. Programs may raise the nice value of their
//! threads at any time, and so from a value that zernel has lowered: the result is no base, or a
//! thread would be lower with each turn.

/// A nice value, -20 (most CPU time) to 19.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nice(i8);

impl Nice {
    /// Most CPU time.
    pub(crate) const MIN: Self = Self(-20);
    /// Least.
    pub(crate) const MAX: Self = Self(19);

    /// The value of a number, or the nearest that there is.
    pub(crate) const fn nearest(number: i32) -> Self {
        if number < -20 {
            Self::MIN
        } else if number > 19 {
            Self::MAX
        } else {
            Self(number as i8)
        }
    }

    /// Its number.
    pub(crate) const fn number(self) -> i32 {
        self.0 as i32
    }

    fn plus(self, delta: Delta) -> Self {
        Self::nearest(self.number().saturating_add(delta.number()))
    }

    /// The difference from `base`.
    pub(crate) const fn beyond(self, base: Self) -> i32 {
        self.number().saturating_sub(base.number())
    }
}

/// An addition to a nice value, -20 to 19.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta(i8);

impl Delta {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);

    /// Of a number from -20 to 19.
    pub(crate) const fn new(number: i32) -> Option<Self> {
        if number < -20 || number > 19 {
            return None;
        }
        Some(Self(number as i8))
    }

    /// Its number.
    pub(crate) const fn number(self) -> i32 {
        self.0 as i32
    }
}

/// A wish for the nice value of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The addition to its base.
    pub(crate) delta: Delta,
    /// By privilege: below the thread's own limit, too.
    pub(crate) privileged: bool,
}

impl Ask {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        delta: Delta::NONE,
        privileged: false,
    };

    /// True if nothing is asked for.
    pub(crate) fn is_none(self) -> bool {
        self.delta == Delta::NONE
    }

    /// The nice value that a thread gets for this wish.
    fn target(self, base: Nice, lowest: Lowest) -> Nice {
        let wanted = base.plus(self.delta);
        if self.privileged || wanted >= base || lowest.allows(wanted) {
            return wanted;
        }
        // As low as it may be, but not above where it is.
        lowest.0.map_or(base, |lowest| lowest.min(base))
    }
}

/// The lowest nice value that a thread may have by itself; none if it may not lower it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lowest(Option<Nice>);

impl Lowest {
    /// Of a number; none above 19.
    pub(crate) fn of(number: i32) -> Self {
        Self((number <= Nice::MAX.number()).then(|| Nice::nearest(number)))
    }

    fn allows(self, nice: Nice) -> bool {
        self.0.is_some_and(|lowest| lowest <= nice)
    }
}

/// The kernel's account of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The value that it has.
    pub(crate) now: Nice,
    /// The lowest that it may have by itself.
    pub(crate) lowest: Lowest,
    /// It is scheduled by its nice value: `SCHED_NORMAL` or `SCHED_BATCH`.
    pub(crate) fair: bool,
}

/// A thread with a nice value of zernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    base: Nice,
    set: Nice,
}

impl Held {
    /// The nice value that was set.
    pub(crate) fn set(self) -> Nice {
        self.set
    }

    /// The addition to its base.
    pub(crate) fn delta(self) -> i32 {
        self.set.beyond(self.base)
    }
}

/// The base of a thread. A value set by others is a new base, except one that anybody could reach
/// from a value of zernel's and the thread by itself could not.
pub(crate) fn base(held: Option<Held>, seen: &Seen) -> Nice {
    let Some(Held { base, set }) = held else {
        return seen.now;
    };
    let raised = set < seen.now && seen.now < base;
    if seen.now == set || (raised && !seen.lowest.allows(seen.now)) {
        return base;
    }
    seen.now
}

/// The nice value that a thread should have: the lowest that is asked for. A thread with another
/// scheduler than the fair one keeps its base.
pub(crate) fn next(held: Option<Held>, seen: &Seen, asks: &[Ask]) -> (Nice, Option<Held>) {
    let base = base(held, seen);
    let asks = asks.iter().filter(|ask| seen.fair && !ask.is_none());
    let lowest = asks.map(|ask| ask.target(base, seen.lowest)).min();
    let set = lowest.unwrap_or(base);
    (set, (set != base).then_some(Held { base, set }))
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_nice))]
mod tests {
    use super::*;

    const fn seen(now: i32, lowest: Option<i32>) -> Seen {
        Seen {
            now: Nice::nearest(now),
            lowest: Lowest(match lowest {
                Some(lowest) => Some(Nice::nearest(lowest)),
                None => None,
            }),
            fair: true,
        }
    }

    fn ask(delta: i32, privileged: bool) -> Ask {
        Ask {
            delta: Delta::new(delta).unwrap_or_default(),
            privileged,
        }
    }

    /// The nice value of a thread with this base and these wishes.
    fn with(base: i32, lowest: Option<i32>, asks: &[Ask]) -> i32 {
        next(None, &seen(base, lowest), asks).0.number()
    }

    #[test]
    fn numbers_have_their_range() {
        for (number, nice) in [(-21, -20), (-20, -20), (0, 0), (19, 19), (20, 19)] {
            assert_eq!(Nice::nearest(number).number(), nice);
        }
        assert_eq!(Nice::nearest(i32::MIN), Nice::MIN);
        assert_eq!(Nice::nearest(i32::MAX), Nice::MAX);
        for (number, good) in [(-21, false), (-20, true), (19, true), (20, false)] {
            assert_eq!(Delta::new(number).is_some(), good);
        }
        assert_eq!(Lowest::of(20), Lowest(None));
        assert_eq!(Lowest::of(19), Lowest(Some(Nice::MAX)));
        assert_eq!(Lowest::of(-100), Lowest(Some(Nice::MIN)));
    }

    #[test]
    fn to_be_nicer_is_free() {
        for lowest in [None, Some(0), Some(-20)] {
            assert_eq!(with(0, lowest, &[ask(5, false)]), 5);
            assert_eq!(with(17, lowest, &[ask(5, false)]), 19);
            assert_eq!(with(-8, lowest, &[ask(5, false)]), -3);
        }
    }

    #[test]
    fn lower_is_what_the_limit_allows() {
        for (base, lowest, nice) in [
            (0, None, 0),
            (0, Some(0), 0),
            (0, Some(-3), -3),
            (0, Some(-5), -5),
            (0, Some(-20), -5),
            (3, Some(0), 0),
            (10, Some(8), 8),
            // Below its limit already, as somebody with the right to has put it.
            (-8, Some(0), -8),
            (-8, None, -8),
            (-18, Some(-20), -20),
        ] {
            assert_eq!(with(base, lowest, &[ask(-5, false)]), nice);
            let most = (base - 5).max(-20);
            assert_eq!(with(base, lowest, &[ask(-5, true)]), most);
        }
    }

    #[test]
    fn the_lowest_of_what_is_asked_for_counts() {
        assert_eq!(with(0, None, &[ask(5, false), ask(-7, true)]), -7);
        assert_eq!(with(0, None, &[ask(-9, true), ask(-7, true)]), -9);
        assert_eq!(with(0, None, &[ask(5, false), Ask::NONE]), 5);
        assert_eq!(with(0, None, &[Ask::NONE, Ask::NONE]), 0);
        // A refusal by the limit is no reason to leave the base.
        assert_eq!(with(0, None, &[ask(5, false), ask(-7, false)]), 0);
    }

    #[test]
    fn the_base_comes_back() {
        for base in [-20, -8, 0, 7, 19] {
            for delta in [-20, -5, 5, 19] {
                let (set, held) = next(None, &seen(base, None), &[ask(delta, true)]);
                assert_eq!(held.map_or(set, Held::set), set);
                let (back, none) = next(held, &seen(set.number(), None), &[]);
                assert_eq!((back.number(), none), (base, None));
            }
        }
    }

    #[test]
    fn what_others_set_is_the_new_base() {
        let (_, lower) = next(None, &seen(0, None), &[ask(-5, true)]);
        let (_, higher) = next(None, &seen(0, None), &[ask(5, true)]);
        for (held, now, lowest, expected) in [
            (lower, 10, None, 10),
            (lower, 0, None, 0),
            // It took a right to go lower.
            (lower, -6, None, -6),
            // Not from -5 to -4, but it may be there by itself.
            (lower, -4, Some(-4), -4),
            (lower, -4, Some(-3), 0),
            (lower, -1, None, 0),
            (higher, 3, None, 3),
            (higher, 8, None, 8),
            (higher, -1, None, -1),
            // Equal values cannot be told apart.
            (higher, 5, None, 0),
            (lower, -5, Some(-20), 0),
        ] {
            assert_eq!(base(held, &seen(now, lowest)).number(), expected);
        }
    }

    #[test]
    fn nobody_climbs_by_raising_itself() {
        let asks = [ask(-5, true)];
        let (mut now, mut held) = (Nice::default(), None);
        for _ in 0..20 {
            (now, held) = next(held, &seen(now.number(), None), &asks);
            assert_eq!(now.number(), -5);
            // One step that everybody may take.
            now = Nice::nearest(now.number() + 1);
        }
        assert_eq!(next(held, &seen(now.number(), None), &[]).0.number(), 0);
    }

    #[test]
    fn others_than_fair_threads_keep_their_base() {
        let (set, held) = next(None, &seen(0, None), &[ask(-5, true)]);
        assert_eq!(set.number(), -5);
        assert_eq!(held.map(Held::delta), Some(-5));
        let realtime = Seen {
            fair: false,
            ..seen(-5, None)
        };
        let (back, none) = next(held, &realtime, &[ask(-5, true)]);
        assert_eq!((back.number(), none), (0, None));
    }
}
