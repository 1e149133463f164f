// SPDX-License-Identifier: GPL-2.0
//! Rings that overflow, and several readers and writers: nothing is lost without being counted.

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{Tsg, Zernel};

use super::{classify, grown, known, level, Reader};
use crate::check_eq;
use crate::child::Child;
use crate::common::{tune, wait_until, Lab};
use crate::harness::Outcome;

/// Makes exactly `count` events: while classes are not applied, changes are all that happens.
fn make_events(lab: &Lab, tsg: &Tsg, count: usize) -> Result<()> {
    for number in 0..count {
        // Another level than the one before, whatever came before.
        let now = lab
            .tsg(tsg.id)?
            .level
            .map_or(0, |level| level.number().into());
        classify(lab, tsg, level(now + 1 + number % 7))?;
    }
    Ok(())
}

/// Read and dropped add up to what was made, for any size of the ring.
pub(super) fn ring_overflows_exactly() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    for size in [16, 17, 33, 100] {
        tune("event_ring_size", size)?;
        let mut reader = Reader::new(&lab)?;
        let before = lab.stats()?;
        let mut made = 0;
        // Not full, just full, one over, far over.
        for count in [size - 1, size, size + 1, 3 * size + 5] {
            make_events(&lab, &tsg, count)?;
            made += count as u64;
            let read = reader.drain()?;
            check_eq!(
                read.len(),
                count.min(size),
                "events read of {count}, ring of {size}"
            );
            check_eq!(reader.total(), made, "read and dropped, ring of {size}");
            ensure!(read.iter().all(|e| e.kind == Kind::TsgClass), "{read:?}");
        }
        check_eq!(grown(&lab, &before, |s| s.events)?, made, "events counted");
        check_eq!(
            grown(&lab, &before, |s| s.events_dropped)?,
            reader.dropped,
            "dropped"
        );
    }
    Ok(())
}

/// A ring has the size of the time when its stream started.
pub(super) fn ring_keeps_its_size() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    tune("event_ring_size", 16)?;
    let mut small = Reader::new(&lab)?;
    let unstarted = Zernel::open()?;
    tune("event_ring_size", 64)?;
    let mut large = Reader::new(&lab)?;
    make_events(&lab, &tsg, 40)?;
    check_eq!(small.drain()?.len(), 16, "events in the small ring");
    check_eq!(large.drain()?.len(), 40, "events in the large ring");
    check_eq!((small.total(), large.total()), (40, 40), "events of each");
    check_eq!(lab.stats()?.streams, 2, "an open file alone is no stream");
    drop(unstarted);
    drop(small);
    check_eq!(lab.stats()?.streams, 1);
    Ok(())
}

pub(super) fn readers_are_complete() -> Outcome {
    const EVENTS: usize = 300;
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    let mut readers = Vec::new();
    for _ in 0..4 {
        readers.push(Reader::new(&lab)?);
    }
    let base = lab.stats()?.streams;
    let mut children = Vec::new();
    for _ in 0..2 {
        children.push(Child::spawn(|| {
            let mut reader = Reader::new(&Lab::open()?)?;
            let mut last = None;
            for _ in 0..EVENTS {
                let event = reader.expect(Kind::TsgClass)?;
                ensure!(Some(event.level) != last, "twice the same: {event:?}");
                last = Some(event.level);
            }
            check_eq!(
                (reader.total(), reader.dropped),
                (EVENTS as u64, 0),
                "events"
            );
            Ok(())
        })?);
    }
    wait_until("the children listen", || {
        Ok(lab.stats()?.streams == base + 2)
    })?;
    make_events(&lab, &tsg, EVENTS)?;
    let first = readers[0].drain()?;
    check_eq!(first.len(), EVENTS);
    for reader in &mut readers[1..] {
        check_eq!(reader.drain()?, first.clone(), "another reader");
    }
    for child in children {
        child.join()?;
    }
    Ok(())
}

/// A reader that never reads costs the others nothing, and what it loses is counted.
pub(super) fn unread_streams_count() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    tune("event_ring_size", 16)?;
    let idle = [Reader::new(&lab)?, Reader::new(&lab)?, Reader::new(&lab)?];
    tune("event_ring_size", 1024)?;
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    make_events(&lab, &tsg, 200)?;
    check_eq!(reader.drain()?.len(), 200);
    check_eq!(
        grown(&lab, &before, |s| s.events)?,
        4 * 200,
        "events counted"
    );
    check_eq!(
        grown(&lab, &before, |s| s.events_dropped)?,
        3 * (200 - 16),
        "dropped"
    );
    drop(idle);
    check_eq!(lab.stats()?.streams, 1);
    Ok(())
}

/// Four processes change classes as fast as they can, one reads along a ring that is too small.
pub(super) fn four_writers_lose_nothing() -> Outcome {
    const CHANGES: usize = 250;
    let lab = Lab::open()?;
    tune("event_ring_size", 64)?;
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    let mut writers = Vec::new();
    for writer in 0..4 {
        writers.push(Child::spawn(move || {
            let (zernel, sim) = (Zernel::open()?, Sim::open()?);
            for change in 0..CHANGES {
                let spec = ContextSpec {
                    gpu: (change % 2) as u32,
                    ..ContextSpec::compute("writer")
                };
                let _context = (change % 5 == 0)
                    .then(|| sim.create_context(&spec))
                    .transpose()?;
                let target = libzernel::Target::current_process();
                zernel.set_class(&target, level(change + writer))?;
                if change % 3 == 0 {
                    zernel.clear_class(&target)?;
                }
            }
            Ok(())
        })?);
    }
    let mut kinds = std::collections::HashMap::<Kind, u64>::new();
    let mut count = |reader: &mut Reader| -> Result<()> {
        for event in reader.drain()? {
            *kinds.entry(event.kind).or_default() += 1;
        }
        Ok(())
    };
    for writer in writers {
        while writer
            .wait_ended(std::time::Duration::from_millis(2))
            .is_err()
        {
            count(&mut reader)?;
        }
        writer.join()?;
    }
    wait_until("all TSGs are gone", || {
        let stats = lab.stats()?;
        Ok(stats.tsgs == 0 && stats.classes == 0)
    })?;
    count(&mut reader)?;
    // The last read told of everything that was dropped before it.
    let made = grown(&lab, &before, |s| s.events)?;
    check_eq!(reader.total(), made, "read and dropped");
    check_eq!(
        grown(&lab, &before, |s| s.events_dropped)?,
        reader.dropped,
        "dropped"
    );
    let added = 4 * (CHANGES as u64).div_ceil(5);
    check_eq!(grown(&lab, &before, |s| s.tsgs_added)?, added, "TSGs added");
    check_eq!(
        grown(&lab, &before, |s| s.tsgs_removed)?,
        added,
        "TSGs removed"
    );
    check_eq!(
        grown(&lab, &before, |s| s.classes_set)?,
        4 * CHANGES as u64,
        "classes set"
    );
    if reader.dropped == 0 {
        check_eq!(
            kinds.get(&Kind::TsgAdded).copied(),
            Some(added),
            "additions told"
        );
        check_eq!(
            kinds.get(&Kind::TsgRemoved).copied(),
            Some(added),
            "removals told"
        );
    }
    ensure!(reader.read > 0, "nothing was read");
    Ok(())
}
