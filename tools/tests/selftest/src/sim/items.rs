// SPDX-License-Identifier: GPL-2.0
//! Items: how long they take, in which order, and who is told.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{bail, ensure};
use libzernel::sim::{ContextSpec, Item, Sim, Status};
use libzernel::Timestamp;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{run, us};
use crate::check_eq;
use crate::child::Child;
use crate::common::Lab;
use crate::harness::Outcome;

fn is_readable(sim: &Sim) -> anyhow::Result<bool> {
    let mut fds = [PollFd::new(sim, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(fds[0].revents().contains(PollFlags::IN))
}

/// Alone on its engine, work takes exactly what it says, plus the switch at first.
pub(super) fn work_takes_its_time() -> Outcome {
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    for (spec, restore) in [
        (ContextSpec::compute("work"), info.restore_ns),
        (ContextSpec::copy("work"), info.copy_switch_ns),
    ] {
        let context = lab.sim.create_context(&spec)?;
        for (number, duration) in [1, 50, 1_000, 7_777].into_iter().enumerate() {
            let (from, to) = run(&context, &[Item::work(us(duration))])?;
            let switch = if number == 0 { restore } else { 0 };
            check_eq!(
                to.as_ns() - from.as_ns(),
                duration * 1_000 + switch,
                "ns for {duration} us on engine {}",
                context.engine()
            );
        }
        let stats = context.stats()?;
        check_eq!(stats.busy_ns, (1 + 50 + 1_000 + 7_777) * 1_000);
        check_eq!(
            (stats.switches, stats.switch_ns, stats.completed),
            (1, restore, 4),
            "switches"
        );
    }
    Ok(())
}

pub(super) fn completions_tell_everything() -> Outcome {
    let lab = Lab::open()?;
    let restore = lab.sim.gpu_info(0)?.restore_ns;
    let (context, _) = lab.compute()?;
    ensure!(!is_readable(&lab.sim)?, "readable before anything was done");
    let items = [
        Item::work(us(10)).notify().tag(u64::MAX),
        Item::work(us(20)),
        Item::fence().notify().tag(3),
        Item::work(us(30)).notify().tag(4),
    ];
    let submitted = context.submit(0, &items)?;
    check_eq!(submitted.last_seq, 4);
    let waited = context.wait(0, 4, Timestamp::NEVER)?;
    ensure!(
        is_readable(&lab.sim)?,
        "not readable although items completed"
    );
    let (taken, dropped) = lab.sim.completions(2)?;
    check_eq!((taken.len(), dropped), (2, 0), "the first page");
    ensure!(is_readable(&lab.sim)?, "not readable although one is left");
    let (rest, dropped) = lab.sim.completions(16)?;
    check_eq!((rest.len(), dropped), (1, 0), "the second page");
    ensure!(!is_readable(&lab.sim)?, "readable although none is left");
    check_eq!(lab.sim.completions(16)?.0.len(), 0);

    let at = |ns: u64| submitted.at + Duration::from_nanos(restore + ns);
    let expected = [
        (1, u64::MAX, at(0), at(10_000)),
        (3, 3, at(30_000), at(30_000)),
        (4, 4, at(30_000), at(60_000)),
    ];
    for (completion, (seq, tag, start, end)) in taken.iter().chain(&rest).zip(expected) {
        check_eq!((completion.seq, completion.tag), (seq, tag), "item");
        check_eq!(
            (completion.start, completion.end),
            (start, end),
            "times of item {seq}"
        );
        check_eq!(completion.queued, submitted.at, "submission of item {seq}");
        check_eq!(
            (completion.context, completion.channel),
            (context.id(), 0),
            "origin"
        );
        check_eq!(completion.status, Status::Done);
    }
    check_eq!((waited.completed_seq, waited.at), (4, at(60_000)), "wait");
    Ok(())
}

pub(super) fn completion_ring_drops_exactly() -> Outcome {
    const MORE: usize = 100;
    let lab = Lab::open()?;
    let room = lab.sim.version()?.completion_ring as usize;
    let context = lab.sim.create_context(&ContextSpec {
        channels: 2,
        ..ContextSpec::compute("ring")
    })?;
    let fences = |count: usize| vec![Item::fence().notify(); count];
    let mut left = room + MORE;
    let mut seq = 0;
    while left > 0 {
        let count = left.min(256);
        seq = context.submit(1, &fences(count))?.last_seq;
        context.wait(1, seq, Timestamp::NEVER)?;
        left -= count;
    }
    check_eq!(seq, (room + MORE) as u64);
    let (taken, dropped) = lab.sim.completions(2 * room)?;
    check_eq!(
        (taken.len(), dropped),
        (room, MORE as u64),
        "taken and dropped"
    );
    // The records that came when the ring was full are those that were dropped.
    for (completion, seq) in taken.iter().zip(1..) {
        check_eq!((completion.seq, completion.channel), (seq, 1), "completion");
    }
    context.submit(1, &fences(1))?;
    context.wait(1, seq + 1, Timestamp::NEVER)?;
    let (taken, dropped) = lab.sim.completions(16)?;
    check_eq!(
        (taken.len(), dropped),
        (1, MORE as u64),
        "after the ring was emptied"
    );
    check_eq!(taken[0].seq, seq + 1);
    Ok(())
}

pub(super) fn eventfd_counts() -> Outcome {
    let lab = Lab::open()?;
    let context = lab.sim.create_context(&ContextSpec {
        channels: 2,
        ..ContextSpec::compute("eventfd")
    })?;
    let new = || eventfd(0, EventfdFlags::NONBLOCK);
    let count = |fd: &rustix::fd::OwnedFd| -> anyhow::Result<u64> {
        let mut value = [0; 8];
        match rustix::io::read(fd, &mut value) {
            Ok(_) => Ok(u64::from_ne_bytes(value)),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => bail!("read an eventfd: {error}"),
        }
    };
    let (first, second) = (new()?, new()?);
    context.set_eventfd(0, Some(first.as_fd()))?;
    let submit = |channel: u32, items: &[Item]| -> anyhow::Result<()> {
        let submitted = context.submit(channel, items)?;
        context.wait(channel, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    };
    let loud = Item::work(us(5)).notify();
    submit(0, &[loud, Item::fence(), loud])?;
    submit(1, &[loud])?;
    check_eq!(count(&first)?, 2, "items with NOTIFY of channel 0");
    context.set_eventfd(0, Some(second.as_fd()))?;
    context.set_eventfd(1, Some(second.as_fd()))?;
    submit(0, &[loud])?;
    submit(1, &[loud])?;
    check_eq!(
        (count(&first)?, count(&second)?),
        (0, 2),
        "after it was replaced"
    );
    context.set_eventfd(0, None)?;
    submit(0, &[loud])?;
    submit(1, &[loud])?;
    check_eq!(count(&second)?, 1, "after one was removed");
    drop(second);
    submit(1, &[loud])
}

/// Channels of one TSG run side by side, at full speed or in proportion.
pub(super) fn channels_share_by_demand() -> Outcome {
    let lab = Lab::open()?;
    // Demands of the channels, and how long 1 ms of work then takes: all end together.
    let cases: [(&[u32], u64); 4] = [
        (&[500, 500], 1_000_000),
        (&[1000, 1000], 2_000_000),
        (&[600, 600], 1_200_000),
        (&[250, 250, 250, 250], 1_000_000),
    ];
    for (demands, expected) in cases {
        let context = lab.sim.create_context(&ContextSpec {
            channels: demands.len() as u32 + 1,
            ..ContextSpec::compute("share")
        })?;
        // A word that all wait for lets them start at the same time.
        let gate = Item::wait(0, libzernel::sim::Condition::Equal, 1);
        for (channel, &demand) in demands.iter().enumerate() {
            let work = Item::work(us(1_000)).demand_permille(demand).notify();
            context.submit(channel as u32, &[gate, work])?;
        }
        context.submit(demands.len() as u32, &[Item::release(0, 1)])?;
        for channel in 0..demands.len() as u32 {
            context.wait(channel, 2, Timestamp::NEVER)?;
        }
        for completion in lab.sim.completions(16)?.0 {
            let took = completion.end.as_ns() - completion.start.as_ns();
            let off = took.abs_diff(expected);
            // The model rounds each share down to whole nanoseconds.
            ensure!(off <= 10, "{demands:?}: {took} ns, expected {expected}");
        }
    }
    Ok(())
}

pub(super) fn wait_is_interrupted() -> Outcome {
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        context.submit(0, &[Item::wait(0, libzernel::sim::Condition::Equal, 1)])?;
        context.wait(0, 1, Timestamp::NEVER)?;
        Ok(())
    })?;
    let lab = Lab::open()?;
    crate::common::wait_until("the child waits", || {
        let mut queued = 0;
        for tsg in lab.zernel.tsgs() {
            queued += u32::from(tsg?.pid == child.pid());
        }
        let state = std::fs::read_to_string(format!("/proc/{}/stat", child.pid()))?;
        Ok(queued == 1 && state.contains(") S "))
    })?;
    child.kill()?;
    child.wait_ended(crate::common::SOON)?;
    check_eq!(child.end()?, crate::child::End::Signal(9));
    Ok(())
}
