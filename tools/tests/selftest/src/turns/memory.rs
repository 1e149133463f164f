// SPDX-License-Identifier: MIT OR Apache-2.0
//! Out of memory: classes and weights stay what they were, and turns and budgets go on by themselves
//! as soon as there is memory again.

use std::time::Duration;

use anyhow::ensure;
use libzernel::{Level, Target};
use rustix::io::Errno;
use testkit::faults::Faults;

use super::{best_effort, keep_busy, weight, Crowd, MS};
use crate::check_eq;
use crate::common::{errno, level_info, slice_of, wait_until, Lab};
use crate::group::Group;
use crate::harness::Outcome;

/// A class with a weight: each step of the call fails, one after the other.
pub(super) fn of_classes() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let group = Group::new("no-memory")?;
    let (_context, tsg) = lab.compute()?;
    let (light, heavy) = (best_effort(7)?, best_effort(2_000)?);
    for target in [
        Target::Tsg(tsg.id),
        Target::CurrentProcess,
        Target::CurrentThread,
        group.target()?,
    ] {
        // A class where there is none, and another one where there is.
        for before in [None, Some(light)] {
            let count = thread.each(|n| {
                if let Some(class) = before {
                    lab.zernel.set_class(&target, class)?;
                }
                let state = || -> anyhow::Result<_> {
                    let (class, stats) = (lab.zernel.class(&target)?, lab.stats()?);
                    Ok((class, stats.classes, lab.tsg(tsg.id)?.level))
                };
                let was = state()?;
                let (result, failed) = thread.nth(n, || lab.zernel.set_class(&target, heavy))?;
                if let Some(error) = errno(result) {
                    ensure!(failed, "{error} of itself");
                    ensure!([Errno::NOMEM, Errno::FAULT].contains(&error), "{error}");
                    check_eq!(state()?, was, "after {error}");
                    lab.zernel.set_class(&target, heavy)?;
                }
                let own = lab.zernel.class(&target)?.own;
                check_eq!(own.weight, Some(weight(2_000)?));
                lab.zernel.clear_class(&target)?;
                Ok(failed)
            })?;
            println!("    # {target:?}, from {before:?}: {count} steps that can fail");
            ensure!(count > 0, "setting a class cannot fail");
        }
    }
    Ok(())
}

/// The TSGs that take turns change while there is no memory to take that up, and those that have a
/// budget, if there are any: what is not charged would keep best-effort waiting.
pub(super) fn of_turns() -> Outcome {
    let look = || std::thread::sleep(Duration::from_millis(200));
    let mut faults = Faults::of_module("zernel")?;
    let lab = Lab::open()?;
    for is_urgent in [false, true] {
        let (urgent, tsg) = lab.compute()?;
        if is_urgent {
            lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
            lab.wait_slice(&urgent, slice_of(0))?;
        }
        let mut crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
        let none = faults.no_memory()?;
        crowd.members.remove(0).0.destroy()?;
        // Long enough for the worker to look at what has changed, and find no memory.
        look();
        if is_urgent {
            keep_busy(&urgent)?;
            look();
        }
        drop(none);
        // Nothing happens any more that would remind the worker.
        if is_urgent {
            let throttles =
                || Ok::<_, anyhow::Error>(level_info(&lab.zernel, Level::LC)?.throttles);
            let before = throttles()?;
            wait_until("LC is throttled", || Ok(throttles()? > before))?;
        }
        crowd.wait_everybody_runs(10 * MS)?;
    }
    Ok(())
}
