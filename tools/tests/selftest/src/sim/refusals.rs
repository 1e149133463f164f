// SPDX-License-Identifier: GPL-2.0
//! The refusals of the software GPU, and their errno; an error changes nothing.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{ensure, Result};
use bytemuck::Zeroable;
use libzernel::sim::{Condition, ContextSpec, EngineChoice, Fault, Item, Operation, Sim};
use libzernel::sys::abi;
use libzernel::Timestamp;
use rustix::io::Errno;

use super::{raw, refused, us};
use crate::check_eq;
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::sys;

const ALICE: u32 = 1000;

/// Runs `run` in a child that is the unprivileged user alice.
fn as_alice(run: impl FnOnce() -> Result<()>) -> Result<()> {
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        run()
    })
}

fn create(sim: &Sim, change: impl FnOnce(&mut abi::zernel_sim_context_create)) -> Errno {
    let mut create = abi::zernel_sim_context_create {
        engine: abi::ZERNEL_SIM_ENGINE_ANY,
        nr_channels: 1,
        ..Zeroable::zeroed()
    };
    change(&mut create);
    match raw::call(sim.as_fd(), abi::ZERNEL_SIM_NR_CONTEXT_CREATE, &mut create) {
        // No error has this number.
        Ok(()) => Errno::from_raw_os_error(4095),
        Err(errno) => errno,
    }
}

pub(super) fn contexts() -> Outcome {
    let lab = Lab::open()?;
    let sim = &lab.sim;
    let (first, _) = lab.compute()?;
    let (max, gpus) = (sim.version()?.max_channels, sim.version()?.gpus);
    let (id, unknown) = (first.id(), first.id() + 1);
    const SHARE: u32 = abi::ZERNEL_SIM_CONTEXT_SHARE_WORDS;
    const COPY: u32 = abi::ZERNEL_SIM_ENGINE_COPY;
    let (inval, noent) = (Errno::INVAL, Errno::NOENT);
    check_eq!(create(sim, |c| c.nr_channels = 0), inval, "no channels");
    check_eq!(
        create(sim, |c| c.nr_channels = max + 1),
        inval,
        "too many channels"
    );
    check_eq!(
        create(sim, |c| c.nr_channels = u32::MAX),
        inval,
        "very many channels"
    );
    check_eq!(
        create(sim, |c| c.engine_type = COPY + 1),
        inval,
        "type of engine"
    );
    check_eq!(create(sim, |c| c.flags = SHARE << 1), inval, "unknown flag");
    check_eq!(
        create(sim, |c| c.share_context = id),
        inval,
        "sharer without flag"
    );
    check_eq!(create(sim, |c| c.gpu = gpus), noent, "GPU");
    check_eq!(
        create(sim, |c| c.engine = 1),
        noent,
        "copy engine as compute engine"
    );
    let wrong = |engine| {
        create(sim, |c| {
            c.engine_type = COPY;
            c.engine = engine;
        })
    };
    check_eq!(wrong(0), noent, "compute engine as copy engine");
    check_eq!(wrong(4), noent, "copy engine that is not there");
    let share = |with, gpu| {
        create(sim, |c| {
            c.flags = SHARE;
            c.share_context = with;
            c.gpu = gpu;
        })
    };
    check_eq!(share(unknown, 0), noent, "words of no context");
    check_eq!(share(0, 0), noent, "words of context 0");
    check_eq!(share(id, 1), inval, "words of another GPU");
    check_eq!(sim.gpu_info(0)?.tsgs, 1);
    check_eq!(lab.stats()?.tsgs, 1);

    let mut destroy = abi::zernel_sim_context_destroy {
        context: unknown,
        reserved: 0,
    };
    let nr = abi::ZERNEL_SIM_NR_CONTEXT_DESTROY;
    check_eq!(
        raw::call(sim.as_fd(), nr, &mut destroy),
        Err(noent),
        "unknown context"
    );
    destroy.context = id;
    let other = Sim::open()?;
    check_eq!(
        raw::call(other.as_fd(), nr, &mut destroy),
        Err(noent),
        "other file"
    );
    check_eq!(
        raw::call(sim.as_fd(), nr, &mut destroy),
        Ok(()),
        "the context"
    );
    check_eq!(
        raw::call(sim.as_fd(), nr, &mut destroy),
        Err(noent),
        "once more"
    );
    let (next, _) = lab.compute()?;
    ensure!(next.id() > id, "id {} after {id}: used again", next.id());
    Ok(())
}

/// A valid item of a kind.
fn item(kind: u32) -> abi::zernel_sim_item {
    let mut item = abi::zernel_sim_item {
        kind,
        ..Zeroable::zeroed()
    };
    if kind == abi::ZERNEL_SIM_ITEM_WORK || kind == abi::ZERNEL_SIM_ITEM_HOLD {
        (item.duration_ns, item.demand_permille) = (2_000, 1000);
    }
    item
}

pub(super) fn items() -> Outcome {
    use abi::*;
    type Change = fn(&mut zernel_sim_item);
    const WORK: u32 = ZERNEL_SIM_ITEM_WORK;
    const WAIT: u32 = ZERNEL_SIM_ITEM_WAIT;
    const RELEASE: u32 = ZERNEL_SIM_ITEM_RELEASE;
    const HOLD: u32 = ZERNEL_SIM_ITEM_HOLD;
    const FENCE: u32 = ZERNEL_SIM_ITEM_FENCE;
    const LONG: u64 = 60_000_000_001;
    let bad: &[(u32, &str, Change)] = &[
        (FENCE, "kind 0", |i| i.kind = 0),
        (FENCE, "kind 6", |i| i.kind = 6),
        (WORK, "unknown flag", |i| i.flags = 2),
        (WORK, "reserved field", |i| i.reserved = 1),
        (WORK, "too short", |i| i.duration_ns = 999),
        (WORK, "too long", |i| i.duration_ns = LONG),
        (WORK, "no demand", |i| i.demand_permille = 0),
        (WORK, "more than all", |i| i.demand_permille = 1001),
        (WORK, "granularity", |i| i.granularity = 2),
        (WORK, "block of 0", |i| i.granularity = 1),
        (WORK, "short block", |i| {
            (i.granularity, i.block_ns) = (1, 999)
        }),
        (WORK, "block longer than work", |i| {
            (i.granularity, i.block_ns) = (1, 2_001)
        }),
        (WORK, "block without granularity", |i| i.block_ns = 1_000),
        (WORK, "word", |i| i.word = 1),
        (WORK, "value", |i| i.value = 1),
        (WORK, "condition", |i| i.condition = 1),
        (WAIT, "word", |i| i.word = 1024),
        (WAIT, "far word", |i| i.word = 1 << 16),
        (WAIT, "condition", |i| i.condition = 3),
        (WAIT, "duration", |i| i.duration_ns = 2_000),
        (WAIT, "demand", |i| i.demand_permille = 1),
        (WAIT, "block", |i| i.block_ns = 1_000),
        (WAIT, "granularity", |i| i.granularity = 1),
        (RELEASE, "word", |i| i.word = 1024),
        (RELEASE, "condition", |i| i.condition = 1),
        (RELEASE, "duration", |i| i.duration_ns = 1),
        (HOLD, "no bound", |i| i.duration_ns = 0),
        (HOLD, "long bound", |i| i.duration_ns = LONG),
        (HOLD, "no demand", |i| i.demand_permille = 0),
        (HOLD, "word", |i| i.word = u32::MAX),
        (HOLD, "condition", |i| i.condition = 3),
        (HOLD, "block", |i| i.block_ns = 1_000),
        (HOLD, "granularity", |i| i.granularity = 1),
        (FENCE, "duration", |i| i.duration_ns = 1),
        (FENCE, "value", |i| i.value = 1),
        (FENCE, "demand", |i| i.demand_permille = 1),
    ];
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let submit = |items: &[zernel_sim_item], count: usize, channel: u32| {
        let mut submit = zernel_sim_submit {
            context: context.id(),
            channel,
            nr_items: count as u32,
            items: items.as_ptr() as u64,
            ..Zeroable::zeroed()
        };
        raw::call(lab.sim.as_fd(), ZERNEL_SIM_NR_SUBMIT, &mut submit)
    };
    for (kind, what, change) in bad {
        let mut wrong = item(*kind);
        change(&mut wrong);
        // A good item before it must not be queued either.
        let result = submit(&[item(FENCE), wrong], 2, 0);
        check_eq!(result, Err(Errno::INVAL), "item of kind {kind}: {what}");
    }
    let most = lab.sim.version()?.max_submit as usize;
    let many = vec![item(FENCE); most + 1];
    check_eq!(submit(&many, 0, 0), Err(Errno::INVAL), "no items");
    check_eq!(
        submit(&many, most + 1, 0),
        Err(Errno::INVAL),
        "too many items"
    );
    check_eq!(submit(&many, 1, 1), Err(Errno::NOENT), "channel 1 of 1");
    check_eq!(
        submit(&many, 1, u32::MAX),
        Err(Errno::NOENT),
        "channel far off"
    );
    let stats = context.stats()?;
    check_eq!((stats.completed, stats.queued), (0, 0), "items queued");
    check_eq!(submit(&many, most, 0), Ok(()), "as many as allowed");
    context.wait(0, most as u64, Timestamp::NEVER)?;
    Ok(())
}

pub(super) fn waits() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let past = Timestamp::from_ns(0);
    check_eq!(context.wait(0, 0, past)?.completed_seq, 0, "nothing");
    refused("not submitted", context.wait(0, 1, past), Errno::INVAL)?;
    refused("no channel", context.wait(1, 0, past), Errno::NOENT)?;
    let submitted = context.submit(0, &[Item::wait(0, Condition::Equal, 1), Item::fence()])?;
    check_eq!(submitted.last_seq, 2);
    refused("looked at", context.wait(0, 1, past), Errno::TIME)?;
    let deadline = Timestamp::now() + us(2_000);
    refused("deadline", context.wait(0, 2, deadline), Errno::TIME)?;
    ensure!(Timestamp::now() >= deadline, "returned before its deadline");
    refused("one too many", context.wait(0, 3, past), Errno::INVAL)
}

pub(super) fn eventfds() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let set = |context: u32, channel: u32, fd: i32| {
        let mut eventfd = abi::zernel_sim_eventfd {
            context,
            channel,
            fd,
            reserved: 0,
        };
        raw::call(lab.sim.as_fd(), abi::ZERNEL_SIM_NR_EVENTFD, &mut eventfd)
    };
    let id = context.id();
    let null = std::fs::File::open("/dev/null")?;
    check_eq!(set(id, 0, 1000), Err(Errno::BADF), "closed");
    check_eq!(set(id, 0, -2), Err(Errno::BADF), "negative");
    check_eq!(
        set(id, 0, null.as_raw_fd()),
        Err(Errno::INVAL),
        "no eventfd"
    );
    check_eq!(set(id, 1, -1), Err(Errno::NOENT), "no channel");
    check_eq!(set(id + 1, 0, -1), Err(Errno::NOENT), "no context");
    check_eq!(set(id, 0, -1), Ok(()), "none");
    Ok(())
}

pub(super) fn traces() -> Outcome {
    let lab = Lab::open()?;
    refused("no GPU", lab.sim.trace(2, 16), Errno::NOENT)?;
    refused("capacity", lab.sim.trace(0, (1 << 20) + 1), Errno::INVAL)?;
    let trace = lab.sim.trace(0, 16)?;
    refused("a second one", lab.sim.trace(0, 16), Errno::BUSY)?;
    let other = Sim::open()?;
    refused("another file", other.trace(0, 16), Errno::BUSY)?;
    let mut record: abi::zernel_sim_trace_record = Zeroable::zeroed();
    let mut read = abi::zernel_sim_trace_read {
        capacity: 1,
        buffer: std::ptr::from_mut(&mut record) as u64,
        ..Zeroable::zeroed()
    };
    let nr = abi::ZERNEL_SIM_NR_TRACE_READ;
    check_eq!(
        raw::call(other.as_fd(), nr, &mut read),
        Err(Errno::PERM),
        "another reader"
    );
    read.capacity = 0;
    check_eq!(
        raw::call(lab.sim.as_fd(), nr, &mut read),
        Err(Errno::INVAL),
        "no room"
    );
    let mut stop: abi::zernel_sim_trace_start = Zeroable::zeroed();
    let start = abi::ZERNEL_SIM_NR_TRACE_START;
    check_eq!(
        raw::call(other.as_fd(), start, &mut stop),
        Err(Errno::BUSY),
        "another stops"
    );
    drop(trace);
    read.capacity = 1;
    check_eq!(
        raw::call(lab.sim.as_fd(), nr, &mut read),
        Err(Errno::PERM),
        "after its end"
    );
    // The file is closed by the end of the process, with the trace on.
    std::mem::forget(other.trace(0, 16)?);
    as_alice(|| refused("alice", Sim::open()?.trace(1, 16), Errno::PERM))
}

pub(super) fn tests() -> Outcome {
    let sim = Sim::open()?;
    let fault = |op: u32, error: i32, delay_ns: u64, gpu: u32| {
        let mut fault = abi::zernel_sim_fault {
            gpu,
            op,
            error,
            delay_ns,
            ..Zeroable::zeroed()
        };
        raw::call(sim.as_fd(), abi::ZERNEL_SIM_NR_FAULT, &mut fault)
    };
    let inval = Err(Errno::INVAL);
    check_eq!(fault(0, 0, 0, 0), inval, "operation 0");
    check_eq!(fault(8, 0, 0, 0), inval, "operation 8");
    check_eq!(fault(1, 1, 0, 0), inval, "positive error");
    check_eq!(fault(1, -4096, 0, 0), inval, "error too low");
    check_eq!(fault(1, -512, 0, 0), inval, "an error for the kernel alone");
    check_eq!(fault(1, 0, 10_000_000_001, 0), inval, "delay");
    check_eq!(fault(1, 0, 0, 2), Err(Errno::NOENT), "no GPU");
    let suspend = |suspend: u32, gpu: u32| {
        let mut suspend = abi::zernel_sim_suspend { gpu, suspend };
        raw::call(sim.as_fd(), abi::ZERNEL_SIM_NR_SUSPEND, &mut suspend)
    };
    check_eq!(suspend(3, 0), inval, "neither 0, 1 nor 2");
    check_eq!(suspend(1, 2), Err(Errno::NOENT), "no GPU");
    ensure!(!sim.gpu_info(0)?.suspended, "suspended by a refused call");
    as_alice(|| {
        let sim = Sim::open()?;
        refused("suspend", sim.suspend(0, true), Errno::PERM)?;
        refused("forget", sim.forget(0), Errno::PERM)?;
        refused(
            "look",
            sim.injected(0, Operation::SetTimeslice),
            Errno::PERM,
        )?;
        let fault = Fault {
            gpu: 0,
            operation: Operation::SetTimeslice,
            count: 1,
            error: Some(Errno::IO),
            delay: us(0),
            tsg: None,
        };
        refused("inject", sim.inject(&fault), Errno::PERM)
    })?;
    ensure!(!sim.gpu_info(0)?.suspended, "suspended by alice");
    Ok(())
}

pub(super) fn stats() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let tsg = context.tsg();
    check_eq!(lab.sim.tsg_stats(tsg)?.tsg, tsg);
    for unknown in [0, 1, tsg + 1, tsg + (1 << 18), u64::MAX] {
        refused("no TSG", lab.sim.tsg_stats(unknown), Errno::NOENT)?;
    }
    let beyond = lab.sim.gpu_info(0)?.copy_engines + 1;
    refused("no engine", lab.sim.engine_stats(0, beyond), Errno::NOENT)?;
    refused("no GPU", lab.sim.engine_stats(2, 0), Errno::NOENT)?;
    as_alice(|| {
        let alice = Sim::open()?;
        refused("root's TSG", alice.tsg_stats(tsg), Errno::PERM)?;
        let own = alice.create_context(&ContextSpec::compute("alice"))?;
        check_eq!(alice.tsg_stats(own.tsg())?.tsg, own.tsg());
        check_eq!(
            Sim::open()?.tsg_stats(own.tsg())?.tsg,
            own.tsg(),
            "by another file"
        );
        Ok(())
    })?;
    drop(context);
    refused("a TSG that is gone", lab.sim.tsg_stats(tsg), Errno::NOENT)
}

pub(super) fn context_quota() -> Outcome {
    as_alice(|| {
        let (sim, other) = (Sim::open()?, Sim::open()?);
        let quota = sim.version()?.user_contexts;
        let spec = ContextSpec::compute("quota");
        let mut contexts = Vec::new();
        for number in 0..quota {
            // Both files of the user count.
            let file = if number % 2 == 0 { &sim } else { &other };
            contexts.push(file.create_context(&spec)?);
        }
        refused("one too many", sim.create_context(&spec), Errno::DQUOT)?;
        refused("another file", other.create_context(&spec), Errno::DQUOT)?;
        contexts.pop();
        contexts.push(sim.create_context(&spec)?);
        refused("full again", sim.create_context(&spec), Errno::DQUOT)
    })?;
    // Root has its own.
    Lab::open()?.compute()?;
    Ok(())
}

pub(super) fn item_quota() -> Outcome {
    as_alice(|| {
        let sim = Sim::open()?;
        let (quota, room) = (sim.version()?.user_items, sim.version()?.max_items);
        let blocked = Item::wait(0, Condition::Equal, 1);
        let batch = [blocked; 128];
        let mut contexts = Vec::new();
        for _ in 0..quota / room {
            let context = sim.create_context(&ContextSpec::compute("quota"))?;
            for _ in 0..room / 128 {
                context.submit(0, &batch)?;
            }
            contexts.push(context);
        }
        let last = sim.create_context(&ContextSpec::compute("quota"))?;
        refused("one too many", last.submit(0, &[blocked]), Errno::DQUOT)?;
        check_eq!(last.stats()?.queued, 0);
        // Dropped with their context, they are given back; completed as well.
        contexts.pop();
        last.submit(0, &[Item::fence(); 128])?;
        last.wait(0, 128, Timestamp::NEVER)?;
        for _ in 0..room / 128 {
            last.submit(0, &batch)?;
        }
        let another = sim.create_context(&ContextSpec::compute("quota"))?;
        refused("full again", another.submit(0, &[blocked]), Errno::DQUOT)
    })
}

pub(super) fn full() -> Outcome {
    let sim = Sim::open()?;
    let spec = ContextSpec {
        engine: EngineChoice::AnyCopy,
        ..ContextSpec::compute("full")
    };
    let most = sim.gpu_info(0)?.max_tsgs;
    let mut contexts = Vec::new();
    for _ in 0..most {
        contexts.push(sim.create_context(&spec)?);
    }
    refused("a TSG too many", sim.create_context(&spec), Errno::NOSPC)?;
    sim.create_context(&ContextSpec { gpu: 1, ..spec })?;
    contexts.truncate(most as usize - 1);
    let context = sim.create_context(&spec)?;

    let room = sim.version()?.max_items;
    let blocked = Item::wait(0, Condition::Equal, 1);
    for _ in 0..room / 256 {
        context.submit(0, &[blocked; 256])?;
    }
    refused("no room", context.submit(0, &[Item::fence()]), Errno::AGAIN)?;
    context.words(1)?.store(0, 1);
    context.doorbell()?;
    context.wait(0, room.into(), Timestamp::NEVER)?;
    let submitted = context.submit(0, &[Item::fence()])?;
    check_eq!(submitted.last_seq, u64::from(room) + 1);
    Ok(())
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
    let blocked = [Item::wait(0, Condition::Equal, 1); 256];
    let victim = sim.create_context(&spec)?;
    let mut contexts = Vec::new();
    for _ in 0..ITEMS / (version.max_channels * version.max_items) {
        let context = sim.create_context(&spec)?;
        for channel in 0..version.max_channels {
            for _ in 0..version.max_items / 256 {
                context.submit(channel, &blocked)?;
            }
        }
        contexts.push(context);
    }
    let fence = [Item::fence()];
    refused("a full GPU", victim.submit(0, &fence), Errno::NOSPC)?;
    refused(
        "a full channel",
        contexts[0].submit(0, &fence),
        Errno::AGAIN,
    )?;
    contexts.pop();
    super::run(&victim, &fence)?;
    Ok(())
}
