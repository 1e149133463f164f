// SPDX-License-Identifier: GPL-2.0
//! TSGs that become others while they are there.

use std::time::Duration;

use libzernel::sim::{ContextSpec, Description, EngineChoice, Operation};
use libzernel::{Level, Target};
use rustix::io::Errno;

use super::{calm, classify, counts, held, known, try_both, DEFAULT_US};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, level, slice_of, tune, wait_until, Lab};
use crate::events::Broken;
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::sys;

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

/// A class applies from the moment the TSG computes, and not longer.
pub(super) fn becomes_compute() -> Outcome {
    let lab = Lab::open()?;
    lab.zernel.set_class(&Target::CurrentProcess, Level::BE)?;
    let (context, tsg) = lab.context(&ContextSpec {
        engine: EngineChoice::AnyCopy,
        ..ContextSpec::compute("late")
    })?;
    calm(&lab, &tsg)?;
    check_eq!((tsg.compute, tsg.level), (false, None));
    check_eq!(held(&context)?.0, DEFAULT_US);
    for _ in 0..3 {
        context.describe(&PLAIN)?;
        let listed = lab.tsg(tsg.id)?;
        check_eq!((listed.compute, listed.level), (true, Some(Level::BE)));
        lab.wait_slice(&context, slice_of(7))?;
        context.describe(&Description {
            compute: false,
            ..PLAIN
        })?;
        check_eq!(lab.tsg(tsg.id)?.level, None);
        lab.wait_slice(&context, DEFAULT_US)?;
    }
    // Named itself it is classed, whatever it does.
    classify(&lab, &context, &tsg, 3)?;
    context.describe(&PLAIN)?;
    check_eq!(lab.tsg(tsg.id)?.level, Some(level(3)));
    Ok(())
}

/// Channels are as many as there are now, and change nothing else.
pub(super) fn more_channels() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    check_eq!(tsg.channels, 1);
    classify(&lab, &context, &tsg, 7)?;
    let before = (lab.stats()?, context.stats()?.slice_changes);
    for channels in [2, 16, 0, 1, u32::MAX] {
        context.describe(&Description { channels, ..PLAIN })?;
        let listed = lab.tsg(tsg.id)?;
        check_eq!(listed.channels, channels);
        check_eq!((listed.level, listed.pending), (Some(Level::BE), false));
    }
    let after = (lab.stats()?, context.stats()?.slice_changes);
    check_eq!(after, before, "something was done");
    Ok(())
}

/// No class raises a shared TSG, whoever gives it; to name it is refused. One that does not raise
/// counts as ever.
pub(super) fn shared_is_never_raised() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (other, _) = known(&lab)?;
    context.describe(&SHARED)?;
    check_eq!(lab.tsg(tsg.id)?.shared, true);
    for number in 0..6 {
        let refused = unchanged(&lab.zernel, || {
            Ok(errno(
                lab.zernel.set_class(&Target::Tsg(tsg.id), level(number)),
            ))
        })?;
        check_eq!(refused, Some(Errno::OPNOTSUPP), "level {number}");
    }
    // The others of the same thread, process and cgroup are.
    let group = Group::new("shared")?;
    group.enter(0)?;
    let targets = [
        Target::CurrentThread,
        Target::CurrentProcess,
        group.target()?,
    ];
    for (number, target) in (1..).zip(&targets) {
        lab.zernel.set_class(target, level(number))?;
        lab.wait_slice(&other, slice_of(number))?;
        check_eq!(lab.tsg(tsg.id)?.level, None, "{target:?}");
        lab.zernel.clear_class(target)?;
    }
    calm(&lab, &tsg)?;
    check_eq!(held(&context)?.0, DEFAULT_US);
    check_eq!(context.stats()?.slice_changes, 0, "slices set");
    tune("default_class", "be")?;
    lab.wait_slice(&other, slice_of(7))?;
    lab.wait_slice(&context, slice_of(7))?;
    check_eq!(lab.tsg(tsg.id)?.level, Some(Level::BE));
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(6))?;
    lab.wait_slice(&context, slice_of(6))?;
    check_eq!(lab.tsg(tsg.id)?.level, Some(level(6)));
    group::leave()
}

/// The settings of a TSG come back when it becomes shared, and its class when it is not any more.
pub(super) fn becomes_shared() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let mut applied = lab.tsg(tsg.id)?.applied;
    for own in [true, false] {
        let target = if own {
            Target::Tsg(tsg.id)
        } else {
            Target::CurrentProcess
        };
        lab.zernel.set_class(&target, Level::LC)?;
        lab.wait_slice(&context, slice_of(0))?;
        context.describe(&SHARED)?;
        lab.wait_slice(&context, DEFAULT_US)?;
        wait_until("it has been given back", || {
            let now = lab.tsg(tsg.id)?;
            Ok(!now.pending && now.applied == applied + 2)
        })?;
        let class = lab.zernel.class(&target)?;
        check_eq!(class.own.level, Some(Level::LC), "its assignment stays");
        if own {
            check_eq!(class.level.value, None, "but has no effect");
        }
        context.describe(&PLAIN)?;
        lab.wait_slice(&context, slice_of(0))?;
        context.describe(&SHARED)?;
        lab.zernel.clear_class(&target)?;
        lab.wait_slice(&context, DEFAULT_US)?;
        calm(&lab, &tsg)?;
        context.describe(&PLAIN)?;
        check_eq!(lab.tsg(tsg.id)?.level, None);
        applied = lab.tsg(tsg.id)?.applied;
    }
    Ok(())
}

/// A TSG that is held down stays so by becoming shared, and cannot undo it.
pub(super) fn sharing_sheds_no_class() -> Outcome {
    let lab = Lab::open()?;
    for number in [6, 7] {
        let (context, tsg) = known(&lab)?;
        classify(&lab, &context, &tsg, number)?;
        let class = held(&context)?;
        let changes = context.stats()?.slice_changes;
        let (denied, reapplied) = counts(&lab)?;
        context.describe(&SHARED)?;
        let listed = lab.tsg(tsg.id)?;
        check_eq!((listed.shared, listed.level), (true, Some(level(number))));
        check_eq!(try_both(&context)?, Some(Errno::PERM), "level {number}");
        calm(&lab, &tsg)?;
        check_eq!(held(&context)?, class, "level {number}");
        check_eq!(context.stats()?.slice_changes, changes, "level {number}");
        check_eq!(counts(&lab)?, (denied + 2, reapplied), "level {number}");
    }
    Ok(())
}

/// A shared TSG has no class that raises, and then it is its owner's.
pub(super) fn shared_is_its_owners() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    classify(&lab, &context, &tsg, 0)?;
    context.describe(&SHARED)?;
    lab.wait_slice(&context, DEFAULT_US)?;
    calm(&lab, &tsg)?;
    let before = counts(&lab)?;
    check_eq!(try_both(&context)?, None);
    calm(&lab, &tsg)?;
    check_eq!(held(&context)?, (super::WISH_US, 1));
    check_eq!(counts(&lab)?, before);
    Ok(())
}

pub(super) fn described_by_root_alone() -> Outcome {
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

/// A TSG that zernel has dropped is the driver's alone.
pub(super) fn unknown_to_zernel() -> Outcome {
    let lab = Lab::open()?;
    for policy in super::POLICIES {
        tune("user_control", policy)?;
        let (context, tsg) = known(&lab)?;
        let gone = Broken::new(
            &lab.sim,
            Operation::SetTimeslice,
            Some(&context),
            1,
            Some(Errno::NOENT),
            Duration::ZERO,
        )?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        gone.wait_hits(1)?;
        wait_until("zernel has dropped it", || Ok(lab.tsg(tsg.id).is_err()))?;
        let before = counts(&lab)?;
        check_eq!(
            errno(context.describe(&PLAIN)),
            Some(Errno::NOENT),
            "{policy}"
        );
        check_eq!(try_both(&context)?, None, "{policy}");
        check_eq!(held(&context)?, (super::WISH_US, 1), "{policy}");
        lab.sim.forget(0)?;
        check_eq!(held(&context)?, (DEFAULT_US, 0), "{policy}");
        check_eq!(counts(&lab)?, before, "{policy}");
    }
    Ok(())
}
