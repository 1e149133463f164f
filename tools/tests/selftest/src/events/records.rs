// SPDX-License-Identifier: MIT OR Apache-2.0
//! The content of events, their order, and the coalescing of changes.

use anyhow::ensure;
use libzernel::event::Kind;
use libzernel::sim::Operation::SetTimeslice;
use libzernel::{Level, Source, Target, Timestamp};
use rustix::io::Errno;

use super::{classify, known, level, Broken, Reader, BE_US, DEFAULT_US, LC_US};
use crate::check_eq;
use crate::common::{slice_of, wait_until, Lab};
use crate::harness::Outcome;

/// The life of a TSG: each kind of event, each field.
pub(super) fn every_field() -> Outcome {
    let lab = Lab::open()?;
    let mut reader = Reader::new(&lab)?;
    let mut last = Timestamp::now();
    let (context, tsg) = known(&lab)?;
    type Class = (Option<Level>, Source);
    let mut check = |kind: Kind, class: Class, slice: u32, error: i32| -> Outcome {
        let event = reader.expect(kind)?;
        check_eq!((event.level, event.source), class, "{event:?}");
        let outcome = (event.timeslice_us, event.error);
        check_eq!(outcome, (slice, error), "{event:?}");
        check_eq!((event.tsg, event.gpu), (tsg.id, tsg.gpu), "{event:?}");
        let owner = (event.pid, event.uid);
        check_eq!(owner, (std::process::id(), 0), "{event:?}");
        let in_order = last <= event.time_ns && event.time_ns <= Timestamp::now();
        ensure!(in_order, "{event:?}");
        last = event.time_ns;
        Ok(())
    };
    let none = (None, Source::None);
    let be = (Some(Level::BE), Source::Tsg);
    let lc = (Some(Level::LC), Source::Tsg);
    check(Kind::TsgAdded, none, 0, 0)?;
    classify(&lab, &tsg, Level::BE)?;
    check(Kind::TsgClass, be, DEFAULT_US, 0)?;
    check(Kind::TsgApplied, be, BE_US, 0)?;
    let broken = Broken::new(&lab.sim, SetTimeslice, Some(&context), Errno::INVAL)?;
    classify(&lab, &tsg, Level::LC)?;
    check(Kind::TsgClass, lc, BE_US, 0)?;
    check(Kind::TsgError, lc, BE_US, -libc::EINVAL)?;
    drop(broken);
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    check(Kind::TsgClass, none, BE_US, 0)?;
    check(Kind::TsgApplied, none, DEFAULT_US, 0)?;
    drop(context);
    check(Kind::TsgRemoved, none, DEFAULT_US, 0)?;
    check_eq!(reader.drain()?.len(), 0, "more events");
    check_eq!((reader.seq, reader.dropped), (8, 0), "events");
    Ok(())
}

/// For each change: first the class, then the slice that follows from it.
pub(super) fn change_comes_before_slice() -> Outcome {
    const ROUNDS: usize = 16;
    let lab = Lab::open()?;
    let tsgs = [known(&lab)?, known(&lab)?, known(&lab)?];
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    for round in 0..ROUNDS {
        for (number, (_, tsg)) in tsgs.iter().enumerate() {
            // Never the level of the round before.
            let next = level(round + number);
            classify(&lab, tsg, next)?;
            let changed = reader.expect(Kind::TsgClass)?;
            let applied = reader.expect(Kind::TsgApplied)?;
            for event in [&changed, &applied] {
                check_eq!((event.tsg, event.level), (tsg.id, Some(next)));
            }
            check_eq!(applied.timeslice_us, slice_of(next.number()));
        }
    }
    check_eq!(reader.drain()?.len(), 0, "more events");
    let changes = (ROUNDS * tsgs.len()) as u64;
    let after = lab.stats()?;
    check_eq!(after.events - before.events, 2 * changes, "events");
    check_eq!(after.applied - before.applied, changes, "applied");
    check_eq!(after.classes_set - before.classes_set, changes, "set");
    check_eq!(after.coalesced, before.coalesced, "coalesced");
    Ok(())
}

/// While the worker is busy elsewhere, only the last of many changes reaches the provider.
pub(super) fn changes_coalesce() -> Outcome {
    const CHANGES: usize = 24;
    let lab = Lab::open()?;
    let (blocker, blocking) = known(&lab)?;
    let (context, tsg) = known(&lab)?;
    let slow = Broken::slow(&lab.sim, &blocker)?;
    classify(&lab, &blocking, Level::BE)?;
    slow.wait_hits(1)?;
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    for change in 0..CHANGES {
        classify(&lab, &tsg, level(change))?;
    }
    // The TSG of the call itself gets its change after that call.
    classify(&lab, &blocking, Level::LC)?;
    let (waiting, stats) = (lab.tsg(tsg.id)?, lab.stats()?);
    ensure!(
        waiting.pending && waiting.applied == 0,
        "the worker came too early: {waiting:?}"
    );
    let coalesced = stats.coalesced - before.coalesced;
    check_eq!(coalesced, CHANGES as u64 - 1, "changes coalesced");
    lab.wait_slice(&context, slice_of(level(CHANGES - 1).number()))?;
    lab.wait_slice(&blocker, LC_US)?;
    wait_until("all is applied", || {
        Ok(lab.stats()?.applied == before.applied + 3)
    })?;
    let events = reader.drain()?;
    let count = |kind| {
        let of = |event: &&libzernel::Event| event.kind == kind && event.tsg == tsg.id;
        events.iter().filter(of).count()
    };
    check_eq!(count(Kind::TsgClass), CHANGES, "changes told");
    check_eq!(count(Kind::TsgApplied), 1, "settings applied");
    check_eq!(lab.tsg(tsg.id)?.applied, 1);
    let calls = (context.stats()?, blocker.stats()?);
    check_eq!((calls.0.slice_changes, calls.1.slice_changes), (1, 2));
    Ok(())
}
