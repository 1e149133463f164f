// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quotas of assignments: the admission budget of `lc_gid` and the quota of a user.

use anyhow::{Context as _, Result};
use libzernel::sim::ContextSpec;
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{self, errno, level, tune, wait_until, Lab, SOON};
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::{ALICE, BOB, GROUP, NICE};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "quota",
    &[
        case("admission_is_a_budget", admission_is_a_budget),
        case("assignments_of_a_user", assignments_of_a_user),
    ],
);

/// Most assignments of a user without `CAP_SYS_NICE`.
const MOST: usize = 4096;
/// GPUs on which a user can have so many TSGs.
const GPUS: u32 = 4;

fn admission_is_a_budget() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    tune("lc_admission", 2)?;
    let children = (0..4).map(|_| Child::idle(|| Ok(())));
    let children = children.collect::<Result<Vec<_>>>()?;
    let process = |index: usize| Target::Process(children[index].pid());
    // A member of the group sets a class, and is answered so.
    let member = |uid: u32, index: usize, number: u8, answer: Option<Errno>| {
        in_child(|| {
            sys::become_user(uid, uid, &[GROUP])?;
            let set = Zernel::open()?.set_class(&process(index), level(number));
            check_eq!(errno(set), answer, "user {uid} sets {index} to {number}");
            Ok(())
        })
    };
    let full = Some(Errno::DQUOT);
    // Assignments by root and CAP_SYS_NICE are not counted.
    lab.zernel.set_class(&process(0), level(0))?;
    in_child(|| {
        sys::become_user_with(BOB, GROUP, NICE)?;
        Ok(Zernel::open()?.set_class(&process(1), level(0))?)
    })?;
    // All members share the budget. To replace what was given is a raise like any other.
    member(ALICE, 0, 0, None)?;
    member(BOB, 1, 5, None)?;
    let before = lab.stats()?;
    member(ALICE, 2, 5, full)?;
    member(BOB, 2, 0, full)?;
    let after = lab.stats()?;
    check_eq!((after.denied, after.classes), (before.denied + 2, 2));
    // An assignment that replaces a raised one takes its place; one that lowers is free and makes
    // room.
    member(BOB, 0, 1, None)?;
    member(ALICE, 2, 7, None)?;
    member(ALICE, 2, 0, full)?;
    member(ALICE, 1, 6, None)?;
    member(ALICE, 2, 0, None)?;
    member(ALICE, 3, 0, full)?;
    // A cleared one makes room.
    lab.zernel.clear_class(&process(0))?;
    member(ALICE, 3, 0, None)?;
    member(ALICE, 0, 0, full)?;
    // So does one whose target has ended.
    children[3].kill()?;
    wait_until("the class has ended", || Ok(lab.stats()?.classes == 2))?;
    member(BOB, 0, 0, None)?;
    member(BOB, 1, 0, full)?;
    // And one that root takes over.
    lab.zernel.set_class(&process(0), level(0))?;
    member(BOB, 1, 0, None)?;
    // An assignment that was admitted stays when nobody is any more; it just cannot be renewed.
    tune("lc_admission", 0)?;
    member(BOB, 1, 0, full)?;
    check_eq!(lab.zernel.class(&process(1))?.level.value, Some(level(0)));
    member(BOB, 1, 6, None)
}

/// A user with as many TSGs as it may give classes to.
fn assignments_of_a_user() -> Outcome {
    common::unload_soon("zernel_sim")?;
    let contexts = MOST + 1;
    let parameters = format!("gpus={GPUS} max_tsgs=2048 user_contexts={contexts}");
    common::load("zernel_sim", &parameters)?;
    let child = Child::spawn(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let lab = Lab::open()?;
        let context = |gpu| {
            let many = ContextSpec::compute("many");
            lab.sim.create_context(&ContextSpec { gpu, ..many })
        };
        let gpus = (0..GPUS).cycle().take(MOST);
        let mut contexts = gpus.map(context).collect::<Result<Vec<_>, _>>()?;
        for tsg in lab.zernel.tsgs() {
            lab.zernel.set_class(&Target::Tsg(tsg?.id), level(7))?;
        }
        let set = |target: &Target, number| errno(lab.zernel.set_class(target, level(number)));
        let (process, thread) = (Target::CurrentProcess, Target::CurrentThread);
        let before = lab.stats()?;
        check_eq!(before.classes as usize, MOST);
        let full = Some(Errno::DQUOT);
        check_eq!([set(&thread, 7), set(&process, 7)], [full; 2]);
        // A lack of permission is told first.
        check_eq!(set(&process, 0), Some(Errno::PERM));
        check_eq!(lab.stats()?.denied, before.denied + 3);
        // A TSG beyond its share of each GPU is not zernel's, and not its own to change either.
        let beyond = context(0)?;
        check_eq!(lab.stats()?.tsgs, before.tsgs, "TSGs that zernel took");
        check_eq!(errno(beyond.set_timeslice(9_000)), Some(Errno::PERM));
        check_eq!(beyond.stats()?.slice_changes, 0);
        check_eq!(lab.stats()?.controls_denied, before.controls_denied + 1);
        // Another one of its own does not count twice, and the end of a target makes room.
        let newest = lab.zernel.tsgs().last().context("no TSG")??;
        check_eq!(set(&Target::Tsg(newest.id), 7), None);
        drop(contexts.pop());
        check_eq!(set(&process, 7), None);
        check_eq!(set(&thread, 7), full);
        check_eq!(lab.stats()?.classes as usize, MOST);
        Ok(())
    })?;
    let full = child.join_within(10 * SOON);
    let lab = Lab::open()?;
    wait_until("nothing is left", || {
        let stats = lab.stats()?;
        Ok((stats.classes, stats.tsgs) == (0, 0))
    })?;
    drop(lab);
    common::unload_all()?;
    common::load_all()?;
    full
}
