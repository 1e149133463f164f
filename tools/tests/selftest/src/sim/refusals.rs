// SPDX-License-Identifier: MIT OR Apache-2.0
//! The refusals of the software GPU, and their errno; an error changes nothing.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::Result;
use bytemuck::Zeroable;
use libzernel::sim::{Condition, Context, ContextSpec, EngineChoice, Item, Sim};
use libzernel::sys::abi;
use libzernel::Timestamp;
use rustix::io::Errno;

use super::calls::Stage;
use super::refused;
use crate::abi::validity::{lines, Line};
use crate::check_eq;
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

const WAIT: u32 = abi::ZERNEL_SIM_ITEM_WAIT;
const RELEASE: u32 = abi::ZERNEL_SIM_ITEM_RELEASE;
const HOLD: u32 = abi::ZERNEL_SIM_ITEM_HOLD;
const FENCE: u32 = abi::ZERNEL_SIM_ITEM_FENCE;
const COPY: u32 = abi::ZERNEL_SIM_ENGINE_COPY;
const SHARE: u32 = abi::ZERNEL_SIM_CONTEXT_SHARE_WORDS;

/// The address of two items: a good one and behind it one of a kind that is changed.
fn second(kind: u32, change: impl FnOnce(&mut abi::zernel_sim_item)) -> u64 {
    let good = |kind| abi::zernel_sim_item {
        kind,
        ..Zeroable::zeroed()
    };
    let mut items = [good(FENCE), good(kind)];
    if kind == HOLD {
        (items[1].duration_ns, items[1].demand_permille) = (2_000, 1_000);
    }
    change(&mut items[1]);
    // For as long as the case runs.
    Box::leak(Box::new(items)).as_ptr() as u64
}

/// Fields with a wrong value. KUnit knows more wrong items, and another case more wrong contexts.
const LINES: &[Line<Stage>] = lines! { stage: Stage;
    "GPU_INFO" zernel_sim_gpu_info {
        gpu in [2, u32::MAX] => NOENT;
    }
    "CONTEXT_CREATE" zernel_sim_context_create {
        gpu in [2] => NOENT;
        engine_type in [COPY + 1] => INVAL;
        engine in [1] => NOENT;
        engine in [0, 4], engine_type = COPY => NOENT;
        nr_channels in [0, 17, u32::MAX] => INVAL;
        flags in [SHARE << 1, 1 << 31] => INVAL;
        share_context in [stage.context.id()] => INVAL;
        share_context in [0, stage.unknown()], flags = SHARE => NOENT;
        share_context in [stage.context.id()], flags = SHARE, gpu = 1 => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "CONTEXT_DESTROY" zernel_sim_context_destroy {
        reserved in [1, 1 << 31] => INVAL;
    }
    "SUBMIT" zernel_sim_submit {
        channel in [1, u32::MAX] => NOENT;
        nr_items in [0, 257, u32::MAX] => INVAL;
        flags in [1, 1 << 31] => INVAL;
        items in [0, u64::MAX, stage.records.address(4095)] => FAULT;
        items in [u64::MAX - 64], nr_items = 2 => FAULT;
        items in [
            second(6, |_| ()),
            second(WAIT, |item| item.word = 1 << 16),
            // Of memory of the program, and there is none.
            second(WAIT, |item| item.word = abi::ZERNEL_SIM_MEMORY_WORD),
            second(WAIT, |item| item.granularity = 1),
            second(RELEASE, |item| item.word = 1024),
            second(RELEASE, |item| item.duration_ns = 1),
            second(HOLD, |item| item.duration_ns = 0),
            second(HOLD, |item| item.duration_ns = 60_000_000_001),
            second(HOLD, |item| item.demand_permille = 0),
            second(HOLD, |item| item.word = u32::MAX),
            second(HOLD, |item| item.condition = 3),
            second(HOLD, |item| item.block_ns = 1_000),
            second(FENCE, |item| item.demand_permille = 1)
        ], nr_items = 2 => INVAL;
    }
    "WAIT" zernel_sim_wait {
        channel in [1, u32::MAX] => NOENT;
        seq in [1, u64::MAX] => INVAL;
    }
    "EVENTFD" zernel_sim_eventfd {
        channel in [1, u32::MAX] => NOENT;
        fd in [1000, -2] => BADF;
        fd in [stage.null.as_raw_fd()] => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "DOORBELL" zernel_sim_doorbell {
        context in [0, stage.unknown(), u32::MAX] => NOENT;
        reserved in [1, 1 << 31] => INVAL;
    }
    "COMPLETIONS" zernel_sim_completions {
        capacity in [0] => INVAL;
    }
    "TSG_STATS" zernel_sim_tsg_stats {
        tsg in [1, stage.gone, u64::MAX], context = 0 => NOENT;
        tsg in [stage.context.tsg() + 1, stage.context.tsg() + (1 << 18)], context = 0 => NOENT;
        reserved in [1, 1 << 31] => INVAL;
    }
    "ENGINE_STATS" zernel_sim_engine_stats {
        gpu in [2] => NOENT;
        engine in [4] => NOENT;
    }
    "TRACE_START" zernel_sim_trace_start {
        gpu in [2] => NOENT;
        capacity in [(1 << 20) + 1], gpu = 1 => INVAL;
        capacity in [16] => BUSY;
    }
    "TRACE_READ" zernel_sim_trace_read {
        gpu in [1] => PERM;
        gpu in [2] => NOENT;
        capacity in [0] => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "FAULT" zernel_sim_fault {
        gpu in [2] => NOENT;
        op in [0, 10, u32::MAX] => INVAL;
        flags in [2, 1 << 31] => INVAL;
        error in [1, -512, -530, -4096, i32::MIN], flags = 0 => INVAL;
        delay_ns in [10_000_000_001u64, u64::MAX], flags = 0 => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "SUSPEND" zernel_sim_suspend {
        gpu in [2], suspend = 1 => NOENT;
        suspend in [3, u32::MAX] => INVAL;
    }
    "TSG_CONTROL" zernel_sim_tsg_control {
        setting in [0, 5, u32::MAX] => INVAL;
        value in [0] => INVAL;
        value in [3, u32::MAX], setting = abi::ZERNEL_SIM_SETTING_INTERLEAVE => INVAL;
        value in [2, u32::MAX], setting = abi::ZERNEL_SIM_SETTING_ENABLED => INVAL;
        value in [0, 2, u32::MAX], setting = abi::ZERNEL_SIM_SETTING_START => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "TSG_DESCRIBE" zernel_sim_tsg_describe {
        flags in [4, 1 << 31] => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
    "MEMORY" zernel_sim_memory {
        address in [stage.memory.address() + 4] => INVAL;
        address in [4096] => FAULT;
        length in [0, 4095, abi::ZERNEL_SIM_MEMORY_MAX + 4096, u64::MAX - 4095] => INVAL;
        reserved in [1, 1 << 31] => INVAL;
    }
};

/// Every line of the table.
pub(super) fn fields() -> Outcome {
    let stage = Stage::new()?;
    for line in LINES {
        let call = stage.call(line.call);
        for value in (line.values)(&stage) {
            let mut bytes = call.bytes.clone();
            (line.make)(&stage, &mut bytes, value);
            let what = format!("{} with {} {value:#x}", line.call, line.change);
            stage.refused(call.number(), &bytes, line.errno, &what)?;
        }
    }
    // The ends of ranges.
    stage.context.set_timeslice(u32::MAX)?;
    check_eq!(stage.context.stats()?.timeslice_us, u32::MAX);
    super::run(&stage.context, &[Item::fence(); 256])?;
    Ok(())
}

/// Another file has no context of the stage, and its TSGs are told to their user alone. Without
/// privileges nobody traces, suspends, makes fail or describes.
pub(super) fn strangers() -> Outcome {
    let stage = Stage::new()?;
    let ask = |is_root: bool| -> Result<Sim> {
        let other = Sim::open()?;
        for call in stage.calls() {
            let expected = match call.name {
                "TRACE_START" if is_root => Err(Errno::BUSY),
                "FAULT" | "SUSPEND" if is_root => Ok(0),
                "TSG_DESCRIBE" if is_root => Err(Errno::NOENT),
                "TRACE_START" | "FAULT" | "SUSPEND" | "TSG_DESCRIBE" => Err(Errno::PERM),
                "VERSION" | "GPU_INFO" | "CONTEXT_CREATE" | "COMPLETIONS" | "ENGINE_STATS" => Ok(0),
                "TRACE_READ" => Err(Errno::PERM),
                _ => Err(Errno::NOENT),
            };
            let answer = call.make(other.as_fd());
            check_eq!(answer, expected, "{} of another file", call.name);
        }
        Ok(other)
    };
    let other = ask(true)?;
    let tsg = stage.context.tsg();
    check_eq!(other.tsg_stats(tsg)?.tsg, tsg);
    refused("a trace there is", other.trace(0, 16), Errno::BUSY)?;
    // It ends with the process, on.
    std::mem::forget(other.trace(1, 16)?);
    as_alice(|| {
        let alice = ask(false)?;
        refused("suspend", alice.suspend(0, true), Errno::PERM)?;
        refused("forget", alice.forget(0), Errno::PERM)?;
        refused("root's TSG", alice.tsg_stats(tsg), Errno::PERM)?;
        let own = alice.create_context(&ContextSpec::compute("alice"))?.tsg();
        refused("a TSG that is gone", alice.tsg_stats(own), Errno::NOENT)?;
        let own = alice.create_context(&ContextSpec::compute("alice"))?;
        let told = Sim::open()?.tsg_stats(own.tsg())?.tsg;
        check_eq!(told, own.tsg(), "by another file");
        Ok(())
    })?;
    check_eq!(stage.lab.sim.gpu_info(0)?.suspended, false);
    Ok(())
}

/// Runs `run` in a child that is the unprivileged user alice.
fn as_alice(run: impl FnOnce() -> Result<()>) -> Result<()> {
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        run()
    })
}

/// Both files of the user count.
pub(super) fn context_quota() -> Outcome {
    as_alice(|| {
        let files = [Sim::open()?, Sim::open()?];
        let spec = ContextSpec::compute("quota");
        // A context that cannot be made costs nothing.
        let engine = EngineChoice::Copy(9);
        let wrong = files[0].create_context(&ContextSpec { engine, ..spec });
        refused("no such engine", wrong, Errno::NOENT)?;
        let mut contexts = Vec::new();
        let quota = files[0].version()?.user_contexts as usize;
        for file in files.iter().cycle().take(quota) {
            contexts.push(file.create_context(&spec)?);
        }
        for file in &files {
            refused("one too many", file.create_context(&spec), Errno::DQUOT)?;
        }
        contexts.pop();
        contexts.push(files[0].create_context(&spec)?);
        refused("full again", files[0].create_context(&spec), Errno::DQUOT)
    })?;
    // Root has its own.
    Lab::open()?.compute()?;
    Ok(())
}

/// An item that waits for a word.
fn blocked() -> Item {
    Item::wait(0, Condition::Equal, 1)
}

/// Fills channels.
fn fill(context: &Context, channels: u32, room: u32) -> Result<()> {
    for channel in 0..channels {
        for _ in 0..room / 128 {
            context.submit(channel, &[blocked(); 128])?;
        }
    }
    Ok(())
}

pub(super) fn item_quota() -> Outcome {
    as_alice(|| {
        let sim = Sim::open()?;
        let (quota, room) = (sim.version()?.user_items, sim.version()?.max_items);
        let new = || sim.create_context(&ContextSpec::compute("quota"));
        let mut contexts = Vec::new();
        for _ in 0..quota / room {
            contexts.push(new()?);
            fill(&contexts[contexts.len() - 1], 1, room)?;
        }
        let last = new()?;
        refused("one too many", last.submit(0, &[blocked()]), Errno::DQUOT)?;
        check_eq!(last.stats()?.queued, 0);
        // Dropped with their context, they are given back; completed as well.
        contexts.pop();
        last.submit(0, &[Item::fence(); 128])?;
        last.wait(0, 128, Timestamp::NEVER)?;
        fill(&last, 1, room)?;
        refused("full again", new()?.submit(0, &[blocked()]), Errno::DQUOT)
    })
}

/// The GPU holds so many items; a channel that is empty gets none of them when others have them.
pub(super) fn full_of_items() -> Outcome {
    const ITEMS: u32 = 65_536;
    let sim = Sim::open()?;
    let version = sim.version()?;
    let spec = ContextSpec {
        channels: version.max_channels,
        ..ContextSpec::compute("full")
    };
    let victim = sim.create_context(&spec)?;
    let mut contexts = Vec::new();
    for _ in 0..ITEMS / (version.max_channels * version.max_items) {
        let context = sim.create_context(&spec)?;
        fill(&context, version.max_channels, version.max_items)?;
        contexts.push(context);
    }
    let fence = [Item::fence()];
    let first = &contexts[0];
    refused("a full GPU", victim.submit(0, &fence), Errno::NOSPC)?;
    refused("a full channel", first.submit(0, &fence), Errno::AGAIN)?;
    first.words(1)?.store(0, 1);
    first.doorbell()?;
    first.wait(0, version.max_items.into(), Timestamp::NEVER)?;
    let submitted = first.submit(0, &fence)?;
    check_eq!(submitted.last_seq, u64::from(version.max_items) + 1);
    super::run(&victim, &fence)?;
    Ok(())
}
