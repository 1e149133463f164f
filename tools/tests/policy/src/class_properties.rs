// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invariants of classes, for all orders in which anybody sets and clears attributes.

use crate::policy::{
    attribute::{Own, Source},
    class::{Assignment, Layers, Values},
    level::Level,
    permit::{self, Caller, Change, Denied, Quota, Set},
    rotation::Weight,
    tunables::{settings::Conditions, Tunables},
    units::Us,
};
use proptest::prelude::*;

const OWNER: Caller = Caller {
    owner: true,
    capable: false,
    member: false,
};
const MANAGER: Caller = Caller {
    owner: false,
    capable: true,
    member: false,
};
const FREE: Quota = Quota {
    held: 0,
    most: 9,
    raised: 0,
};
/// From the least specific on: a cgroup, a process, a thread, a TSG.
const SOURCES: [Source; 4] = [Source::Cgroup, Source::Process, Source::Thread, Source::Tsg];
/// The time slice that the driver gives.
const DRIVERS: Us = Us(1024);

/// A TSG, and everything that it gets its class from.
#[derive(Clone, Debug, Default, PartialEq)]
struct World {
    default: Option<Level>,
    own: [Option<Assignment>; 4],
}

/// More is larger, for each attribute: urgency, weight, time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gets {
    urgency: u32,
    weight: u32,
    slice: u32,
}

impl Gets {
    fn is_within(self, other: Self) -> bool {
        self.urgency <= other.urgency && self.weight <= other.weight && self.slice <= other.slice
    }
}

impl World {
    /// The layers of the target in `slot`, without its own.
    fn beneath(&self, slot: usize) -> Layers {
        let below = SOURCES.iter().zip(self.own).take(slot);
        below.fold(Layers::default_class(self.default), |layers, (&s, own)| {
            layers.over(s, own)
        })
    }

    fn layers(&self) -> Layers {
        self.beneath(4)
    }

    /// The attributes of a TSG of which `slot` is the most specific target.
    fn gets_at(&self, slot: usize) -> Gets {
        let layers = self.beneath(slot + 1);
        let effective = layers.effective(false);
        let tunables = Tunables::new();
        let (slice, ..) = tunables
            .meaning()
            .told_slice(effective, Conditions::NONE, Some(DRIVERS));
        Gets {
            urgency: 7 - effective.rank().number(),
            weight: effective.weight.number(),
            slice: if slice == Us(0) { DRIVERS.0 } else { slice.0 },
        }
    }

    fn gets(&self) -> Gets {
        self.gets_at(3)
    }

    fn call(&mut self, caller: Caller, slot: usize, change: Change) -> Result<(), Denied> {
        let beneath = self.beneath(slot);
        let tunables = Tunables::new();
        let own = self.own[slot];
        let grant = permit::change(caller, change, own, &beneath, &tunables, FREE)?;
        self.own[slot] = Some(grant.assignment).filter(|own| !own.is_empty());
        Ok(())
    }
}

fn level() -> impl Strategy<Value = Level> {
    (0u32..8).prop_map(|n| Level::new(n).unwrap())
}

fn weight() -> impl Strategy<Value = Weight> {
    prop_oneof![Just(1), Just(1024), 1u32..=10_000].prop_map(|n| Weight::new(n).unwrap())
}

/// Slices within the tunables' bounds, many of them those of levels.
fn slice() -> impl Strategy<Value = Us> {
    prop_oneof![
        level().prop_map(Level::default_timeslice),
        (50u32..5_000_000).prop_map(Us),
        (50u32..3_000).prop_map(Us),
    ]
}

fn values() -> impl Strategy<Value = Values> {
    let option = |percent| percent;
    (
        proptest::option::weighted(option(0.4), level()),
        proptest::option::weighted(option(0.4), weight()),
        proptest::option::weighted(option(0.4), slice()),
    )
        .prop_map(|(level, weight, timeslice)| Values {
            level,
            weight,
            timeslice,
        })
}

fn set() -> impl Strategy<Value = Set> {
    prop_oneof![
        2 => Just(Set::default()),
        1 => Just(Set::ALL),
        1 => any::<[bool; 3]>().prop_map(|[level, weight, timeslice]| Set { level, weight, timeslice }),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    (set(), values()).prop_map(|(clear, set)| Change { clear, set })
}

#[derive(Clone, Debug)]
struct Call {
    by_manager: bool,
    slot: usize,
    change: Change,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (any::<bool>(), 0usize..4, change()).prop_map(|(by_manager, slot, change)| Call {
        by_manager,
        slot,
        change,
    });
    proptest::collection::vec(call, 1..24)
}

fn world() -> impl Strategy<Value = World> {
    (proptest::option::of(level()), calls()).prop_map(|(default, calls)| {
        let mut world = World {
            default,
            ..World::default()
        };
        for call in calls {
            let caller = if call.by_manager { MANAGER } else { OWNER };
            let _ = world.call(caller, call.slot, call.change);
        }
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever owners set and clear, at whatever time: they have no more than managers alone would
    /// have given them.
    #[test]
    fn owners_gain_nothing_over_what_managers_gave(
        default in proptest::option::of(level()), calls in calls(),
    ) {
        let mut all = World { default, ..World::default() };
        let mut managed = all.clone();
        for call in calls {
            if call.by_manager {
                let _ = managed.call(MANAGER, call.slot, call.change);
                let _ = all.call(MANAGER, call.slot, call.change);
            } else {
                let _ = all.call(OWNER, call.slot, call.change);
            }
            for slot in 0..4 {
                let (all, managed) = (all.gets_at(slot), managed.gets_at(slot));
                prop_assert!(all.is_within(managed), "{all:?} {managed:?}");
            }
        }
    }

    /// A single call of an owner gains nothing for the target over what it has.
    #[test]
    fn an_owner_never_gains(world in world(), slot in 0usize..4, change in change()) {
        let mut after = world.clone();
        if after.call(OWNER, slot, change).is_ok() {
            prop_assert!(after.gets_at(slot).is_within(world.gets_at(slot)));
            let (now, before) = (after.gets(), world.gets());
            prop_assert!(now.urgency <= before.urgency && now.weight <= before.weight);
        } else {
            prop_assert_eq!(after, world);
        }
    }

    /// Clearing all and setting leaves what was set, whatever was there; a second time changes
    /// nothing.
    #[test]
    fn clear_all_then_set_is_idempotent(world in world(), slot in 0usize..4, values in values()) {
        prop_assume!(values != Values::default());
        let change = Change { clear: Set::ALL, set: values };
        let mut after = world.clone();
        prop_assert!(after.call(MANAGER, slot, change).is_ok());
        let own = after.own[slot].unwrap();
        let found = Values {
            level: own.level.map(|own| own.value()),
            weight: own.weight.map(|own| own.value()),
            timeslice: own.timeslice.map(|own| own.value()),
        };
        prop_assert_eq!(found, values);
        let once = after.clone();
        prop_assert!(after.call(MANAGER, slot, change).is_ok());
        prop_assert_eq!(&after, &once);
        // The same for an owner where it may at all.
        let mut owners = world;
        if owners.call(OWNER, slot, change).is_ok() {
            let once = owners.clone();
            prop_assert!(owners.call(OWNER, slot, change).is_ok());
            prop_assert_eq!(owners, once);
        }
    }

    /// No attribute depends on others; the time slice only on the level.
    #[test]
    fn attributes_are_decided_one_by_one(world in world()) {
        let only = |keep: Set| {
            let mut world = world.clone();
            world.own = world.own.map(|own| own.map(|own| Assignment {
                level: own.level.filter(|_| keep.level),
                weight: own.weight.filter(|_| keep.weight),
                timeslice: own.timeslice.filter(|_| keep.timeslice),
                ..own
            }));
            world
        };
        let none = Set::default();
        let (all, layers) = (world.gets(), world.layers());
        let level = only(Set { level: true, ..none });
        prop_assert_eq!(level.gets().urgency, all.urgency);
        prop_assert_eq!(level.layers().level, layers.level);
        let weight = only(Set { weight: true, ..none });
        prop_assert_eq!(weight.gets().weight, all.weight);
        let slice = only(Set { weight: false, ..Set::ALL });
        prop_assert_eq!(slice.gets().slice, all.slice);
        prop_assert_eq!(only(Set { timeslice: true, ..none }).layers().timeslice, layers.timeslice);
    }

    /// With privilege everywhere, precedence is simply "the most specific one that has it".
    #[test]
    fn privileged_precedence(default in proptest::option::of(level()),
                             given in proptest::array::uniform4(values())) {
        let mut world = World { default, ..World::default() };
        for (slot, values) in given.iter().enumerate() {
            let _ = world.call(MANAGER, slot, Change { clear: Set::default(), set: *values });
        }
        let layers = world.layers();
        let last = given.iter().rev();
        let level = last.clone().find_map(|v| v.level).or(default);
        prop_assert_eq!(layers.effective(false).level, level);
        let weight = last.clone().find_map(|v| v.weight).unwrap_or(Weight::DEFAULT);
        prop_assert_eq!(layers.weight().value, weight);
        let slice = last.clone().find_map(|v| v.timeslice);
        let told = layers.timeslice.decide_alone().map(|(decided, _)| decided.value);
        prop_assert_eq!(told, slice);
    }

    /// The origin that is named has the attribute, with the value in force.
    #[test]
    fn origins_are_true(world in world()) {
        let layers = world.layers();
        let at = |source| SOURCES.iter().position(|&s| s == source).and_then(|i| world.own[i]);
        let level = layers.level();
        match level.origin.source {
            Source::None => prop_assert_eq!(level.value, Level::DEFAULT),
            Source::Default => prop_assert_eq!(Some(level.value), world.default),
            source => {
                let own = at(source).and_then(|own| own.level);
                prop_assert_eq!(own.map(|own| own.value()), Some(level.value));
            }
        }
        let weight = layers.weight();
        if weight.origin.source != Source::None {
            let own = at(weight.origin.source).and_then(|own| own.weight);
            prop_assert_eq!(own.map(|own| own.value()), Some(weight.value));
        }
        // One that does not count is the most specific that has the attribute, and has no privilege.
        if level.is_passed_over {
            let last = world.own.iter().rev().find_map(|own| own.and_then(|own| own.level));
            prop_assert!(last.is_some_and(|own| !own.is_privileged()));
        }
    }
}

/// A deed with one attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Low,
    High,
    Clear,
}

/// An attribute, with values that are less and more than what everybody has.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Level,
    Weight,
    Slice,
}

fn deed(kind: Kind, deed: Deed) -> Change {
    let mut change = Change::default();
    let high = deed == Deed::High;
    match (kind, deed) {
        (Kind::Level, Deed::Clear) => change.clear.level = true,
        (Kind::Weight, Deed::Clear) => change.clear.weight = true,
        (Kind::Slice, Deed::Clear) => change.clear.timeslice = true,
        (Kind::Level, _) => change.set.level = Some(if high { Level::LC } else { Level::BE }),
        (Kind::Weight, _) => change.set.weight = Weight::new(if high { 9000 } else { 9 }).ok(),
        (Kind::Slice, _) => change.set.timeslice = Some(Us(if high { 9000 } else { 90 })),
    }
    change
}

/// All orders of six deeds of a manager and an owner at one target, against the rules as the header
/// has them: the value of a manager, lowered by the owner; or the owner's own, where it takes.
#[test]
fn all_orders_of_owner_and_manager() {
    let deeds = [Deed::Low, Deed::High, Deed::Clear];
    for kind in [Kind::Level, Kind::Weight, Kind::Slice] {
        for number in 0..6u32.pow(6) {
            let mut world = World::default();
            // The most that a manager allowed, and the value: is it high?
            let (mut allowed, mut value): (Option<bool>, Option<bool>) = (None, None);
            let mut rest = number;
            for _ in 0..6 {
                let (by_manager, what) = (rest % 2 == 0, deeds[(rest / 2 % 3) as usize]);
                rest /= 6;
                let caller = if by_manager { MANAGER } else { OWNER };
                let answer = world.call(caller, 1, deed(kind, what));
                // A slice is never more than the driver's, so that an owner may ask for any.
                let is_free = matches!(kind, Kind::Slice) && allowed.is_none();
                let want = match (by_manager, what) {
                    (_, Deed::Clear) if value.is_none() => Err(Denied::NotAssigned),
                    (true, Deed::Clear) => {
                        (allowed, value) = (None, None);
                        Ok(())
                    }
                    (true, _) => {
                        value = Some(what == Deed::High);
                        allowed = value;
                        Ok(())
                    }
                    (false, Deed::Clear) => Err(Denied::NotPermitted),
                    (false, Deed::High) if is_free && value != Some(false) => {
                        value = Some(true);
                        Ok(())
                    }
                    (false, Deed::High) if value == Some(true) && allowed == value => Ok(()),
                    (false, Deed::High) => Err(Denied::NotPermitted),
                    (false, Deed::Low) => {
                        value = Some(false);
                        Ok(())
                    }
                };
                assert_eq!(answer, want, "{kind:?} {number} {what:?} {by_manager}");
                let nothing = World::default().gets();
                let gets = world.gets();
                let at_most = |high: Option<bool>| {
                    let mut world = World::default();
                    if let Some(high) = high {
                        let what = if high { Deed::High } else { Deed::Low };
                        let own = deed(kind, what);
                        world.call(MANAGER, 1, own).unwrap();
                    }
                    world.gets()
                };
                // Without privilege there is never more than nothing at all gives.
                if allowed.is_none() {
                    assert!(gets.is_within(nothing), "{kind:?} {number}");
                } else {
                    assert_eq!(gets, at_most(value), "{kind:?} {number}");
                }
            }
        }
    }
}

/// An owner that has the same as what lies beneath has not taken it over: it ends with that.
#[test]
fn the_same_is_no_assignment_of_ones_own() {
    let mut world = World::default();
    world.call(MANAGER, 0, Level::BE.into()).unwrap();
    world.call(OWNER, 1, Level::BE.into()).unwrap();
    assert_eq!(world.layers().level().origin.source, Source::Cgroup);
    assert!(world.own[1].is_some_and(|own| own.level == Some(Own::unprivileged(Level::BE))));
}
