// SPDX-License-Identifier: MIT OR Apache-2.0
//! Phases of machine-learning programs, and their times.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys::abi;
use crate::time::saturating_ns;
use crate::{gpu, text, Target, Timestamp};

/// Longest time for which a hint holds.
pub const HINT_MAX: Duration = Duration::from_nanos(abi::ZERNEL_HINT_MAX_NS);

/// The phase of a thread of a machine-learning program.
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
    Collective,
    /// Short work on the CPU between two batches.
    OptimizerStep,
}

impl Phase {
    /// All of them, at their numbers.
    pub const ALL: [Self; 5] = [
        Self::Unknown,
        Self::DataLoading,
        Self::GpuCompute,
        Self::Collective,
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
            Self::Collective => "collective",
            Self::OptimizerStep => "optimizer_step",
        }
    }

    pub(crate) fn from_abi(raw: u32) -> Self {
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
    "'{0}' is not a phase: it takes unknown, data_loading, gpu_compute, collective or \
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
    /// [`Phase::Collective`].
    pub collective: u64,
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
            Phase::Collective => self.collective,
            Phase::OptimizerStep => self.optimizer_step,
        }
    }

    /// In all of them together.
    pub fn sum(&self) -> u64 {
        Phase::ALL.into_iter().map(|phase| self.of(phase)).sum()
    }
}

/// The times of an entry, which has a field for each phase.
macro_rules! times_of {
    ($raw:expr) => {
        $crate::phase::Times {
            unknown: $raw.unknown_ns,
            data_loading: $raw.data_loading_ns,
            gpu_compute: $raw.gpu_compute_ns,
            collective: $raw.collective_ns,
            optimizer_step: $raw.optimizer_step_ns,
        }
    };
}
pub(crate) use times_of;

impl Add for Times {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            unknown: self.unknown + other.unknown,
            data_loading: self.data_loading + other.data_loading,
            gpu_compute: self.gpu_compute + other.gpu_compute,
            collective: self.collective + other.collective,
            optimizer_step: self.optimizer_step + other.optimizer_step,
        }
    }
}

/// A process with tracked threads, and the phases of them together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id: grows, and is never used again, not even after a reload of the module.
    pub id: u64,
    /// The GPU that it used last; none was seen.
    pub gpu: Option<gpu::Id>,
    /// The NUMA node of that GPU, if it is known.
    pub numa_node: Option<u32>,
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
    /// A library of collectives is active in it.
    pub collective: bool,
    /// Tracked threads now.
    pub threads: u32,
    /// When its work on a GPU was done last, or a wait for that ended; none if that was never seen.
    pub synced_ns: Option<Timestamp>,
    /// The last sample; none: there was none yet.
    pub sample_at_ns: Option<Timestamp>,
    /// Time that it covers, in nanoseconds.
    pub sample_ns: u64,
    /// The part of it for which a GPU was busy for the process, or a thread of it waited for that.
    pub sample_gpu_ns: u64,
    /// Time in each phase, of all its threads, those that have exited included.
    pub phase_ns: Times,
    /// Its computations and loadings, and the signals to load its next batch.
    pub prefetch: Prefetch,
}

impl Process {
    /// Share of the last sample for which a GPU was busy for it, in thousandths.
    pub fn gpu_permille(&self) -> u32 {
        let share = self
            .sample_gpu_ns
            .saturating_mul(1000)
            .checked_div(self.sample_ns);
        share.map_or(0, |share| share.min(1000) as u32)
    }
}

/// Computations and loadings of a process, and the outcomes of its prefetch signals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Prefetch {
    /// Computations that ended.
    pub computations: u64,
    /// Time of all of them, in nanoseconds, as all times here.
    pub compute_ns: u64,
    /// Loadings that ended.
    pub loadings: u64,
    /// Time of all of them.
    pub loading_ns: u64,
    /// Time from signals to the ends of their computations.
    pub lead_ns: u64,
    /// Predicted length of the next computation; none without a history.
    pub predicted_compute_ns: Option<u64>,
    /// Predicted lead that loading needs; none without a history.
    pub predicted_lead_ns: Option<u64>,
    /// Signals that were given.
    pub signals: u64,
    /// Signals after which the batch was there before the computation was over.
    pub early: u64,
    /// By how much in all.
    pub early_ns: u64,
    /// Signals after which the computation was over before the batch was there.
    pub late: u64,
    /// By how much in all.
    pub late_ns: u64,
    /// Signals after which nothing was loaded until the next one.
    pub useless: u64,
}

impl Prefetch {
    /// Overlap efficiency: the share of loading that computations can hide, (compute + lead) /
    /// loading; 1 with nothing loaded, and from 1 on all of it.
    pub fn overlap(&self) -> f64 {
        match self.loading_ns {
            0 => 1.0,
            loading => (self.compute_ns + self.lead_ns) as f64 / loading as f64,
        }
    }

    /// That of the next batch, as predicted; none without a history.
    pub fn predicted_overlap(&self) -> Option<f64> {
        let covers = self.predicted_compute_ns? + self.predicted_lead_ns?;
        Some(match self.loading_ns.checked_div(self.loadings) {
            None | Some(0) => 1.0,
            Some(loading) => covers as f64 / loading as f64,
        })
    }

    fn from_abi(raw: &abi::zernel_process_info) -> Self {
        let known = |ns| Some(ns).filter(|&ns| ns > 0);
        Self {
            computations: raw.computations,
            compute_ns: raw.compute_ns,
            loadings: raw.loadings,
            loading_ns: raw.loading_ns,
            lead_ns: raw.lead_ns,
            predicted_compute_ns: known(raw.predicted_compute_ns),
            predicted_lead_ns: known(raw.predicted_lead_ns),
            signals: raw.signals,
            early: raw.early,
            early_ns: raw.early_ns,
            late: raw.late,
            late_ns: raw.late_ns,
            useless: raw.useless,
        }
    }
}

impl From<&abi::zernel_process_info> for Process {
    fn from(raw: &abi::zernel_process_info) -> Self {
        let has = |flag| raw.flags & flag != 0;
        let moment = |ns| Some(Timestamp::from_ns(ns)).filter(|_| ns > 0);
        Self {
            id: raw.id,
            gpu: Some(gpu::Id::new(raw.gpu)).filter(|_| raw.gpu > 0),
            numa_node: u32::try_from(raw.numa_node).ok(),
            pid: raw.pid,
            uid: raw.uid,
            comm: text::from_chars(&raw.comm),
            whole: has(abi::ZERNEL_TRACKED_WHOLE),
            children: has(abi::ZERNEL_TRACKED_CHILDREN),
            privileged: has(abi::ZERNEL_TRACKED_PRIVILEGED),
            ml: has(abi::ZERNEL_TRACKED_ML),
            cgroup: has(abi::ZERNEL_TRACKED_CGROUP),
            collective: has(abi::ZERNEL_TRACKED_COLLECTIVE),
            threads: raw.threads,
            synced_ns: moment(raw.synced_at),
            sample_at_ns: moment(raw.sample_at),
            sample_ns: raw.sample_ns,
            sample_gpu_ns: raw.sample_gpu_ns,
            phase_ns: times_of!(raw),
            prefetch: Prefetch::from_abi(raw),
        }
    }
}

/// A tracked cgroup, and the phases of the threads that are in it, or were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cgroup {
    /// Its id: the inode number of its directory.
    pub id: u64,
    /// The user that tracks it, in the caller's user namespace.
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

impl From<&abi::zernel_cgroup_info> for Cgroup {
    fn from(raw: &abi::zernel_cgroup_info) -> Self {
        Self {
            id: raw.id,
            uid: raw.uid,
            privileged: raw.flags & abi::ZERNEL_TRACKED_PRIVILEGED != 0,
            ml: raw.flags & abi::ZERNEL_TRACKED_ML != 0,
            processes: raw.processes,
            threads: raw.threads,
            phase_ns: times_of!(raw),
        }
    }
}

/// A hint for a thread.
pub(crate) fn hint(thread: &Target, phase: Phase, duration: Duration) -> abi::zernel_hint {
    abi::zernel_hint {
        target: thread.raw(),
        kind: abi::ZERNEL_HINT_PHASE,
        flags: 0,
        value: phase.number().into(),
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
            (Phase::Unknown, abi::ZERNEL_PHASE_UNKNOWN),
            (Phase::DataLoading, abi::ZERNEL_PHASE_DATA_LOADING),
            (Phase::GpuCompute, abi::ZERNEL_PHASE_GPU_COMPUTE),
            (Phase::Collective, abi::ZERNEL_PHASE_COLLECTIVE),
            (Phase::OptimizerStep, abi::ZERNEL_PHASE_OPTIMIZER_STEP),
        ] {
            assert_eq!(phase.number(), number);
            assert_eq!(Phase::from_abi(number), phase);
            assert_eq!(Phase::ALL[number as usize], phase);
        }
        assert_eq!(Phase::from_abi(5), Phase::Unknown);
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
    fn processes_are_told_as_the_header_says() {
        let mut raw = abi::zernel_process_info::zeroed();
        raw.numa_node = -1;
        let process = Process::from(&raw);
        assert_eq!(
            (process.gpu, process.numa_node, process.synced_ns),
            (None, None, None)
        );
        assert_eq!(
            (process.gpu_permille(), process.prefetch),
            (0, Prefetch::default())
        );
        assert_eq!(process.prefetch.overlap(), 1.0, "nothing was loaded");
        assert_eq!(process.prefetch.predicted_overlap(), None);
        (raw.gpu, raw.numa_node, raw.synced_at) = (3, 1, 7);
        raw.flags = abi::ZERNEL_TRACKED_ML | abi::ZERNEL_TRACKED_COLLECTIVE;
        (raw.sample_ns, raw.sample_gpu_ns) = (2_000, 500);
        (raw.unknown_ns, raw.gpu_compute_ns) = (1, 20);
        (raw.compute_ns, raw.lead_ns, raw.loading_ns, raw.loadings) = (800, 100, 600, 3);
        (raw.predicted_compute_ns, raw.predicted_lead_ns) = (90, 10);
        let process = Process::from(&raw);
        assert_eq!(
            (process.gpu, process.numa_node),
            (Some(gpu::Id::new(3)), Some(1))
        );
        assert!(process.ml && process.collective && !process.whole);
        assert_eq!(process.gpu_permille(), 250);
        assert_eq!(
            (
                process.phase_ns.sum(),
                process.phase_ns.of(Phase::GpuCompute)
            ),
            (21, 20)
        );
        assert_eq!(process.prefetch.overlap(), 1.5);
        assert_eq!(process.prefetch.predicted_overlap(), Some(0.5));
        assert_eq!((process.phase_ns + process.phase_ns).sum(), 42);
    }

    #[test]
    fn hints_carry_phase_and_time() {
        let raw = hint(
            &Target::Thread(7),
            Phase::GpuCompute,
            Duration::from_millis(3),
        );
        assert_eq!((raw.target.kind, raw.target.id, raw.kind), (3, 7, 1));
        assert_eq!((raw.value, raw.duration_ns), (2, 3_000_000));
        let raw = hint(&Target::CurrentThread, Phase::Unknown, Duration::MAX);
        assert_eq!(raw.duration_ns, u64::MAX);
        assert_eq!(HINT_MAX, Duration::from_secs(60));
    }

    #[test]
    fn cgroups_are_told_as_the_header_says() {
        let mut raw = abi::zernel_cgroup_info::zeroed();
        (raw.id, raw.uid, raw.processes, raw.threads) = (42, 1000, 2, 9);
        (raw.flags, raw.gpu_compute_ns) = (abi::ZERNEL_TRACKED_ML, 3);
        let cgroup = Cgroup::from(&raw);
        assert!(cgroup.ml && !cgroup.privileged);
        assert_eq!((cgroup.id, cgroup.uid), (42, 1000));
        assert_eq!((cgroup.processes, cgroup.threads), (2, 9));
        let json = serde_json::to_value(&cgroup).unwrap();
        assert_eq!(json["phase_ns"]["gpu_compute"], 3);
    }
}
