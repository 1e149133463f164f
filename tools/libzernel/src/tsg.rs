// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs (time slice groups) as zernel knows them.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::sys::abi;
use crate::{gpu, text, Level, Result, Source, Timestamp, Weight};

/// Text that is no id of a TSG.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a TSG id: it takes a decimal number")]
pub struct ParseIdError(String);

/// Id of a TSG: never used again, not even after a reload of the module.
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

impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        text.parse()
            .map(Self)
            .map_err(|_| ParseIdError(text.to_owned()))
    }
}

/// The order in which the GPU takes TSGs from its run list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Interleave {
    /// Once per round.
    Low,
    /// More often.
    Medium,
    /// Between any two others.
    High,
    /// A level that this crate does not know.
    Unknown,
}

impl Interleave {
    pub(crate) fn from_abi(raw: u32) -> Self {
        match raw {
            0 => Self::Low,
            1 => Self::Medium,
            2 => Self::High,
            _ => Self::Unknown,
        }
    }
}

/// A TSG: the unit that a GPU schedules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tsg {
    /// Its id.
    pub id: Id,
    /// Its GPU.
    pub gpu: gpu::Id,
    /// Owner process in the caller's pid namespace, 0 if not visible there.
    pub pid: u32,
    /// Thread that made it, likewise.
    pub tid: u32,
    /// Owner in the caller's user namespace.
    pub uid: u32,
    /// Name of the thread that made it.
    pub comm: String,
    /// Id of the owner's cgroup: the inode number of its directory.
    pub cgroup: u64,
    /// Runs on a compute engine.
    pub compute: bool,
    /// Carries the work of several processes, so that it is never classed.
    pub shared: bool,
    /// Level in force.
    pub level: Option<Level>,
    /// The source of the level.
    pub source: Source,
    /// Weight in force where best-effort TSGs take turns.
    pub weight: Weight,
    /// Time slice it has, in microseconds.
    pub timeslice_us: u32,
    /// Time slice it had before zernel, in microseconds.
    pub default_timeslice_us: u32,
    /// Interleave level it has.
    pub interleave: Interleave,
    /// A change waits for the worker.
    pub pending: bool,
    /// The last change failed for good.
    pub failed: bool,
    /// More urgent work takes the engine from it.
    pub preemptible: bool,
    /// The budget of its level is spent.
    pub throttled: bool,
    /// Its request is held for one with an earlier deadline.
    pub yields: bool,
    /// Number that the hardware or driver gives it.
    pub hw_tsg: u32,
    /// Engine type as the driver numbers it.
    pub engine: u32,
    /// Number of its run list.
    pub runlist: u32,
    /// Channels it has.
    pub channels: u32,
    /// When it was added.
    pub added_ns: Timestamp,
    /// Settings the provider took for it.
    pub applied: u64,
    /// Settings the provider refused for good.
    pub errors: u64,
    /// Number of the last error among these, negative; 0 without one.
    pub error: i32,
    /// Time that it ran on its engine, in nanoseconds; as of the last look of its provider, as the
    /// next three.
    pub gpu_ns: u64,
    /// Times that it was taken off the engine while it had work.
    pub preemptions: u64,
    /// The last of these.
    pub preempted_ns: Option<Timestamp>,
    /// Memory of its context in bytes; 0 if it is not known.
    pub context_bytes: u64,
}

impl TryFrom<&abi::zernel_tsg_info> for Tsg {
    type Error = crate::Error;

    fn try_from(raw: &abi::zernel_tsg_info) -> Result<Self> {
        let has = |flag| raw.flags & flag != 0;
        Ok(Self {
            id: Id(raw.id),
            gpu: gpu::Id::new(raw.gpu),
            pid: raw.pid,
            tid: raw.tid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            cgroup: raw.cgroup,
            compute: has(abi::ZERNEL_TSG_COMPUTE),
            shared: has(abi::ZERNEL_TSG_SHARED),
            level: Level::from_abi(raw.level)?,
            source: Source::from_abi(raw.source),
            weight: Weight::from_abi(raw.weight)?,
            timeslice_us: raw.timeslice_us,
            default_timeslice_us: raw.default_timeslice_us,
            interleave: Interleave::from_abi(raw.interleave),
            pending: has(abi::ZERNEL_TSG_PENDING),
            failed: has(abi::ZERNEL_TSG_FAILED),
            preemptible: has(abi::ZERNEL_TSG_PREEMPTIBLE),
            throttled: has(abi::ZERNEL_TSG_THROTTLED),
            yields: has(abi::ZERNEL_TSG_YIELDS),
            hw_tsg: raw.hw_tsg,
            engine: raw.engine,
            runlist: raw.runlist,
            channels: raw.channels,
            added_ns: Timestamp::from_ns(raw.added_at),
            applied: raw.applied,
            errors: raw.errors,
            error: raw.error,
            gpu_ns: raw.gpu_ns,
            preemptions: raw.preemptions,
            preempted_ns: Some(Timestamp::from_ns(raw.preempted_at))
                .filter(|_| raw.preempted_at > 0),
            context_bytes: raw.context_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    fn entry() -> abi::zernel_tsg_info {
        abi::zernel_tsg_info {
            weight: abi::ZERNEL_WEIGHT_DEFAULT,
            ..abi::zernel_tsg_info::zeroed()
        }
    }

    #[test]
    fn an_unclassed_tsg_has_no_level() {
        let mut raw = entry();
        raw.level = abi::ZERNEL_LEVEL_NONE;
        raw.flags = abi::ZERNEL_TSG_COMPUTE | abi::ZERNEL_TSG_FAILED;
        let tsg = Tsg::try_from(&raw).unwrap();
        assert_eq!((tsg.level, tsg.source), (None, Source::None));
        assert!(tsg.compute && tsg.failed && !tsg.pending && !tsg.shared);
        raw.flags = abi::ZERNEL_TSG_SHARED;
        assert!(Tsg::try_from(&raw).unwrap().shared);
    }

    #[test]
    fn a_level_that_does_not_exist_is_an_error() {
        let mut raw = entry();
        raw.level = 8;
        assert!(Tsg::try_from(&raw).is_err());
    }

    #[test]
    fn json_has_plain_numbers() {
        let mut raw = entry();
        raw.id = 1 << 40;
        raw.level = 7;
        raw.source = 2;
        let tsg = Tsg::try_from(&raw).unwrap();
        let json = serde_json::to_value(tsg).unwrap();
        assert_eq!(json["id"], 1u64 << 40);
        assert_eq!(json["level"], 7);
        assert_eq!(json["source"], "process");
        assert_eq!(json["interleave"], "low");
    }
}
