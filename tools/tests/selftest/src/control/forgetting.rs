// SPDX-License-Identifier: GPL-2.0
//! GPUs that lose what they hold, and come back.

use std::time::{Duration, Instant};

use anyhow::ensure;
use libzernel::sim::{ContextSpec, Operation};
use libzernel::{Level, Target};
use rustix::io::Errno;

use super::{calm, classify, held, known, DEFAULT_US, WISH_US};
use crate::check_eq;
use crate::common::{level, slice_of, wait_until, Lab};
use crate::events::Broken;
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// Every classed TSG of the GPU has its class again, and nothing else is touched.
pub(super) fn forgotten_is_set_again() -> Outcome {
    let lab = Lab::open()?;
    let mut classed = Vec::new();
    for number in 0..8 {
        let (context, tsg) = known(&lab)?;
        context.set_timeslice(2_000)?;
        classify(&lab, &context, &tsg, number)?;
        let class = held(&context)?;
        classed.push((context, tsg, class));
    }
    let (elsewhere, far) = lab.context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("far")
    })?;
    classify(&lab, &elsewhere, &far, 7)?;
    for round in 1..=3 {
        let before = (lab.stats()?, elsewhere.stats()?.slice_changes);
        lab.sim.forget(0)?;
        for (context, tsg, class) in &classed {
            wait_until("the class is back", || Ok(held(context)? == *class))?;
            wait_until("zernel knows", || {
                let now = lab.tsg(tsg.id)?;
                Ok(!now.pending && now.applied == 1 + round)
            })?;
        }
        let after = lab.stats()?;
        check_eq!(after.applied - before.0.applied, 8, "settings applied");
        check_eq!((after.errors, after.retries, after.coalesced), {
            let before = before.0;
            (before.errors, before.retries, before.coalesced)
        });
        check_eq!(elsewhere.stats()?.slice_changes, before.1, "the other GPU");
    }
    // The settings before zernel are still known.
    for (context, tsg, _) in &classed {
        check_eq!(lab.tsg(tsg.id)?.default_timeslice_us, 2_000);
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(context, 2_000)?;
    }
    Ok(())
}

pub(super) fn unclassed_is_left_alone() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    context.set_timeslice(WISH_US)?;
    let reads = lab.sim.injected(0, Operation::GetTimeslice)?;
    let watch = Broken::new(
        &lab.sim,
        Operation::GetTimeslice,
        Some(&context),
        u32::MAX,
        None,
        Duration::ZERO,
    )?;
    for _ in 0..3 {
        lab.sim.forget(0)?;
        context.set_timeslice(WISH_US)?;
    }
    calm(&lab, &tsg)?;
    check_eq!(
        lab.sim.injected(0, Operation::GetTimeslice)?,
        reads,
        "calls"
    );
    check_eq!(held(&context)?.0, WISH_US);
    check_eq!(lab.tsg(tsg.id)?.applied, 0);
    drop(watch);
    // Its own slice is read when the class comes.
    classify(&lab, &context, &tsg, 7)?;
    check_eq!(lab.tsg(tsg.id)?.default_timeslice_us, WISH_US);
    Ok(())
}

/// A GPU that comes back has its settings at once, not when zernel would ask again.
pub(super) fn resume_ends_the_waiting() -> Outcome {
    /// The longest wait between two tries is twice as long.
    const AT_ONCE: Duration = Duration::from_millis(500);
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let mut best = Duration::MAX;
    for round in 0..5u8 {
        let retries = lab.stats()?.retries;
        let suspended = Suspended::new(&lab.sim, 0)?;
        let number = 5 + 2 * (round % 2);
        let wanted = slice_of(number);
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
        // 1 + 2 + 4 + ... + 512 ms have passed: the next try would be 1024 ms later.
        wait_until("the tries are far apart", || {
            Ok(lab.stats()?.retries >= retries + 11)
        })?;
        ensure!(lab.zernel.gpus().any(|gpu| gpu.is_ok_and(|g| g.suspended)));
        let begin = Instant::now();
        drop(suspended);
        ensure!(
            lab.zernel.gpus().all(|gpu| gpu.is_ok_and(|g| !g.suspended)),
            "the mark stays"
        );
        lab.wait_slice(&context, wanted)?;
        best = best.min(begin.elapsed());
        calm(&lab, &tsg)?;
    }
    ensure!(best < AT_ONCE, "it took {best:?} at best");
    Ok(())
}

/// A setting that failed for good is tried again, once for each time that the GPU comes back.
pub(super) fn fails_again_once() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let before = lab.stats()?;
    let broken = Broken::slices(&lab.sim, Some(&context), Errno::IO)?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    for hits in 1..=5 {
        broken.wait_hits(hits)?;
        wait_until("the failure shows", || {
            let now = lab.tsg(tsg.id)?;
            Ok(now.failed && !now.pending && now.errors == hits)
        })?;
        std::thread::sleep(Duration::from_millis(20));
        check_eq!(broken.hits()?, hits, "calls");
        check_eq!(lab.stats()?.errors - before.errors, hits, "errors");
        lab.sim.forget(0)?;
    }
    broken.wait_hits(6)?;
    drop(broken);
    lab.sim.forget(0)?;
    lab.wait_slice(&context, slice_of(7))?;
    calm(&lab, &tsg)?;
    ensure!(!lab.tsg(tsg.id)?.failed, "it still counts as failed");
    // And given back, a GPU that fails meanwhile included.
    let broken = Broken::slices(&lab.sim, Some(&context), Errno::IO)?;
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    broken.wait_hits(1)?;
    wait_until("the failure shows", || Ok(lab.tsg(tsg.id)?.failed))?;
    drop(broken);
    lab.sim.suspend(0, true)?;
    lab.sim.suspend(0, false)?;
    lab.wait_slice(&context, DEFAULT_US)
}

/// A setting that is lost while a call is under way is set again after it.
pub(super) fn forgotten_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    // Levels whose interleave is another one than that of a new TSG.
    for number in [0, 3, 1] {
        // The level comes after the slice: it takes long, and the slice is lost meanwhile.
        let slow = Broken::new(
            &lab.sim,
            Operation::SetInterleave,
            Some(&context),
            1,
            None,
            Duration::from_millis(100),
        )?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
        slow.wait_hits(1)?;
        lab.wait_slice(&context, slice_of(number))?;
        lab.sim.forget(0)?;
        lab.wait_slice(&context, slice_of(number))?;
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?.0, slice_of(number));
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(&context, DEFAULT_US)?;
        calm(&lab, &tsg)?;
    }
    Ok(())
}
