// SPDX-License-Identifier: GPL-2.0
//! Which assignment is in force for a TSG.

use super::{
    level::Level,
    rotation::Weight, //
};

/// The kind of target that an assignment names, the most specific last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Nothing applies.
    None = 0,
    /// The tunable `default_class`.
    Default = 1,
    /// A cgroup, for every process in it or below it.
    Cgroup = 2,
    /// A process, for all of its threads.
    Process = 3,
    /// A thread.
    Thread = 4,
    /// One TSG.
    Tsg = 5,
}

/// The class that somebody gave to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The level.
    pub(crate) level: Level,
    /// The most urgent level that privilege has allowed here, which is never less urgent than
    /// `level`; without, the assignment can only lower.
    pub(crate) allowed: Option<Level>,
    /// The share of its TSGs where best-effort TSGs take turns.
    pub(crate) weight: Weight,
}

impl Assignment {
    /// The least that anybody could give.
    pub(crate) const NOTHING: Self = Self {
        level: Level::BE,
        allowed: None,
        weight: Weight::DEFAULT,
    };

    /// True if it rests on privilege.
    pub(crate) fn is_privileged(self) -> bool {
        self.allowed.is_some()
    }
}

/// The class in force for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// The level, `None` when not classed.
    pub(crate) level: Option<Level>,
    /// Where it comes from.
    pub(crate) source: Source,
    /// The share of its TSGs where best-effort TSGs take turns.
    pub(crate) weight: Weight,
}

impl Effective {
    /// Not classed: the driver's own settings.
    pub(crate) const NONE: Self = Self {
        level: None,
        source: Source::None,
        weight: Weight::DEFAULT,
    };

    /// The class of the tunable `default_class`.
    pub(crate) fn default_class(level: Option<Level>) -> Self {
        match level {
            Some(_) => Self {
                level,
                source: Source::Default,
                weight: Weight::DEFAULT,
            },
            None => Self::NONE,
        }
    }

    /// The level to compare with: a target without a class ranks as [`Level::DEFAULT`].
    pub(crate) fn rank(self) -> Level {
        self.level.unwrap_or(Level::DEFAULT)
    }

    /// The class that remains for a TSG with work of several processes.
    ///
    /// A class that raises would raise strangers, so there is none. One that does not stays, or
    /// whoever is held down would only have to say that it works for others too. That goes for
    /// [`Level::DEFAULT`] as well: it keeps its owner from settings of its own.
    pub(crate) fn of_shared(self) -> Self {
        if self.rank().is_above(Level::DEFAULT) {
            Self::NONE
        } else {
            self
        }
    }

    /// Puts a more specific assignment, if there is one, on top of `self`.
    ///
    /// The more specific one wins. One that was made without privilege counts only where it is less
    /// urgent than what lies beneath it, so that nobody escapes a class by having lowered itself
    /// before.
    pub(crate) fn over(self, source: Source, assignment: Option<Assignment>) -> Self {
        match assignment {
            None => self,
            Some(a) if a.is_privileged() => Self::of(source, a),
            // Not lower than what lies beneath, which decides: a level's settings need not be those
            // that the driver gives, so that even the same rank could be a rise.
            Some(a) if !self.rank().is_above(a.level) => self,
            Some(a) => Self::of(source, a),
        }
    }

    fn of(source: Source, assignment: Assignment) -> Self {
        Self {
            level: Some(assignment.level),
            source,
            weight: assignment.weight,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_class))]
mod tests {
    use super::*;

    fn by_admin(level: Level) -> Option<Assignment> {
        Some(Assignment {
            level,
            allowed: Some(level),
            weight: Weight::DEFAULT,
        })
    }

    fn by_user(level: Level) -> Option<Assignment> {
        Some(Assignment {
            level,
            allowed: None,
            weight: Weight::DEFAULT,
        })
    }

    fn at(number: u32) -> Level {
        Level::new(number).unwrap_or(Level::BE)
    }

    #[test]
    fn nothing_is_not_classed() {
        let e = Effective::NONE.over(Source::Process, None);
        assert_eq!(e, Effective::NONE);
        assert_eq!(e.rank(), Level::DEFAULT);
    }

    #[test]
    fn default_class_is_beneath_everything() {
        let e = Effective::default_class(Some(Level::BE));
        assert_eq!(e.source, Source::Default);
        let e = e.over(Source::Cgroup, by_admin(at(3)));
        assert_eq!(e.level, Some(at(3)));
        assert_eq!(e.source, Source::Cgroup);
        assert_eq!(Effective::default_class(None), Effective::NONE);
    }

    #[test]
    fn most_specific_wins() {
        let e = Effective::NONE
            .over(Source::Cgroup, by_admin(at(1)))
            .over(Source::Process, by_admin(at(5)))
            .over(Source::Thread, by_admin(at(2)))
            .over(Source::Tsg, by_admin(at(4)));
        assert_eq!(e.level, Some(at(4)));
        assert_eq!(e.source, Source::Tsg);
    }

    #[test]
    fn gaps_are_skipped() {
        let e = Effective::NONE
            .over(Source::Cgroup, by_admin(at(1)))
            .over(Source::Process, None)
            .over(Source::Thread, None);
        assert_eq!(e.source, Source::Cgroup);
    }

    #[test]
    fn user_may_lower() {
        let e = Effective::NONE
            .over(Source::Process, by_admin(Level::LC))
            .over(Source::Thread, by_user(at(3)));
        assert_eq!(e.level, Some(at(3)));
        assert_eq!(e.source, Source::Thread);
    }

    #[test]
    fn user_may_lower_what_privilege_gave() {
        let lowered = Some(Assignment {
            level: at(3),
            allowed: Some(Level::LC),
            weight: Weight::DEFAULT,
        });
        let e = Effective::NONE.over(Source::Process, lowered);
        assert_eq!(e.level, Some(at(3)));
    }

    #[test]
    fn user_cannot_escape_a_later_class() {
        let e = Effective::NONE
            .over(Source::Cgroup, by_admin(Level::BE))
            .over(Source::Process, by_user(Level::DEFAULT));
        assert_eq!(e.level, Some(Level::BE));
        assert_eq!(e.source, Source::Cgroup);
    }

    #[test]
    fn user_has_no_effect_without_lowering() {
        for number in 0..7 {
            let e = Effective::NONE.over(Source::Thread, by_user(at(number)));
            assert_eq!(e, Effective::NONE);
        }
        let e = Effective::NONE.over(Source::Thread, by_user(Level::BE));
        assert_eq!(e.source, Source::Thread);
    }

    #[test]
    fn no_chain_of_users_rises() {
        for beneath in Level::ALL {
            for first in Level::ALL {
                for second in Level::ALL {
                    let base = Effective::NONE.over(Source::Cgroup, by_admin(beneath));
                    let e = base
                        .over(Source::Process, by_user(first))
                        .over(Source::Thread, by_user(second));
                    assert!(!e.rank().is_above(beneath));
                }
            }
        }
    }

    #[test]
    fn sharing_sheds_no_class_that_does_not_raise() {
        assert_eq!(Effective::NONE.of_shared(), Effective::NONE);
        for level in Level::ALL {
            let class = Effective::NONE.over(Source::Cgroup, by_admin(level));
            let left = class.of_shared();
            let raises = level.is_above(Level::DEFAULT);
            assert_eq!(left, if raises { Effective::NONE } else { class });
            assert!(!left.rank().is_above(class.rank()));
        }
    }

    #[test]
    fn sources_order_by_specificity() {
        assert!(Source::None < Source::Default);
        assert!(Source::Default < Source::Cgroup);
        assert!(Source::Cgroup < Source::Process);
        assert!(Source::Process < Source::Thread);
        assert!(Source::Thread < Source::Tsg);
    }
}
