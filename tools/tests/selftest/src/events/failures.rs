// SPDX-License-Identifier: GPL-2.0
//! Reactions of zernel to a provider that says "not now", "never" or "gone".

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::Operation;
use libzernel::{Gpu, Level, Target};
use rustix::io::Errno;

use super::{classify, clear, grown, known, level, Broken, Reader, BE_US, DEFAULT_US, LC_US};
use crate::check_eq;
use crate::common::{slice_of, wait_until, Lab};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// Long enough for a worker that would call again to do so.
const A_WHILE: Duration = Duration::from_millis(100);

fn first_gpu(lab: &Lab) -> Result<Gpu> {
    match lab.zernel.gpus().next() {
        Some(gpu) => Ok(gpu?),
        None => anyhow::bail!("no GPU"),
    }
}

/// `EAGAIN`: called again until it is done; each answer counted, the GPU marked meanwhile.
pub(super) fn not_now_is_retried() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (before, gpu) = (lab.stats()?, first_gpu(&lab)?);
    let mut reader = Reader::new(&lab)?;
    let operation = Operation::SetTimeslice;
    let base = lab.sim.injected(0, operation)?;
    let broken = Broken::slices(&lab.sim, None, Errno::AGAIN)?;
    classify(&lab, &tsg, Level::BE)?;
    broken.wait_hits(4)?;
    wait_until("the GPU is marked", || Ok(first_gpu(&lab)?.retrying))?;
    check_eq!(lab.tsg(tsg.id)?.applied, 0, "settings applied");
    ensure!(!lab.tsg(tsg.id)?.failed, "failed for good");
    check_eq!(context.stats()?.timeslice_us, DEFAULT_US);
    drop(broken);
    lab.wait_slice(&context, BE_US)?;
    wait_until("the mark is gone", || Ok(!first_gpu(&lab)?.retrying))?;
    let hits = lab.sim.injected(0, operation)? - base;
    let after = first_gpu(&lab)?;
    check_eq!(
        after.retries - gpu.retries,
        hits,
        "answers counted by the GPU"
    );
    check_eq!(
        grown(&lab, &before, |s| s.retries)?,
        hits,
        "answers counted"
    );
    let done = (after.errors - gpu.errors, after.applied - gpu.applied);
    check_eq!(done, (0, 1), "errors, settings");
    reader.expect(Kind::TsgClass)?;
    reader.expect(Kind::TsgApplied)?;
    check_eq!(reader.drain()?.len(), 0, "more events");
    Ok(())
}

/// A TSG that has to wait keeps its place before those that came later.
pub(super) fn not_now_keeps_the_order() -> Outcome {
    let lab = Lab::open()?;
    let tsgs = [known(&lab)?, known(&lab)?, known(&lab)?, known(&lab)?];
    let broken = Broken::slices(&lab.sim, None, Errno::AGAIN)?;
    let mut reader = Reader::new(&lab)?;
    for number in [2, 0, 3, 1] {
        classify(&lab, &tsgs[number].1, Level::BE)?;
    }
    broken.wait_hits(3)?;
    drop(broken);
    let mut order = Vec::new();
    while order.len() < tsgs.len() {
        let event = reader.next()?;
        if event.kind == Kind::TsgApplied {
            order.push(tsgs.iter().position(|(_, tsg)| tsg.id == event.tsg));
        }
    }
    check_eq!(order, [Some(2), Some(0), Some(3), Some(1)], "order");
    Ok(())
}

/// Any other error: told, counted, not repeated, tried again with the next change.
pub(super) fn hard_errors_are_told_once() -> Outcome {
    for errno in [
        Errno::IO,
        Errno::INVAL,
        Errno::TIMEDOUT,
        Errno::NOSYS,
        Errno::NODEV,
    ] {
        let lab = Lab::open()?;
        let (context, tsg) = known(&lab)?;
        let (other, other_tsg) = known(&lab)?;
        let before = lab.stats()?;
        let mut reader = Reader::new(&lab)?;
        let broken = Broken::slices(&lab.sim, Some(&context), errno)?;
        let mut attempts = 0;
        for level in [Level::BE, Level::LC] {
            // The same request once more changes no class, but is one more attempt.
            for request in ["first", "second"] {
                classify(&lab, &tsg, level)?;
                attempts += 1;
                if request == "first" {
                    reader.expect(Kind::TsgClass)?;
                }
                let event = reader.expect(Kind::TsgError)?;
                check_eq!(
                    (event.error, event.tsg),
                    (-errno.raw_os_error(), tsg.id),
                    "event"
                );
                check_eq!(
                    (event.level, event.timeslice_us),
                    (Some(level), DEFAULT_US),
                    "event"
                );
                let failed = lab.tsg(tsg.id)?;
                ensure!(failed.failed && !failed.pending, "{failed:?}");
                check_eq!(
                    (failed.errors, failed.applied),
                    (attempts, 0),
                    "errors, settings"
                );
                check_eq!(broken.hits()?, attempts, "calls");
            }
        }
        std::thread::sleep(A_WHILE);
        check_eq!(broken.hits()?, attempts, "calls after a while");
        check_eq!(
            grown(&lab, &before, |s| s.errors)?,
            attempts,
            "errors counted"
        );
        // The others are served all the same.
        classify(&lab, &other_tsg, Level::BE)?;
        lab.wait_slice(&other, BE_US)?;
        drop(broken);
        classify(&lab, &tsg, Level::BE)?;
        lab.wait_slice(&context, BE_US)?;
        wait_until("zernel knows that it is applied", || {
            let tsg = lab.tsg(tsg.id)?;
            Ok(tsg.applied == 1 && !tsg.failed)
        })?;
    }
    Ok(())
}

/// The slice was set, the interleave level was not: both are given back.
pub(super) fn half_a_change() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let mut reader = Reader::new(&lab)?;
    let none = Duration::ZERO;
    let operation = Operation::SetInterleave;
    let broken = Broken::new(&lab.sim, operation, None, u32::MAX, Some(Errno::IO), none)?;
    classify(&lab, &tsg, Level::LC)?;
    reader.expect(Kind::TsgClass)?;
    let event = reader.expect(Kind::TsgError)?;
    check_eq!(
        (event.error, event.timeslice_us),
        (-5, LC_US),
        "what was done"
    );
    check_eq!(context.stats()?.timeslice_us, LC_US);
    clear(&lab, &tsg)?;
    lab.wait_slice(&context, DEFAULT_US)?;
    drop(broken);
    classify(&lab, &tsg, Level::LC)?;
    wait_until("both are set", || {
        let stats = context.stats()?;
        Ok((stats.timeslice_us, stats.interleave) == (LC_US, 2))
    })?;
    clear(&lab, &tsg)?;
    wait_until("both are given back", || {
        let stats = context.stats()?;
        Ok((stats.timeslice_us, stats.interleave) == (DEFAULT_US, 0))
    })
}

/// Nothing is changed as long as it is not known what to give back.
pub(super) fn unreadable_slice() -> Outcome {
    let lab = Lab::open()?;
    let none = Duration::ZERO;
    let mut reader = Reader::new(&lab)?;
    let operation = Operation::GetTimeslice;
    let broken = Broken::new(&lab.sim, operation, None, u32::MAX, Some(Errno::IO), none)?;
    let (context, tsg) = lab.compute()?;
    reader.expect(Kind::TsgAdded)?;
    check_eq!(reader.expect(Kind::TsgError)?.error, -5);
    classify(&lab, &tsg, Level::BE)?;
    reader.expect(Kind::TsgClass)?;
    reader.expect(Kind::TsgError)?;
    check_eq!(context.stats()?.slice_changes, 0, "changes");
    drop(broken);
    let broken = Broken::new(&lab.sim, operation, None, 3, Some(Errno::AGAIN), none)?;
    classify(&lab, &tsg, Level::LC)?;
    lab.wait_slice(&context, LC_US)?;
    check_eq!(broken.hits()?, 3, "answers \"not now\"");
    clear(&lab, &tsg)?;
    lab.wait_slice(&context, DEFAULT_US)
}

/// `ENOENT`: zernel drops the TSG and never calls for it again.
pub(super) fn gone_tsg_is_dropped() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (other, other_tsg) = known(&lab)?;
    let before = lab.stats()?;
    let mut reader = Reader::new(&lab)?;
    let broken = Broken::slices(&lab.sim, Some(&context), Errno::NOENT)?;
    classify(&lab, &tsg, Level::BE)?;
    reader.expect(Kind::TsgClass)?;
    check_eq!(reader.expect(Kind::TsgRemoved)?.tsg, tsg.id);
    ensure!(lab.tsg(tsg.id).is_err(), "still listed");
    check_eq!(grown(&lab, &before, |s| s.tsgs_dead)?, 1, "TSGs found dead");
    check_eq!(grown(&lab, &before, |s| s.tsgs_removed)?, 1, "TSGs removed");
    check_eq!(
        grown(&lab, &before, |s| s.errors + s.retries)?,
        0,
        "other failures"
    );
    check_eq!(lab.stats()?.classes, 0, "its assignment");
    let unknown = lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC);
    check_eq!(
        unknown.map_err(|e| e.errno()),
        Err(Some(Errno::NOENT)),
        "its id"
    );
    // A fault that is named in other ways does not reach it.
    for number in 0..8 {
        lab.zernel
            .set_class(&Target::current_process(), level(number))?;
        lab.wait_slice(&other, slice_of(number as u8))?;
    }
    check_eq!(broken.hits()?, 1, "calls");
    lab.zernel.clear_class(&Target::current_process())?;
    // Its end is no news.
    drop(context);
    check_eq!(
        grown(&lab, &before, |s| s.tsgs_removed)?,
        1,
        "TSGs removed in the end"
    );
    check_eq!(lab.tsg(other_tsg.id)?.id, other_tsg.id);
    Ok(())
}

/// Changes of a suspended GPU wait for it, the last state wins.
pub(super) fn suspended_gpu_gets_its_changes() -> Outcome {
    let lab = Lab::open()?;
    let tsgs = [known(&lab)?, known(&lab)?, known(&lab)?];
    let before = lab.stats()?;
    let suspended = Suspended::new(&lab.sim, 0)?;
    for round in 0..5 {
        for (number, (_, tsg)) in tsgs.iter().enumerate() {
            classify(&lab, tsg, level(round + number))?;
        }
    }
    clear(&lab, &tsgs[2].1)?;
    wait_until("the GPU is marked", || Ok(first_gpu(&lab)?.retrying))?;
    for (context, _) in &tsgs {
        check_eq!(context.stats()?.slice_changes, 0, "changes while suspended");
    }
    // TSGs come and go meanwhile.
    drop(lab.compute()?);
    let (late, late_tsg) = lab.compute()?;
    classify(&lab, &late_tsg, Level::LC)?;
    drop(suspended);
    for (number, (context, tsg)) in tsgs[..2].iter().enumerate() {
        let class = lab.zernel.class(&Target::Tsg(tsg.id))?;
        check_eq!(
            class.own.level,
            Some(level(4 + number)),
            "class of TSG {number}"
        );
        lab.wait_slice(context, slice_of(4 + number as u8))?;
    }
    lab.wait_slice(&late, LC_US)?;
    wait_until("nothing waits", || Ok(first_gpu(&lab)?.pending == 0))?;
    check_eq!(
        tsgs[2].0.stats()?.timeslice_us,
        DEFAULT_US,
        "slice of the cleared one"
    );
    ensure!(
        grown(&lab, &before, |s| s.retries)? > 0,
        "nothing was retried"
    );
    check_eq!(grown(&lab, &before, |s| s.errors)?, 0, "errors");
    Ok(())
}
