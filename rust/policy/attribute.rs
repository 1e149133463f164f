// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One attribute of a class: which of several assignments decides its value.
//!
//! Assignments lie in layers, the least specific beneath. A privileged one replaces all layers
//! beneath. An unprivileged one counts only where its value is less than theirs: an early
//! assignment gains nothing. This one rule decides all attributes, each by itself.

use super::{
    level::Level,
    rotation::Weight,
    units::Us, //
};

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nothing: the driver's own, or no value.
    None = 0,
    /// The tunable `default_class`.
    Default = 1,
    /// An assignment of a cgroup, for every process in it or below it.
    Cgroup = 2,
    /// One of a process, for all of its threads.
    Process = 3,
    /// One of a thread.
    Thread = 4,
    /// One of a TSG.
    Tsg = 5,
    /// The tunables of the level in force.
    Level = 6,
}

/// The origin of a value, and the id of the assignment; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its kind.
    pub(crate) source: Source,
    /// The assignment.
    pub(crate) assignment: u64,
}

impl Origin {
    /// Nothing.
    pub(crate) const NONE: Self = Self::of(Source::None);

    /// An origin that is no assignment.
    pub(crate) const fn of(source: Source) -> Self {
        Self {
            source,
            assignment: 0,
        }
    }
}

/// A value of an attribute.
pub(crate) trait Value: Copy + PartialEq {
    /// True if a target with `self` has less than one with `other`.
    fn is_less(self, other: Self) -> bool;
}

impl Value for Level {
    fn is_less(self, other: Self) -> bool {
        other.is_above(self)
    }
}

impl Value for Weight {
    fn is_less(self, other: Self) -> bool {
        self < other
    }
}

impl Value for Us {
    fn is_less(self, other: Self) -> bool {
        self < other
    }
}

/// The value that an assignment has of an attribute.
///
/// # Invariants
///
/// `value` is not more than `allowed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own<V> {
    value: V,
    allowed: Option<V>,
    by_member: bool,
}

impl<V: Value> Own<V> {
    /// Set without privilege.
    pub(crate) fn unprivileged(value: V) -> Self {
        // INVARIANT: Nothing is allowed.
        Self {
            value,
            allowed: None,
            by_member: false,
        }
    }

    /// Set by a manager; `by_member`: one without `CAP_SYS_NICE`.
    pub(crate) fn privileged(value: V, by_member: bool) -> Self {
        // INVARIANT: The same.
        Self {
            value,
            allowed: Some(value),
            by_member,
        }
    }

    /// Set by the owner of the target, which had `old` before: what a manager allowed there stays
    /// allowed while the owner takes less.
    pub(crate) fn lowered(value: V, old: Option<Self>) -> Self {
        // INVARIANT: By the filter.
        match old.filter(|old| old.allowed.is_some_and(|most| !most.is_less(value))) {
            Some(old) => Self { value, ..old },
            None => Self::unprivileged(value),
        }
    }

    /// The value.
    pub(crate) fn value(&self) -> V {
        self.value
    }

    /// True if it rests on privilege.
    pub(crate) fn is_privileged(&self) -> bool {
        self.allowed.is_some()
    }

    /// True if it rests on that of a member of `lc_gid`.
    pub(crate) fn is_by_member(&self) -> bool {
        self.by_member
    }
}

/// An attribute as assignments leave it, over an unknown lowest layer.
///
/// # Invariants
///
/// A `limit` is less than `given`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<V> {
    /// The privileged value; `None`: that of the lowest layer.
    given: Option<(V, Origin)>,
    /// The least that was set without, above that.
    limit: Option<(V, Origin)>,
    /// The owner has taken less than the manager gave.
    is_lowered: bool,
    /// The most specific assignment is not less than the layers beneath, and does not count.
    is_passed_over: bool,
}

/// A value that is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided<V> {
    /// The value.
    pub(crate) value: V,
    /// Its origin.
    pub(crate) origin: Origin,
    /// A more specific assignment does not count, as it would give something without privilege.
    pub(crate) is_passed_over: bool,
}

impl<V: Value> Attribute<V> {
    /// No assignment has it.
    pub(crate) const NONE: Self = Self {
        given: None,
        limit: None,
        is_lowered: false,
        is_passed_over: false,
    };

    /// A value that an administrator gave by a tunable.
    pub(crate) fn tuned(value: V, source: Source) -> Self {
        Self {
            given: Some((value, Origin::of(source))),
            ..Self::NONE
        }
    }

    /// Puts a more specific assignment on top; `own`: the value that it has, if it has one.
    pub(crate) fn over(self, own: Option<Own<V>>, origin: Origin) -> Self {
        let Some(own) = own else {
            return self;
        };
        if own.is_privileged() {
            return Self {
                given: Some((own.value, origin)),
                is_lowered: own.allowed != Some(own.value),
                ..Self::NONE
            };
        }
        match self.limit.or(self.given) {
            // Not even the same value counts: the layer beneath may be cleared.
            Some((beneath, _)) if !own.value.is_less(beneath) => Self {
                is_passed_over: true,
                ..self
            },
            // INVARIANT: Just compared with that which is the less of the two.
            _ => Self {
                limit: Some((own.value, origin)),
                is_passed_over: false,
                ..self
            },
        }
    }

    /// The value where `base` lies beneath all assignments.
    pub(crate) fn decide(&self, base: V, from: Origin) -> Decided<V> {
        let (value, origin) = self.given.unwrap_or((base, from));
        match self.limit {
            Some((limit, by)) if limit.is_less(value) => Decided {
                value: limit,
                origin: by,
                is_passed_over: self.is_passed_over,
            },
            limit => Decided {
                value,
                origin,
                is_passed_over: self.is_passed_over || limit.is_some(),
            },
        }
    }

    /// The value where that beneath all is not known. The second part: it counts only where it is
    /// less than that.
    pub(crate) fn decide_alone(&self) -> Option<(Decided<V>, bool)> {
        let (value, origin) = self.limit.or(self.given)?;
        let decided = Decided {
            value,
            origin,
            is_passed_over: self.is_passed_over,
        };
        Some((decided, self.given.is_none()))
    }

    /// The same where nothing may give anything: privilege counts as if it were none.
    pub(crate) fn taking(self) -> Self {
        Self {
            given: None,
            limit: self.limit.or(self.given),
            ..self
        }
    }

    /// True if privilege has given a value.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// True if the value is the one that privilege gave, of which nobody has taken anything since.
    pub(crate) fn is_as_given(&self) -> bool {
        self.given.is_some() && self.limit.is_none() && !self.is_lowered
    }

    /// True if no assignment has it.
    pub(crate) fn is_none(&self) -> bool {
        self.given.is_none() && self.limit.is_none()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_attribute))]
mod tests {
    use super::*;

    const PROCESS: Origin = Origin::of(Source::Process);
    const THREAD: Origin = Origin::of(Source::Thread);
    const LEVEL: Origin = Origin::of(Source::Level);

    fn given(us: u32) -> Option<Own<Us>> {
        Some(Own::privileged(Us(us), false))
    }

    fn asked(us: u32) -> Option<Own<Us>> {
        Some(Own::unprivileged(Us(us)))
    }

    /// A slice over one of the level of 200 µs, its source, and whether a more specific one does
    /// not count.
    fn over_200(process: Option<Own<Us>>, thread: Option<Own<Us>>) -> (u32, Source, bool) {
        let attribute = Attribute::NONE.over(process, PROCESS).over(thread, THREAD);
        let decided = attribute.decide(Us(200), LEVEL);
        (
            decided.value.0,
            decided.origin.source,
            decided.is_passed_over,
        )
    }

    #[test]
    fn the_most_specific_that_has_it_decides() {
        assert_eq!(over_200(None, None), (200, Source::Level, false));
        assert_eq!(over_200(given(900), None), (900, Source::Process, false));
        assert_eq!(
            over_200(given(900), given(1000)),
            (1000, Source::Thread, false)
        );
        assert_eq!(over_200(None, given(1000)), (1000, Source::Thread, false));
    }

    #[test]
    fn without_privilege_it_only_takes() {
        assert_eq!(over_200(asked(100), None), (100, Source::Process, false));
        assert_eq!(over_200(asked(200), None), (200, Source::Level, true));
        assert_eq!(over_200(asked(300), None), (200, Source::Level, true));
        assert_eq!(
            over_200(given(900), asked(300)),
            (300, Source::Thread, false)
        );
        assert_eq!(
            over_200(given(900), asked(901)),
            (900, Source::Process, true)
        );
        assert_eq!(
            over_200(asked(100), asked(150)),
            (100, Source::Process, true)
        );
        assert_eq!(
            over_200(asked(300), asked(150)),
            (150, Source::Thread, false)
        );
        assert_eq!(
            over_200(asked(100), given(900)),
            (900, Source::Thread, false)
        );
    }

    #[test]
    fn what_the_owner_takes_is_not_as_given() {
        let over = |all: &[Option<Own<Us>>]| {
            let all = all.iter().copied();
            all.fold(Attribute::NONE, |a, own| a.over(own, PROCESS))
                .is_as_given()
        };
        let lowered = Some(Own::lowered(Us(300), given(900)));
        assert!(lowered.is_some_and(|own| own.is_privileged()));
        assert!(over(&[given(900)]));
        // One that does not count changes nothing.
        assert!(over(&[given(900), asked(901)]));
        assert!(over(&[given(900), asked(300), given(300)]));
        for bad in [
            &[][..],
            &[asked(300)],
            &[given(900), asked(300)],
            &[lowered],
        ] {
            assert!(!over(bad));
        }
    }

    #[test]
    fn one_that_counts_hides_one_that_does_not() {
        let attribute = Attribute::NONE
            .over(given(900), Origin::of(Source::Cgroup))
            .over(asked(901), PROCESS)
            .over(asked(300), THREAD);
        let decided = attribute.decide(Us(200), LEVEL);
        assert_eq!((decided.value, decided.is_passed_over), (Us(300), false));
    }

    #[test]
    fn alone_a_limit_is_none_that_gives() {
        let none = Attribute::<Us>::NONE;
        assert_eq!(none.decide_alone(), None);
        assert!(none.is_none());
        let alone = |own| {
            let decided = none.over(own, PROCESS).decide_alone();
            decided.map(|(decided, limits)| (decided.value.0, limits))
        };
        assert_eq!(alone(asked(300)), Some((300, true)));
        assert_eq!(alone(given(300)), Some((300, false)));
        let taking = none.over(given(300), PROCESS).taking();
        assert_eq!(taking.decide(Us(200), LEVEL).value, Us(200));
        assert_eq!(taking.decide(Us(400), LEVEL).value, Us(300));
    }

    #[test]
    fn what_was_allowed_stays_allowed_for_less() {
        let by_member = Own::privileged(Us(500), true);
        let less = Own::lowered(Us(300), Some(by_member));
        assert!(less.is_privileged() && less.is_by_member());
        assert_eq!(less.value(), Us(300));
        let again = Own::lowered(Us(500), Some(less));
        assert!(again.is_privileged());
        let more = Own::lowered(Us(501), Some(again));
        assert!(!more.is_privileged() && !more.is_by_member());
        assert!(!Own::lowered(Us(1), None).is_privileged());
    }

    #[test]
    fn less_is_less_urgent_lighter_or_shorter() {
        assert!(Level::BE.is_less(Level::LC) && !Level::BE.is_less(Level::BE));
        assert!(Us(1).is_less(Us(2)) && !Us(2).is_less(Us(2)));
        let light = Weight::new(1).unwrap_or(Weight::DEFAULT);
        assert!(light.is_less(Weight::DEFAULT) && !Weight::DEFAULT.is_less(light));
    }
}
