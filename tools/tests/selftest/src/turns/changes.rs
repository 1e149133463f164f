// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes, tunables and the GPU change while TSGs take turns.

use std::time::Duration;

use anyhow::{ensure, Context as _};
use libzernel::{Level, Target};

use super::{keep_busy, Crowd, MS};
use crate::check_eq;
use crate::common::{level, slice_of, told_slice_of, tune, wait_until, Lab};
use crate::events::DEFAULT_US;
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// The one whose turn it is, and one whose turn it is not.
pub(super) fn another_class_and_back() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    for (number, has_turn) in [
        (Some(0), true),
        (Some(0), false),
        (None, true),
        (None, false),
        (Some(3), true),
    ] {
        let enabled = crowd.enabled()?;
        let current = *enabled.first().context("nobody is enabled")?;
        let at = if has_turn { current } else { (current + 2) % 4 };
        let (context, target) = (crowd.context(at), crowd.target(at));
        let slice = match number {
            Some(number) => {
                lab.zernel.set_class(&target, level(number))?;
                slice_of(number)
            }
            None => {
                lab.zernel.clear_class(&target)?;
                DEFAULT_US
            }
        };
        lab.wait_slice(context, slice)?;
        crowd.wait_who("it is enabled, and one of the others", |enabled| {
            enabled.contains(&at) && enabled.len() == 2
        })?;
        for _ in 0..20 {
            ensure!(crowd.enabled()?.contains(&at), "not enabled");
        }
        if number == Some(0) {
            // LC has a budget, so that the others go on: without, its level is another.
            wait_until("its interleave level is that of LC", || {
                Ok(context.stats()?.interleave == 2)
            })?;
        }
        let others: Vec<_> = (0..4).filter(|&other| other != at).collect();
        crowd.wait_all_run(&others, 2 * MS)?;
        lab.zernel.set_class(&target, Level::BE)?;
        crowd.settle_turns()?;
        crowd.wait_everybody_runs(5 * MS)?;
    }
    check_eq!(lab.stats()?.errors, errors, "errors");
    Ok(())
}

/// Everybody runs in slices of best-effort, or in its own, and then takes turns again.
pub(super) fn off_and_on() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 5])?;
    for (name, off, slice, on) in [
        ("rotation", "none", told_slice_of(7), "fair"),
        ("enabled", "0", DEFAULT_US, "1"),
        ("rotation", "none", told_slice_of(7), "rr"),
        ("rotation", "none", told_slice_of(7), "credit"),
    ] {
        tune(name, off)?;
        crowd.wait_enabled(5)?;
        for (context, _) in &crowd.members {
            lab.wait_slice(context, slice)?;
        }
        crowd.wait_everybody_runs(MS)?;
        check_eq!(crowd.enabled()?.len(), 5);
        tune(name, on)?;
        crowd.settle_turns()?;
        crowd.wait_everybody_runs(5 * MS)?;
    }
    // Often, so that it comes at any moment of a hand-over.
    for round in 0..40 {
        tune("rotation", if round % 2 == 0 { "none" } else { "fair" })?;
        std::thread::sleep(Duration::from_micros(round * 97 % 3_000));
    }
    crowd.settle_turns()?;
    tune("rotation_quantum_us", 500)?;
    crowd.wait_everybody_runs(5 * MS)?;
    tune("rotation", "none")?;
    crowd.wait_enabled(5)
}

/// The class goes, of one TSG after the other: what the driver had is there again.
pub(super) fn clearing() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    for at in 0..4 {
        lab.zernel.clear_class(&crowd.target(at))?;
        lab.wait_slice(crowd.context(at), DEFAULT_US)?;
        let left = 3 - at;
        crowd.wait_enabled(at + 1 + left.min(1))?;
    }
    // And by way of the process, all at once.
    let me = Target::current_process();
    lab.zernel.set_class(&me, Level::BE)?;
    crowd.settle_turns()?;
    lab.zernel.clear_class(&me)?;
    for (context, _) in &crowd.members {
        lab.wait_slice(context, DEFAULT_US)?;
    }
    crowd.wait_enabled(4)
}

pub(super) fn suspend_and_resume() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let before = lab.stats()?;
    for round in 0..6u64 {
        let suspended = Suspended::new(&lab.sim, 0)?;
        let busy = crowd.busy()?;
        std::thread::sleep(Duration::from_millis(round * 10));
        check_eq!(crowd.busy()?, busy, "GPU time while suspended");
        if round % 3 == 2 {
            // The GPU has lost what it was told.
            lab.sim.forget(0)?;
        }
        drop(suspended);
        crowd.settle_turns()?;
        crowd.wait_everybody_runs(10 * MS)?;
    }
    // Turns change while nothing can be called.
    for (turns, count) in [("none", 4), ("fair", 1)] {
        let suspended = Suspended::new(&lab.sim, 0)?;
        tune("rotation", turns)?;
        std::thread::sleep(Duration::from_millis(20));
        drop(suspended);
        crowd.wait_enabled(count)?;
        crowd.wait_everybody_runs(5 * MS)?;
    }
    // TSGs come and go meanwhile, and of many changes the last one counts.
    let (urgent, urgent_tsg) = lab.compute()?;
    let suspended = Suspended::new(&lab.sim, 0)?;
    drop(lab.compute()?);
    let (late, late_tsg) = lab.compute()?;
    keep_busy(&late)?;
    for number in [7, 3, 0, 7, 2] {
        lab.zernel
            .set_class(&Target::Tsg(urgent_tsg.id), level(number))?;
    }
    lab.zernel.set_class(&Target::Tsg(late_tsg.id), Level::BE)?;
    // The first may have been made with an earlier class.
    let retries = lab.stats()?.retries;
    wait_until("two calls were answered \"not now\"", || {
        Ok(lab.stats()?.retries >= retries + 2)
    })?;
    check_eq!(urgent.stats()?.slice_changes, 0, "changes while suspended");
    drop(suspended);
    lab.wait_slice(&urgent, slice_of(2))?;
    // Another one if the first came before the refresh that follows the GPU's resume.
    let changes = urgent.stats()?.slice_changes;
    ensure!((1..=2).contains(&changes), "{changes} changes");
    wait_until("the new one runs", || Ok(late.stats()?.busy_ns >= 10 * MS))?;
    drop(late);
    crowd.settle_turns()?;
    check_eq!(lab.stats()?.errors, before.errors, "errors");
    Ok(())
}
