// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of the software GPU, each with a structure that it takes: addresses, sizes, numbers.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{ensure, Context as _, Result};
use bytemuck::{bytes_of, Zeroable};
use libzernel::sim::{Context, Item, Sim, Trace};
use libzernel::sys::abi;
use libzernel::sys::memory::SharedMemory;
use rustix::io::Errno;

use super::{raw, us};
use crate::abi::stage::bytes;
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys::{self, Area, Wild};

/// A call, with a structure that it takes now.
pub(super) struct Call {
    /// Its name, `ZERNEL_SIM_NR_` and this.
    pub(super) name: &'static str,
    nr: u32,
    /// The module writes the structure back.
    answers: bool,
    pub(super) bytes: Vec<u8>,
}

impl Call {
    /// Its number, with another size in it.
    fn sized(&self, size: usize) -> u32 {
        raw::number(self.nr, size)
    }

    pub(super) fn number(&self) -> u32 {
        self.sized(self.bytes.len())
    }

    pub(super) fn make(&self, fd: BorrowedFd<'_>) -> Result<i32, Errno> {
        sys::ioctl_bytes(fd, self.number(), &mut self.bytes.clone())
    }
}

macro_rules! calls {
    ($($nr:ident $answers:literal $type:ident { $($field:ident: $value:expr),* })*) => {
        vec![$(Call {
            name: stringify!($nr).trim_start_matches("ZERNEL_SIM_NR_"),
            nr: abi::$nr,
            answers: $answers,
            bytes: bytes!($type { $($field: $value),* }),
        },)*]
    };
}

/// A context and a trace of an open file, and whatever else the calls name.
pub(super) struct Stage {
    pub(super) lab: Lab,
    pub(super) context: Context,
    /// Handle of a TSG that was there.
    pub(super) gone: u64,
    /// A file that is no eventfd.
    pub(super) null: File,
    pub(super) memory: SharedMemory,
    pub(super) records: Area,
    item: Box<abi::zernel_sim_item>,
    trace: Trace,
}

impl Stage {
    pub(super) fn new() -> Result<Self> {
        let lab = Lab::open()?;
        // The second context of a file: another file has none of this number.
        let gone = lab.compute()?.0.tsg();
        let (context, _) = lab.compute()?;
        Ok(Self {
            context,
            gone,
            null: File::open("/dev/null")?,
            memory: SharedMemory::anonymous()?,
            records: Area::new()?,
            item: Box::new(abi::zernel_sim_item {
                kind: abi::ZERNEL_SIM_ITEM_FENCE,
                flags: abi::ZERNEL_SIM_ITEM_NOTIFY,
                ..Zeroable::zeroed()
            }),
            trace: lab.sim.trace(0, 16)?,
            lab,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.lab.sim.as_fd()
    }

    /// A number that no context has.
    pub(super) fn unknown(&self) -> u32 {
        self.context.id() + 1
    }

    /// All calls. The last two end what others need.
    pub(super) fn calls(&self) -> Vec<Call> {
        let (id, records) = (self.context.id(), self.records.address(0));
        calls! {
            ZERNEL_SIM_NR_VERSION true zernel_sim_version {}
            ZERNEL_SIM_NR_GPU_INFO true zernel_sim_gpu_info {}
            ZERNEL_SIM_NR_CONTEXT_CREATE true zernel_sim_context_create {
                engine: abi::ZERNEL_SIM_ENGINE_ANY,
                nr_channels: 1
            }
            ZERNEL_SIM_NR_SUBMIT true zernel_sim_submit {
                context: id,
                nr_items: 1,
                items: std::ptr::from_ref(&*self.item) as u64
            }
            ZERNEL_SIM_NR_WAIT true zernel_sim_wait { context: id }
            ZERNEL_SIM_NR_EVENTFD false zernel_sim_eventfd { context: id, fd: -1 }
            ZERNEL_SIM_NR_DOORBELL false zernel_sim_doorbell { context: id }
            ZERNEL_SIM_NR_COMPLETIONS true zernel_sim_completions { buffer: records, capacity: 1 }
            ZERNEL_SIM_NR_TSG_STATS true zernel_sim_tsg_stats { context: id }
            ZERNEL_SIM_NR_ENGINE_STATS true zernel_sim_engine_stats {}
            ZERNEL_SIM_NR_TRACE_READ true zernel_sim_trace_read { buffer: records, capacity: 1 }
            ZERNEL_SIM_NR_FAULT true zernel_sim_fault {
                op: abi::ZERNEL_SIM_OP_PREEMPT,
                flags: abi::ZERNEL_SIM_FAULT_QUERY
            }
            ZERNEL_SIM_NR_SUSPEND false zernel_sim_suspend {}
            ZERNEL_SIM_NR_TSG_CONTROL false zernel_sim_tsg_control {
                context: id,
                setting: abi::ZERNEL_SIM_SETTING_TIMESLICE,
                value: 1_000
            }
            ZERNEL_SIM_NR_TSG_DESCRIBE false zernel_sim_tsg_describe {
                context: id,
                flags: abi::ZERNEL_SIM_TSG_COMPUTE,
                channels: 1
            }
            ZERNEL_SIM_NR_MEMORY false zernel_sim_memory {
                context: id,
                address: self.memory.address(),
                length: self.memory.length()
            }
            ZERNEL_SIM_NR_TRACE_START false zernel_sim_trace_start {}
            ZERNEL_SIM_NR_CONTEXT_DESTROY false zernel_sim_context_destroy { context: id }
        }
    }

    pub(super) fn call(&self, name: &str) -> Call {
        let found = self.calls().into_iter().find(|call| call.name == name);
        found.unwrap_or_else(|| panic!("no call {name}"))
    }

    /// Everything that a call could change.
    fn state(&self) -> Result<impl PartialEq + std::fmt::Debug> {
        let gpus = [self.lab.sim.gpu_info(0)?, self.lab.sim.gpu_info(1)?];
        let stats = self.context.stats()?;
        let items = (stats.completed, stats.queued);
        let settings = (stats.timeslice_us, stats.interleave, stats.slice_changes);
        Ok((gpus, self.lab.stats()?.tsgs, items, settings))
    }

    /// Runs `calls`, which fail and change nothing.
    fn unchanged(&self, calls: impl FnOnce() -> Outcome) -> Outcome {
        let before = self.state()?;
        calls()?;
        check_eq!(self.state()?, before, "state after a failure");
        Ok(())
    }

    /// Makes a call that fails with `errno` and changes nothing, nor its structure.
    pub(super) fn refused(&self, number: u32, bytes: &[u8], errno: Errno, what: &str) -> Outcome {
        let mut after = bytes.to_vec();
        self.unchanged(|| {
            let answer = sys::ioctl_bytes(self.fd(), number, &mut after);
            check_eq!(answer, Err(errno), "{what}");
            Ok(())
        })
        .with_context(|| what.to_owned())?;
        check_eq!(after, bytes, "{what}: the structure");
        Ok(())
    }
}

pub(super) fn every_call_works() -> Outcome {
    let stage = Stage::new()?;
    let version = stage.lab.sim.version()?;
    check_eq!(
        (version.abi, version.gpus),
        (abi::ZERNEL_SIM_ABI_VERSION, 2)
    );
    check_eq!(version.words as usize * size_of::<u32>(), raw::PAGE);
    let (read, destroy) = (stage.call("TRACE_READ"), stage.call("CONTEXT_DESTROY"));
    for call in stage.calls() {
        call.make(stage.fd()).context(call.name)?;
        if call.name == "MEMORY" {
            check_eq!(call.make(stage.fd()), Err(Errno::BUSY), "once more");
        }
    }
    check_eq!(read.make(stage.fd()), Err(Errno::PERM), "an ended trace");
    check_eq!(destroy.make(stage.fd()), Err(Errno::NOENT), "once more");
    let (id, next) = (stage.context.id(), stage.lab.compute()?.0.id());
    ensure!(next > id + 1, "id {next} after {id}: used again");
    Ok(())
}

pub(super) fn addresses() -> Outcome {
    let stage = Stage::new()?;
    let fd = stage.fd();
    let fault = Err(Errno::FAULT);
    super::run(&stage.context, &[Item::fence().notify()])?;
    let mut area = Area::new()?;
    stage.unchanged(|| {
        for call in stage.calls() {
            let (name, size) = (call.name, call.bytes.len());
            for wild in Wild::ALL {
                check_eq!(wild.ioctl(fd, call.number()), fault, "{name} at {wild:?}");
            }
            for missing in [1, size] {
                let offset = Area::PAGE - size + missing;
                area.put(offset, &call.bytes[..size - missing]);
                let answer = area.ioctl(fd, call.number(), offset);
                check_eq!(answer, fault, "{name} less {missing}");
            }
            // A call whose answer cannot be written has not happened.
            if call.answers {
                let mut area = Area::new()?;
                area.put(0, &call.bytes);
                area.freeze()?;
                let answer = area.ioctl(fd, call.number(), 0);
                check_eq!(answer, fault, "{name} in a read-only page");
            }
        }
        Ok(())
    })?;
    check_eq!(stage.lab.sim.completions(16)?.0.len(), 1, "completions");
    // Behind a structure: room for one of two.
    super::run(&stage.context, &[Item::work(us(10)).notify(); 2])?;
    let take = abi::zernel_sim_completions {
        buffer: area.address(Area::PAGE - size_of::<abi::zernel_sim_completion>()),
        capacity: 2,
        ..Zeroable::zeroed()
    };
    let answer = raw::call(fd, abi::ZERNEL_SIM_NR_COMPLETIONS, take).map(drop);
    check_eq!(answer, Err(Errno::FAULT), "completions");
    let (taken, dropped) = stage.lab.sim.completions(16)?;
    check_eq!((taken.len(), dropped), (2, 0), "completions are not lost");
    let read = abi::zernel_sim_trace_read {
        buffer: area.address(Area::PAGE),
        capacity: 16,
        ..Zeroable::zeroed()
    };
    let answer = raw::call(fd, abi::ZERNEL_SIM_NR_TRACE_READ, read).map(drop);
    check_eq!(answer, Err(Errno::FAULT), "trace records");
    // On an engine alone, a run and the idle time before it at least.
    for _ in 0..20 {
        super::run(&stage.context, &[Item::work(us(10))])?;
    }
    let (records, dropped) = stage.trace.read()?;
    ensure!(records.len() == 16 && dropped >= 2 * 20 - 16, "{dropped}");
    let (records, again) = stage.trace.read()?;
    check_eq!((records.len(), again), (0, dropped), "all were taken");
    super::run(&stage.context, &[Item::work(us(10))])?;
    let (records, again) = stage.trace.read()?;
    check_eq!((records.len(), again), (2, dropped), "with room again");
    Ok(())
}

/// Of the code that takes structures, which is that of zernel.ko, the suite `abi` tells more.
pub(super) fn sizes_and_numbers() -> Outcome {
    const LONGEST: usize = (1 << 14) - 1;
    let stage = Stage::new()?;
    for nr in abi::ZERNEL_SIM_NR_REGISTERS + 1..=0xff {
        let what = format!("call {nr:#x}");
        stage.refused(raw::number(nr, 64), &[0; 64], Errno::NOTTY, &what)?;
    }
    // For GPUs that belong to NVIDIA's driver, which these do not.
    for nr in [
        abi::ZERNEL_SIM_NR_CONTEXT_ATTACH,
        abi::ZERNEL_SIM_NR_REGISTERS,
    ] {
        let what = format!("call {nr:#x}");
        stage.refused(raw::number(nr, 64), &[0; 64], Errno::OPNOTSUPP, &what)?;
    }
    for call in stage.calls() {
        let (name, size) = (call.name, call.bytes.len());
        let mut bytes = call.bytes.clone();
        for group in [0, abi::ZERNEL_IOC_MAGIC, 0xff] {
            stage.refused(raw::typed(group, call.nr, size), &bytes, Errno::NOTTY, name)?;
        }
        for short in [0, size - 1] {
            stage.refused(call.sized(short), &bytes, Errno::INVAL, name)?;
        }
        bytes.resize(LONGEST, 0);
        bytes[size] = 1;
        stage.refused(call.sized(LONGEST), &bytes, Errno::TOOBIG, name)?;
        bytes[size] = 0;
        sys::ioctl_bytes(stage.fd(), call.sized(LONGEST), &mut bytes).context(name)?;
        ensure!(bytes[size..].iter().all(|&byte| byte == 0), "{name}");
    }
    Ok(())
}

/// Each GPU is as its preset says.
pub(super) fn version_and_gpus() -> Outcome {
    let sim = Sim::open()?;
    let version = sim.version()?;
    check_eq!(version.abi, abi::ZERNEL_SIM_ABI_VERSION);
    check_eq!(version.gpus, 2);
    ensure!(
        version.trace && version.faults && version.provider,
        "{version:?}"
    );
    check_eq!(version.words as usize * size_of::<u32>(), raw::PAGE);
    ensure!(version.min_work < version.max_work, "{version:?}");
    for gpu in 0..version.gpus {
        let info = sim.gpu_info(gpu)?;
        check_eq!(info.preset.as_str(), "a100");
        check_eq!(
            (info.copy_engines, info.tsgs, info.suspended),
            (3, 0, false),
            "GPU {gpu}"
        );
        let ns = u128::from(info.context_bytes) * 1_000_000_000 / u128::from(info.bandwidth);
        check_eq!(u128::from(info.save_ns), ns, "time of a save");
        check_eq!(info.restore_ns, info.save_ns);
    }
    Ok(())
}
