// SPDX-License-Identifier: GPL-2.0
//! The quotas of assignments: the admission budget of `lc_gid` and the quota of a user.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::class::Set;
use libzernel::sim::ContextSpec;
use libzernel::{Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{self, errno, level, tune, wait_until, Lab, SOON};
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::{owner_process, ALICE, BOB, GROUP, NICE};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "quota",
    &[
        case("admission_is_a_budget", admission_is_a_budget),
        case("admission_of_nobody", admission_of_nobody),
        case("owner_lowers_what_was_raised", owner_lowers_what_was_raised),
        case("what_admission_leaves_alone", what_admission_leaves_alone),
        case("assignments_of_a_user", assignments_of_a_user),
    ],
);

/// Most assignments of a user without `CAP_SYS_NICE`.
const MOST: usize = 4096;
/// GPUs on which a user can have so many TSGs.
const GPUS: usize = 4;

/// A process to be classed.
fn sleeper() -> Result<Child> {
    Child::spawn(|| {
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })
}

/// Sets a class as a member of the group and compares the answer.
fn as_member(uid: u32, target: &Target, number: u8, want: Option<Errno>) -> Outcome {
    in_child(|| {
        sys::become_user(uid, uid, &[GROUP])?;
        let answer = errno(Zernel::open()?.set_class(target, level(number)));
        check_eq!(answer, want, "user {uid} sets {target:?} to {number}");
        Ok(())
    })
}

fn admission_is_a_budget() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    tune("lc_admission", 2)?;
    let children: Vec<_> = (0..4).map(|_| sleeper()).collect::<Result<_>>()?;
    let process = |index: usize| Target::Process(children[index].pid());
    let full = Some(Errno::DQUOT);
    // All members share it.
    as_member(ALICE, &process(0), 0, None)?;
    as_member(BOB, &process(1), 5, None)?;
    let before = lab.stats()?;
    for (uid, number) in [(ALICE, 0), (BOB, 0), (ALICE, 5), (BOB, 3)] {
        as_member(uid, &process(2), number, full)?;
    }
    let after = lab.stats()?;
    check_eq!(after.denied, before.denied + 4);
    check_eq!(after.classes, 2);
    check_eq!(lab.zernel.class(&process(2))?.own.level, None);
    // An assignment that replaces a raised one takes its place; one that lowers is free and makes
    // room.
    as_member(BOB, &process(0), 1, None)?;
    as_member(ALICE, &process(2), 7, None)?;
    as_member(ALICE, &process(2), 0, full)?;
    check_eq!(lab.zernel.class(&process(2))?.own.level, Some(level(7)));
    as_member(ALICE, &process(1), 6, None)?;
    as_member(ALICE, &process(2), 0, None)?;
    as_member(ALICE, &process(3), 0, full)?;
    // A cleared one makes room.
    lab.zernel.clear_class(&process(0))?;
    as_member(ALICE, &process(3), 0, None)?;
    as_member(ALICE, &process(0), 0, full)?;
    // So does one whose target has ended.
    children[3].kill()?;
    wait_until("the class has ended", || Ok(lab.stats()?.classes == 2))?;
    as_member(BOB, &process(0), 0, None)?;
    as_member(BOB, &process(1), 0, full)?;
    // And one that root takes over.
    lab.zernel.set_class(&process(0), level(0))?;
    as_member(BOB, &process(1), 0, None)
}

fn admission_of_nobody() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let (first, second) = (sleeper()?, sleeper()?);
    let (first, second) = (Target::Process(first.pid()), Target::Process(second.pid()));
    as_member(ALICE, &first, 0, None)?;
    tune("lc_admission", 0)?;
    for number in 0..6 {
        as_member(ALICE, &second, number, Some(Errno::DQUOT))?;
    }
    as_member(ALICE, &second, 6, None)?;
    // An assignment that was admitted before stays; it just cannot be renewed.
    check_eq!(lab.zernel.class(&first)?.level.value, Some(level(0)));
    as_member(ALICE, &first, 0, Some(Errno::DQUOT))?;
    check_eq!(lab.zernel.class(&first)?.level.value, Some(level(0)));
    tune("lc_admission", 1)?;
    as_member(ALICE, &first, 0, None)
}

/// A user who lowers what a member gave it keeps the member's share of the budget until it is no
/// longer above the default, and is not held down to the default.
fn owner_lowers_what_was_raised() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    tune("lc_admission", 1)?;
    let (owner, other) = (owner_process(ALICE)?, sleeper()?);
    let (mine, other) = (Target::Process(owner.pid()), Target::Process(other.pid()));
    as_member(BOB, &mine, 0, None)?;
    for (number, room) in [(3, false), (5, false), (6, true)] {
        in_child(|| {
            sys::become_user(ALICE, ALICE, &[])?;
            let zernel = Zernel::open()?;
            zernel.set_class(&mine, level(number))?;
            let class = zernel.class(&mine)?;
            check_eq!(
                (class.level.value, class.privileged.contains(Set::LEVEL)),
                (Some(level(number)), true)
            );
            let answer = errno(zernel.set_class(&mine, level(number - 1)));
            check_eq!(answer, Some(Errno::PERM), "back to {}", number - 1);
            Ok(())
        })?;
        let tsg = lab.zernel.tsgs().next().context("no TSG")??;
        check_eq!(tsg.level, Some(level(number)));
        as_member(BOB, &other, 0, (!room).then_some(Errno::DQUOT))?;
    }
    Ok(())
}

/// Root, `CAP_SYS_NICE` and what is not raised do not count.
fn what_admission_leaves_alone() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    tune("lc_admission", 1)?;
    let children: Vec<_> = (0..4).map(|_| sleeper()).collect::<Result<_>>()?;
    let process = |index: usize| Target::Process(children[index].pid());
    lab.zernel.set_class(&process(0), level(0))?;
    for index in [1, 2] {
        in_child(|| {
            sys::become_user_with(BOB, GROUP, NICE)?;
            Zernel::open()?.set_class(&process(index), level(0))?;
            Ok(())
        })?;
    }
    as_member(ALICE, &process(3), 0, None)?;
    as_member(ALICE, &process(3), 0, None)?;
    // Replacing what was made with the capability is a raise like any other.
    as_member(ALICE, &process(1), 0, Some(Errno::DQUOT))?;
    as_member(ALICE, &process(1), 6, None)
}

/// A user with as many TSGs as it may give classes to.
fn assignments_of_a_user() -> Outcome {
    common::unload_soon("zernel_sim")?;
    let user_contexts = MOST + 1;
    common::load(
        "zernel_sim",
        &format!("gpus={GPUS} max_tsgs=2048 user_contexts={user_contexts}"),
    )?;
    let child = Child::spawn(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let lab = Lab::open()?;
        let mut contexts = Vec::new();
        for index in 0..MOST {
            let spec = ContextSpec {
                gpu: u32::try_from(index % GPUS)?,
                ..ContextSpec::compute("many")
            };
            contexts.push(lab.sim.create_context(&spec)?);
        }
        for tsg in lab.zernel.tsgs() {
            lab.zernel.set_class(&Target::Tsg(tsg?.id), level(7))?;
        }
        full_quota(&lab)?;
        one_too_many(&lab)?;
        // Another one of its own does not count twice, and the end of a target makes room.
        let newest = lab.zernel.tsgs().last().context("no TSG")??;
        lab.zernel.set_class(&Target::Tsg(newest.id), level(7))?;
        drop(contexts.pop());
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        let answer = errno(lab.zernel.set_class(&Target::CurrentThread, level(7)));
        check_eq!(answer, Some(Errno::DQUOT));
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

/// The caller has its share of each GPU. What it makes beyond that is not zernel's, and not its own
/// to change either.
fn one_too_many(lab: &Lab) -> Outcome {
    let before = lab.stats()?;
    let context = lab.sim.create_context(&ContextSpec::compute("many"))?;
    check_eq!(lab.stats()?.tsgs, before.tsgs, "TSGs that zernel took");
    check_eq!(errno(context.set_timeslice(9_000)), Some(Errno::PERM));
    check_eq!(context.stats()?.slice_changes, 0);
    check_eq!(lab.stats()?.controls_denied, before.controls_denied + 1);
    Ok(())
}

/// The caller has as many assignments as it may have, but none for itself.
fn full_quota(lab: &Lab) -> Outcome {
    check_eq!(lab.stats()?.classes as usize, MOST);
    let before = lab.stats()?;
    for target in [Target::CurrentThread, Target::CurrentProcess] {
        let answer = errno(lab.zernel.set_class(&target, level(7)));
        check_eq!(answer, Some(Errno::DQUOT), "{target:?}");
    }
    // A lack of permission is told first.
    let answer = errno(lab.zernel.set_class(&Target::CurrentProcess, level(0)));
    check_eq!(answer, Some(Errno::PERM));
    check_eq!(lab.stats()?.denied, before.denied + 3);
    check_eq!(lab.stats()?.classes, before.classes);
    Ok(())
}
