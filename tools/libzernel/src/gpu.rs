// SPDX-License-Identifier: GPL-2.0
//! GPUs as zernel knows them.

use std::fmt;

use serde::Serialize;

use crate::sys::abi;
use crate::text;

/// Id of a GPU: never used again, not even after a reload of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Id(u64);

impl Id {
    /// From its number.
    pub const fn new(id: u64) -> Self {
        Self(id)
    }

    /// Its number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the provider of a GPU can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Abilities {
    /// Set time slices.
    pub timeslice: bool,
    /// Set interleave levels.
    pub interleave: bool,
    /// Take the engine away from a TSG.
    pub preempt: bool,
    /// Keep a TSG from being scheduled.
    pub enable: bool,
    /// Tell how busy the GPU is.
    pub load: bool,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its id.
    pub id: Id,
    /// Name for people.
    pub name: String,
    /// Bus address or instance.
    pub bus: String,
    /// Name of its provider.
    pub provider: String,
    /// What its provider can do.
    pub can: Abilities,
    /// The provider answers "not now".
    pub suspended: bool,
    /// It does not respond, and is left alone until its provider says that it is back.
    pub unresponsive: bool,
    /// Best-effort TSGs take turns on it; otherwise they run in slices.
    pub turns: bool,
    /// TSGs on it now.
    pub tsgs: u32,
    /// TSGs that wait for the worker.
    pub pending: u32,
    /// Share of the last load interval in which it computed, in permille; 0 when not known.
    pub busy_permille: u32,
    /// Settings the provider took.
    pub applied: u64,
    /// Calls answered "not now".
    pub retries: u64,
    /// Calls that failed for good.
    pub errors: u64,
}

impl From<&abi::zernel_v0_gpu_info> for Gpu {
    fn from(raw: &abi::zernel_v0_gpu_info) -> Self {
        let has = |flag| raw.flags & flag != 0;
        Self {
            id: Id(raw.id),
            name: text::from_chars(&raw.name),
            bus: text::from_chars(&raw.bus),
            provider: text::from_chars(&raw.provider),
            can: Abilities {
                timeslice: has(abi::ZERNEL_V0_GPU_TIMESLICE),
                interleave: has(abi::ZERNEL_V0_GPU_INTERLEAVE),
                preempt: has(abi::ZERNEL_V0_GPU_PREEMPT),
                enable: has(abi::ZERNEL_V0_GPU_ENABLE),
                load: has(abi::ZERNEL_V0_GPU_LOAD),
            },
            suspended: has(abi::ZERNEL_V0_GPU_SUSPENDED),
            unresponsive: has(abi::ZERNEL_V0_GPU_UNRESPONSIVE),
            turns: has(abi::ZERNEL_V0_GPU_TURNS),
            tsgs: raw.tsgs,
            pending: raw.pending,
            busy_permille: raw.busy_permille,
            applied: raw.applied,
            retries: raw.retries,
            errors: raw.errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn flags_and_names_are_taken_apart() {
        let mut raw = abi::zernel_v0_gpu_info::zeroed();
        raw.id = 3;
        raw.flags = abi::ZERNEL_V0_GPU_TIMESLICE | abi::ZERNEL_V0_GPU_SUSPENDED;
        raw.name[0] = b'A' as _;
        let gpu = Gpu::from(&raw);
        assert!(gpu.can.timeslice && gpu.suspended);
        assert!(!gpu.can.preempt && !gpu.can.load && !gpu.turns);
        raw.flags = abi::ZERNEL_V0_GPU_TURNS;
        let gpu = Gpu::from(&raw);
        assert!(gpu.turns && !gpu.can.timeslice && !gpu.suspended);
        assert_eq!((gpu.name.as_str(), gpu.bus.as_str()), ("A", ""));
        assert_eq!(gpu.id, Id::new(3));
    }
}
