// SPDX-License-Identifier: MIT OR Apache-2.0
//! The enabled TSGs, their shares, and the permission to give weights.

use anyhow::{ensure, Context as _, Result};
use libzernel::{Level, Source, Target, Zernel};
use rustix::io::Errno;

use super::{best_effort, keep_busy, weight, Crowd, MS};
use crate::cgroup::wait_moved;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, slice_of, tune, Lab};
use crate::group::Group;
use crate::harness::Outcome;
use crate::permit::{owner_process, ALICE};
use crate::sys;

/// One, and in a hand-over two; so the engine never idles.
pub(super) fn one_is_enabled() -> Outcome {
    let lab = Lab::open()?;
    for count in [2, 3, 8] {
        let crowd = Crowd::taking_turns(&lab, &vec![1024; count])?;
        for _ in 0..40 {
            let enabled = crowd.enabled()?;
            ensure!([1, 2].contains(&enabled.len()), "of {count}: {enabled:?}");
        }
        // No look suspends the GPU now.
        let before = lab.sim.engine_stats(0, 0)?;
        crowd.wait_everybody_runs(10 * MS)?;
        let after = lab.sim.engine_stats(0, 0)?;
        check_eq!(after.idle_ns - before.idle_ns, 0, "idle time");
    }
    Ok(())
}

/// A TSG without another to take turns with has the GPU, however short its slice is.
pub(super) fn one_alone() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::new(&lab, 2)?;
    lab.zernel.set_class(&crowd.target(0), Level::BE)?;
    lab.wait_slice(crowd.context(0), slice_of(7))?;
    keep_busy(crowd.context(0))?;
    crowd.wait_all_run(&[0], 50 * MS)?;
    check_eq!(crowd.enabled()?, [0, 1]);
    Ok(())
}

pub(super) fn by_weight() -> Outcome {
    let lab = Lab::open()?;
    for weights in [
        &[1024; 2][..],
        &[1024; 3],
        &[1024; 8],
        &[300, 100],
        &[6000, 2000, 2000],
    ] {
        Crowd::taking_turns(&lab, weights)?.wait_shares(weights)?;
    }
    Ok(())
}

/// Credit knows weights, the other one does not.
pub(super) fn of_other_disciplines() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[3072, 1024])?;
    for (discipline, due) in [("credit", [3, 1]), ("rr", [1, 1]), ("fair", [3, 1])] {
        tune("rotation", discipline)?;
        crowd.settle_turns()?;
        crowd.wait_shares(&due)?;
    }
    Ok(())
}

/// Of a target of any kind.
pub(super) fn weight_changes_at_once() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024, 1024])?;
    let told = |at: usize| -> Result<_> { Ok(lab.zernel.class(&crowd.target(at))?.weight.value) };
    lab.zernel.set_class(&crowd.target(0), best_effort(3072)?)?;
    check_eq!((told(0)?, told(1)?), (weight(3072)?, weight(1024)?));
    crowd.wait_shares(&[3, 1])?;
    // That of the process, once the TSG has none of its own.
    let me = Target::current_process();
    lab.zernel.set_class(&me, best_effort(512)?)?;
    lab.zernel.clear_class(&crowd.target(0))?;
    check_eq!((told(0)?, told(1)?), (weight(512)?, weight(1024)?));
    crowd.wait_shares(&[1, 2])
}

/// A TSG that an administrator gave little has no way to more.
pub(super) fn held_down() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("held-down")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    wait_moved(&root, tsg, group.id()?, None)?;
    let (of_tsg, process) = (Target::Tsg(tsg), Target::Process(owner.pid()));
    // The owner's own wishes, and the answers.
    let own = |target: &Target, wishes: &[(u32, bool)]| -> Outcome {
        in_child(|| {
            sys::become_user(ALICE, ALICE, &[])?;
            let zernel = Zernel::open()?;
            for &(number, granted) in wishes {
                let answer = errno(zernel.set_class(target, best_effort(number)?));
                let expected = (!granted).then_some(Errno::PERM);
                check_eq!(answer, expected, "{target:?} to {number}");
            }
            Ok(())
        })
    };
    // Wishes for a more specific target, before and afterwards. The same once more is no rise; where
    // it is the first time, it is one.
    own(&of_tsg, &[(1024, true)])?;
    root.zernel.set_class(&group.target()?, best_effort(100)?)?;
    own(&of_tsg, &[(1024, true)])?;
    own(&Target::Thread(owner.pid()), &[(1024, false), (101, false)])?;
    let class = root.zernel.class(&of_tsg)?;
    let in_force = (class.level.value, class.weight.value);
    check_eq!(in_force, (Some(Level::BE), weight(100)?));
    // The same target: less is free, and cannot be undone.
    root.zernel.set_class(&process, best_effort(100)?)?;
    own(
        &process,
        &[(101, false), (99, true), (100, false), (1024, false)],
    )?;
    let class = root.zernel.class(&of_tsg)?;
    check_eq!(class.weight.value, weight(99)?);
    check_eq!(class.weight.source, Source::Process);
    Ok(())
}
