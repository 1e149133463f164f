// SPDX-License-Identifier: MIT OR Apache-2.0
//! The owners of contexts: destroyed, closed, killed, forked, passed on.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{ensure, Result};
use bytemuck::Zeroable;
use libzernel::sim::{Condition, Context, ContextSpec, Item, Sim};
use libzernel::sys::abi;
use libzernel::Timestamp;
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;
use testkit::passing;

use super::{raw, refused, us};
use crate::check_eq;
use crate::child::{in_child, Child, End};
use crate::common::{errno, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

/// TSGs that the software GPUs have, and that zernel knows.
fn population(lab: &Lab) -> Result<(u32, u32)> {
    let gpus = lab.sim.gpu_info(0)?.tsgs + lab.sim.gpu_info(1)?.tsgs;
    Ok((gpus, lab.stats()?.tsgs as u32))
}

/// A process that waits for an item of channel 0; returns when it sleeps.
fn waiter(context: &Context, seq: u64, expected: Option<Errno>) -> Result<Child> {
    let child = Child::spawn(|| {
        let waited = context.wait(0, seq, Timestamp::NEVER);
        check_eq!(errno(waited), expected, "the waiter for item {seq}");
        Ok(())
    })?;
    wait_until("the child sleeps", || is_asleep(child.pid()))?;
    Ok(child)
}

/// Of those that wait for a channel each wakes at its own item. One that is killed ends, one whose
/// context is destroyed is told so, and nobody is told of the items that are dropped.
pub(super) fn waiters() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let counter = eventfd(0, EventfdFlags::NONBLOCK)?;
    context.set_eventfd(0, Some(counter.as_fd()))?;
    let words = context.words(1)?;
    let gate = |value| Item::wait(0, Condition::Equal, value);
    context.submit(0, &[gate(1), gate(2), gate(3), Item::fence().notify()])?;
    let (first, second) = (waiter(&context, 1, None)?, waiter(&context, 2, None)?);
    let (killed, last) = (
        waiter(&context, 3, None)?,
        waiter(&context, 4, Some(Errno::NOENT))?,
    );
    words.store(0, 1);
    first.join()?;
    wait_until("the second sleeps", || is_asleep(second.pid()))?;
    let deadline = Timestamp::now() + us(2_000);
    refused("deadline", context.wait(0, 2, deadline), Errno::TIME)?;
    ensure!(Timestamp::now() >= deadline, "returned before its deadline");
    words.store(0, 2);
    second.join()?;
    killed.kill()?;
    check_eq!(killed.end()?, End::Signal(9), "while it waited");
    context.destroy()?;
    last.join()?;
    words.store(0, 3);
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

/// The contexts of a process end with it, in order or killed, and leave the engines free.
pub(super) fn ended_process() -> Outcome {
    let lab = Lab::open()?;
    in_child(|| {
        busy(&Sim::open()?)?;
        check_eq!(population(&lab)?, (4, 4), "while the file is open");
        check_eq!(lab.sim.engine_stats(0, 0)?.runnable, 1, "TSGs that can run");
        Ok(())
    })?;
    check_eq!(population(&lab)?, (0, 0), "after the process has ended");
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
    let (context, _) = lab.compute()?;
    // The engines are free at once, but for the switch away from what was there.
    let (from, to) = super::run(&context, &[Item::work(us(100))])?;
    let took = to.as_ns() - from.as_ns();
    let most = 100_000 + 2 * lab.sim.gpu_info(0)?.save_ns;
    ensure!(took <= most, "{took} ns");
    Ok(())
}

/// Submits a fence to channel 0 of a context of this file, whoever made it.
fn submit_fence(fd: BorrowedFd<'_>, context: u32) -> Result<u64> {
    let item = abi::zernel_sim_item {
        kind: abi::ZERNEL_SIM_ITEM_FENCE,
        ..Zeroable::zeroed()
    };
    let submit = abi::zernel_sim_submit {
        context,
        nr_items: 1,
        items: std::ptr::from_ref(&item) as u64,
        ..Zeroable::zeroed()
    };
    Ok(raw::call(fd, abi::ZERNEL_SIM_NR_SUBMIT, submit)?.last_seq)
}

fn stats_of(fd: BorrowedFd<'_>, context: u32) -> Result<abi::zernel_sim_tsg_stats> {
    let stats = abi::zernel_sim_tsg_stats {
        context,
        ..Zeroable::zeroed()
    };
    Ok(raw::call(fd, abi::ZERNEL_SIM_NR_TSG_STATS, stats)?)
}

/// A file that alice has opened and passed on: root uses it, and it stays alice's. Its contexts live
/// until the last process that has it ends, here a forked one that is killed.
pub(super) fn shared_file() -> Outcome {
    let lab = Lab::open()?;
    let (to_alice, to_root) = passing::pair()?;
    let alice = Child::spawn(move || {
        sys::become_user(ALICE, ALICE, &[])?;
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
    let create = abi::zernel_sim_context_create {
        engine: abi::ZERNEL_SIM_ENGINE_ANY,
        nr_channels: 1,
        ..Zeroable::zeroed()
    };
    let create = raw::call(passed.as_fd(), abi::ZERNEL_SIM_NR_CONTEXT_CREATE, create)?;
    check_eq!(create.context, 2, "the second context of the file");
    let maker = stats_of(passed.as_fd(), 2)?.pid.unsigned_abs();
    check_eq!(maker, std::process::id());
    passing::send_number(&to_alice, create.tsg)?;
    alice.join()?;
    let stats = stats_of(passed.as_fd(), 1)?;
    let (told, nobody) = ((stats.completed, stats.pid, stats.tid), (1, 0, 0));
    check_eq!(told, nobody, "items, maker");
    check_eq!(population(&lab)?, (2, 2), "after the first maker has ended");

    let heir = Child::idle(|| submit_fence(passed.as_fd(), 1).map(drop))?;
    check_eq!(stats_of(passed.as_fd(), 1)?.completed, 2, "of the heir");
    drop(passed);
    check_eq!(population(&lab)?, (2, 2), "while the heir has the file");
    heir.kill()?;
    heir.wait_ended(SOON)?;
    check_eq!(population(&lab)?, (0, 0), "after the heir was killed");
    Ok(())
}
