// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of TSGs and engines, exact at the moment they were taken.

use std::os::fd::{AsFd, BorrowedFd};

use bytemuck::Zeroable;
use serde::Serialize;

use crate::sys::{abi, sim as calls};
use crate::{Call, Error, Result, Timestamp};

/// Statistics of a TSG: `busy + switch + wait + inactive` is its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TsgStats {
    /// Its handle.
    pub tsg: u64,
    /// When these were taken.
    pub now_ns: Timestamp,
    /// When it was created.
    pub created_ns: Timestamp,
    /// Nanoseconds in which it had the engine and ran.
    pub busy_ns: u64,
    /// Nanoseconds in which it was saved or restored.
    pub switch_ns: u64,
    /// Nanoseconds in which it could run but had not the engine.
    pub wait_ns: u64,
    /// Nanoseconds in which it had nothing to run or was disabled.
    pub inactive_ns: u64,
    /// Times it was restored.
    pub switches: u64,
    /// Times it lost the engine unfinished.
    pub preemptions: u64,
    /// Times it began to wait.
    pub waits: u64,
    /// Longest wait that has ended, in nanoseconds.
    pub max_wait_ns: u64,
    /// Items completed.
    pub completed: u64,
    /// Items queued.
    pub queued: u64,
    /// Set-time-slice operations applied.
    pub slice_changes: u64,
    /// When the last of them was, or 0.
    pub slice_changed_ns: Timestamp,
    /// Time slice in microseconds.
    pub timeslice_us: u32,
    /// Interleave level, 0 to 2.
    pub interleave: u32,
    /// It may be scheduled.
    pub enabled: bool,
    /// It has the engine.
    pub on_engine: bool,
    /// Its GPU.
    pub gpu: u32,
    /// Its engine.
    pub engine: u32,
    /// Its process in the caller's namespace; 0 if gone.
    pub pid: i32,
    /// Its thread, likewise.
    pub tid: i32,
}

impl TsgStats {
    /// Of a context of a file that somebody else has opened.
    ///
    /// Errors: [`Error::Call`] with `ENOENT` when there is none of this number.
    pub fn of_file(file: impl AsFd, context: u32) -> Result<Self> {
        Self::read(file.as_fd(), context, 0)
    }

    pub(super) fn read(fd: BorrowedFd<'_>, context: u32, tsg: u64) -> Result<Self> {
        let mut raw = abi::zernel_sim_tsg_stats::zeroed();
        (raw.context, raw.tsg) = (context, tsg);
        calls::tsg_stats(fd, &mut raw).map_err(Error::call(Call::SimTsgStats))?;
        Ok(Self {
            tsg: raw.tsg,
            now_ns: Timestamp::from_ns(raw.now_ns),
            created_ns: Timestamp::from_ns(raw.created_ns),
            busy_ns: raw.busy_ns,
            switch_ns: raw.switch_ns,
            wait_ns: raw.wait_ns,
            inactive_ns: raw.inactive_ns,
            switches: raw.switches,
            preemptions: raw.preemptions,
            waits: raw.waits,
            max_wait_ns: raw.max_wait_ns,
            completed: raw.completed,
            queued: raw.queued,
            slice_changes: raw.slice_changes,
            slice_changed_ns: Timestamp::from_ns(raw.slice_changed_ns),
            timeslice_us: raw.timeslice_us,
            interleave: raw.interleave,
            enabled: raw.enabled != 0,
            on_engine: raw.on_engine != 0,
            gpu: raw.gpu,
            engine: raw.engine,
            pid: raw.pid,
            tid: raw.tid,
        })
    }
}

/// Statistics of an engine: `busy + switch + idle` is its age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EngineStats {
    /// When these were taken.
    pub now_ns: Timestamp,
    /// When it was created.
    pub created_ns: Timestamp,
    /// Nanoseconds in which it ran work.
    pub busy_ns: u64,
    /// Nanoseconds in which it saved or restored a context.
    pub switch_ns: u64,
    /// Nanoseconds in which it had nothing to do.
    pub idle_ns: u64,
    /// Contexts restored.
    pub switches: u64,
    /// Slices that ended with nobody else to run.
    pub rearms: u64,
    /// Items completed.
    pub completed: u64,
    /// TSGs on it.
    pub tsgs: u32,
    /// TSGs that could run now.
    pub runnable: u32,
}

impl EngineStats {
    pub(super) fn read(fd: BorrowedFd<'_>, gpu: u32, engine: u32) -> Result<Self> {
        let mut raw = abi::zernel_sim_engine_stats::zeroed();
        (raw.gpu, raw.engine) = (gpu, engine);
        calls::engine_stats(fd, &mut raw).map_err(Error::call(Call::SimEngineStats))?;
        Ok(Self {
            now_ns: Timestamp::from_ns(raw.now_ns),
            created_ns: Timestamp::from_ns(raw.created_ns),
            busy_ns: raw.busy_ns,
            switch_ns: raw.switch_ns,
            idle_ns: raw.idle_ns,
            switches: raw.switches,
            rearms: raw.rearms,
            completed: raw.completed,
            tsgs: raw.nr_tsgs,
            runnable: raw.nr_runnable,
        })
    }
}
