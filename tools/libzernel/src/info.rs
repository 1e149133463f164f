// SPDX-License-Identifier: MIT OR Apache-2.0
//! The version of the loaded module, and the parts that work in this kernel.

use std::os::fd::AsFd;

use bytemuck::Zeroable;
use serde::Serialize;

use crate::sys::{abi, zernel as calls};
use crate::{Call, Error, Result, Timestamp, Zernel};

/// Optional parts that work in this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Requests without a holder, on GPUs with a provider that can exclude TSGs.
    pub no_holder: bool,
    /// Time slices of targets.
    pub timeslice: bool,
    /// True if more urgent work takes the engine, as told of a target.
    pub preemptible: bool,
    /// Deadlines of targets.
    pub deadline: bool,
    /// Tracking.
    pub track: bool,
    /// Phases of machine-learning programs, and hints.
    pub phases: bool,
    /// Prefetch signals.
    pub subscribe: bool,
    /// Probes of libraries.
    pub probe: bool,
    /// Gates of requests.
    pub gate: bool,
    /// Features of requests.
    pub features: bool,
    /// Deadlines that are promised when a request begins.
    pub admit: bool,
}

/// The loaded module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Info {
    /// Version of its ABI: 1.
    pub abi: u32,
    /// `ZERNEL_HEADER` of the module.
    pub header: u32,
    /// Optional parts that work in this kernel.
    pub can: Capabilities,
    /// When it was loaded. Another value is another load.
    pub loaded_at: Timestamp,
    /// The caller's `CLOCK_MONOTONIC` less the host's, in nanoseconds.
    pub clock_offset_ns: i64,
    /// Classes are applied; otherwise they are switched off through sysfs.
    pub enabled: bool,
    /// Most entries that a call of a list fills.
    pub list_max: u32,
    /// Slots that a file can have.
    pub slots_max: u32,
    /// Bytes of the largest event.
    pub event_max: u32,
    /// Most GPUs at a time.
    pub gpus_max: u32,
    /// Most TSGs of one GPU at a time.
    pub tsgs_max: u32,
    /// Most assignments at a time.
    pub classes_max: u32,
}

impl From<&abi::zernel_info> for Info {
    fn from(raw: &abi::zernel_info) -> Self {
        let can = |cap: u32| raw.caps & u64::from(cap) != 0;
        Self {
            abi: raw.abi,
            header: raw.header,
            can: Capabilities {
                no_holder: can(abi::ZERNEL_CAP_NO_HOLDER),
                timeslice: can(abi::ZERNEL_CAP_TIMESLICE),
                preemptible: can(abi::ZERNEL_CAP_PREEMPTIBLE),
                deadline: can(abi::ZERNEL_CAP_DEADLINE),
                track: can(abi::ZERNEL_CAP_TRACK),
                phases: can(abi::ZERNEL_CAP_PHASES),
                subscribe: can(abi::ZERNEL_CAP_SUBSCRIBE),
                probe: can(abi::ZERNEL_CAP_PROBE),
                gate: can(abi::ZERNEL_CAP_GATE),
                features: can(abi::ZERNEL_CAP_FEATURES),
                admit: can(abi::ZERNEL_CAP_ADMIT),
            },
            loaded_at: Timestamp::from_ns(raw.loaded_at),
            clock_offset_ns: raw.clock_offset_ns,
            enabled: raw.enabled != 0,
            list_max: raw.list_max,
            slots_max: raw.slots_max,
            event_max: raw.event_max,
            gpus_max: raw.gpus_max,
            tsgs_max: raw.tsgs_max,
            classes_max: raw.classes_max,
        }
    }
}

impl Zernel {
    /// The version of the loaded module.
    pub fn info(&self) -> Result<Info> {
        let mut raw = abi::zernel_info::zeroed();
        calls::info(self.as_fd(), &mut raw).map_err(Error::call(Call::Info))?;
        Ok(Info::from(&raw))
    }
}
