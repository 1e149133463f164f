// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that a stream is asked for: filters, kinds, changes, ends; and events of GPUs.

use std::os::fd::AsFd;

use anyhow::{Context as _, Result};
use bytemuck::Zeroable;
use libzernel::event::{Kind, Wanted};
use libzernel::sim::ContextSpec;
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Level, Target};
use rustix::io::Errno;

use super::{classify, known, Reader};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tune, wait_until, Lab};
use crate::group::{self, Group};
use crate::harness::Outcome;

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
    let both = [mine.id, other.id];
    for (what, wanted, expected) in [
        ("all", only(), &both[..]),
        ("process", only().of(&me), &both),
        ("another process", only().of(&init), &[]),
        ("thread", only().of(&thread), &both),
        ("TSG", only().of(&tsg), &both[..1]),
        ("GPU", only().of_gpu(other.gpu), &both[1..]),
        ("cgroup", only().of(&folder), &[]),
    ] {
        let mut reader = Reader::wanting(&lab, &wanted)?;
        for tsg in [&mine, &other] {
            classify(&lab, tsg, Level::BE)?;
            lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        }
        let events = reader.drain()?;
        let mut seen: Vec<_> = events.iter().map(|event| event.tsg).collect();
        seen.dedup();
        check_eq!(seen, expected, "{what}");
    }
    // A process in the cgroup: that it is gone is told, too.
    let mut reader = Reader::wanting(&lab, &only().of(&folder))?;
    in_child(|| {
        group.enter(std::process::id())?;
        drop(Lab::open()?.compute()?);
        group::leave()
    })?;
    wait_until("the TSG is gone", || Ok(lab.stats()?.tsgs == 2))?;
    let events = reader.drain()?;
    check_eq!(events.first().map(|e| e.kind), Some(Kind::TsgAdded));
    check_eq!(events.last().map(|e| e.kind), Some(Kind::TsgRemoved));
    Ok(())
}

/// Events that nobody wants are not even written.
pub(super) fn changes_and_ends() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    let before = lab.stats()?.events;
    let small = Wanted::only(&[Kind::TsgClass]).keep(16);
    let mut reader = Reader::wanting(&lab, &small)?;
    for level in [Level::BE, Level::LC] {
        classify(&lab, &tsg, level)?;
    }
    // For later events: those that were not read stay.
    reader.stream.change(&Wanted::only(&[Kind::TsgRemoved]))?;
    classify(&lab, &tsg, Level::BE)?;
    let larger = errno(reader.stream.change(&small.keep(17)));
    check_eq!(larger, Some(Errno::BUSY), "another capacity");
    reader.stream.change(&small)?;
    classify(&lab, &tsg, Level::LC)?;
    let levels: Vec<_> = reader.drain()?.iter().map(|event| event.level).collect();
    check_eq!(levels, [Level::BE, Level::LC, Level::LC].map(Some));
    wait_until("all is applied", || Ok(!lab.tsg(tsg.id)?.pending))?;
    check_eq!(lab.stats()?.events - before, 3, "events written");
    check_eq!(reader.drain()?.len(), 0, "of other kinds");
    // A stream that is ended is none; the next one counts from 1, and may have another capacity.
    for what in ["the end", "again"] {
        let mut end = abi::zernel_events::zeroed();
        let answer = calls::events(reader.stream.as_fd(), &mut end);
        check_eq!(answer, Ok(()), "{what}");
        check_eq!(lab.stats()?.streams, 0);
        let read = rustix::io::read(&reader.stream, &mut [0; 4096]);
        check_eq!(read, Err(Errno::NODATA), "{what}");
    }
    reader.stream.change(&small.keep(64))?;
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
    let mut reader = Reader::wanting(&lab, &Wanted::only(&of_gpus).of_gpu(gpus[0].id))?;
    for (name, value, turns) in [
        ("enabled", "0", false),
        ("enabled", "1", true),
        ("rotation", "none", false),
        ("rotation", "rr", true),
    ] {
        tune(name, value)?;
        let event = reader.expect(Kind::GpuState)?;
        let told = (event.gpu, event.state.context("a state")?.turns);
        check_eq!(told, (gpus[0].id, turns), "{name} {value}");
        for gpu in lab.zernel.gpus() {
            let gpu = gpu?;
            check_eq!((gpu.can.enable, gpu.turns), (true, turns));
        }
    }
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
    let told: Vec<_> = events.iter().map(|event| (event.kind, event.tsg)).collect();
    let (added, removed) = (Kind::TsgAdded, Kind::TsgRemoved);
    let expected = [(added, before.id), (added, after.id), (removed, before.id)];
    check_eq!(told, expected);
    Ok(())
}
