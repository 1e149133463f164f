// SPDX-License-Identifier: GPL-2.0
//! Out of memory: classes and weights stay what they were, and turns and budgets go on by themselves
//! as soon as there is memory again.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::class::Attributes;
use libzernel::{Level, Target, Weight};
use rustix::io::Errno;
use testkit::faults::Faults;

use super::{keep_busy, weight, Crowd, MS};
use crate::check_eq;
use crate::common::{level_info, slice_of, wait_until, Lab};
use crate::group::Group;
use crate::harness::Outcome;

/// Long enough for the worker to look at what has changed, and find no memory.
const LOOK: Duration = Duration::from_millis(200);

/// A class with a weight: each step of the call fails, one after the other.
pub(super) fn of_classes() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let lab = Lab::open()?;
    let group = Group::new("no-memory")?;
    let (_context, tsg) = lab.compute()?;
    let (light, heavy) = (weight(7)?, weight(2_000)?);
    for target in [
        Target::Tsg(tsg.id),
        Target::CurrentProcess,
        Target::CurrentThread,
        group.target()?,
    ] {
        // A class where there is none, and another one where there is.
        for before in [None, Some(light)] {
            let set = |weight: Weight| {
                lab.zernel
                    .set_class(&target, Attributes::from(Level::BE).weight(weight))
            };
            let count = thread.each(|n| {
                if let Some(weight) = before {
                    set(weight)?;
                }
                let was = lab.zernel.class(&target)?;
                let (stats, in_force) = (lab.stats()?.classes, lab.tsg(tsg.id)?.level);
                let (result, failed) = thread.nth(n, || set(heavy))?;
                if let Err(error) = result {
                    ensure!(failed, "{error} of itself");
                    let causes = [Errno::NOMEM, Errno::FAULT];
                    ensure!(
                        error.errno().is_some_and(|e| causes.contains(&e)),
                        "{error}"
                    );
                    check_eq!(lab.zernel.class(&target)?, was, "class after {error}");
                    check_eq!(lab.stats()?.classes, stats, "assignments");
                    check_eq!(lab.tsg(tsg.id)?.level, in_force, "level in force");
                    set(heavy)?;
                }
                check_eq!(lab.zernel.class(&target)?.own.weight, Some(heavy));
                lab.zernel.clear_class(&target)?;
                Ok(failed)
            })?;
            println!("    # {target:?}, from {before:?}: {count} steps that can fail");
            ensure!(count > 0, "setting a class cannot fail");
        }
    }
    Ok(())
}

/// The TSGs that take turns change while there is no memory to take that up.
pub(super) fn of_turns() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let lab = Lab::open()?;
    let mut crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let none = faults.no_memory()?;
    let (gone, _) = crowd.members.remove(0);
    gone.destroy()?;
    std::thread::sleep(LOOK);
    drop(none);
    // Nothing happens any more that would remind the worker.
    crowd.wait_all_run(&[0, 1, 2], 10 * MS)
}

/// The same of those who have a budget: what is not charged would keep best-effort waiting.
pub(super) fn of_budgets() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let lab = Lab::open()?;
    let (greedy, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    lab.wait_slice(&greedy, slice_of(0))?;
    let mut crowd = Crowd::taking_turns(&lab, &[1024; 2])?;
    let throttles = || -> Result<u64> { Ok(level_info(&lab.zernel, Level::LC)?.throttles) };
    let none = faults.no_memory()?;
    let (gone, _) = crowd.members.remove(0);
    gone.destroy()?;
    std::thread::sleep(LOOK);
    keep_busy(&greedy)?;
    std::thread::sleep(LOOK);
    drop(none);
    let before = throttles()?;
    wait_until("LC is throttled", || Ok(throttles()? > before))?;
    crowd.wait_all_run(&[0], 10 * MS)
}
