// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings that overflow, and several readers and writers: nothing is lost without being counted.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{Target, Tsg, Zernel};

use super::{classify, known, level, Reader};
use crate::check_eq;
use crate::child::Child;
use crate::common::{tune, wait_until, Lab};
use crate::harness::Outcome;

/// Makes exactly `count` events: while classes are not applied, changes are all that happens.
fn make_events(lab: &Lab, tsg: &Tsg, count: usize) -> Outcome {
    // Another level than the one before, whatever came before.
    let now = lab.tsg(tsg.id)?.level.map_or(0, |level| level.number());
    for number in 1..=count {
        classify(lab, tsg, level(usize::from(now) + number))?;
    }
    Ok(())
}

/// Read and dropped add up to what was made, for any size of the ring.
pub(super) fn ring_overflows_exactly() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    for size in [16, 17, 100] {
        tune("event_ring_size", size)?;
        let mut reader = Reader::new(&lab)?;
        let before = lab.stats()?;
        let mut made = 0;
        // Not full, just full, one over, far over.
        for count in [size - 1, size, size + 1, 3 * size + 5] {
            make_events(&lab, &tsg, count)?;
            made += count as u64;
            let read = reader.drain()?;
            check_eq!(read.len(), count.min(size), "{count} in {size}");
            check_eq!(reader.total(), made, "read and dropped of {size}");
            ensure!(read.iter().all(|e| e.kind == Kind::TsgClass), "{read:?}");
        }
        let after = lab.stats()?;
        check_eq!(after.events - before.events, made, "events counted");
        let dropped = after.events_dropped - before.events_dropped;
        check_eq!(dropped, reader.dropped, "dropped");
    }
    Ok(())
}

/// A ring has the size of the time when its stream started, and its losses cost the others nothing.
pub(super) fn each_ring_is_its_own() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = known(&lab)?;
    tune("enabled", 0)?;
    tune("event_ring_size", 16)?;
    let mut small = Reader::new(&lab)?;
    let unstarted = Zernel::open()?;
    tune("event_ring_size", 1024)?;
    let mut large = [Reader::new(&lab)?, Reader::new(&lab)?];
    let before = lab.stats()?;
    check_eq!(before.streams, 3, "an open file alone is no stream");
    make_events(&lab, &tsg, 300)?;
    let events = large[0].drain()?;
    check_eq!(events.len(), 300);
    check_eq!(large[1].drain()?, events, "of another reader");
    let after = lab.stats()?;
    check_eq!(after.events - before.events, 3 * 300, "events counted");
    let dropped = after.events_dropped - before.events_dropped;
    check_eq!(dropped, 300 - 16, "dropped");
    check_eq!((small.drain()?.len(), small.total()), (16, 300));
    drop((unstarted, small));
    check_eq!(lab.stats()?.streams, 2);
    Ok(())
}

/// Four processes change classes as fast as they can, one reads along a ring that is too small.
pub(super) fn four_writers_lose_nothing() -> Outcome {
    const CHANGES: usize = 250;
    let lab = Lab::open()?;
    tune("event_ring_size", 64)?;
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    let write = |writer: usize| -> Outcome {
        let (zernel, sim) = (Zernel::open()?, Sim::open()?);
        let me = Target::current_process();
        for change in 0..CHANGES {
            let spec = ContextSpec {
                gpu: (change % 2) as u32,
                ..ContextSpec::compute("writer")
            };
            let made = (change % 5 == 0).then(|| sim.create_context(&spec));
            let _context = made.transpose()?;
            zernel.set_class(&me, level(change + writer))?;
            if change % 3 == 0 {
                zernel.clear_class(&me)?;
            }
        }
        Ok(())
    };
    let writers = (0..4).map(|writer| Child::spawn(move || write(writer)));
    for writer in writers.collect::<Result<Vec<_>>>()? {
        while writer.wait_ended(Duration::from_millis(2)).is_err() {
            reader.drain()?;
        }
        writer.join()?;
    }
    wait_until("all TSGs are gone", || {
        let stats = lab.stats()?;
        Ok(stats.tsgs == 0 && stats.classes == 0)
    })?;
    reader.drain()?;
    // The last read told of everything that was dropped before it.
    let after = lab.stats()?;
    check_eq!(reader.total(), after.events - before.events);
    let dropped = after.events_dropped - before.events_dropped;
    check_eq!(dropped, reader.dropped, "dropped");
    let added = 4 * CHANGES as u64 / 5;
    check_eq!(after.tsgs_added - before.tsgs_added, added);
    check_eq!(after.tsgs_removed - before.tsgs_removed, added);
    let set = after.classes_set - before.classes_set;
    check_eq!(set, 4 * CHANGES as u64, "classes set");
    ensure!(reader.read > 0, "nothing was read");
    Ok(())
}
