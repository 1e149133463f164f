// SPDX-License-Identifier: GPL-2.0
//! Permission to set, clear and ask for classes.

mod matrix;

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::class::Set;
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{Source, Target, Zernel};
use rustix::io::Errno;

use crate::cgroup::wait_moved;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, level, tune, wait_until, Lab};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;
use matrix::{matrix, Actor};

/// The suite.
pub const SUITE: Suite = suite(
    "permit",
    &[
        case("root", || matrix(Actor::Root)),
        case("owner", || matrix(Actor::Owner)),
        case("stranger", || matrix(Actor::Stranger)),
        case("member", || matrix(Actor::Member)),
        case("cap_sys_nice", || matrix(Actor::Nice)),
        case("cap_perfmon", || matrix(Actor::Perfmon)),
        case("lowering_cannot_be_undone", lowering_cannot_be_undone),
        case("no_escape_from_a_later_class", no_escape_from_a_later_class),
        case(
            "lowering_ends_with_what_it_lowers",
            lowering_ends_with_what_it_lowers,
        ),
        case(
            "privilege_is_not_cleared_away",
            privilege_is_not_cleared_away,
        ),
        case("membership", membership),
        case("real_and_effective_users", real_and_effective_users),
        case("root_of_a_user_namespace", root_of_a_user_namespace),
    ],
);

/// `CAP_SYS_NICE`.
pub const NICE: u32 = 23;
/// The user whose targets the matrix is about.
pub const ALICE: u32 = 1000;
/// Another user.
pub const BOB: u32 = 1001;
/// The group in `lc_gid`.
pub const GROUP: u32 = 2000;

/// A process of a user, with one TSG, that lives until this is dropped.
pub fn owner_process(uid: u32) -> Result<Child> {
    let lab = Lab::open()?;
    let before = lab.stats()?.tsgs;
    let child = Child::spawn(move || {
        sys::become_user(uid, uid, &[])?;
        let sim = Sim::open()?;
        let _context = sim.create_context(&ContextSpec::compute("owner"))?;
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_until("the owner has its TSG", || {
        Ok(lab.stats()?.tsgs == before + 1)
    })?;
    Ok(child)
}

fn lowering_cannot_be_undone() -> Outcome {
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let lab = Lab::open()?;
        let (_context, tsg) = lab.compute()?;
        for target in [
            Target::Tsg(tsg.id),
            Target::CurrentThread,
            Target::CurrentProcess,
        ] {
            for number in [6, 6, 7, 7] {
                lab.zernel.set_class(&target, level(number))?;
                let class = lab.zernel.class(&target)?;
                check_eq!(
                    (class.own.level, class.privileged.contains(Set::LEVEL)),
                    (Some(level(number)), false)
                );
            }
            for number in 0..7 {
                let answer = errno(lab.zernel.set_class(&target, level(number)));
                check_eq!(answer, Some(Errno::PERM), "{target:?} to {number}");
            }
            let answer = errno(lab.zernel.clear_class(&target));
            check_eq!(answer, Some(Errno::PERM), "{target:?} cleared");
        }
        Ok(())
    })
}

fn no_escape_from_a_later_class() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("later")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    wait_moved(&root, tsg, group.id()?, None)?;
    let process = Target::Process(owner.pid());
    let own = [Target::Tsg(tsg), Target::Thread(owner.pid()), process];
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for target in &own {
            zernel.set_class(target, level(6))?;
        }
        Ok(())
    })?;
    // Level 6 is the rank of no class at all: it does not lower, so it does nothing.
    check_eq!(root.tsg(tsg)?.level, None);
    root.zernel.set_class(&group.target()?, level(7))?;
    for target in &own {
        let class = root.zernel.class(target)?;
        check_eq!(
            (class.own.level, class.level.value),
            (Some(level(6)), Some(level(7)))
        );
        check_eq!(class.level.source, Source::Cgroup, "{target:?}");
    }
    let listed = root.tsg(tsg)?;
    check_eq!(
        (listed.level, listed.source),
        (Some(level(7)), Source::Cgroup)
    );
    // A more urgent class from above does not raise a thread that was lowered: its process does,
    // and what says the same above it lowers nothing more.
    root.zernel.set_class(&group.target()?, level(1))?;
    let listed = root.tsg(tsg)?;
    check_eq!(
        (listed.level, listed.source),
        (Some(level(6)), Source::Process)
    );
    Ok(())
}

/// A lowering by a user does not outlive the class that it lowers.
fn lowering_ends_with_what_it_lowers() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let process = Target::Process(owner.pid());
    let thread = Target::Thread(owner.pid());
    root.zernel.set_class(&process, level(0))?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        zernel.set_class(&thread, level(3))?;
        let class = zernel.class(&thread)?;
        check_eq!(
            (class.level.value, class.level.source),
            (Some(level(3)), Source::Thread)
        );
        check_eq!(
            errno(zernel.set_class(&thread, level(2))),
            Some(Errno::PERM)
        );
        Ok(())
    })?;
    check_eq!(root.tsg(tsg)?.level, Some(level(3)));
    root.zernel.clear_class(&process)?;
    let class = root.zernel.class(&thread)?;
    check_eq!((class.own.level, class.level.value), (Some(level(3)), None));
    let listed = root.tsg(tsg)?;
    check_eq!((listed.level, listed.source), (None, Source::None));
    Ok(())
}

/// A class of the owner's own beneath does not help to get rid of an administrator's.
fn privilege_is_not_cleared_away() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let given = Target::Tsg(tsg);
    root.zernel.set_class(&given, level(7))?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        zernel.set_class(&Target::Thread(owner.pid()), level(7))?;
        check_eq!(errno(zernel.clear_class(&given)), Some(Errno::PERM));
        zernel.set_class(&given, level(7))?;
        check_eq!(errno(zernel.clear_class(&given)), Some(Errno::PERM));
        Ok(())
    })?;
    let listed = root.tsg(tsg)?;
    check_eq!((listed.level, listed.source), (Some(level(7)), Source::Tsg));
    Ok(())
}

/// Fails unless a user with this group and these further groups may raise itself, or may not.
fn may_raise(gid: u32, groups: &[u32], may: bool, what: &str) -> Outcome {
    in_child(|| {
        sys::become_user(ALICE, gid, groups)?;
        let answer = errno(Zernel::open()?.set_class(&Target::CurrentProcess, level(0)));
        check_eq!(answer, (!may).then_some(Errno::PERM), "{what}");
        Ok(())
    })
}

fn membership() -> Outcome {
    may_raise(GROUP, &[GROUP], false, "lc_gid none")?;
    tune("lc_gid", GROUP)?;
    may_raise(ALICE, &[], false, "no member")?;
    may_raise(GROUP, &[], true, "by its own group")?;
    may_raise(ALICE, &[7, GROUP, 9], true, "by a further group")?;
    may_raise(ALICE, &[GROUP - 1, GROUP + 1], false, "of neighbours")?;
    tune("lc_gid", GROUP + 1)?;
    may_raise(ALICE, &[GROUP], false, "of the group before")?;
    tune("lc_gid", "none")?;
    may_raise(ALICE, &[GROUP, u32::MAX - 1], false, "lc_gid none again")
}

/// The rule of `sched_setscheduler(2)`: the caller's effective user is the target's real or
/// effective one.
fn real_and_effective_users() -> Outcome {
    for (target, caller, allowed) in [
        ((ALICE, ALICE, ALICE), (ALICE, ALICE, ALICE), true),
        ((ALICE, BOB, BOB), (BOB, BOB, BOB), true),
        ((ALICE, BOB, BOB), (ALICE, ALICE, ALICE), true),
        ((ALICE, ALICE, BOB), (BOB, BOB, BOB), false),
        ((ALICE, ALICE, ALICE), (ALICE, BOB, ALICE), false),
        ((ALICE, ALICE, ALICE), (BOB, ALICE, BOB), true),
        ((ALICE, ALICE, ALICE), (BOB, BOB, ALICE), false),
    ] {
        let process = Child::spawn(|| {
            sys::set_users(target.0, target.1, target.2)?;
            std::thread::sleep(Duration::from_secs(600));
            Ok(())
        })?;
        let uids = format!("Uid:\t{}\t{}\t{}", target.0, target.1, target.2);
        wait_until("the target has its users", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
            Ok(status.contains(&uids))
        })?;
        in_child(|| {
            sys::set_users(caller.0, caller.1, caller.2)?;
            let zernel = Zernel::open()?;
            let want = (!allowed).then_some(Errno::PERM);
            for named in [
                Target::Process(process.pid()),
                Target::Thread(process.pid()),
            ] {
                let answers = [
                    errno(zernel.class(&named)),
                    errno(zernel.set_class(&named, level(7))),
                ];
                check_eq!(
                    answers,
                    [want; 2],
                    "{caller:?} asks for {target:?}, {named:?}"
                );
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Capabilities count in the initial user namespace alone.
fn root_of_a_user_namespace() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let owner = owner_process(BOB)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        sys::unshare(libc::CLONE_NEWUSER)?;
        let lab = Lab::open()?;
        check_eq!(lab.zernel.tsgs().count(), 0);
        let raise = errno(lab.zernel.set_class(&Target::CurrentProcess, level(0)));
        check_eq!(raise, Some(Errno::PERM));
        let other = errno(
            lab.zernel
                .set_class(&Target::Process(owner.pid()), level(7)),
        );
        check_eq!(other, Some(Errno::PERM));
        let unseen = errno(lab.zernel.set_class(&Target::Tsg(tsg.id), level(7)));
        check_eq!(unseen, Some(Errno::NOENT));
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        Ok(())
    })
}
