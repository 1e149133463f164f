// SPDX-License-Identifier: GPL-2.0
//! Other changes of a TSG: by its owner, through the driver, and by the driver itself.

mod becoming;
mod forgetting;
mod racing;

use anyhow::{ensure, Result};
use libzernel::sim::Context;
use libzernel::{Target, Tsg};
use rustix::io::Errno;

use crate::check_eq;
use crate::common::{errno, level, slice_of, tune, wait_until, Lab};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "control",
    &[
        case("every_answer_of_every_policy", every_answer_of_every_policy),
        case("counted_exactly", counted_exactly),
        case("own_settings_come_back", own_settings_come_back),
        case("the_end_of_allow", the_end_of_allow),
        case("refused_values", refused_values),
        case("becomes_compute", becoming::becomes_compute),
        case("more_channels", becoming::more_channels),
        case("shared_is_never_raised", becoming::shared_is_never_raised),
        case("sharing_sheds_no_class", becoming::sharing_sheds_no_class),
        case("becomes_shared", becoming::becomes_shared),
        case("shared_is_its_owners", becoming::shared_is_its_owners),
        case("described_by_root_alone", becoming::described_by_root_alone),
        case("unknown_to_zernel", becoming::unknown_to_zernel),
        case("forgotten_is_set_again", forgetting::forgotten_is_set_again),
        case(
            "unclassed_is_left_alone",
            forgetting::unclassed_is_left_alone,
        ),
        case(
            "resume_ends_the_waiting",
            forgetting::resume_ends_the_waiting,
        ),
        case("fails_again_once", forgetting::fails_again_once),
        case(
            "forgotten_during_a_call",
            forgetting::forgotten_during_a_call,
        ),
        case("overtaken_by_a_class", racing::overtaken_by_a_class),
        case("allowed_and_overtaken", racing::allowed_and_overtaken),
        case("everybody_at_once", racing::everybody_at_once),
    ],
);

/// Time slice of a new TSG.
const DEFAULT_US: u32 = 1024;
/// The wish of an owner.
const WISH_US: u32 = 77_000;
/// Every value of the tunable.
const POLICIES: [&str; 3] = ["deny", "reapply", "allow"];

/// A context with its TSG, which zernel has read.
fn known(lab: &Lab) -> Result<(Context, Tsg)> {
    let (context, tsg) = lab.compute()?;
    calm(lab, &tsg)?;
    Ok((context, lab.tsg(tsg.id)?))
}

/// Waits until the worker has nothing to do for a TSG.
fn calm(lab: &Lab, tsg: &Tsg) -> Result<()> {
    wait_until("the worker is done", || Ok(!lab.tsg(tsg.id)?.pending))
}

/// Gives a TSG a level of its own and waits until it has the slice.
fn classify(lab: &Lab, context: &Context, tsg: &Tsg, number: u8) -> Result<()> {
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
    lab.wait_slice(context, slice_of(number))?;
    calm(lab, tsg)
}

/// The numbers of denied and of re-applied changes.
fn counts(lab: &Lab) -> Result<(u64, u64)> {
    let stats = lab.stats()?;
    Ok((stats.controls_denied, stats.controls_reapplied))
}

/// Has the owner try both settings; tells what it was answered.
fn try_both(context: &Context) -> Result<Option<Errno>> {
    let answer = errno(context.set_timeslice(WISH_US));
    check_eq!(
        errno(context.set_interleave(1)),
        answer,
        "the same for both"
    );
    Ok(answer)
}

/// The settings of the GPU: slice and interleave level.
fn held(context: &Context) -> Result<(u32, u32)> {
    let stats = context.stats()?;
    Ok((stats.timeslice_us, stats.interleave))
}

fn every_answer_of_every_policy() -> Outcome {
    let lab = Lab::open()?;
    for policy in POLICIES {
        tune("user_control", policy)?;
        let (context, tsg) = known(&lab)?;
        let before = counts(&lab)?;

        // No class: its owner's, and nobody interferes.
        check_eq!(try_both(&context)?, None, "{policy}, unclassed");
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?, (WISH_US, 1), "{policy}, unclassed");
        check_eq!(counts(&lab)?, before, "{policy}, unclassed");

        // A class, of the most urgent level and of the least.
        for number in [0, 7] {
            let before = counts(&lab)?;
            classify(&lab, &context, &tsg, number)?;
            let class = held(&context)?;
            let answer = try_both(&context)?;
            let (denied, reapplied) = counts(&lab)?;
            let grown = (denied - before.0, reapplied - before.1);
            match policy {
                "deny" => {
                    check_eq!(answer, Some(Errno::PERM), "level {number}");
                    check_eq!(held(&context)?, class, "level {number}");
                    check_eq!(grown, (2, 0), "level {number}");
                }
                "reapply" => {
                    check_eq!(answer, None, "level {number}");
                    wait_until("the class is put right", || Ok(held(&context)? == class))?;
                    check_eq!(grown, (0, 2), "level {number}");
                }
                _ => {
                    check_eq!(answer, None, "level {number}");
                    calm(&lab, &tsg)?;
                    check_eq!(held(&context)?, (WISH_US, 1), "level {number}");
                    check_eq!(grown, (0, 0), "level {number}");
                }
            }
        }

        // Switched off, and its own settings back: as if there were no class.
        tune("enabled", 0)?;
        wait_until("its own settings are back", || {
            Ok(held(&context)? == (WISH_US, 1) && !lab.tsg(tsg.id)?.pending)
        })?;
        let before = counts(&lab)?;
        check_eq!(errno(context.set_timeslice(5_000)), None, "{policy}, off");
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?, (5_000, 1), "{policy}, off");
        check_eq!(counts(&lab)?, before, "{policy}, off");
        tune("enabled", 1)?;
        lab.wait_slice(&context, slice_of(7))?;
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(&context, 5_000)?;
    }
    Ok(())
}

fn counted_exactly() -> Outcome {
    const THREADS: u64 = 4;
    const TIMES: u64 = 200;
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    classify(&lab, &context, &tsg, 7)?;
    for policy in ["deny", "reapply"] {
        tune("user_control", policy)?;
        let before = counts(&lab)?;
        let answers = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| (0..TIMES).filter(|_| denied(&context)).count() as u64))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(u64::MAX))
                .fold(0, u64::saturating_add)
        });
        let (all, none) = (THREADS * TIMES, 0);
        let (refused, expected) = match policy {
            "deny" => (all, (all, none)),
            _ => (none, (none, all)),
        };
        let after = counts(&lab)?;
        check_eq!(answers, refused, "{policy}");
        check_eq!(
            (after.0 - before.0, after.1 - before.1),
            expected,
            "{policy}"
        );
        lab.wait_slice(&context, slice_of(7))?;
    }
    // A look changes nothing.
    check_eq!(counts(&lab)?, counts(&lab)?);
    Ok(())
}

/// Tries the slice; any other answer than yes and EPERM shows in the slice.
fn denied(context: &Context) -> bool {
    errno(context.set_timeslice(WISH_US)) == Some(Errno::PERM)
}

fn own_settings_come_back() -> Outcome {
    let lab = Lab::open()?;
    for policy in POLICIES {
        tune("user_control", policy)?;
        let (context, tsg) = known(&lab)?;
        context.set_timeslice(3_000)?;
        context.set_interleave(1)?;
        classify(&lab, &context, &tsg, 0)?;
        // The setting when the class came counts, not that when the TSG was made.
        check_eq!(lab.tsg(tsg.id)?.default_timeslice_us, 3_000, "{policy}");
        let _ = try_both(&context)?;
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        wait_until("its own settings are back", || {
            Ok(held(&context)? == (3_000, 1))
        })?;
        calm(&lab, &tsg)?;
        // The same when the class ends with the process that it names.
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        lab.wait_slice(&context, slice_of(7))?;
        calm(&lab, &tsg)?;
        let _ = try_both(&context)?;
        lab.zernel.clear_class(&Target::CurrentProcess)?;
        wait_until("its own settings are back", || {
            Ok(held(&context)? == (3_000, 1))
        })?;
    }
    Ok(())
}

fn the_end_of_allow() -> Outcome {
    let lab = Lab::open()?;
    for next in ["deny", "reapply"] {
        tune("user_control", "allow")?;
        let (context, tsg) = known(&lab)?;
        let (free, _) = known(&lab)?;
        classify(&lab, &context, &tsg, 7)?;
        for context in [&context, &free] {
            context.set_timeslice(WISH_US)?;
        }
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?.0, WISH_US);
        tune("user_control", next)?;
        lab.wait_slice(&context, slice_of(7))?;
        check_eq!(held(&free)?.0, WISH_US, "one without a class");
    }
    Ok(())
}

fn refused_values() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    for policy in POLICIES {
        tune("user_control", policy)?;
        for classed in [false, true] {
            if classed {
                classify(&lab, &context, &tsg, 7)?;
            }
            let before = (counts(&lab)?, held(&context)?);
            let inval = Some(Errno::INVAL);
            check_eq!(errno(context.set_timeslice(0)), inval, "{policy} {classed}");
            for level in [3, 4, u32::MAX] {
                check_eq!(
                    errno(context.set_interleave(level)),
                    inval,
                    "{policy} {classed}"
                );
            }
            check_eq!(
                (counts(&lab)?, held(&context)?),
                before,
                "{policy} {classed}"
            );
            if classed {
                lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
                lab.wait_slice(&context, DEFAULT_US)?;
                calm(&lab, &tsg)?;
            }
        }
    }
    ensure!(!lab.tsg(tsg.id)?.failed, "the TSG failed");
    Ok(())
}
