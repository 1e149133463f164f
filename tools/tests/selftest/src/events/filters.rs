// SPDX-License-Identifier: GPL-2.0
//! The events that a stream is asked for: filters, kinds, changes, ends; and events of GPUs.

use std::os::fd::AsFd;

use anyhow::{Context as _, Result};
use bytemuck::Zeroable;
use libzernel::event::{Kind, Wanted};
use libzernel::sim::ContextSpec;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{EventStream, Level, Target};
use rustix::io::Errno;

use super::{classify, known, Reader};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tune, wait_until, Lab};
use crate::group::Group;
use crate::harness::Outcome;

/// TSGs that a stream tells of, in order.
fn tsgs(reader: &mut Reader) -> Result<Vec<u64>> {
    Ok(reader.drain()?.iter().map(|e| e.tsg.as_u64()).collect())
}

pub(super) fn filters() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("filtered")?;
    let (_mine, mine) = known(&lab)?;
    let (_copy, other) = lab.context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("other")
    })?;
    tune("enabled", 0)?;
    let only = || Wanted::only(&Kind::OF_TSGS);
    let (me, thread) = (Target::current_process(), Target::current_thread());
    let (tsg, init, folder) = (Target::Tsg(mine.id), Target::Process(1), group.target()?);
    let both = [mine.id.as_u64(), other.id.as_u64()];
    for (what, wanted, expected) in [
        ("all", only(), &both[..]),
        ("process", only().of(&me), &both),
        ("another process", only().of(&init), &[]),
        ("thread", only().of(&thread), &both),
        ("TSG", only().of(&tsg), &both[..1]),
        ("GPU", only().of_gpu(other.gpu), &both[1..]),
        ("cgroup", only().of(&folder), &[]),
    ] {
        let mut reader = Reader::of(lab.zernel.events_of(&wanted)?);
        for tsg in [&mine, &other] {
            classify(&lab, tsg, Level::BE)?;
            lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        }
        let mut seen = tsgs(&mut reader)?;
        seen.dedup();
        check_eq!(seen, expected, "{what}");
    }
    // A process in the cgroup: that it is gone is told, too.
    let mut reader = Reader::of(lab.zernel.events_of(&only().of(&folder))?);
    let path = group.path().join("cgroup.procs");
    in_child(|| {
        std::fs::write(&path, "0").context("move into the cgroup")?;
        let lab = Lab::open()?;
        drop(lab.compute()?);
        Ok(())
    })?;
    wait_until("the TSG is gone", || Ok(lab.stats()?.tsgs == 2))?;
    let kinds: Vec<Kind> = reader.drain()?.iter().map(|event| event.kind).collect();
    check_eq!(kinds.first(), Some(&Kind::TsgAdded));
    check_eq!(kinds.last(), Some(&Kind::TsgRemoved));
    Ok(())
}

pub(super) fn kinds() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    let mut class = Reader::of(lab.zernel.events_of(&Wanted::only(&[Kind::TsgClass]))?);
    let mut applied = Reader::of(lab.zernel.events_of(&Wanted::only(&[Kind::TsgApplied]))?);
    let before = lab.stats()?.events;
    classify(&lab, &tsg, Level::BE)?;
    applied.expect(Kind::TsgApplied)?;
    class.expect(Kind::TsgClass)?;
    let seen = (class.drain()?.len(), applied.drain()?.len());
    check_eq!(seen, (0, 0), "other kinds");
    check_eq!(lab.stats()?.events - before, 2, "events that were written");
    Ok(())
}

pub(super) fn changes_and_ends() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let small = Wanted::only(&[Kind::TsgClass]).keep(16);
    let mut reader = Reader::of(lab.zernel.events_of(&small)?);
    for level in [Level::BE, Level::LC] {
        classify(&lab, &tsg, level)?;
    }
    // For later events: those that were not read stay.
    let other = EventStream::change(&reader.stream, &Wanted::only(&[Kind::TsgRemoved]));
    check_eq!(other, Ok(()));
    classify(&lab, &tsg, Level::BE)?;
    let larger = reader.stream.change(&small.keep(17));
    check_eq!(errno(larger), Some(Errno::BUSY), "another capacity");
    check_eq!(reader.stream.change(&small), Ok(()), "the same capacity");
    classify(&lab, &tsg, Level::LC)?;
    let levels: Vec<_> = reader.drain()?.iter().map(|event| event.level).collect();
    check_eq!(levels, [Level::BE, Level::LC, Level::LC].map(Some));
    // A stream that is ended is none; the next one counts from 1, and may have another capacity.
    let mut end = abi::zernel_events::zeroed();
    check_eq!(calls::events(reader.stream.as_fd(), &mut end), Ok(()));
    check_eq!(lab.stats()?.streams, 0);
    let read = rustix::io::read(&reader.stream, &mut [0; 4096]);
    check_eq!(read, Err(Errno::NODATA), "after the end");
    check_eq!(
        calls::events(reader.stream.as_fd(), &mut end),
        Ok(()),
        "again"
    );
    check_eq!(reader.stream.change(&small.keep(64)), Ok(()));
    (reader.seq, reader.dropped) = (0, 0);
    for _ in 0..10 {
        classify(&lab, &tsg, Level::BE)?;
        classify(&lab, &tsg, Level::LC)?;
    }
    check_eq!(reader.drain()?.len(), 20, "in a larger ring");
    Ok(())
}

pub(super) fn gpus_tell_their_state() -> Outcome {
    let lab = Lab::open()?;
    let gpus = lab.zernel.gpus().collect::<Result<Vec<_>, _>>()?;
    let of_gpus = [Kind::GpuAdded, Kind::GpuRemoved, Kind::GpuState];
    let wanted = Wanted::only(&of_gpus).of_gpu(gpus[0].id);
    let mut reader = Reader::of(lab.zernel.events_of(&wanted)?);
    tune("enabled", 0)?;
    tune("enabled", 1)?;
    let mut turns = Vec::new();
    for event in reader.drain()? {
        check_eq!((event.kind, event.gpu), (Kind::GpuState, gpus[0].id));
        turns.push(event.state.context("a state")?.turns);
    }
    check_eq!(turns, [false, true], "turns while classes are not applied");
    lab.sim.suspend(0, true)?;
    let event = reader.expect(Kind::GpuState)?;
    check_eq!(event.state.context("a state")?.suspended, true);
    lab.sim.suspend(0, false)?;
    wait_until("the GPU is back", || {
        let last = reader.drain()?.last().and_then(|event| event.state);
        Ok(last.is_some_and(|state| !state.suspended && !state.retrying))
    })
}

/// The events of a file that was started before its list tell what the list does not.
pub(super) fn follows_a_list() -> Outcome {
    let lab = Lab::open()?;
    let mut reader = Reader::new(&lab)?;
    let (first, before) = known(&lab)?;
    let listed: Vec<_> = lab.zernel.tsgs().collect::<Result<_, _>>()?;
    check_eq!(listed.iter().any(|tsg| tsg.id == before.id), true);
    let (_second, after) = known(&lab)?;
    drop(first);
    let events = reader.drain()?;
    let kinds = |id| -> Vec<Kind> {
        let of = events.iter().filter(|event| event.tsg == id);
        of.map(|event| event.kind).collect()
    };
    check_eq!(kinds(before.id), [Kind::TsgAdded, Kind::TsgRemoved]);
    check_eq!(kinds(after.id), [Kind::TsgAdded]);
    Ok(())
}
