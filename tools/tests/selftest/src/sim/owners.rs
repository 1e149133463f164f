// SPDX-License-Identifier: GPL-2.0
//! The owners of contexts: destroyed, closed, killed, forked, passed on, known to zernel.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{ensure, Context as _, Result};
use bytemuck::Zeroable;
use libzernel::sim::{Condition, ContextSpec, EngineChoice, Item, Sim};
use libzernel::sys::abi;
use libzernel::Timestamp;
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;
use testkit::passing;

use super::{raw, us};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{tid, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::sys;

/// TSGs that the software GPUs have, and that zernel knows.
fn population(lab: &Lab) -> Result<(u32, u32)> {
    let gpus = lab.sim.gpu_info(0)?.tsgs + lab.sim.gpu_info(1)?.tsgs;
    Ok((gpus, lab.stats()?.tsgs as u32))
}

fn context_of(raw_id: u32) -> abi::zernel_sim_wait {
    abi::zernel_sim_wait {
        context: raw_id,
        seq: 1,
        deadline_ns: u64::MAX,
        ..Zeroable::zeroed()
    }
}

/// A thread that waits for an item of a context that is destroyed is told so; nobody is told of its
/// items.
pub(super) fn destroyed_context() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let counter = eventfd(0, EventfdFlags::NONBLOCK)?;
    context.set_eventfd(0, Some(counter.as_fd()))?;
    context.submit(
        0,
        &[
            Item::wait(0, Condition::Equal, 1).notify(),
            Item::fence().notify(),
        ],
    )?;
    let (fd, id) = (lab.sim.clone(), context.id());
    let waiter = Child::spawn(move || {
        let mut wait = context_of(id);
        let result = raw::call(fd.as_fd(), abi::ZERNEL_SIM_NR_WAIT, &mut wait);
        check_eq!(result, Err(Errno::NOENT), "a wait for what is destroyed");
        Ok(())
    })?;
    wait_until("the child sleeps", || is_asleep(waiter.pid()))?;
    let words = context.words(1)?;
    context.destroy()?;
    waiter.join()?;
    words.store(0, 1);
    check_eq!(lab.sim.completions(16)?, (Vec::new(), 0), "completions");
    let result = rustix::io::read(&counter, &mut [0u8; 8]);
    check_eq!(result, Err(Errno::AGAIN), "eventfd");
    check_eq!(population(&lab)?, (0, 0));
    Ok(())
}

fn is_asleep(pid: u32) -> Result<bool> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let syscall = fs::read_to_string(format!("/proc/{pid}/syscall"));
    // Without the file, sleeping is taken as sleeping in the call.
    let in_ioctl = syscall.map_or(true, |text| text.starts_with("16 "));
    Ok(in_ioctl && stat.contains(") S "))
}

/// Busy contexts of all kinds on both GPUs.
fn busy(sim: &Sim) -> Result<()> {
    for gpu in 0..2 {
        for spec in [ContextSpec::compute("busy"), ContextSpec::copy("busy")] {
            let context = sim.create_context(&ContextSpec { gpu, ..spec })?;
            context.submit(0, &[Item::work(us(30_000_000))])?;
            std::mem::forget(context);
        }
    }
    Ok(())
}

pub(super) fn close_ends_contexts() -> Outcome {
    let lab = Lab::open()?;
    in_child(|| {
        let sim = Sim::open()?;
        busy(&sim)?;
        check_eq!(population(&lab)?, (4, 4), "while the file is open");
        check_eq!(
            Sim::open()?.engine_stats(0, 0)?.runnable,
            1,
            "TSGs that can run"
        );
        Ok(())
    })?;
    check_eq!(population(&lab)?, (0, 0), "after the process has ended");
    let (context, _) = lab.compute()?;
    // The engines are free at once, but for the switch away from what was there.
    let (from, to) = super::run(&context, &[Item::work(us(100))])?;
    let most = 100_000 + 2 * lab.sim.gpu_info(0)?.save_ns;
    ensure!(
        to.as_ns() - from.as_ns() <= most,
        "{} ns",
        to.as_ns() - from.as_ns()
    );
    Ok(())
}

pub(super) fn sigkill_ends_contexts() -> Outcome {
    let lab = Lab::open()?;
    for round in 0..10 {
        let child = Child::spawn(|| {
            let sim = Sim::open()?;
            loop {
                busy(&sim)?;
                for _ in 0..16 {
                    let context = sim.create_context(&ContextSpec::compute("killed"))?;
                    context.submit(0, &[Item::work(us(50)); 64])?;
                    context.wait(0, 1, Timestamp::NEVER)?;
                }
            }
        })?;
        // Somewhere else each time.
        wait_until("the child is busy", || Ok(population(&lab)?.0 > 4 + round))?;
        child.kill()?;
        child.wait_ended(SOON)?;
        drop(child);
        check_eq!(population(&lab)?, (0, 0), "after round {round}");
    }
    Ok(())
}

/// Submits a fence to channel 0 of a context of this file, whoever made it.
fn submit_fence(fd: BorrowedFd<'_>, context: u32) -> Result<u64> {
    let item = abi::zernel_sim_item {
        kind: abi::ZERNEL_SIM_ITEM_FENCE,
        ..Zeroable::zeroed()
    };
    let mut submit = abi::zernel_sim_submit {
        context,
        nr_items: 1,
        items: std::ptr::from_ref(&item) as u64,
        ..Zeroable::zeroed()
    };
    raw::call(fd, abi::ZERNEL_SIM_NR_SUBMIT, &mut submit).context("submit")?;
    Ok(submit.last_seq)
}

fn stats_of(fd: BorrowedFd<'_>, context: u32) -> Result<abi::zernel_sim_tsg_stats> {
    let mut stats = abi::zernel_sim_tsg_stats {
        context,
        ..Zeroable::zeroed()
    };
    raw::call(fd, abi::ZERNEL_SIM_NR_TSG_STATS, &mut stats).context("statistics")?;
    Ok(stats)
}

/// Forked processes share the file; its contexts live until the last one has closed it.
pub(super) fn fork_shares_the_file() -> Outcome {
    let lab = Lab::open()?;
    let shared = Sim::open()?;
    // The first context of a file has the id 1.
    in_child(|| {
        let context = shared.create_context(&ContextSpec::compute("forked"))?;
        check_eq!(context.id(), 1);
        std::mem::forget(context);
        Ok(())
    })?;
    check_eq!(population(&lab)?, (1, 1), "after its maker has ended");
    check_eq!(submit_fence(shared.as_fd(), 1)?, 1);
    let stats = stats_of(shared.as_fd(), 1)?;
    check_eq!(
        (stats.completed, stats.pid, stats.tid),
        (1, 0, 0),
        "items, maker"
    );

    let inherited = shared.clone();
    let heir = Child::spawn(move || {
        submit_fence(inherited.as_fd(), 1)?;
        loop {
            std::thread::sleep(us(1_000_000));
        }
    })?;
    wait_until("the heir has submitted", || {
        Ok(stats_of(shared.as_fd(), 1)?.completed == 2)
    })?;
    drop(shared);
    check_eq!(
        population(&lab)?,
        (1, 1),
        "while the heir has the file open"
    );
    heir.kill()?;
    heir.wait_ended(SOON)?;
    check_eq!(population(&lab)?, (0, 0), "after the heir was killed");
    Ok(())
}

/// A file that alice opened and passed on: root uses it, and it stays alice's.
pub(super) fn passed_file_works() -> Outcome {
    let lab = Lab::open()?;
    let (to_alice, to_root) = passing::pair()?;
    let alice = Child::spawn(move || {
        sys::become_user(1000, 1000, &[])?;
        let sim = Sim::open()?;
        std::mem::forget(sim.create_context(&ContextSpec::compute("alice"))?);
        passing::send(&to_root, sim.as_fd())?;
        drop(sim);
        let tsg = passing::receive_number(&to_root)?;
        // Made by root, but through alice's file.
        check_eq!(Sim::open()?.tsg_stats(tsg)?.tsg, tsg);
        Ok(())
    })?;
    let passed = passing::receive(&to_alice)?;
    check_eq!(submit_fence(passed.as_fd(), 1)?, 1);
    let mut create = abi::zernel_sim_context_create {
        engine: abi::ZERNEL_SIM_ENGINE_ANY,
        nr_channels: 1,
        ..Zeroable::zeroed()
    };
    raw::call(
        passed.as_fd(),
        abi::ZERNEL_SIM_NR_CONTEXT_CREATE,
        &mut create,
    )?;
    check_eq!(create.context, 2, "the second context of the file");
    check_eq!(
        stats_of(passed.as_fd(), 2)?.pid.unsigned_abs(),
        std::process::id()
    );
    passing::send_number(&to_alice, create.tsg)?;
    alice.join()?;
    check_eq!(population(&lab)?, (2, 2), "while the passed file is open");
    drop(passed);
    check_eq!(population(&lab)?, (0, 0), "after it was closed");
    Ok(())
}

/// zernel and the software GPU say the same about a TSG.
pub(super) fn handles_match_zernel() -> Outcome {
    let lab = Lab::open()?;
    let gpus = lab.zernel.gpus().collect::<Result<Vec<_>, _>>()?;
    check_eq!(gpus.len(), 2);
    for (number, gpu) in gpus.iter().enumerate() {
        check_eq!(
            (gpu.bus.as_str(), gpu.provider.as_str()),
            (&*format!("sim:{number}"), "sim")
        );
        check_eq!(gpu.name.as_str(), "software a100");
    }
    for (gpu, spec) in [
        (0, ContextSpec::compute("match")),
        (1, ContextSpec::copy("match")),
        (
            1,
            ContextSpec {
                channels: 16,
                ..ContextSpec::compute("match")
            },
        ),
    ] {
        let spec = ContextSpec { gpu, ..spec };
        let (context, tsg) = lab.context(&spec)?;
        check_eq!(tsg.gpu, gpus[gpu as usize].id);
        check_eq!(tsg.compute, spec.engine == EngineChoice::Compute);
        check_eq!(tsg.channels, spec.channels);
        check_eq!((tsg.pid, tsg.tid), (std::process::id(), tid()), "owner");
        check_eq!(tsg.uid, 0);
        let stats = context.stats()?;
        check_eq!(
            (stats.pid.unsigned_abs(), stats.tsg),
            (tsg.pid, context.tsg()),
            "the GPU's"
        );
        check_eq!((stats.gpu, stats.engine), (gpu, context.engine()), "place");
        let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
        let line = format!("tsg {} gpu {} handle {} ", tsg.id, tsg.gpu, context.tsg());
        ensure!(state.contains(&line), "no '{line}' in:\n{state}");
        wait_until("zernel knows its time slice", || {
            Ok(lab.tsg(tsg.id)?.timeslice_us == stats.timeslice_us)
        })?;
    }
    Ok(())
}
