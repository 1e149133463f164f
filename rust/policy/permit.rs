// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Permission to set and clear attributes.

#[cfg(any(test, zernel_kunit))]
mod scenarios;

use super::{
    attribute::{
        Decided,
        Origin,
        Own,
        Value, //
    },
    class::{
        Assignment,
        Layers,
        Source,
        Values, //
    },
    level::Level,
    tunables::Tunables,
    units::Us, //
};

/// The kernel's account of the caller of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The target belongs to the caller.
    pub(crate) owner: bool,
    /// The caller has `CAP_SYS_NICE`.
    pub(crate) capable: bool,
    /// The caller is a member of the group `lc_gid`.
    pub(crate) member: bool,
}

impl Caller {
    /// True if it is a manager.
    pub(crate) fn is_manager(self) -> bool {
        self.capable || self.member
    }
}

/// The assignments that a user has, and may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// Assignments of the user, the one that changes not counted.
    pub(crate) held: u32,
    /// Most assignments of a user without `CAP_SYS_NICE`.
    pub(crate) most: u32,
    /// Raised assignments of all members together, the one that changes not counted.
    pub(crate) raised: u32,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It gives something, or names another user's target, without privilege.
    NotPermitted,
    /// It is over the caller's quota or the admission budget.
    OverQuota,
    /// It only clears, and there is nothing of that.
    NotAssigned,
}

/// Attributes by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// The level.
    pub(crate) level: bool,
    /// The weight.
    pub(crate) weight: bool,
    /// The time slice.
    pub(crate) timeslice: bool,
}

#[cfg(any(test, zernel_kunit))]
impl Set {
    /// All of them.
    pub(crate) const ALL: Self = Self {
        level: true,
        weight: true,
        timeslice: true,
    };
}

/// A call: attributes to clear, and then to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Attributes that end.
    pub(crate) clear: Set,
    /// Attributes that get a value.
    pub(crate) set: Values,
}

impl From<Level> for Change {
    fn from(level: Level) -> Self {
        Self {
            clear: Set::default(),
            set: level.into(),
        }
    }
}

#[cfg(any(test, zernel_kunit))]
impl Change {
    /// Clears everything.
    pub(crate) const CLEAR: Self = Self {
        clear: Set::ALL,
        set: Values {
            level: None,
            weight: None,
            timeslice: None,
        },
    };
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The assignment from now on; an empty one is none.
    pub(crate) assignment: Assignment,
    /// It counts towards the admission budget.
    pub(crate) raised: bool,
}

/// Decides a call for a target that has `own` on top of `beneath`.
///
/// The owner may lower its target, or set the same value; it may clear an unprivileged attribute if
/// nothing is gained. All else is a manager's. Members of `lc_gid` are bound by the admission
/// budget as far as they raise: above [`Level::DEFAULT`], or to a longer time slice than that level
/// has.
pub(crate) fn change(
    caller: Caller,
    change: Change,
    own: Option<Assignment>,
    beneath: &Layers,
    tunables: &Tunables,
    quota: Quota,
) -> Result<Grant, Denied> {
    let own = own.unwrap_or(Assignment::NONE);
    if !caller.owner && !caller.is_manager() {
        return Err(Denied::NotPermitted);
    }
    let now = beneath.over(Source::Tsg, Some(own));
    let slice = beneath_slice(&now, tunables);
    let assignment = Assignment {
        id: own.id,
        level: Asked {
            set: change.set.level,
            clear: change.clear.level,
            own: own.level,
            now: now.level(),
            then: beneath.level(),
        }
        .decide(caller)?,
        weight: Asked {
            set: change.set.weight,
            clear: change.clear.weight,
            own: own.weight,
            now: now.weight(),
            then: beneath.weight(),
        }
        .decide(caller)?,
        timeslice: Asked {
            set: change.set.timeslice,
            clear: change.clear.timeslice,
            own: own.timeslice,
            now: now.timeslice.decide(slice, Origin::NONE),
            then: beneath.timeslice.decide(slice, Origin::NONE),
        }
        .decide(caller)?,
    };
    let is_had = |asked: bool, had: bool| asked && had;
    let clears = is_had(change.clear.level, own.level.is_some())
        || is_had(change.clear.weight, own.weight.is_some())
        || is_had(change.clear.timeslice, own.timeslice.is_some());
    let sets = change.set != Values::default();
    if !sets && !clears {
        return Err(Denied::NotAssigned);
    }
    let level_raises = assignment
        .level
        .is_some_and(|own| own.is_by_member() && raises_level(own.value()));
    let slice_raises = assignment
        .timeslice
        .is_some_and(|own| own.is_by_member() && raises_slice(own.value(), tunables));
    let is_more = (change.set.level.is_some() && level_raises)
        || (change.set.timeslice.is_some() && slice_raises);
    if !caller.capable && !assignment.is_empty() && quota.held >= quota.most {
        return Err(Denied::OverQuota);
    }
    if caller.is_manager() && is_more && quota.raised >= tunables.lc_admission() {
        return Err(Denied::OverQuota);
    }
    Ok(Grant {
        assignment,
        raised: level_raises || slice_raises,
    })
}

/// The time slice beneath all assignments: that of the level in force. Without one it is the
/// driver's, which no slice without privilege ever exceeds.
fn beneath_slice(now: &Layers, tunables: &Tunables) -> Us {
    match now.effective(false).level {
        Some(level) => tunables.timeslice(level),
        None => Us(u32::MAX),
    }
}

fn raises_level(level: Level) -> bool {
    level.is_above(Level::DEFAULT)
}

fn raises_slice(slice: Us, tunables: &Tunables) -> bool {
    slice > tunables.timeslice(Level::DEFAULT)
}

/// The part of a call that concerns one attribute.
struct Asked<V> {
    set: Option<V>,
    clear: bool,
    own: Option<Own<V>>,
    /// In force for the target.
    now: Decided<V>,
    /// In force without its own assignment.
    then: Decided<V>,
}

impl<V: Value> Asked<V> {
    fn decide(self, caller: Caller) -> Result<Option<Own<V>>, Denied> {
        if caller.is_manager() {
            let set = self
                .set
                .map(|value| Own::privileged(value, !caller.capable));
            return Ok(set.or(self.own.filter(|_| !self.clear)));
        }
        if self.clear && self.own.is_some_and(|own| own.is_privileged()) {
            return Err(Denied::NotPermitted);
        }
        let gains = |value: V| self.now.value.is_less(value);
        match self.set {
            // Nothing changes, with any layer beneath by now.
            Some(value) if self.own.is_some_and(|own| own.value() == value) => Ok(self.own),
            Some(value) if gains(value) => Err(Denied::NotPermitted),
            Some(value) => Ok(Some(Own::lowered(value, self.own))),
            None if self.clear && self.own.is_some() && gains(self.then.value) => {
                Err(Denied::NotPermitted)
            }
            None => Ok(self.own.filter(|_| !self.clear)),
        }
    }
}
