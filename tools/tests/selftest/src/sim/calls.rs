// SPDX-License-Identifier: GPL-2.0
//! Every call of the software GPU: its structure, its address, its number.

use std::os::fd::AsFd;

use anyhow::{ensure, Context as _};
use bytemuck::{bytes_of, Zeroable};
use libzernel::sim::{Context, Sim};
use libzernel::sys::abi;
use rustix::io::Errno;

use super::raw::{self, Guarded};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys;

/// A call with a structure that the module takes.
struct Call {
    name: &'static str,
    nr: u32,
    /// The module writes the structure back.
    answers: bool,
    bytes: Vec<u8>,
    /// Offset of a 32-bit field that must be zero.
    reserved: Option<usize>,
}

/// The memory behind the structures of the calls.
struct Memory {
    item: Box<abi::zernel_sim_item>,
    completion: Box<abi::zernel_sim_completion>,
    record: Box<abi::zernel_sim_trace_record>,
}

impl Memory {
    fn new() -> Self {
        let item = abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_FENCE,
            flags: abi::ZERNEL_SIM_ITEM_NOTIFY,
            ..Zeroable::zeroed()
        };
        Self {
            item: Box::new(item),
            completion: Box::new(Zeroable::zeroed()),
            record: Box::new(Zeroable::zeroed()),
        }
    }
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of) as u64
}

macro_rules! call {
    ($nr:ident, $answers:expr, $reserved:expr, $value:expr) => {
        Call {
            name: stringify!($nr),
            nr: abi::$nr,
            answers: $answers,
            bytes: bytes_of(&$value).to_vec(),
            reserved: $reserved,
        }
    };
}

/// All calls, for a context that is there.
fn calls(context: u32, memory: &Memory) -> Vec<Call> {
    let version: abi::zernel_sim_version = Zeroable::zeroed();
    let gpu: abi::zernel_sim_gpu_info = Zeroable::zeroed();
    let create = abi::zernel_sim_context_create {
        engine: abi::ZERNEL_SIM_ENGINE_ANY,
        nr_channels: 1,
        ..Zeroable::zeroed()
    };
    let submit = abi::zernel_sim_submit {
        context,
        nr_items: 1,
        items: address(&*memory.item),
        ..Zeroable::zeroed()
    };
    let wait = abi::zernel_sim_wait {
        context,
        ..Zeroable::zeroed()
    };
    let eventfd = abi::zernel_sim_eventfd {
        context,
        fd: -1,
        ..Zeroable::zeroed()
    };
    let doorbell = abi::zernel_sim_doorbell {
        context,
        ..Zeroable::zeroed()
    };
    let completions = abi::zernel_sim_completions {
        buffer: address(&*memory.completion),
        capacity: 1,
        ..Zeroable::zeroed()
    };
    let tsg = abi::zernel_sim_tsg_stats {
        context,
        ..Zeroable::zeroed()
    };
    let engine: abi::zernel_sim_engine_stats = Zeroable::zeroed();
    let read = abi::zernel_sim_trace_read {
        capacity: 1,
        buffer: address(&*memory.record),
        ..Zeroable::zeroed()
    };
    let fault = abi::zernel_sim_fault {
        op: abi::ZERNEL_SIM_OP_PREEMPT,
        flags: abi::ZERNEL_SIM_FAULT_QUERY,
        ..Zeroable::zeroed()
    };
    let suspend: abi::zernel_sim_suspend = Zeroable::zeroed();
    let control = abi::zernel_sim_tsg_control {
        context,
        setting: abi::ZERNEL_SIM_SETTING_TIMESLICE,
        value: 1_000,
        ..Zeroable::zeroed()
    };
    let describe = abi::zernel_sim_tsg_describe {
        context,
        flags: abi::ZERNEL_SIM_TSG_COMPUTE,
        channels: 1,
        ..Zeroable::zeroed()
    };
    let stop: abi::zernel_sim_trace_start = Zeroable::zeroed();
    let destroy = abi::zernel_sim_context_destroy {
        context,
        ..Zeroable::zeroed()
    };
    vec![
        call!(ZERNEL_SIM_NR_VERSION, true, None, version),
        call!(ZERNEL_SIM_NR_GPU_INFO, true, None, gpu),
        call!(ZERNEL_SIM_NR_CONTEXT_CREATE, true, Some(44), create),
        call!(ZERNEL_SIM_NR_SUBMIT, true, Some(12), submit),
        call!(ZERNEL_SIM_NR_WAIT, true, None, wait),
        call!(ZERNEL_SIM_NR_EVENTFD, false, Some(12), eventfd),
        call!(ZERNEL_SIM_NR_DOORBELL, false, Some(4), doorbell),
        call!(ZERNEL_SIM_NR_COMPLETIONS, true, None, completions),
        call!(ZERNEL_SIM_NR_TSG_STATS, true, Some(4), tsg),
        call!(ZERNEL_SIM_NR_ENGINE_STATS, true, None, engine),
        call!(ZERNEL_SIM_NR_TRACE_READ, true, Some(20), read),
        call!(ZERNEL_SIM_NR_FAULT, true, Some(20), fault),
        call!(ZERNEL_SIM_NR_SUSPEND, false, None, suspend),
        call!(ZERNEL_SIM_NR_TSG_CONTROL, false, Some(12), control),
        call!(ZERNEL_SIM_NR_TSG_DESCRIBE, false, Some(12), describe),
        // These two end what the others need.
        call!(ZERNEL_SIM_NR_TRACE_START, false, None, stop),
        call!(ZERNEL_SIM_NR_CONTEXT_DESTROY, false, Some(4), destroy),
    ]
}

/// Starts a trace that the calls can read and stop.
fn trace(sim: &Sim) -> Result<(), Errno> {
    let mut start = abi::zernel_sim_trace_start {
        gpu: 0,
        capacity: 16,
    };
    raw::call(sim.as_fd(), abi::ZERNEL_SIM_NR_TRACE_START, &mut start)
}

fn prepare(lab: &Lab, memory: &Memory) -> anyhow::Result<(Context, Vec<Call>)> {
    let (context, _) = lab.compute()?;
    trace(&lab.sim)?;
    let calls = calls(context.id(), memory);
    Ok((context, calls))
}

pub(super) fn every_call_works() -> Outcome {
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (_context, calls) = prepare(&lab, &memory)?;
    for mut call in calls {
        let number = raw::number(call.nr, call.bytes.len());
        sys::ioctl_bytes(lab.sim.as_fd(), number, &mut call.bytes).context(call.name)?;
    }
    Ok(())
}

pub(super) fn no_such_call() -> Outcome {
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (_context, calls) = prepare(&lab, &memory)?;
    let mut bytes = [0u8; 256];
    for nr in abi::ZERNEL_SIM_NR_MEMORY + 1..=0xff {
        let result = sys::ioctl_bytes(lab.sim.as_fd(), raw::number(nr, 64), &mut bytes);
        check_eq!(result, Err(Errno::NOTTY), "call {nr:#x}");
    }
    for mut call in calls {
        for group in [0, abi::ZERNEL_IOC_MAGIC, 0xff] {
            let number = raw::typed(group, call.nr, call.bytes.len());
            let result = sys::ioctl_bytes(lab.sim.as_fd(), number, &mut call.bytes);
            check_eq!(
                result,
                Err(Errno::NOTTY),
                "{} of type {group:#x}",
                call.name
            );
        }
    }
    Ok(())
}

pub(super) fn bad_addresses() -> Outcome {
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (context, calls) = prepare(&lab, &memory)?;
    let before = lab.sim.gpu_info(0)?.tsgs;
    let page = Guarded::new()?;
    for call in &calls {
        let size = call.bytes.len();
        let number = raw::number(call.nr, size);
        // All but the last byte can be read.
        let straddling = page.put(&call.bytes[..size - 1]);
        let kernel = 0xffff_8880_0010_0000;
        let last = usize::MAX - 3;
        for address in [0, 8, page.end(), straddling, kernel, last] {
            let result = raw::call_at(lab.sim.as_fd(), number, address);
            check_eq!(result, Err(Errno::FAULT), "{} at {address:#x}", call.name);
        }
    }
    check_eq!(lab.sim.gpu_info(0)?.tsgs, before);
    check_eq!(context.stats()?.completed, 0);
    // The memory behind a structure.
    let fd = lab.sim.as_fd();
    let mut submit = abi::zernel_sim_submit {
        context: context.id(),
        nr_items: 2,
        items: page.put(bytes_of(&*memory.item)) as u64,
        ..Zeroable::zeroed()
    };
    let result = raw::call(fd, abi::ZERNEL_SIM_NR_SUBMIT, &mut submit);
    check_eq!(result, Err(Errno::FAULT), "the second of two items");
    submit.items = u64::MAX - 64;
    let result = raw::call(fd, abi::ZERNEL_SIM_NR_SUBMIT, &mut submit);
    check_eq!(result, Err(Errno::FAULT), "items that wrap around");
    check_eq!(context.stats()?.queued + context.stats()?.completed, 0);

    let work = libzernel::sim::Item::work(super::us(10)).notify();
    super::run(&context, &[work, work])?;
    let mut take = abi::zernel_sim_completions {
        // Room for one of two.
        buffer: page.put(bytes_of(&*memory.completion)) as u64,
        capacity: 2,
        ..Zeroable::zeroed()
    };
    let result = raw::call(fd, abi::ZERNEL_SIM_NR_COMPLETIONS, &mut take);
    check_eq!(result, Err(Errno::FAULT), "the second of two completions");
    let (taken, dropped) = lab.sim.completions(16)?;
    check_eq!((taken.len(), dropped), (2, 0), "completions are not lost");
    let mut read = abi::zernel_sim_trace_read {
        capacity: 16,
        buffer: page.end() as u64,
        ..Zeroable::zeroed()
    };
    let result = raw::call(fd, abi::ZERNEL_SIM_NR_TRACE_READ, &mut read);
    check_eq!(result, Err(Errno::FAULT), "trace records");
    Ok(())
}

/// A call whose answer cannot be written has not happened.
pub(super) fn no_answer_no_effect() -> Outcome {
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (context, calls) = prepare(&lab, &memory)?;
    super::run(&context, &[libzernel::sim::Item::fence().notify()])?;
    let (tsgs, zernel) = (lab.sim.gpu_info(0)?.tsgs, lab.stats()?.tsgs);
    for call in calls.iter().filter(|call| call.answers) {
        let page = Guarded::new()?;
        let address = page.put(&call.bytes);
        page.protect()?;
        let number = raw::number(call.nr, call.bytes.len());
        let result = raw::call_at(lab.sim.as_fd(), number, address);
        check_eq!(
            result,
            Err(Errno::FAULT),
            "{} into a read-only page",
            call.name
        );
    }
    check_eq!(lab.sim.gpu_info(0)?.tsgs, tsgs);
    check_eq!(lab.stats()?.tsgs, zernel);
    let stats = context.stats()?;
    check_eq!((stats.completed, stats.queued), (1, 0), "items");
    check_eq!(
        lab.sim.completions(16)?.0.len(),
        1,
        "completions are not lost"
    );
    Ok(())
}

pub(super) fn bad_sizes() -> Outcome {
    const LONGEST: usize = (1 << 14) - 1;
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (context, calls) = prepare(&lab, &memory)?;
    for call in &calls {
        let size = call.bytes.len();
        let on = |length: usize, bytes: &mut [u8]| {
            sys::ioctl_bytes(lab.sim.as_fd(), raw::number(call.nr, length), bytes)
        };
        for short in [0, 1, size / 2, size - 1] {
            let mut bytes = call.bytes.clone();
            check_eq!(
                on(short, &mut bytes),
                Err(Errno::INVAL),
                "{} of {short}",
                call.name
            );
            check_eq!(
                &bytes,
                &call.bytes,
                "{} of {short}: the structure",
                call.name
            );
        }
        for (length, at) in [
            (size + 1, size),
            (size + 8, size + 7),
            (LONGEST, LONGEST - 1),
        ] {
            let mut bytes = call.bytes.clone();
            bytes.resize(length, 0);
            bytes[at] = 1;
            check_eq!(
                on(length, &mut bytes),
                Err(Errno::TOOBIG),
                "{} of {length}",
                call.name
            );
        }
    }
    check_eq!(context.stats()?.completed, 0, "nothing was submitted");
    for call in &calls {
        // A longer structure of zeroes is taken; what the module does not know is left alone.
        let mut bytes = call.bytes.clone();
        bytes.resize(LONGEST, 0);
        sys::ioctl_bytes(lab.sim.as_fd(), raw::number(call.nr, LONGEST), &mut bytes)
            .with_context(|| format!("{} of {LONGEST}", call.name))?;
        ensure!(
            bytes[call.bytes.len()..].iter().all(|&byte| byte == 0),
            "{}: bytes behind the structure were written",
            call.name
        );
    }
    Ok(())
}

pub(super) fn bad_reserved_fields() -> Outcome {
    let (lab, memory) = (Lab::open()?, Memory::new());
    let (context, calls) = prepare(&lab, &memory)?;
    let before = lab.sim.gpu_info(0)?.tsgs;
    for call in &calls {
        let Some(at) = call.reserved else { continue };
        for bit in [0, 31] {
            let mut bytes = call.bytes.clone();
            bytes[at + bit / 8] |= 1 << (bit % 8);
            let number = raw::number(call.nr, bytes.len());
            let result = sys::ioctl_bytes(lab.sim.as_fd(), number, &mut bytes);
            check_eq!(result, Err(Errno::INVAL), "{} with bit {bit}", call.name);
        }
    }
    check_eq!(lab.sim.gpu_info(0)?.tsgs, before);
    check_eq!(context.stats()?.completed, 0);
    Ok(())
}

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
    super::refused("a GPU too many", sim.gpu_info(version.gpus), Errno::NOENT)?;
    super::refused("a GPU far off", sim.gpu_info(u32::MAX), Errno::NOENT)
}
