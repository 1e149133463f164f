// SPDX-License-Identifier: GPL-2.0
//! The class of a target.

use bytemuck::Zeroable;
use serde::Serialize;

use crate::sys::abi;
use crate::{Level, Result, Source, Target};

/// What is in force for a target, and what it was given itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The target's own assignment.
    pub level: Option<Level>,
    /// The level in force for it.
    pub effective: Option<Level>,
    /// What decides the level in force.
    pub source: Source,
    /// Time slice of that level in microseconds, 0 when not classed.
    pub timeslice_us: u32,
    /// The assignment rests on privilege: it was made with it, or lowers what was.
    pub privileged: bool,
}

/// A request for `target`; `level` is what to set, `None` for the other calls.
pub(crate) fn request(target: &Target, level: Option<Level>) -> abi::zernel_class {
    let (kind, flags, id) = target.encode();
    abi::zernel_class {
        target: kind,
        flags,
        id,
        level: level.map_or(0, |level| u32::from(level.number())),
        ..abi::zernel_class::zeroed()
    }
}

/// The answer to a request.
pub(crate) fn answer(raw: &abi::zernel_class) -> Result<Class> {
    Ok(Class {
        level: Level::from_abi(raw.level)?,
        effective: Level::from_abi(raw.effective)?,
        source: Source::from_abi(raw.source),
        timeslice_us: raw.timeslice_us,
        privileged: raw.flags & abi::ZERNEL_CLASS_PRIVILEGED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsg;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_carry_the_target_and_nothing_else(id: u64, level in 0u8..8) {
            let level = Level::new(level);
            let raw = request(&Target::Tsg(tsg::Id::new(id)), level);
            prop_assert_eq!(raw.target, abi::ZERNEL_TARGET_TSG);
            prop_assert_eq!(raw.id, id);
            prop_assert_eq!(raw.level, u32::from(level.unwrap().number()));
            prop_assert_eq!((raw.flags, raw.effective, raw.source, raw.timeslice_us), (0, 0, 0, 0));
        }

        #[test]
        fn answers_never_hold_a_level_above_7(level: u32, effective: u32, flags: u32) {
            let mut raw = abi::zernel_class::zeroed();
            (raw.level, raw.effective, raw.flags) = (level, effective, flags);
            let known = |raw: u32| raw < 8 || raw == abi::ZERNEL_LEVEL_NONE;
            prop_assert_eq!(answer(&raw).is_ok(), known(level) && known(effective));
        }
    }

    #[test]
    fn answer_tells_own_and_effective_level() {
        let mut raw = request(&Target::current_process(), None);
        raw.level = abi::ZERNEL_LEVEL_NONE;
        raw.effective = abi::ZERNEL_LEVEL_BE;
        raw.source = abi::ZERNEL_TARGET_CGROUP;
        raw.timeslice_us = 200;
        raw.flags = abi::ZERNEL_CLASS_PRIVILEGED;
        let class = answer(&raw).unwrap();
        assert_eq!((class.level, class.effective), (None, Some(Level::BE)));
        assert_eq!((class.source, class.privileged), (Source::Cgroup, true));
    }
}
