// SPDX-License-Identifier: MIT OR Apache-2.0
//! Items: how long they take, in which order, and who is told.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use libzernel::sim::{Condition, ContextSpec, Item, Sim, Status};
use libzernel::Timestamp;
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{run, us};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

fn is_readable(sim: &Sim) -> Result<bool> {
    let mut fds = [PollFd::new(sim, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default()))?;
    Ok(fds[0].revents().contains(PollFlags::IN))
}

pub(super) fn completions() -> Outcome {
    let lab = Lab::open()?;
    let restore = lab.sim.gpu_info(0)?.restore_ns;
    let (context, _) = lab.compute()?;
    ensure!(!is_readable(&lab.sim)?, "readable before anything was done");
    let items = [
        Item::work(us(10)).notify().tag(u64::MAX),
        Item::work(us(20)),
        Item::fence().notify().tag(3),
        Item::work(us(30)).notify().tag(4),
        Item::hold(0, Condition::Equal, 1, us(5)).notify().tag(5),
    ];
    let submitted = context.submit(0, &items)?;
    check_eq!(submitted.last_seq, 5);
    let waited = context.wait(0, 5, Timestamp::NEVER)?;
    let mut taken = Vec::new();
    for count in [2, 2] {
        ensure!(is_readable(&lab.sim)?, "not readable, {count} are left");
        let (some, dropped) = lab.sim.completions(2)?;
        check_eq!((some.len(), dropped), (count, 0), "completions");
        taken.extend(some);
    }
    ensure!(!is_readable(&lab.sim)?, "readable although none is left");
    check_eq!(lab.sim.completions(16)?.0.len(), 0);
    let at = |ns: u64| submitted.at + Duration::from_nanos(restore + ns);
    let expected = [
        (1, u64::MAX, at(0), at(10_000), Status::Done),
        (3, 3, at(30_000), at(30_000), Status::Done),
        (4, 4, at(30_000), at(60_000), Status::Done),
        (5, 5, at(60_000), at(65_000), Status::HoldExpired),
    ];
    for (it, expected) in taken.iter().zip(expected) {
        check_eq!((it.seq, it.tag, it.start, it.end, it.status), expected);
        check_eq!(it.queued, submitted.at, "submission of {it:?}");
        check_eq!((it.context, it.channel), (context.id(), 0), "{it:?}");
    }
    check_eq!((waited.completed_seq, waited.at), (5, at(65_000)), "wait");
    // No second switch.
    let (from, to) = run(&context, &[Item::work(us(7_777))])?;
    check_eq!(to.as_ns() - from.as_ns(), 7_777_000);
    let stats = context.stats()?;
    let busy = (stats.busy_ns, stats.switch_ns, stats.completed);
    check_eq!(busy, (65_000 + 7_777_000, restore, 6));
    Ok(())
}

/// An eventfd counts, also completions that find no room and are dropped.
pub(super) fn eventfd_counts() -> Outcome {
    let lab = Lab::open()?;
    let context = lab.sim.create_context(&ContextSpec {
        channels: 2,
        ..ContextSpec::compute("eventfd")
    })?;
    let new = || eventfd(0, EventfdFlags::NONBLOCK);
    let count = |fd: &rustix::fd::OwnedFd| -> Result<u64> {
        let mut value = [0; 8];
        match rustix::io::read(fd, &mut value) {
            Ok(_) => Ok(u64::from_ne_bytes(value)),
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => bail!("read an eventfd: {error}"),
        }
    };
    let submit = |channel: u32, items: &[Item]| -> Result<()> {
        let submitted = context.submit(channel, items)?;
        context.wait(channel, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    };
    let (first, second) = (new()?, new()?);
    let loud = Item::work(us(5)).notify();
    context.set_eventfd(0, Some(first.as_fd()))?;
    submit(0, &[loud, Item::fence(), loud])?;
    submit(1, &[loud])?;
    check_eq!(count(&first)?, 2, "items with NOTIFY of channel 0");
    context.set_eventfd(1, Some(second.as_fd()))?;
    for (eventfd, counts) in [(Some(second.as_fd()), (0, 2)), (None, (0, 1))] {
        context.set_eventfd(0, eventfd)?;
        submit(0, &[loud])?;
        submit(1, &[loud])?;
        check_eq!((count(&first)?, count(&second)?), counts, "replaced");
    }
    lab.sim.completions(64)?;
    let room = lab.sim.version()?.completion_ring as usize;
    let fences = [Item::fence().notify(); 256];
    for _ in 0..=room / fences.len() {
        submit(1, &fences)?;
    }
    check_eq!(count(&second)?, room as u64 + 256, "with those dropped");
    let (taken, dropped) = lab.sim.completions(2 * room)?;
    check_eq!((taken.len(), dropped), (room, 256), "taken");
    drop(second);
    submit(1, &[loud])?;
    let (taken, dropped) = lab.sim.completions(16)?;
    check_eq!((taken.len(), dropped), (1, 256), "with room again");
    Ok(())
}
