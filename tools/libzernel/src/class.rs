// SPDX-License-Identifier: GPL-2.0
//! The class of a target.

use bytemuck::Zeroable;
use serde::Serialize;

use crate::sys::abi;
use crate::{Level, Result, Source, Target, Weight};

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
    /// The weight of the target's own assignment.
    pub weight: Option<Weight>,
    /// The weight in force for it.
    pub effective_weight: Weight,
    /// The assignment rests on privilege: it was made with it, or lowers what was.
    pub privileged: bool,
}

/// A request for `target`; `level` is what to set, `None` for the other calls; without `weight`
/// the one that the target has stays.
pub(crate) fn request(
    target: &Target,
    level: Option<Level>,
    weight: Option<Weight>,
) -> abi::zernel_v0_class {
    let (kind, flags, id) = target.encode();
    abi::zernel_v0_class {
        target: kind,
        flags,
        id,
        level: level.map_or(0, |level| u32::from(level.number())),
        weight: weight.map_or(0, Weight::number),
        ..abi::zernel_v0_class::zeroed()
    }
}

/// The answer to a request.
pub(crate) fn answer(raw: &abi::zernel_v0_class) -> Result<Class> {
    Ok(Class {
        level: Level::from_abi(raw.level)?,
        effective: Level::from_abi(raw.effective)?,
        source: Source::from_abi(raw.source),
        timeslice_us: raw.timeslice_us,
        weight: match raw.weight {
            0 => None,
            number => Some(Weight::from_abi(number)?),
        },
        effective_weight: match raw.effective_weight {
            // A module that knows of no weights.
            0 => Weight::DEFAULT,
            number => Weight::from_abi(number)?,
        },
        privileged: raw.flags & abi::ZERNEL_V0_CLASS_PRIVILEGED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsg;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_carry_the_target_and_nothing_else(
            id: u64,
            level in 0u8..8,
            weight in 0u32..=10_000,
        ) {
            let level = Level::new(level);
            let raw = request(&Target::Tsg(tsg::Id::new(id)), level, Weight::new(weight));
            prop_assert_eq!(raw.target, abi::ZERNEL_V0_TARGET_TSG);
            prop_assert_eq!(raw.id, id);
            prop_assert_eq!(raw.level, u32::from(level.unwrap().number()));
            prop_assert_eq!((raw.flags, raw.effective, raw.source, raw.timeslice_us), (0, 0, 0, 0));
            prop_assert_eq!((raw.weight, raw.effective_weight), (weight, 0));
        }

        #[test]
        fn answers_never_hold_a_level_above_7(level: u32, effective: u32, flags: u32) {
            let mut raw = answered();
            (raw.level, raw.effective, raw.flags) = (level, effective, flags);
            let known = |raw: u32| raw < 8 || raw == abi::ZERNEL_V0_LEVEL_NONE;
            prop_assert_eq!(answer(&raw).is_ok(), known(level) && known(effective));
        }
    }

    #[test]
    fn answer_tells_own_and_effective_level() {
        let mut raw = answered();
        raw.level = abi::ZERNEL_V0_LEVEL_NONE;
        raw.effective = abi::ZERNEL_V0_LEVEL_BE;
        raw.source = abi::ZERNEL_V0_TARGET_CGROUP;
        raw.timeslice_us = 200;
        raw.flags = abi::ZERNEL_V0_CLASS_PRIVILEGED;
        let class = answer(&raw).unwrap();
        assert_eq!((class.level, class.effective), (None, Some(Level::BE)));
        assert_eq!((class.source, class.privileged), (Source::Cgroup, true));
        assert_eq!(
            (class.weight, class.effective_weight),
            (None, Weight::DEFAULT)
        );
    }

    #[test]
    fn answers_hold_weights_that_exist() {
        for (own, effective, good) in [
            (0, 1, true),
            (10_000, 10_000, true),
            (10_001, 1, false),
            (1, u32::MAX, false),
        ] {
            let mut raw = answered();
            (raw.weight, raw.effective_weight) = (own, effective);
            assert_eq!(answer(&raw).is_ok(), good, "{own} {effective}");
        }
    }

    /// An answer about a target without a class.
    fn answered() -> abi::zernel_v0_class {
        let mut raw = request(&Target::current_process(), None, None);
        (raw.level, raw.effective) = (abi::ZERNEL_V0_LEVEL_NONE, abi::ZERNEL_V0_LEVEL_NONE);
        raw.effective_weight = Weight::DEFAULT.number();
        raw
    }
}
