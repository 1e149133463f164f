// SPDX-License-Identifier: MIT OR Apache-2.0
//! A level on a GPU, or on all of them together.

use serde::Serialize;

use crate::sys::abi;
use crate::{gpu, tsg, Level, Result};

/// Id of a level on a GPU: never used again, not even after a reload of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Id(u64);

impl Id {
    /// Its number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// A level on a GPU: its settings, and the counters of its TSGs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LevelInfo {
    /// Its id.
    pub id: Id,
    /// The GPU; `None`: all GPUs together, also those that are gone.
    pub gpu: Option<gpu::Id>,
    /// The level; `None`: TSGs without a class, and of all GPUs together: all TSGs.
    pub level: Option<Level>,
    /// Its budget is spent.
    pub throttled: bool,
    /// More urgent work takes the engine from its TSGs.
    pub preemptible: bool,
    /// TSGs with this level in force now.
    pub tsgs: u32,
    /// Time slice that the GPU has for it, in microseconds; 0 without a class.
    pub timeslice_us: u32,
    /// Interleave level.
    pub interleave: tsg::Interleave,
    /// GPU time per period, if that is bounded, in microseconds.
    pub budget_us: Option<u64>,
    /// That period.
    pub period_us: u64,
    /// Time that its TSGs ran on their engines, in nanoseconds; as of the last look of the
    /// provider, as the next one.
    pub gpu_ns: u64,
    /// Times that one was taken off the engine while it had work.
    pub preemptions: u64,
    /// Times that the budget was spent.
    pub throttles: u64,
    /// Times that one of its TSGs got its turn.
    pub turns: u64,
}

impl TryFrom<&abi::zernel_level_info> for LevelInfo {
    type Error = crate::Error;

    fn try_from(raw: &abi::zernel_level_info) -> Result<Self> {
        let has = |flag| raw.flags & flag != 0;
        Ok(Self {
            id: Id(raw.id),
            gpu: Some(gpu::Id::new(raw.gpu)).filter(|_| raw.gpu != 0),
            level: Level::from_abi(raw.level)?,
            throttled: has(abi::ZERNEL_LEVEL_THROTTLED),
            preemptible: has(abi::ZERNEL_LEVEL_PREEMPTIBLE),
            tsgs: raw.tsgs,
            timeslice_us: raw.timeslice_us,
            interleave: tsg::Interleave::from_abi(raw.interleave),
            budget_us: Some(raw.budget_us).filter(|&us| us > 0),
            period_us: raw.period_us,
            gpu_ns: raw.gpu_ns,
            preemptions: raw.preemptions,
            throttles: raw.throttles,
            turns: raw.turns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn nothing_is_told_from_zero() {
        let mut raw = abi::zernel_level_info::zeroed();
        (raw.id, raw.level) = (7, abi::ZERNEL_LEVEL_NONE);
        let info = LevelInfo::try_from(&raw).unwrap();
        assert_eq!((info.gpu, info.level, info.budget_us), (None, None, None));
        (raw.gpu, raw.level, raw.flags) = (3, 0, abi::ZERNEL_LEVEL_THROTTLED);
        let info = LevelInfo::try_from(&raw).unwrap();
        assert_eq!(info.gpu, Some(gpu::Id::new(3)));
        assert_eq!(info.level, Some(Level::LC));
        assert!(info.throttled && !info.preemptible);
        raw.level = 8;
        assert!(LevelInfo::try_from(&raw).is_err());
    }
}
