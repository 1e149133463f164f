// SPDX-License-Identifier: GPL-2.0
//! Classes, tunables and the GPU change while TSGs take turns.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::{Level, Target};

use super::{keep_busy, Crowd, MS};
use crate::check_eq;
use crate::common::{slice_of, told_slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// A slice that zernel left alone.
const DRIVER_SLICE: u32 = 1024;

/// The flag is there where turns are taken.
pub(super) fn gpus_say_so() -> Outcome {
    let lab = Lab::open()?;
    let says = |expected: bool| -> Outcome {
        for gpu in lab.zernel.gpus() {
            let gpu = gpu?;
            ensure!(gpu.can.enable, "{gpu:?}");
            check_eq!(gpu.turns, expected, "{gpu:?}");
        }
        Ok(())
    };
    says(true)?;
    for (name, value, expected) in [
        ("rotation", "none", false),
        ("rotation", "rr", true),
        ("enabled", "0", false),
        ("rotation", "none", false),
        ("enabled", "1", false),
        ("rotation", "credit", true),
    ] {
        tune(name, value)?;
        says(expected)?;
    }
    Ok(())
}

/// Waits until `at` is enabled with this slice, and stays so among the turns of the others.
fn wait_out_of_turns(crowd: &Crowd<'_>, at: usize, slice: u32) -> Outcome {
    crowd.lab.wait_slice(crowd.context(at), slice)?;
    crowd.wait_who("it is enabled, and one of the others", |enabled| {
        enabled.contains(&at) && enabled.len() == 2
    })?;
    for _ in 0..20 {
        ensure!(crowd.enabled()?.contains(&at), "not enabled");
    }
    Ok(())
}

/// The one whose turn it is, and one whose turn it is not.
pub(super) fn another_class_and_back() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    for round in 0..6u8 {
        let enabled = crowd.enabled()?;
        ensure!(!enabled.is_empty(), "nobody is enabled");
        let current = enabled[0];
        let at = match round % 2 {
            0 => current,
            _ => (current + 2) % 4,
        };
        let others: Vec<_> = (0..4).filter(|&other| other != at).collect();
        let target = crowd.target(at);
        match round / 2 {
            0 => {
                lab.zernel.set_class(&target, Level::LC)?;
                wait_out_of_turns(&crowd, at, slice_of(0))?;
                // LC has a budget, so that the others go on: without, its level is another.
                wait_until("its interleave level is that of LC", || {
                    Ok(crowd.context(at).stats()?.interleave == 2)
                })?;
            }
            1 => {
                lab.zernel.clear_class(&target)?;
                wait_out_of_turns(&crowd, at, DRIVER_SLICE)?;
            }
            _ => {
                lab.zernel
                    .set_class(&target, Level::new(3).unwrap_or(Level::LC))?;
                wait_out_of_turns(&crowd, at, slice_of(3))?;
            }
        }
        crowd.wait_all_run(&others, 2 * MS)?;
        lab.zernel.set_class(&target, Level::BE)?;
        crowd.settle_turns()?;
        crowd.wait_all_run(&[0, 1, 2, 3], 5 * MS)?;
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
        ("enabled", "0", DRIVER_SLICE, "1"),
        ("rotation", "none", told_slice_of(7), "rr"),
        ("rotation", "none", told_slice_of(7), "credit"),
    ] {
        tune(name, off)?;
        crowd.wait_enabled(5)?;
        for at in 0..5 {
            lab.wait_slice(crowd.context(at), slice)?;
        }
        crowd.wait_all_run(&[0, 1, 2, 3, 4], MS)?;
        check_eq!(crowd.enabled()?.len(), 5);
        tune(name, on)?;
        crowd.settle_turns()?;
        crowd.wait_all_run(&[0, 1, 2, 3, 4], 5 * MS)?;
    }
    // Often, so that it comes at any moment of a hand-over.
    for round in 0..40 {
        tune("rotation", if round % 2 == 0 { "none" } else { "fair" })?;
        std::thread::sleep(Duration::from_micros(round * 97 % 3_000));
    }
    crowd.settle_turns()?;
    tune("rotation_quantum_us", 500)?;
    crowd.wait_all_run(&[0, 1, 2, 3, 4], 5 * MS)?;
    tune("rotation", "none")?;
    crowd.wait_enabled(5)
}

/// The class goes, of one TSG after the other: what the driver had is there again.
pub(super) fn clearing() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    for at in 0..4 {
        lab.zernel.clear_class(&crowd.target(at))?;
        lab.wait_slice(crowd.context(at), DRIVER_SLICE)?;
        let left = 3 - at;
        crowd.wait_enabled(at + 1 + left.min(1))?;
    }
    // And by way of the process, all at once.
    let me = Target::current_process();
    for _ in 0..5 {
        lab.zernel.set_class(&me, Level::BE)?;
        crowd.settle_turns()?;
        lab.zernel.clear_class(&me)?;
        for at in 0..4 {
            lab.wait_slice(crowd.context(at), DRIVER_SLICE)?;
        }
        crowd.wait_enabled(4)?;
    }
    Ok(())
}

pub(super) fn suspend_and_resume() -> Outcome {
    let lab = Lab::open()?;
    let all = [0, 1, 2, 3];
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
        crowd.wait_all_run(&all, 10 * MS)?;
    }
    // Turns change while nothing can be called.
    for (off, count) in [("none", 4), ("fair", 1)] {
        let suspended = Suspended::new(&lab.sim, 0)?;
        tune("rotation", off)?;
        std::thread::sleep(Duration::from_millis(20));
        drop(suspended);
        crowd.wait_enabled(count)?;
        crowd.wait_all_run(&all, 5 * MS)?;
    }
    let after = lab.stats()?;
    check_eq!(after.errors - before.errors, 0, "errors");
    fn ends_busy(crowd: &Crowd<'_>) -> Result<()> {
        // A context that comes during a suspension takes part afterwards.
        let lab = crowd.lab;
        let suspended = Suspended::new(&lab.sim, 0)?;
        let (context, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        keep_busy(&context)?;
        drop(suspended);
        wait_until("the new one runs", || {
            Ok(context.stats()?.busy_ns >= 10 * MS)
        })?;
        drop(context);
        crowd.settle_turns()
    }
    ends_busy(&crowd)
}
