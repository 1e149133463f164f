// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPUs as zernel knows them.

use std::fmt;

use serde::Serialize;

use crate::sys::abi;
use crate::{text, Timestamp};

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

/// The abilities of the provider of a GPU.
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
    /// Tell the load of a TSG.
    pub tsg_load: bool,
    /// Refuse owners' changes of their TSGs by the driver.
    pub control: bool,
    /// Tell that a thread waits for the GPU.
    pub waits: bool,
    /// Tell the memory of the context of a TSG.
    pub context: bool,
    /// Have the run list of a TSG begin anew.
    pub kick: bool,
}

/// The UUID of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// Its bytes, the most significant one first.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The state of a GPU; see [`Gpu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct State {
    /// Its driver sleeps.
    pub suspended: bool,
    /// The provider answered "later" to the last call.
    pub retrying: bool,
    /// It does not respond.
    pub unresponsive: bool,
    /// Best-effort TSGs take turns on it.
    pub turns: bool,
    /// Some of its TSGs were not taken.
    pub overfull: bool,
}

impl State {
    pub(crate) fn from_abi(raw: u32) -> Self {
        let is = |state| raw & state != 0;
        Self {
            suspended: is(abi::ZERNEL_GPU_SUSPENDED),
            retrying: is(abi::ZERNEL_GPU_RETRYING),
            unresponsive: is(abi::ZERNEL_GPU_UNRESPONSIVE),
            turns: is(abi::ZERNEL_GPU_TURNS),
            overfull: is(abi::ZERNEL_GPU_OVERFULL),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = [
            (self.suspended, "suspended"),
            (self.retrying, "retrying"),
            (self.unresponsive, "unresponsive"),
            (self.turns, "turns"),
            (self.overfull, "overfull"),
        ];
        let on: Vec<&str> = states
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| *name)
            .collect();
        match on.is_empty() {
            true => f.write_str("ready"),
            false => f.write_str(&on.join(", ")),
        }
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its id.
    pub id: Id,
    /// The GPU that it is a part of.
    pub parent: Option<Id>,
    /// Product.
    pub name: String,
    /// Bus address or instance.
    pub bus: String,
    /// UUID, if its provider tells.
    pub uuid: Option<Uuid>,
    /// NUMA node of the host that it is attached to, if its provider tells.
    pub numa_node: Option<u32>,
    /// Name of its provider.
    pub provider: String,
    /// Version of the driver, empty if its provider does not tell.
    pub driver: String,
    /// The abilities of its provider.
    pub can: Abilities,
    /// Its driver sleeps.
    pub suspended: bool,
    /// The provider answered "later" to the last call.
    pub retrying: bool,
    /// It does not respond, and is left alone until its provider says that it is back.
    pub unresponsive: bool,
    /// Best-effort TSGs take turns on it; otherwise they run in slices.
    pub turns: bool,
    /// Some of its TSGs were not taken, for want of room or memory.
    pub overfull: bool,
    /// TSGs on it now.
    pub tsgs: u32,
    /// TSGs that wait for the worker.
    pub pending: u32,
    /// Shortest time slice of the hardware, in microseconds.
    pub min_timeslice_us: Option<u32>,
    /// Longest one.
    pub max_timeslice_us: Option<u32>,
    /// When it was added.
    pub added_ns: Timestamp,
    /// Time for which a compute engine was busy, up to `busy_at_ns`, in nanoseconds.
    pub busy_ns: u64,
    /// When that was read, if it ever was.
    pub busy_at_ns: Option<Timestamp>,
    /// Learned time from a trigger until the holder runs, in nanoseconds.
    pub switch_ns: u64,
    /// Settings the provider took.
    pub applied: u64,
    /// Calls answered "later".
    pub retries: u64,
    /// Calls that failed for good.
    pub errors: u64,
}

impl Gpu {
    /// The share of time in permille for which it was busy since `before` was read; since it was
    /// added if that is `None`. `None` if it is not known.
    pub fn busy_permille(&self, before: Option<&Self>) -> Option<u32> {
        let ns = |at: Timestamp| at.as_ns();
        let start = match before {
            Some(before) => (before.busy_ns, ns(before.busy_at_ns?)),
            None => (0, ns(self.added_ns)),
        };
        let busy = self.busy_ns.saturating_sub(start.0);
        let time = ns(self.busy_at_ns?).checked_sub(start.1)?;
        let share = u128::from(busy) * 1_000 / u128::from(Some(time).filter(|&ns| ns > 0)?);
        Some(u32::try_from(share).unwrap_or(u32::MAX).min(1_000))
    }
}

impl From<&abi::zernel_gpu_info> for Gpu {
    fn from(raw: &abi::zernel_gpu_info) -> Self {
        let can = |cap: u32| raw.caps & u64::from(cap) != 0;
        let state = State::from_abi(raw.state);
        let bound = |us: u32| Some(us).filter(|&us| us > 0);
        Self {
            id: Id(raw.id),
            parent: Some(Id(raw.parent)).filter(|id| id.0 != 0),
            name: text::from_chars(&raw.name),
            bus: text::from_chars(&raw.bus),
            uuid: Some(Uuid(raw.uuid)).filter(|uuid| uuid.0 != [0; 16]),
            numa_node: u32::try_from(raw.numa_node).ok(),
            provider: text::from_chars(&raw.provider),
            driver: text::from_chars(&raw.driver),
            can: Abilities {
                timeslice: can(abi::ZERNEL_GPU_CAP_TIMESLICE),
                interleave: can(abi::ZERNEL_GPU_CAP_INTERLEAVE),
                preempt: can(abi::ZERNEL_GPU_CAP_PREEMPT),
                enable: can(abi::ZERNEL_GPU_CAP_ENABLE),
                load: can(abi::ZERNEL_GPU_CAP_LOAD),
                tsg_load: can(abi::ZERNEL_GPU_CAP_TSG_LOAD),
                control: can(abi::ZERNEL_GPU_CAP_CONTROL),
                waits: can(abi::ZERNEL_GPU_CAP_WAITS),
                context: can(abi::ZERNEL_GPU_CAP_CONTEXT),
                kick: can(abi::ZERNEL_GPU_CAP_KICK),
            },
            suspended: state.suspended,
            retrying: state.retrying,
            unresponsive: state.unresponsive,
            turns: state.turns,
            overfull: state.overfull,
            tsgs: raw.tsgs,
            pending: raw.pending,
            min_timeslice_us: bound(raw.min_timeslice_us),
            max_timeslice_us: bound(raw.max_timeslice_us),
            added_ns: Timestamp::from_ns(raw.added_at),
            busy_ns: raw.busy_ns,
            busy_at_ns: Some(Timestamp::from_ns(raw.busy_at)).filter(|_| raw.busy_at > 0),
            switch_ns: raw.switch_ns,
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
    fn what_it_can_and_what_it_is_are_taken_apart() {
        let mut raw = abi::zernel_gpu_info::zeroed();
        raw.id = 3;
        raw.caps = u64::from(abi::ZERNEL_GPU_CAP_TIMESLICE | abi::ZERNEL_GPU_CAP_CONTEXT);
        raw.state = abi::ZERNEL_GPU_RETRYING;
        raw.name[0] = b'A' as _;
        raw.numa_node = -1;
        let gpu = Gpu::from(&raw);
        assert!(gpu.can.timeslice && gpu.can.context && gpu.retrying);
        assert!(!gpu.can.preempt && !gpu.can.load && !gpu.turns && !gpu.suspended);
        assert_eq!((gpu.uuid, gpu.numa_node, gpu.parent), (None, None, None));
        assert_eq!((gpu.min_timeslice_us, gpu.busy_at_ns), (None, None));
        assert_eq!((gpu.name.as_str(), gpu.bus.as_str()), ("A", ""));
        assert_eq!(gpu.id, Id::new(3));
        raw.state = abi::ZERNEL_GPU_TURNS | abi::ZERNEL_GPU_SUSPENDED;
        raw.uuid[15] = 0xab;
        let gpu = Gpu::from(&raw);
        assert!(gpu.turns && gpu.suspended && !gpu.retrying && !gpu.overfull);
        let uuid = gpu.uuid.unwrap().to_string();
        assert_eq!(uuid, "00000000-0000-0000-0000-0000000000ab");
    }

    #[test]
    fn a_share_is_that_between_two_looks() {
        let read = |busy, at| {
            let mut raw = abi::zernel_gpu_info::zeroed();
            (raw.added_at, raw.busy_ns, raw.busy_at) = (1_000, busy, at);
            Gpu::from(&raw)
        };
        let (never, first, second) = (read(0, 0), read(500, 2_000), read(750, 3_000));
        assert_eq!(never.busy_permille(None), None);
        assert_eq!(first.busy_permille(None), Some(500));
        assert_eq!(second.busy_permille(Some(&first)), Some(250));
        assert_eq!(second.busy_permille(Some(&never)), None);
        assert_eq!(first.busy_permille(Some(&first)), None);
    }
}
