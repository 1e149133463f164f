// SPDX-License-Identifier: GPL-2.0
//! The content of events, their order, and the coalescing of changes.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::{Event, Level, Source, Timestamp};
use rustix::io::Errno;

use super::{classify, clear, grown, known, level, Broken, Reader, BE_US, DEFAULT_US, LC_US};
use crate::check_eq;
use crate::common::{slice_of, wait_until, Lab};
use crate::harness::Outcome;

/// The life of a TSG: each kind of event, each field.
pub(super) fn every_field() -> Outcome {
    let lab = Lab::open()?;
    let mut reader = Reader::new(&lab)?;
    let began = Timestamp::now();
    let (context, tsg) = known(&lab)?;
    let mut last = began;
    let mut check = |event: Event,
                     kind: Kind,
                     class: (Option<Level>, Source),
                     slice: u32,
                     error: i32|
     -> Result<()> {
        check_eq!(event.kind, kind, "kind of {event:?}");
        check_eq!((event.level, event.source), class, "class in {event:?}");
        check_eq!(
            (event.timeslice_us, event.error),
            (slice, error),
            "outcome in {event:?}"
        );
        check_eq!(
            (event.tsg, event.gpu),
            (tsg.id, tsg.gpu),
            "TSG in {event:?}"
        );
        check_eq!(
            (event.pid, event.uid),
            (std::process::id(), 0),
            "owner in {event:?}"
        );
        ensure!(
            event.time_ns >= last && event.time_ns <= Timestamp::now(),
            "time: {event:?}"
        );
        last = event.time_ns;
        Ok(())
    };
    let none = (None, Source::None);
    let be = (Some(Level::BE), Source::Tsg);
    let lc = (Some(Level::LC), Source::Tsg);
    check(reader.next()?, Kind::TsgAdded, none, 0, 0)?;
    classify(&lab, &tsg, Level::BE)?;
    check(reader.next()?, Kind::TsgClass, be, DEFAULT_US, 0)?;
    check(reader.next()?, Kind::TsgApplied, be, BE_US, 0)?;
    {
        let _broken = Broken::slices(&lab.sim, Some(&context), Errno::INVAL)?;
        classify(&lab, &tsg, Level::LC)?;
        check(reader.next()?, Kind::TsgClass, lc, BE_US, 0)?;
        let error = -Errno::INVAL.raw_os_error();
        check(reader.next()?, Kind::TsgError, lc, BE_US, error)?;
    }
    clear(&lab, &tsg)?;
    check(reader.next()?, Kind::TsgClass, none, BE_US, 0)?;
    check(reader.next()?, Kind::TsgApplied, none, DEFAULT_US, 0)?;
    drop(context);
    check(reader.next()?, Kind::TsgRemoved, none, DEFAULT_US, 0)?;
    check_eq!(reader.drain()?.len(), 0, "more events");
    check_eq!((reader.seq, reader.dropped), (8, 0), "events");
    Ok(())
}

/// For each change: first the class, then the slice that follows from it.
pub(super) fn change_comes_before_slice() -> Outcome {
    const ROUNDS: usize = 24;
    let lab = Lab::open()?;
    let tsgs = [known(&lab)?, known(&lab)?, known(&lab)?];
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    for round in 0..ROUNDS {
        for (number, (context, tsg)) in tsgs.iter().enumerate() {
            // Never the level of the round before.
            let next = level(round + number);
            lab.zernel
                .set_class(&libzernel::Target::Tsg(tsg.id), next)?;
            let slice = slice_of(next.number());
            lab.wait_slice(context, slice)?;
            let changed = reader.expect(Kind::TsgClass)?;
            let applied = reader.expect(Kind::TsgApplied)?;
            check_eq!((changed.tsg, applied.tsg), (tsg.id, tsg.id), "TSG");
            let wanted = Some(level(round + number));
            check_eq!((changed.level, applied.level), (wanted, wanted), "level");
            check_eq!(applied.timeslice_us, slice);
        }
    }
    check_eq!(reader.drain()?.len(), 0, "more events");
    let changes = (ROUNDS * tsgs.len()) as u64;
    check_eq!(reader.total(), 2 * changes, "events");
    check_eq!(
        grown(&lab, &before, |s| s.events)?,
        2 * changes,
        "events counted"
    );
    check_eq!(
        grown(&lab, &before, |s| s.applied)?,
        changes,
        "settings applied"
    );
    check_eq!(
        grown(&lab, &before, |s| s.classes_set)?,
        changes,
        "classes set"
    );
    check_eq!(
        grown(&lab, &before, |s| s.coalesced)?,
        0,
        "changes coalesced"
    );
    Ok(())
}

/// While the worker is busy elsewhere, only the last of many changes reaches the provider.
pub(super) fn changes_coalesce() -> Outcome {
    const CHANGES: usize = 24;
    let lab = Lab::open()?;
    let (blocker, blocking) = known(&lab)?;
    let (context, tsg) = known(&lab)?;
    let slow = Broken::slow(&lab.sim, &blocker, Duration::from_secs(10))?;
    classify(&lab, &blocking, Level::BE)?;
    slow.wait_hits(1)?;
    let mut reader = Reader::new(&lab)?;
    let before = lab.stats()?;
    for change in 0..CHANGES {
        classify(&lab, &tsg, level(change))?;
    }
    let waiting = lab.tsg(tsg.id)?;
    ensure!(
        waiting.pending && waiting.applied == 0,
        "the worker came too early: {waiting:?}"
    );
    check_eq!(
        grown(&lab, &before, |s| s.coalesced)?,
        CHANGES as u64 - 1,
        "changes coalesced"
    );
    lab.wait_slice(&context, slice_of(level(CHANGES - 1).number()))?;
    wait_until("the change is applied", || Ok(lab.tsg(tsg.id)?.applied > 0))?;
    let events = reader.drain()?;
    let of = |kind| {
        events
            .iter()
            .filter(move |event| event.kind == kind && event.tsg == tsg.id)
    };
    check_eq!(of(Kind::TsgClass).count(), CHANGES, "changes told");
    check_eq!(of(Kind::TsgApplied).count(), 1, "settings applied");
    check_eq!(lab.tsg(tsg.id)?.applied, 1);
    check_eq!(context.stats()?.slice_changes, 1, "calls that the GPU saw");
    check_eq!(
        grown(&lab, &before, |s| s.applied)?,
        2,
        "settings applied in all"
    );
    Ok(())
}

/// Changes of a TSG during a call for it are made after that call.
pub(super) fn own_changes_follow_the_call() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let slow = Broken::slow(&lab.sim, &context, Duration::from_secs(5))?;
    classify(&lab, &tsg, Level::BE)?;
    slow.wait_hits(1)?;
    for change in 0..10 {
        classify(&lab, &tsg, level(change))?;
    }
    classify(&lab, &tsg, Level::LC)?;
    lab.wait_slice(&context, LC_US)?;
    wait_until("both changes are applied", || {
        Ok(lab.tsg(tsg.id)?.applied == 2)
    })?;
    let tsg = lab.tsg(tsg.id)?;
    check_eq!(
        (tsg.timeslice_us, tsg.default_timeslice_us),
        (LC_US, DEFAULT_US),
        "slices"
    );
    check_eq!(context.stats()?.slice_changes, 2, "calls that the GPU saw");
    Ok(())
}
