// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The class of a target: all attributes, as its assignments decide them.

pub(crate) use super::attribute::Source;
use super::{
    attribute::{
        Attribute,
        Decided,
        Origin,
        Own, //
    },
    level::Level,
    units::Us,
    weight::Weight, //
};

/// Values of some attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// The level.
    pub(crate) level: Option<Level>,
    /// The share of GPU time where best-effort TSGs take turns.
    pub(crate) weight: Option<Weight>,
    /// The time slice, in place of that of the level.
    pub(crate) timeslice: Option<Us>,
}

impl From<Level> for Values {
    fn from(level: Level) -> Self {
        Self {
            level: Some(level),
            ..Self::default()
        }
    }
}

/// The attributes that somebody gave to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// Its id.
    pub(crate) id: u64,
    /// The level.
    pub(crate) level: Option<Own<Level>>,
    /// The weight.
    pub(crate) weight: Option<Own<Weight>>,
    /// The time slice.
    pub(crate) timeslice: Option<Own<Us>>,
}

impl Assignment {
    /// No attribute.
    pub(crate) const NONE: Self = Self {
        id: 0,
        level: None,
        weight: None,
        timeslice: None,
    };

    /// True if it has no attribute.
    pub(crate) fn is_empty(&self) -> bool {
        self.level.is_none() && self.weight.is_none() && self.timeslice.is_none()
    }
}

/// Each attribute as assignments down to a target leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// The level.
    pub(crate) level: Attribute<Level>,
    /// The weight.
    pub(crate) weight: Attribute<Weight>,
    /// The time slice.
    pub(crate) timeslice: Attribute<Us>,
}

impl Layers {
    /// Nothing is assigned.
    pub(crate) const NONE: Self = Self {
        level: Attribute::NONE,
        weight: Attribute::NONE,
        timeslice: Attribute::NONE,
    };

    /// The level of the tunable `default_class`.
    pub(crate) fn default_class(level: Option<Level>) -> Self {
        Self {
            level: level.map_or(Attribute::NONE, |level| {
                Attribute::tuned(level, Source::Default)
            }),
            ..Self::NONE
        }
    }

    /// Puts a more specific assignment, if there is one, on top.
    pub(crate) fn over(self, source: Source, assignment: Option<Assignment>) -> Self {
        let Some(own) = assignment else {
            return self;
        };
        let origin = Origin {
            source,
            assignment: own.id,
        };
        Self {
            level: self.level.over(own.level, origin),
            weight: self.weight.over(own.weight, origin),
            timeslice: self.timeslice.over(own.timeslice, origin),
        }
    }

    /// The level in force: a target without a class ranks as [`Level::DEFAULT`].
    pub(crate) fn level(&self) -> Decided<Level> {
        self.level.decide(Level::DEFAULT, Origin::NONE)
    }

    /// The weight in force.
    pub(crate) fn weight(&self) -> Decided<Weight> {
        self.weight.decide(Weight::DEFAULT, Origin::NONE)
    }

    /// The class in force. `shared`: of a TSG that carries the work of several processes.
    ///
    /// No class raises such a TSG: it would raise strangers. A class that lowers stays, or a
    /// program could shed it by declaring that it works for others. That goes for
    /// [`Level::DEFAULT`] as well: it keeps an owner from settings of its own.
    pub(crate) fn effective(&self, shared: bool) -> Effective {
        let level = self.level();
        let is_classed = level.origin.source != Source::None;
        let is_dropped = shared && level.value.is_above(Level::DEFAULT);
        let weight = self.weight();
        let timeslice = match shared {
            true => self.timeslice.taking(),
            false => self.timeslice,
        };
        Effective {
            level: (is_classed && !is_dropped).then_some(level.value),
            origin: match is_dropped {
                true => Origin::NONE,
                false => level.origin,
            },
            weight: weight.value,
            timeslice,
            is_held_down: shared && self.timeslice.is_given(),
            may_keep: !is_dropped
                && self.level.is_as_given()
                && level.origin.source != Source::Default,
        }
    }
}

/// The class in force for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// The level, `None` when not classed.
    pub(crate) level: Option<Level>,
    /// Its origin.
    pub(crate) origin: Origin,
    /// The share of its TSGs where best-effort TSGs take turns.
    pub(crate) weight: Weight,
    /// The time slice of its own, which the tunables decide upon.
    pub(crate) timeslice: Attribute<Us>,
    /// The time slice was given, but only takes, because the work of several processes has it.
    pub(crate) is_held_down: bool,
    /// A manager gave it just this level, so that it may keep the engine where the level does. Its
    /// owner could lower itself to any other, and a default is anybody's.
    pub(crate) may_keep: bool,
}

impl Effective {
    /// Not classed: the driver's own settings.
    pub(crate) const NONE: Self = Self {
        level: None,
        origin: Origin::NONE,
        weight: Weight::DEFAULT,
        timeslice: Attribute::NONE,
        is_held_down: false,
        may_keep: false,
    };

    /// A level that a manager gives, and nothing else.
    pub(crate) fn of(level: Level) -> Self {
        Self {
            level: Some(level),
            origin: Origin::of(Source::Default),
            may_keep: true,
            ..Self::NONE
        }
    }

    /// Where the level comes from.
    pub(crate) fn source(&self) -> Source {
        self.origin.source
    }

    /// The level to compare with: a target without a class ranks as [`Level::DEFAULT`].
    pub(crate) fn rank(&self) -> Level {
        self.level.unwrap_or(Level::DEFAULT)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_class))]
mod tests {
    use super::*;

    fn by_admin(level: Level) -> Option<Assignment> {
        Some(Assignment {
            level: Some(Own::privileged(level, false)),
            ..Assignment::NONE
        })
    }

    fn by_user(level: Level) -> Option<Assignment> {
        Some(Assignment {
            level: Some(Own::unprivileged(level)),
            ..Assignment::NONE
        })
    }

    fn at(number: u32) -> Level {
        Level::new(number).unwrap_or(Level::BE)
    }

    fn level(layers: Layers) -> (Option<Level>, Source) {
        let effective = layers.effective(false);
        (effective.level, effective.source())
    }

    #[test]
    fn nothing_is_not_classed() {
        let none = Layers::NONE.over(Source::Process, None);
        assert_eq!(none.effective(false), Effective::NONE);
        assert_eq!(Effective::NONE.rank(), Level::DEFAULT);
    }

    #[test]
    fn the_default_class_is_beneath_everything() {
        let default = Layers::default_class(Some(Level::BE));
        assert_eq!(level(default), (Some(Level::BE), Source::Default));
        let over = default.over(Source::Cgroup, by_admin(at(3)));
        assert_eq!(level(over), (Some(at(3)), Source::Cgroup));
        let none = Layers::default_class(None);
        assert_eq!(level(none), (None, Source::None));
    }

    #[test]
    fn only_what_a_manager_gave_may_keep_the_engine() {
        let lowered = Some(Assignment {
            level: Some(Own::lowered(at(3), by_admin(at(1)).and_then(|a| a.level))),
            ..Assignment::NONE
        });
        let may = |layers: Layers, shared| layers.effective(shared).may_keep;
        let given = Layers::NONE.over(Source::Process, by_admin(at(3)));
        assert!(may(given, false));
        // Nothing raises what others share.
        assert!(!may(given, true));
        assert!(!may(Layers::NONE.over(Source::Process, lowered), false));
        let below = Layers::NONE.over(Source::Cgroup, by_admin(at(1)));
        assert!(!may(below.over(Source::Tsg, by_user(at(3))), false));
        assert!(!may(Layers::default_class(Some(at(3))), false));
        assert!(!may(Layers::NONE, false));
    }

    #[test]
    fn the_most_specific_wins() {
        let all = Layers::NONE
            .over(Source::Cgroup, by_admin(at(1)))
            .over(Source::Process, by_admin(at(5)))
            .over(Source::Thread, by_admin(at(2)))
            .over(Source::Tsg, by_admin(at(4)));
        assert_eq!(level(all), (Some(at(4)), Source::Tsg));
        let user = all.over(Source::Tsg, by_user(at(3)));
        assert_eq!(level(user), (Some(at(4)), Source::Tsg));
        assert!(user.level().is_passed_over);
    }

    #[test]
    fn a_user_has_no_effect_without_lowering() {
        for number in 0..7 {
            let user = Layers::NONE.over(Source::Thread, by_user(at(number)));
            assert_eq!(level(user), (None, Source::None));
        }
        let user = Layers::NONE.over(Source::Thread, by_user(Level::BE));
        assert_eq!(level(user), (Some(Level::BE), Source::Thread));
        let escape = Layers::NONE
            .over(Source::Cgroup, by_admin(Level::BE))
            .over(Source::Process, by_user(Level::DEFAULT));
        assert_eq!(level(escape), (Some(Level::BE), Source::Cgroup));
    }

    #[test]
    fn each_attribute_has_its_own_assignment() {
        let weight = Weight::new(3000).unwrap_or(Weight::DEFAULT);
        let process = Assignment {
            id: 7,
            weight: Some(Own::privileged(weight, false)),
            ..Assignment::NONE
        };
        let thread = Assignment {
            id: 8,
            timeslice: Some(Own::unprivileged(Us(100))),
            ..Assignment::NONE
        };
        let layers = Layers::NONE
            .over(Source::Cgroup, by_admin(Level::BE))
            .over(Source::Process, Some(process))
            .over(Source::Thread, Some(thread));
        assert_eq!(level(layers), (Some(Level::BE), Source::Cgroup));
        let decided = layers.weight();
        assert_eq!((decided.value, decided.origin.assignment), (weight, 7));
        let slice = layers.timeslice.decide(Us(200), Origin::NONE);
        assert_eq!((slice.value, slice.origin.assignment), (Us(100), 8));
    }

    #[test]
    fn sharing_sheds_no_class_that_does_not_raise() {
        for number in Level::ALL {
            let class = Layers::NONE.over(Source::Cgroup, by_admin(number));
            let (alone, shared) = (class.effective(false), class.effective(true));
            let raises = number.is_above(Level::DEFAULT);
            assert_eq!(shared.level, if raises { None } else { alone.level });
            assert!(!shared.rank().is_above(alone.rank()));
        }
        let slice = Assignment {
            timeslice: Some(Own::privileged(Us(900), false)),
            ..Assignment::NONE
        };
        let class = Layers::NONE.over(Source::Tsg, Some(slice)).effective(true);
        assert!(class.is_held_down);
        let decided = class.timeslice.decide(Us(200), Origin::NONE);
        assert_eq!(decided.value, Us(200));
    }
}
