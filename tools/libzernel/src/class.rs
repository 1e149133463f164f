// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of targets: attributes to set, and those in force.

use std::fmt;

use bytemuck::Zeroable;
use serde::{Serialize, Serializer};

use crate::sys::{abi, zernel as calls};
use crate::{Call, Error, Level, Result, Source, Target, Timestamp, Weight, Zernel};

/// Values of some attributes of a class.
///
/// ```
/// use libzernel::{class::Attributes, Level};
///
/// let class = Attributes::from(Level::BE).timeslice_us(500);
/// # assert_eq!(class.level, Some(Level::BE));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attributes {
    /// The level.
    pub level: Option<Level>,
    /// The share of GPU time where best-effort TSGs take turns.
    pub weight: Option<Weight>,
    /// The time slice in place of that of the level, in microseconds.
    pub timeslice_us: Option<u32>,
}

impl From<Level> for Attributes {
    fn from(level: Level) -> Self {
        Self {
            level: Some(level),
            ..Self::default()
        }
    }
}

impl From<Weight> for Attributes {
    fn from(weight: Weight) -> Self {
        Self {
            weight: Some(weight),
            ..Self::default()
        }
    }
}

impl Attributes {
    /// With this weight.
    #[must_use]
    pub fn weight(self, weight: Weight) -> Self {
        Self {
            weight: Some(weight),
            ..self
        }
    }

    /// With a time slice of so many microseconds, 10 to 10,000,000.
    #[must_use]
    pub fn timeslice_us(self, us: u32) -> Self {
        Self {
            timeslice_us: Some(us),
            ..self
        }
    }

    /// The attributes that are there.
    pub fn names(&self) -> Set {
        let bit = |is: bool, name: Set| if is { name } else { Set::NONE };
        bit(self.level.is_some(), Set::LEVEL)
            | bit(self.weight.is_some(), Set::WEIGHT)
            | bit(self.timeslice_us.is_some(), Set::TIMESLICE)
    }

    fn from_abi(own: Set, level: u32, weight: u32, timeslice_us: u32) -> Result<Self> {
        let has = |name| own.contains(name);
        Ok(Self {
            level: match has(Set::LEVEL) {
                true => Level::from_abi(level)?,
                false => None,
            },
            weight: match has(Set::WEIGHT) {
                true => Some(Weight::from_abi(weight)?),
                false => None,
            },
            timeslice_us: has(Set::TIMESLICE).then_some(timeslice_us),
        })
    }
}

/// Attributes of a class by name.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Set(u32);

impl Set {
    /// None.
    pub const NONE: Self = Self(0);
    /// The level.
    pub const LEVEL: Self = Self(abi::ZERNEL_CLASS_LEVEL);
    /// The weight.
    pub const WEIGHT: Self = Self(abi::ZERNEL_CLASS_WEIGHT);
    /// The time slice.
    pub const TIMESLICE: Self = Self(abi::ZERNEL_CLASS_TIMESLICE);
    /// All, also those that this crate does not know.
    pub const ALL: Self = Self(u32::MAX);

    const NAMES: [(Self, &'static str); 5] = [
        (Self::LEVEL, "level"),
        (Self::WEIGHT, "weight"),
        (Self::TIMESLICE, "timeslice"),
        (Self(abi::ZERNEL_CLASS_PREEMPTIBLE), "preemptible"),
        (Self(abi::ZERNEL_CLASS_DEADLINE), "deadline"),
    ];

    /// True if all of `other` are in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of those that this crate knows.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let known = Self::NAMES.into_iter();
        known
            .filter(move |(name, _)| self.contains(*name))
            .map(|(_, text)| text)
    }
}

impl std::ops::BitOr for Set {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for Set {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

/// Reasons for a value that is not that of the assignment that would decide it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Why(u32);

impl Why {
    /// None.
    pub const NONE: Self = Self(0);
    /// Set without privilege, it would give something.
    pub const UNPRIVILEGED: Self = Self(abi::ZERNEL_WHY_UNPRIVILEGED);
    /// The TSG carries the work of several processes.
    pub const SHARED: Self = Self(abi::ZERNEL_WHY_SHARED);
    /// The bounds of tunables or of the GPU.
    pub const CLAMPED: Self = Self(abi::ZERNEL_WHY_CLAMPED);
    /// The budget of the level is spent.
    pub const THROTTLED: Self = Self(abi::ZERNEL_WHY_THROTTLED);
    /// Best-effort TSGs take turns.
    pub const TURNS: Self = Self(abi::ZERNEL_WHY_TURNS);
    /// The tunable `enabled` is 0.
    pub const DISABLED: Self = Self(abi::ZERNEL_WHY_DISABLED);
    /// The TSG is not on a compute engine.
    pub const ENGINE: Self = Self(abi::ZERNEL_WHY_ENGINE);
    /// The TSG yields to a request with an earlier deadline.
    pub const YIELDS: Self = Self(abi::ZERNEL_WHY_YIELDS);

    const TEXTS: [(Self, &'static str, &'static str); 8] = [
        (
            Self::UNPRIVILEGED,
            "unprivileged",
            "what was set without privilege takes nothing",
        ),
        (
            Self::SHARED,
            "shared",
            "the TSG carries the work of several processes",
        ),
        (Self::CLAMPED, "clamped", "bounds of tunables or of the GPU"),
        (
            Self::THROTTLED,
            "throttled",
            "the budget of the level is spent",
        ),
        (Self::TURNS, "turns", "best-effort TSGs take turns"),
        (Self::DISABLED, "disabled", "classes are switched off"),
        (
            Self::ENGINE,
            "engine",
            "the TSG neither computes nor copies, or copies have no class",
        ),
        (
            Self::YIELDS,
            "yields",
            "the TSG yields to a request with an earlier deadline",
        ),
    ];

    /// True if all of `other` are among them.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The reasons as words, each for programs and for people.
    fn texts(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let known = Self::TEXTS.into_iter();
        let known = known.filter(move |(why, ..)| self.contains(*why));
        let all = Self::TEXTS.iter().fold(0, |all, (why, ..)| all | why.0);
        let other = (self.0 & !all != 0).then_some(("other", "a reason that is not known here"));
        known.map(|(_, name, text)| (name, text)).chain(other)
    }
}

impl std::ops::BitOr for Why {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.texts().map(|(name, _)| name))
            .finish()
    }
}

/// For people, separated by commas.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.texts().map(|(_, text)| text).collect();
        f.write_str(&texts.join(", "))
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.texts().map(|(name, _)| name))
    }
}

/// An attribute in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Value<T> {
    /// The value.
    pub value: T,
    /// Its origin.
    pub source: Source,
    /// The id of the assignment that decides it, if one does that the caller may see.
    pub assignment: Option<u64>,
    /// Reasons for which it is not that of the assignment that would decide it.
    pub why: Why,
}

impl<T> Value<T> {
    fn from_abi(raw: &abi::zernel_value, value: impl FnOnce(u32) -> Result<T>) -> Result<Self> {
        let number = u32::try_from(raw.value);
        Ok(Self {
            value: value(number.map_err(|_| Error::Malformed("a value above all that exist"))?)?,
            source: Source::from_abi(raw.source),
            assignment: Some(raw.assignment).filter(|&id| id != 0),
            why: Why(raw.why),
        })
    }
}

/// The class of a target: its own attributes, and those in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The id of the target's own assignment.
    pub assignment: Option<u64>,
    /// The attributes of that.
    pub own: Attributes,
    /// Those of them that rest on privilege.
    pub privileged: Set,
    /// The level in force; `None`: not classed.
    pub level: Value<Option<Level>>,
    /// The weight in force.
    pub weight: Value<Weight>,
    /// The time slice in force, in microseconds; 0: the driver's own.
    pub timeslice_us: Value<u32>,
}

impl TryFrom<&abi::zernel_class_get> for Class {
    type Error = Error;

    fn try_from(raw: &abi::zernel_class_get) -> Result<Self> {
        let own = Set(raw.own);
        Ok(Self {
            assignment: Some(raw.assignment).filter(|&id| id != 0),
            own: Attributes::from_abi(own, raw.own_level, raw.own_weight, raw.own_timeslice_us)?,
            privileged: Set(raw.own_privileged),
            level: Value::from_abi(&raw.level, Level::from_abi)?,
            weight: Value::from_abi(&raw.weight, Weight::from_abi)?,
            timeslice_us: Value::from_abi(&raw.timeslice_us, Ok)?,
        })
    }
}

/// The target of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind", content = "id")]
#[non_exhaustive]
pub enum Of {
    /// A cgroup by the inode number of its directory.
    Cgroup(u64),
    /// A process.
    Process(u64),
    /// A thread.
    Thread(u64),
    /// A TSG.
    Tsg(u64),
    /// A thread or process that the caller cannot see from its pid namespace.
    Unseen,
}

impl Of {
    fn from_abi(raw: &abi::zernel_target) -> Self {
        match raw.kind {
            abi::ZERNEL_TARGET_CGROUP => Self::Cgroup(raw.id),
            abi::ZERNEL_TARGET_PROCESS => Self::Process(raw.id),
            abi::ZERNEL_TARGET_THREAD => Self::Thread(raw.id),
            abi::ZERNEL_TARGET_TSG => Self::Tsg(raw.id),
            _ => Self::Unseen,
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Cgroup(id) => format!("cgroup {id}"),
            Self::Process(id) => format!("process {id}"),
            Self::Thread(id) => format!("thread {id}"),
            Self::Tsg(id) => format!("tsg {id}"),
            Self::Unseen => "-".to_owned(),
        };
        f.pad(&text)
    }
}

/// An assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Its id.
    pub id: u64,
    /// Its target.
    pub target: Of,
    /// The user that made it or changed it last.
    pub uid: u32,
    /// When that was.
    pub made_ns: Timestamp,
    /// Its attributes.
    pub own: Attributes,
    /// Those of them that rest on privilege.
    pub privileged: Set,
    /// TSGs with their level from it.
    pub tsgs: u32,
}

impl TryFrom<&abi::zernel_class_info> for Assignment {
    type Error = Error;

    fn try_from(raw: &abi::zernel_class_info) -> Result<Self> {
        let own = Attributes::from_abi(Set(raw.own), raw.level, raw.weight, raw.timeslice_us);
        Ok(Self {
            id: raw.id,
            target: Of::from_abi(&raw.target),
            uid: raw.uid,
            made_ns: Timestamp::from_ns(raw.made_at),
            own: own?,
            privileged: Set(raw.privileged),
            tsgs: raw.tsgs,
        })
    }
}

/// A call for `target` that clears and then sets.
fn request(target: &Target, clear: Set, set: Attributes) -> abi::zernel_class_set {
    abi::zernel_class_set {
        target: target.raw(),
        set: set.names().0,
        clear: clear.0,
        level: set.level.map_or(0, |level| level.number().into()),
        weight: set.weight.map_or(0, Weight::number),
        timeslice_us: set.timeslice_us.unwrap_or(0),
        ..Zeroable::zeroed()
    }
}

impl Zernel {
    /// Gives `target` attributes of a class; those that are not named stay. They live as long as the
    /// target, not as long as this file.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EDQUOT`, `ENOSPC`, `EINVAL`, `ENOENT`, `ESRCH`,
    /// `EBADF` or `EOPNOTSUPP`.
    pub fn set_class(&self, target: &Target, class: impl Into<Attributes>) -> Result<()> {
        self.change_class(target, Set::NONE, class)
    }

    /// Takes all attributes of `target` away; less specific ones apply again.
    ///
    /// Errors: as [`Self::change_class`].
    pub fn clear_class(&self, target: &Target) -> Result<()> {
        self.change_class(target, Set::ALL, Attributes::default())
    }

    /// Takes attributes of `target` away and then gives it others, in one call.
    ///
    /// Errors: as [`Self::set_class`]; `ENODATA` when nothing is set and the target has no
    /// attribute to clear.
    pub fn change_class(
        &self,
        target: &Target,
        clear: Set,
        set: impl Into<Attributes>,
    ) -> Result<()> {
        let set = set.into();
        let call = match set.names().is_empty() {
            true => Call::ClassClear,
            false => Call::ClassSet,
        };
        let mut raw = request(target, clear, set);
        calls::class_set(self.fd(), &mut raw).map_err(self.failed(call))
    }

    /// The class of `target`: its own attributes and those in force.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `ENOENT`, `ESRCH` or `EBADF`.
    pub fn class(&self, target: &Target) -> Result<Class> {
        let mut raw = abi::zernel_class_get {
            target: target.raw(),
            ..Zeroable::zeroed()
        };
        calls::class_get(self.fd(), &mut raw).map_err(Error::call(Call::ClassGet))?;
        Class::try_from(&raw)
    }

    /// All assignments that the caller may see, in the order of their ids.
    ///
    /// One that is there from the first call to the last is seen exactly once.
    pub fn classes(&self) -> impl Iterator<Item = Result<Assignment>> + use<'_> {
        let all = abi::zernel_target::zeroed();
        self.entries(Call::ListClasses, abi::ZERNEL_LIST_CLASSES, all)
            .map(|raw| Assignment::try_from(&raw?))
    }

    /// The assignment of `target` alone, if it has one that the caller may see.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`, `ESRCH` or `EBADF`.
    pub fn class_of(&self, target: &Target) -> Result<Option<Assignment>> {
        self.entries(Call::ListClasses, abi::ZERNEL_LIST_CLASSES, target.raw())
            .next()
            .map(|raw| Assignment::try_from(&raw?))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsg;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_carry_what_is_named_and_nothing_else(
            id: u64,
            level in proptest::option::of(0u8..8),
            weight in proptest::option::of(1u32..=10_000),
            timeslice_us in proptest::option::of(10u32..=10_000_000),
        ) {
            let set = Attributes {
                level: level.and_then(Level::new),
                weight: weight.and_then(Weight::new),
                timeslice_us,
            };
            let raw = request(&Target::Tsg(tsg::Id::new(id)), Set::WEIGHT, set);
            prop_assert_eq!((raw.target.kind, raw.target.id), (abi::ZERNEL_TARGET_TSG, id));
            prop_assert_eq!(raw.clear, abi::ZERNEL_CLASS_WEIGHT);
            let back = Attributes::from_abi(Set(raw.set), raw.level, raw.weight, raw.timeslice_us);
            prop_assert_eq!(back, Ok(set));
            prop_assert_eq!((raw.preemptible, raw.deadline_ns), (0, 0));
            prop_assert_eq!(raw.level, u32::from(level.unwrap_or(0)));
        }

        #[test]
        fn answers_never_hold_what_does_not_exist(level: u64, weight: u64) {
            let mut raw = answered();
            (raw.level.value, raw.weight.value) = (level, weight);
            let known = level < 8 || level == u64::from(abi::ZERNEL_LEVEL_NONE);
            let good = known && (1..=10_000).contains(&weight);
            prop_assert_eq!(Class::try_from(&raw).is_ok(), good);
        }
    }

    #[test]
    fn an_answer_tells_own_attributes_and_those_in_force() {
        let mut raw = answered();
        (raw.assignment, raw.own) = (9, abi::ZERNEL_CLASS_TIMESLICE);
        (raw.own_privileged, raw.own_timeslice_us) = (abi::ZERNEL_CLASS_TIMESLICE, 500);
        raw.level.value = abi::ZERNEL_LEVEL_BE.into();
        raw.level.source = abi::ZERNEL_SOURCE_CGROUP;
        raw.timeslice_us = abi::zernel_value {
            value: 50,
            assignment: 9,
            source: abi::ZERNEL_SOURCE_PROCESS,
            why: abi::ZERNEL_WHY_TURNS | 1 << 20,
        };
        let class = Class::try_from(&raw).unwrap();
        assert_eq!(class.own, Attributes::default().timeslice_us(500));
        assert_eq!(
            (class.assignment, class.privileged),
            (Some(9), Set::TIMESLICE)
        );
        assert_eq!(class.level.value, Some(Level::BE));
        assert_eq!(
            (class.level.source, class.level.assignment),
            (Source::Cgroup, None)
        );
        let json = serde_json::to_value(class).unwrap();
        assert_eq!(json["own"]["level"], serde_json::Value::Null);
        assert_eq!(json["timeslice_us"]["why"][0], "turns");
        assert_eq!(json["timeslice_us"]["why"][1], "other");
        assert_eq!(json["privileged"][0], "timeslice");
        let text = class.timeslice_us.why.to_string();
        assert_eq!(
            text,
            "best-effort TSGs take turns, a reason that is not known here"
        );
    }

    #[test]
    fn an_assignment_of_what_cannot_be_seen_has_no_target() {
        let mut raw = abi::zernel_class_info::zeroed();
        assert_eq!(Assignment::try_from(&raw).unwrap().target, Of::Unseen);
        raw.target.kind = abi::ZERNEL_TARGET_PROCESS;
        raw.target.id = 7;
        let assignment = Assignment::try_from(&raw).unwrap();
        assert_eq!(assignment.target.to_string(), "process 7");
        let json = serde_json::to_value(assignment).unwrap();
        assert_eq!(json["target"]["kind"], "process");
        assert_eq!(json["target"]["id"], 7);
    }

    /// An answer about a target without a class.
    fn answered() -> abi::zernel_class_get {
        let mut raw = abi::zernel_class_get::zeroed();
        raw.level.value = abi::ZERNEL_LEVEL_NONE.into();
        raw.weight.value = abi::ZERNEL_WEIGHT_DEFAULT.into();
        raw
    }
}
