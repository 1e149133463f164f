// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other changes of a TSG: by its owner, through the driver, and by the driver itself.

mod racing;

use anyhow::Result;
use libzernel::sim::{Context, ContextSpec, Description};
use libzernel::{Level, Target, Tsg};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, level, slice_of, tune, wait_until, Lab};
use crate::events::{known, DEFAULT_US};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "control",
    &[
        case("answers", answers),
        case("becomes_compute", becomes_compute),
        case("becomes_shared", becomes_shared),
        case("described_by_root_alone", described_by_root_alone),
        case("forgotten_is_set_again", forgotten_is_set_again),
        case("everybody_at_once", racing::everybody_at_once),
    ],
);

/// The wish of an owner: slice and interleave level.
const WISH: (u32, u32) = (77_000, 2);

/// A compute TSG with one channel.
const PLAIN: Description = Description {
    compute: true,
    shared: false,
    channels: 1,
};

const SHARED: Description = Description {
    shared: true,
    ..PLAIN
};

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

/// Has the owner try both settings; returns the answer.
fn try_both(context: &Context) -> Result<Option<Errno>> {
    let answer = errno(context.set_timeslice(WISH.0));
    check_eq!(errno(context.set_interleave(WISH.1)), answer, "level");
    Ok(answer)
}

/// The settings of the GPU: slice and interleave level.
fn held(context: &Context) -> Result<(u32, u32)> {
    let stats = context.stats()?;
    Ok((stats.timeslice_us, stats.interleave))
}

/// A TSG without a class is its owner's. One with a class is as tuned, until its own settings come
/// back.
fn answers() -> Outcome {
    const OWN: (u32, u32) = (3_000, 1);
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    for (policy, answer, stays, counted) in [
        ("deny", Some(Errno::PERM), false, (2, 0)),
        ("reapply", None, false, (0, 2)),
        ("allow", None, true, (0, 0)),
    ] {
        tune("user_control", policy)?;
        let before = lab.stats()?;
        context.set_timeslice(OWN.0)?;
        context.set_interleave(OWN.1)?;
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?, OWN, "{policy}, unclassed");
        classify(&lab, &context, &tsg, 7)?;
        let expected = if stays { WISH } else { held(&context)? };
        check_eq!(try_both(&context)?, answer, "{policy}");
        wait_until("the answer has its effect", || {
            Ok(held(&context)? == expected)
        })?;
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?, expected, "{policy}");
        let after = lab.stats()?;
        let denied = after.controls_denied - before.controls_denied;
        let reapplied = after.controls_reapplied - before.controls_reapplied;
        check_eq!((denied, reapplied), counted, "{policy}");
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        wait_until("its own settings are back", || Ok(held(&context)? == OWN))?;
        calm(&lab, &tsg)?;
    }
    Ok(())
}

/// A class applies from the moment the TSG computes, and not longer.
fn becomes_compute() -> Outcome {
    let lab = Lab::open()?;
    tune("copy_timeslice_us", 0)?;
    lab.zernel.set_class(&Target::CurrentProcess, Level::BE)?;
    let (context, tsg) = lab.context(&ContextSpec::copy("late"))?;
    calm(&lab, &tsg)?;
    check_eq!((tsg.compute, tsg.level), (false, None));
    check_eq!(held(&context)?.0, DEFAULT_US);
    context.describe(&PLAIN)?;
    let listed = lab.tsg(tsg.id)?;
    check_eq!((listed.compute, listed.level), (true, Some(Level::BE)));
    lab.wait_slice(&context, slice_of(7))?;
    context.describe(&Description {
        compute: false,
        channels: 9,
        ..PLAIN
    })?;
    let listed = lab.tsg(tsg.id)?;
    check_eq!((listed.channels, listed.level), (9, None));
    lab.wait_slice(&context, DEFAULT_US)?;
    // Named itself it is classed, whatever it does.
    classify(&lab, &context, &tsg, 3)
}

/// No class raises a shared TSG, and sharing sheds none that holds it down.
fn becomes_shared() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let target = Target::Tsg(tsg.id);
    classify(&lab, &context, &tsg, 0)?;
    context.describe(&SHARED)?;
    lab.wait_slice(&context, DEFAULT_US)?;
    calm(&lab, &tsg)?;
    let class = lab.zernel.class(&target)?;
    check_eq!((class.own.level, class.level.value), (Some(level(0)), None));
    let raised = lab.zernel.set_class(&target, level(5));
    check_eq!(errno(raised), Some(Errno::OPNOTSUPP));
    check_eq!(try_both(&context)?, None, "its owner's");
    context.describe(&PLAIN)?;
    lab.wait_slice(&context, slice_of(0))?;
    for number in [6, 7] {
        context.describe(&PLAIN)?;
        classify(&lab, &context, &tsg, number)?;
        context.describe(&SHARED)?;
        check_eq!(lab.tsg(tsg.id)?.level, Some(level(number)));
        check_eq!(try_both(&context)?, Some(Errno::PERM), "level {number}");
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?.0, slice_of(number));
    }
    Ok(())
}

fn described_by_root_alone() -> Outcome {
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let lab = Lab::open()?;
        let (context, tsg) = known(&lab)?;
        check_eq!(errno(context.describe(&SHARED)), Some(Errno::PERM));
        check_eq!(lab.tsg(tsg.id)?.shared, false);
        // The settings are its own until it has a class, which it cannot undo.
        check_eq!(try_both(&context)?, None);
        lab.zernel.set_class(&Target::CurrentProcess, Level::BE)?;
        check_eq!(try_both(&context)?, Some(Errno::PERM));
        lab.wait_slice(&context, slice_of(7))
    })
}

/// Every classed TSG of the GPU has its class again, and nothing else is touched.
fn forgotten_is_set_again() -> Outcome {
    let lab = Lab::open()?;
    let (_unclassed, free) = known(&lab)?;
    let mut classed = Vec::new();
    for number in [0, 3, 7] {
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
            wait_until("the class is back, as zernel knows", || {
                let now = lab.tsg(tsg.id)?;
                Ok(held(context)? == *class && !now.pending && now.applied == 1 + round)
            })?;
        }
        let after = lab.stats()?;
        check_eq!(after.applied - before.0.applied, 3, "settings applied");
        check_eq!(after.errors, before.0.errors, "errors");
        check_eq!(elsewhere.stats()?.slice_changes, before.1, "the other GPU");
        check_eq!(lab.tsg(free.id)?.applied, 0, "without a class");
    }
    // The settings before zernel are still known.
    for (context, tsg, _) in &classed {
        check_eq!(lab.tsg(tsg.id)?.default_timeslice_us, 2_000);
        lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
        lab.wait_slice(context, 2_000)?;
    }
    Ok(())
}
