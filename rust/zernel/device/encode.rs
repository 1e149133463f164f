// SPDX-License-Identifier: GPL-2.0
//! The ABI's form of flags, levels and the attributes of an assignment.

use crate::{
    glue::uapi,
    policy::{
        class::Assignment,
        level::Level, //
    }, //
};

/// Number of a level in force.
pub(super) fn level(level: Option<Level>) -> u32 {
    level.map_or(uapi::ZERNEL_LEVEL_NONE, |level| level.number())
}

/// Those flags that are on.
pub(super) fn combine(flags: &[(bool, u32)]) -> u32 {
    flags
        .iter()
        .fold(0, |all, &(on, flag)| all | if on { flag } else { 0 })
}

/// The attributes of an assignment as the ABI has them.
pub(super) struct Own {
    /// Those that it has.
    pub(super) has: u32,
    /// Those of them that rest on privilege.
    pub(super) privileged: u32,
    /// The level, 0 if it has none.
    pub(super) level: u32,
    /// The weight, likewise.
    pub(super) weight: u32,
    /// The time slice, likewise.
    pub(super) timeslice_us: u32,
}

impl Own {
    /// Those of an assignment.
    pub(super) fn of(own: &Assignment) -> Self {
        let (level, weight, slice) = (own.level, own.weight, own.timeslice);
        let all = [
            (
                uapi::ZERNEL_CLASS_LEVEL,
                level.map(|own| own.is_privileged()),
            ),
            (
                uapi::ZERNEL_CLASS_WEIGHT,
                weight.map(|own| own.is_privileged()),
            ),
            (
                uapi::ZERNEL_CLASS_TIMESLICE,
                slice.map(|own| own.is_privileged()),
            ),
        ];
        Self {
            has: combine(&all.map(|(bit, own)| (own.is_some(), bit))),
            privileged: combine(&all.map(|(bit, own)| (own == Some(true), bit))),
            level: level.map_or(0, |own| own.value().number()),
            weight: weight.map_or(0, |own| own.value().number()),
            timeslice_us: slice.map_or(0, |own| own.value().0),
        }
    }
}
