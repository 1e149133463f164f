// SPDX-License-Identifier: MIT OR Apache-2.0
//! The software GPU, `/dev/zernel-sim`.
//!
//! A [`Sim`] is an open file; its [`Context`]s are TSGs with channels that work is submitted to.

mod context;
mod fault;
mod item;
mod own;
mod stats;
mod trace;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Zeroable;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::device::open_node;
use crate::sys::{abi, sim as calls};
use crate::{text, Call, Error, Result};

pub use context::{
    set_timeslice, Attachment, Context, ContextSpec, Description, EngineChoice, Submission, Waited,
    Words,
};
pub use fault::{Fault, Operation};
pub use item::{Completion, Condition, Item, Status};
pub use own::OwnTsg;
pub use stats::{EngineStats, TsgStats};
pub use trace::{Activity, Record, Trace};

/// Number of the compute engine of every GPU; the copy engines follow.
pub const COMPUTE_ENGINE: u32 = 0;

/// An open `/dev/zernel-sim`. It owns the contexts made through it.
#[derive(Debug, Clone)]
pub struct Sim {
    fd: Arc<OwnedFd>,
}

/// The version of the software GPU, and the quotas of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Version of its ABI.
    pub abi: u32,
    /// GPUs, numbered from 0.
    pub gpus: u32,
    /// It records traces.
    pub trace: bool,
    /// It injects faults.
    pub faults: bool,
    /// It is a provider of zernel.
    pub provider: bool,
    /// It lets owners change their TSGs, and tests describe them.
    pub control: bool,
    /// Its GPUs belong to NVIDIA's driver, whose TSGs they run.
    pub attach: bool,
    /// Channels of a context.
    pub max_channels: u32,
    /// Queued items of a channel.
    pub max_items: u32,
    /// Items of one submission.
    pub max_submit: u32,
    /// Semaphore words of a context.
    pub words: u32,
    /// Contexts of a user.
    pub user_contexts: u32,
    /// Queued items of a user.
    pub user_items: u32,
    /// Shortest work item.
    pub min_work: Duration,
    /// Longest work item or hold.
    pub max_work: Duration,
    /// The longest time until a store to a word is seen without a doorbell.
    pub word_poll: Duration,
    /// Completions kept per file.
    pub completion_ring: u32,
}

/// One software GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Its number.
    pub gpu: u32,
    /// Name of the preset.
    pub preset: String,
    /// Copy engines, numbered from 1.
    pub copy_engines: u32,
    /// Streaming multiprocessors of the preset.
    pub sms: u32,
    /// Most TSGs.
    pub max_tsgs: u32,
    /// TSGs now.
    pub tsgs: u32,
    /// Time slice of a new TSG in microseconds.
    pub default_timeslice_us: u32,
    /// It is stopped.
    pub suspended: bool,
    /// Bytes that a context switch saves or restores.
    pub context_bytes: u64,
    /// Bytes per second at which it does.
    pub bandwidth: u64,
    /// Time to leave a compute context in nanoseconds.
    pub save_ns: u64,
    /// Time to enter a compute context in nanoseconds.
    pub restore_ns: u64,
    /// The same, each way, on a copy engine.
    pub copy_switch_ns: u64,
    /// Time that the preempt operation takes.
    pub preempt_op_ns: u64,
    /// Time that enabling or disabling takes.
    pub enable_op_ns: u64,
    /// Time that setting a slice or an interleave level takes.
    pub slice_op_ns: u64,
}

impl Sim {
    /// Where the device node is.
    pub const PATH: &'static str = "/dev/zernel-sim";

    /// Opens the device.
    pub fn open() -> Result<Self> {
        Self::open_at(Self::PATH)
    }

    /// Opens the device node at `path`.
    pub fn open_at(path: impl AsRef<Path>) -> Result<Self> {
        let fd = open_node(path.as_ref(), OFlags::RDWR)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// The version of the software GPU.
    pub fn version(&self) -> Result<Version> {
        let mut raw = abi::zernel_sim_version::zeroed();
        calls::version(self.as_fd(), &mut raw).map_err(Error::call(Call::SimVersion))?;
        let has = |cap: u32| raw.capabilities & u64::from(cap) != 0;
        Ok(Version {
            abi: raw.abi_version,
            gpus: raw.nr_gpus,
            trace: has(abi::ZERNEL_SIM_CAP_TRACE),
            faults: has(abi::ZERNEL_SIM_CAP_FAULTS),
            provider: has(abi::ZERNEL_SIM_CAP_PROVIDER),
            control: has(abi::ZERNEL_SIM_CAP_CONTROL),
            attach: has(abi::ZERNEL_SIM_CAP_ATTACH),
            max_channels: raw.max_channels,
            max_items: raw.max_items,
            max_submit: raw.max_submit,
            words: raw.nr_words,
            user_contexts: raw.user_contexts,
            user_items: raw.user_items,
            min_work: Duration::from_nanos(raw.min_work_ns),
            max_work: Duration::from_nanos(raw.max_work_ns),
            word_poll: Duration::from_nanos(raw.word_poll_ns),
            completion_ring: raw.completion_ring,
        })
    }

    /// Describes one GPU.
    ///
    /// Errors: [`Error::Call`] with `ENOENT` when there is none of that number.
    pub fn gpu_info(&self, gpu: u32) -> Result<GpuInfo> {
        let mut raw = abi::zernel_sim_gpu_info::zeroed();
        raw.gpu = gpu;
        calls::gpu_info(self.as_fd(), &mut raw).map_err(Error::call(Call::SimGpuInfo))?;
        Ok(GpuInfo {
            gpu,
            preset: text::from_bytes(&raw.preset),
            copy_engines: raw.nr_copy_engines,
            sms: raw.nr_sms,
            max_tsgs: raw.max_tsgs,
            tsgs: raw.nr_tsgs,
            default_timeslice_us: raw.default_timeslice_us,
            suspended: raw.suspended != 0,
            context_bytes: raw.context_bytes,
            bandwidth: raw.bandwidth,
            save_ns: raw.save_ns,
            restore_ns: raw.restore_ns,
            copy_switch_ns: raw.copy_switch_ns,
            preempt_op_ns: raw.preempt_op_ns,
            enable_op_ns: raw.enable_op_ns,
            slice_op_ns: raw.slice_op_ns,
        })
    }

    /// Creates a context: a TSG that belongs to the calling process and thread.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`, `EINVAL`, `ENOSPC`, `EDQUOT` or `ENOMEM`.
    pub fn create_context(&self, spec: &ContextSpec<'_>) -> Result<Context> {
        Context::create(self.fd.clone(), spec)
    }

    /// Makes a context of a TSG that NVIDIA's driver has.
    ///
    /// Errors: [`Error::Call`] with `EOPNOTSUPP` when the GPUs are not the driver's, `ENOENT`,
    /// `EPERM` when another process made the client, `EINVAL`, `EBUSY` when the TSG has a context,
    /// `ERANGE` without channels or with too many, `ENODEV`, `ENOSPC`, `EDQUOT` or `ENOMEM`.
    pub fn attach(&self, to: &Attachment<'_>) -> Result<Context> {
        Context::attach(self.fd.clone(), to)
    }

    /// Has all registers of a GPU of NVIDIA's driver read `value`; none ends all their faults.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EOPNOTSUPP` or `ENOENT`.
    pub fn lie(&self, gpu: u32, value: Option<u32>) -> Result<()> {
        let mut raw = abi::zernel_sim_registers {
            fault: match value {
                Some(_) => abi::ZERNEL_SIM_REGISTERS_VALUE,
                None => abi::ZERNEL_SIM_REGISTERS_TRUE,
            },
            gpu,
            value: value.unwrap_or(0),
            ..abi::zernel_sim_registers::zeroed()
        };
        calls::registers(self.as_fd(), &mut raw).map_err(Error::call(Call::SimRegisters))
    }

    /// Takes completions of all contexts of this file; never waits. Returns those taken, and how
    /// many were dropped since the file was opened.
    pub fn completions(&self, most: usize) -> Result<(Vec<Completion>, u64)> {
        let mut buffer = vec![abi::zernel_sim_completion::zeroed(); most];
        let (count, dropped) = calls::completions(self.as_fd(), &mut buffer)
            .map_err(Error::call(Call::SimCompletions))?;
        let taken = buffer[..count].iter().map(Completion::from).collect();
        Ok((taken, dropped))
    }

    /// Statistics of any TSG that the caller may see, by its handle.
    pub fn tsg_stats(&self, tsg: u64) -> Result<TsgStats> {
        TsgStats::read(self.as_fd(), 0, tsg)
    }

    /// Statistics of an engine.
    pub fn engine_stats(&self, gpu: u32, engine: u32) -> Result<EngineStats> {
        EngineStats::read(self.as_fd(), gpu, engine)
    }

    /// Starts to record the activity of the engines of `gpu`, at most `capacity` records unread.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EBUSY`, `EINVAL`, `ENOENT` or `ENOMEM`.
    pub fn trace(&self, gpu: u32, capacity: u32) -> Result<Trace> {
        Trace::start(self.fd.clone(), gpu, capacity)
    }

    /// Makes provider operations fail or take longer. Returns how many calls are left.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EINVAL` or `ENOENT`.
    pub fn inject(&self, fault: &Fault) -> Result<u32> {
        fault.inject(self.as_fd())
    }

    /// Calls of `operation` on `gpu` that faults have hit so far.
    pub fn injected(&self, gpu: u32, operation: Operation) -> Result<u64> {
        fault::injected(self.as_fd(), gpu, operation)
    }

    /// Stops a GPU, or lets it go on.
    ///
    /// Errors: [`Error::Call`] with `EPERM` or `ENOENT`.
    pub fn suspend(&self, gpu: u32, suspend: bool) -> Result<()> {
        self.set_suspend(
            gpu,
            match suspend {
                true => abi::ZERNEL_SIM_SUSPEND,
                false => abi::ZERNEL_SIM_CONTINUE,
            },
        )
    }

    /// Lets a GPU go on that has lost the time slices and interleave levels of its TSGs.
    ///
    /// Errors: [`Error::Call`] with `EPERM` or `ENOENT`.
    pub fn forget(&self, gpu: u32) -> Result<()> {
        self.set_suspend(gpu, abi::ZERNEL_SIM_FORGET)
    }

    fn set_suspend(&self, gpu: u32, suspend: u32) -> Result<()> {
        let mut raw = abi::zernel_sim_suspend { gpu, suspend };
        calls::suspend(self.as_fd(), &mut raw).map_err(Error::call(Call::SimSuspend))
    }
}

impl AsFd for Sim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn missing_device_says_so() {
        let error = Sim::open_at("/nonexistent/zernel-sim").unwrap_err();
        assert_eq!(error.cause(), Cause::NoDevice);
    }

    #[test]
    fn another_file_is_no_software_gpu() {
        let sim = Sim::open_at("/dev/null").unwrap();
        assert_eq!(sim.version().unwrap_err().cause(), Cause::Unsupported);
        let spec = ContextSpec::compute("test");
        assert!(sim.create_context(&spec).is_err());
        assert!(sim.trace(0, 16).is_err());
        assert!(sim.suspend(0, true).is_err());
    }

    #[test]
    fn path_is_the_header_s() {
        assert_eq!(text::from_bytes(abi::ZERNEL_SIM_DEVICE_PATH), Sim::PATH);
    }
}
