// SPDX-License-Identifier: GPL-2.0
//! Phases of machine-learning programs: what their threads do, and for how long they did.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys::abi;
use crate::text;
use crate::time::saturating_ns;

/// Longest time for which a hint holds.
pub const HINT_MAX: Duration = Duration::from_nanos(abi::ZERNEL_V0_HINT_MAX_NS);

/// What a thread of a machine-learning program does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Phase {
    /// None of the others, or one that this crate does not know.
    #[default]
    Unknown,
    /// It waits for data, and the GPU has little to do.
    DataLoading,
    /// The GPU computes, and it waits for that.
    GpuCompute,
    /// Ranks exchange data.
    NcclCollective,
    /// Short work on the CPU between two batches.
    OptimizerStep,
}

impl Phase {
    /// All of them, at their numbers.
    pub const ALL: [Self; abi::ZERNEL_V0_NR_PHASES as usize] = [
        Self::Unknown,
        Self::DataLoading,
        Self::GpuCompute,
        Self::NcclCollective,
        Self::OptimizerStep,
    ];

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::DataLoading => "data_loading",
            Self::GpuCompute => "gpu_compute",
            Self::NcclCollective => "nccl_collective",
            Self::OptimizerStep => "optimizer_step",
        }
    }

    fn from_abi(raw: u32) -> Self {
        Self::ALL.get(raw as usize).copied().unwrap_or_default()
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no phase.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a phase: it takes unknown, data_loading, gpu_compute, nccl_collective or \
     optimizer_step"
)]
pub struct ParsePhaseError(String);

impl FromStr for Phase {
    type Err = ParsePhaseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |phase: &Self| phase.name() == text;
        Self::ALL
            .into_iter()
            .find(named)
            .ok_or_else(|| ParsePhaseError(text.to_owned()))
    }
}

/// Time in each phase, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// [`Phase::Unknown`].
    pub unknown: u64,
    /// [`Phase::DataLoading`].
    pub data_loading: u64,
    /// [`Phase::GpuCompute`].
    pub gpu_compute: u64,
    /// [`Phase::NcclCollective`].
    pub nccl_collective: u64,
    /// [`Phase::OptimizerStep`].
    pub optimizer_step: u64,
}

impl Times {
    /// In one phase.
    pub fn of(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Unknown => self.unknown,
            Phase::DataLoading => self.data_loading,
            Phase::GpuCompute => self.gpu_compute,
            Phase::NcclCollective => self.nccl_collective,
            Phase::OptimizerStep => self.optimizer_step,
        }
    }

    /// In all of them together.
    pub fn sum(&self) -> u64 {
        Phase::ALL.into_iter().map(|phase| self.of(phase)).sum()
    }

    fn from_abi(raw: &[u64; Phase::ALL.len()]) -> Self {
        let of = |phase: Phase| raw[phase as usize];
        Self {
            unknown: of(Phase::Unknown),
            data_loading: of(Phase::DataLoading),
            gpu_compute: of(Phase::GpuCompute),
            nccl_collective: of(Phase::NcclCollective),
            optimizer_step: of(Phase::OptimizerStep),
        }
    }
}

impl Add for Times {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            unknown: self.unknown + other.unknown,
            data_loading: self.data_loading + other.data_loading,
            gpu_compute: self.gpu_compute + other.gpu_compute,
            nccl_collective: self.nccl_collective + other.nccl_collective,
            optimizer_step: self.optimizer_step + other.optimizer_step,
        }
    }
}

/// The phases of a thread of a machine-learning program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadPhases {
    /// Id of its record, as that of a [`Thread`](crate::Thread).
    pub id: u64,
    /// Its process in the caller's pid namespace, 0 if not visible there or reaped.
    pub pid: u32,
    /// Its own number, likewise.
    pub tid: u32,
    /// Its real user in the caller's user namespace.
    pub uid: u32,
    /// Its name.
    pub comm: String,
    /// The phase that it is in.
    pub phase: Phase,
    /// A hint says so.
    pub hinted: bool,
    /// What zernel has added to its nice value.
    pub nice: i32,
    /// For how long it is in that phase, in nanoseconds.
    pub present_ns: u64,
    /// Time in each phase, the present one included: together since it is recorded.
    pub phase_ns: Times,
    /// Changes of the phase.
    pub transitions: u64,
    /// Samples that were taken of it.
    pub samples: u64,
}

impl From<&abi::zernel_v0_thread_phases> for ThreadPhases {
    fn from(raw: &abi::zernel_v0_thread_phases) -> Self {
        Self {
            id: raw.id,
            pid: raw.pid,
            tid: raw.tid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            phase: Phase::from_abi(raw.phase),
            hinted: raw.flags & abi::ZERNEL_V0_PHASE_HINTED != 0,
            nice: raw.nice,
            present_ns: raw.present_ns,
            phase_ns: Times::from_abi(&raw.phase_ns),
            transitions: raw.transitions,
            samples: raw.samples,
        }
    }
}

/// A process with tracked threads, and the phases of them together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessPhases {
    /// Its id: grows, and is never used again, not even after a reload of the module.
    pub id: u64,
    /// Its number in the caller's pid namespace, 0 if not visible there or reaped.
    pub pid: u32,
    /// Its real user in the caller's user namespace.
    pub uid: u32,
    /// Its name.
    pub comm: String,
    /// All of its threads are tracked.
    pub whole: bool,
    /// And the processes that it makes.
    pub children: bool,
    /// By privilege.
    pub privileged: bool,
    /// It is a machine-learning program.
    pub ml: bool,
    /// With a cgroup.
    pub cgroup: bool,
    /// It was seen to wait for the GPU to the end.
    pub synced: bool,
    /// Tracked threads now.
    pub threads: u32,
    /// Share of the last sample in which the GPU was busy for it, or a thread of it waited for that.
    pub gpu_permille: u32,
    /// How long ago its work on the GPU was done last, in nanoseconds; none if that was never seen.
    pub sync_ns: Option<u64>,
    /// Time in each phase, of all its threads, those that have exited included.
    pub phase_ns: Times,
    /// The signals to load its next batch.
    pub prefetch: Prefetch,
}

/// What came of the signals that told a process to load its next batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Prefetch {
    /// Computations that ended: see `struct zernel_v0_process_phases`.
    pub computations: u64,
    /// Events [`Prefetch`](crate::event::Kind::Prefetch) for it.
    pub signals: u64,
    /// Signals after which the batch was there before the computation was over.
    pub early: u64,
    /// By how much in all, in nanoseconds.
    pub early_ns: u64,
    /// Signals after which the computation was over before the batch was there.
    pub late: u64,
    /// By how much in all, in nanoseconds.
    pub late_ns: u64,
    /// Signals after which nothing was loaded until the next one.
    pub useless: u64,
    /// How much of the loading computations can hide, in thousandths; 0 if nothing was loaded, from
    /// 1000 on all of it.
    pub overlap_permille: u64,
}

impl Prefetch {
    fn from_abi(raw: &abi::zernel_v0_process_phases) -> Self {
        Self {
            computations: raw.computations,
            signals: raw.signals,
            early: raw.early,
            early_ns: raw.early_ns,
            late: raw.late,
            late_ns: raw.late_ns,
            useless: raw.useless,
            overlap_permille: raw.overlap_permille,
        }
    }
}

impl From<&abi::zernel_v0_process_phases> for ProcessPhases {
    fn from(raw: &abi::zernel_v0_process_phases) -> Self {
        let has = |flag| raw.flags & flag != 0;
        Self {
            id: raw.id,
            pid: raw.pid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            whole: has(abi::ZERNEL_V0_PROCESS_WHOLE),
            children: has(abi::ZERNEL_V0_PROCESS_CHILDREN),
            privileged: has(abi::ZERNEL_V0_PROCESS_PRIVILEGED),
            ml: has(abi::ZERNEL_V0_PROCESS_ML),
            cgroup: has(abi::ZERNEL_V0_PROCESS_CGROUP),
            synced: has(abi::ZERNEL_V0_PROCESS_SYNCED),
            threads: raw.threads,
            gpu_permille: raw.gpu_permille,
            sync_ns: (raw.sync_ns != 0).then_some(raw.sync_ns),
            phase_ns: Times::from_abi(&raw.phase_ns),
            prefetch: Prefetch::from_abi(raw),
        }
    }
}

/// A tracked cgroup, and the phases of the threads that are in it, or were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CgroupPhases {
    /// Its id: the inode number of its directory.
    pub id: u64,
    /// Who tracks it, in the caller's user namespace.
    pub uid: u32,
    /// By privilege: with the processes of all users.
    pub privileged: bool,
    /// Its processes are machine-learning programs.
    pub ml: bool,
    /// Processes that are tracked because they are in it or below.
    pub processes: u32,
    /// Tracked threads of theirs.
    pub threads: u32,
    /// Time in each phase, of all threads while they were tracked there.
    pub phase_ns: Times,
}

impl From<&abi::zernel_v0_cgroup_phases> for CgroupPhases {
    fn from(raw: &abi::zernel_v0_cgroup_phases) -> Self {
        Self {
            id: raw.id,
            uid: raw.uid,
            privileged: raw.flags & abi::ZERNEL_V0_CGROUP_PRIVILEGED != 0,
            ml: raw.flags & abi::ZERNEL_V0_CGROUP_ML != 0,
            processes: raw.processes,
            threads: raw.threads,
            phase_ns: Times::from_abi(&raw.phase_ns),
        }
    }
}

/// A hint for a thread.
pub(crate) fn hint(tid: u32, phase: Phase, duration: Duration) -> abi::zernel_v0_phase_hint {
    abi::zernel_v0_phase_hint {
        tid,
        phase: phase.number(),
        reserved: 0,
        duration_ns: saturating_ns(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn numbers_are_the_header_s() {
        for (phase, number) in [
            (Phase::Unknown, abi::ZERNEL_V0_PHASE_UNKNOWN),
            (Phase::DataLoading, abi::ZERNEL_V0_PHASE_DATA_LOADING),
            (Phase::GpuCompute, abi::ZERNEL_V0_PHASE_GPU_COMPUTE),
            (Phase::NcclCollective, abi::ZERNEL_V0_PHASE_NCCL_COLLECTIVE),
            (Phase::OptimizerStep, abi::ZERNEL_V0_PHASE_OPTIMIZER_STEP),
        ] {
            assert_eq!(phase.number(), number);
            assert_eq!(Phase::from_abi(number), phase);
            assert_eq!(Phase::ALL[number as usize], phase);
        }
        assert_eq!(Phase::from_abi(5), Phase::Unknown);
        assert_eq!(Phase::from_abi(u32::MAX), Phase::Unknown);
    }

    #[test]
    fn names_are_the_same_everywhere() {
        for phase in Phase::ALL {
            let name = phase.to_string();
            assert_eq!(name.parse(), Ok(phase));
            assert_eq!(serde_json::to_value(phase).unwrap(), name);
        }
        let error = "data-loading".parse::<Phase>().unwrap_err().to_string();
        assert!(
            error.contains("'data-loading' is not a phase: it takes unknown, data_loading"),
            "{error}"
        );
    }

    #[test]
    fn times_are_told_by_phase_and_add_up() {
        let times = Times::from_abi(&[1, 20, 300, 4_000, 50_000]);
        for (at, expected) in [1, 20, 300, 4_000, 50_000].into_iter().enumerate() {
            assert_eq!(times.of(Phase::ALL[at]), expected);
        }
        assert_eq!(times.sum(), 54_321);
        assert_eq!((times + times).sum(), 108_642);
        assert_eq!((times + times).nccl_collective, 8_000);
    }

    #[test]
    fn flags_and_json_have_plain_words() {
        let mut raw = abi::zernel_v0_thread_phases::zeroed();
        raw.phase = abi::ZERNEL_V0_PHASE_OPTIMIZER_STEP;
        raw.flags = abi::ZERNEL_V0_PHASE_HINTED;
        raw.phase_ns[4] = 9;
        let json = serde_json::to_value(ThreadPhases::from(&raw)).unwrap();
        assert_eq!(json["phase"], "optimizer_step");
        assert_eq!(json["hinted"], true);
        assert_eq!(json["phase_ns"]["optimizer_step"], 9);

        let mut raw = abi::zernel_v0_process_phases::zeroed();
        let process = ProcessPhases::from(&raw);
        assert_eq!(
            (process.ml, process.synced, process.sync_ns),
            (false, false, None)
        );
        raw.flags = abi::ZERNEL_V0_PROCESS_ML | abi::ZERNEL_V0_PROCESS_SYNCED;
        raw.sync_ns = 7;
        let process = ProcessPhases::from(&raw);
        assert_eq!(
            (process.ml, process.synced, process.sync_ns),
            (true, true, Some(7))
        );
        assert!(!process.whole && !process.children && !process.privileged);
    }

    #[test]
    fn signals_are_told_one_by_one() {
        let mut raw = abi::zernel_v0_process_phases::zeroed();
        assert_eq!(ProcessPhases::from(&raw).prefetch, Prefetch::default());
        (raw.computations, raw.signals) = (9, 8);
        (raw.early, raw.early_ns) = (4, 400);
        (raw.late, raw.late_ns) = (3, 30);
        (raw.useless, raw.overlap_permille) = (1, 1_250);
        let json = serde_json::to_value(ProcessPhases::from(&raw)).unwrap();
        let expected = serde_json::json!({
            "computations": 9,
            "signals": 8,
            "early": 4,
            "early_ns": 400,
            "late": 3,
            "late_ns": 30,
            "useless": 1,
            "overlap_permille": 1_250,
        });
        assert_eq!(json["prefetch"], expected);
    }

    #[test]
    fn hints_carry_phase_and_time() {
        let raw = hint(7, Phase::GpuCompute, Duration::from_millis(3));
        assert_eq!((raw.tid, raw.phase, raw.duration_ns), (7, 2, 3_000_000));
        let raw = hint(0, Phase::Unknown, Duration::MAX);
        assert_eq!(raw.duration_ns, u64::MAX);
        assert_eq!(HINT_MAX, Duration::from_secs(60));
    }

    #[test]
    fn cgroups_are_told_as_the_header_says() {
        let mut raw = abi::zernel_v0_cgroup_phases::zeroed();
        (raw.id, raw.uid, raw.processes, raw.threads) = (42, 1000, 2, 9);
        (raw.flags, raw.phase_ns) = (abi::ZERNEL_V0_CGROUP_ML, [1, 2, 3, 4, 5]);
        let cgroup = CgroupPhases::from(&raw);
        assert!(cgroup.ml && !cgroup.privileged);
        assert_eq!((cgroup.id, cgroup.uid), (42, 1000));
        assert_eq!((cgroup.processes, cgroup.threads), (2, 9));
        assert_eq!(cgroup.phase_ns.sum(), 15);
        let json = serde_json::to_value(&cgroup).unwrap();
        assert_eq!(json["phase_ns"]["gpu_compute"], 3);
    }
}
