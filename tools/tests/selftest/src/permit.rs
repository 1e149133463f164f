// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permission to set, clear and ask for classes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::class::{Attributes, Set};
use libzernel::sim::{ContextSpec, Sim};
use libzernel::{Source, Target, Weight, Zernel};
use rustix::io::Errno;
use testkit::passing;

use crate::cgroup::wait_moved;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, in_force, level, told_slice_of, tune, wait_until, Lab};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite};
use crate::list::PERFMON;
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "permit",
    &[
        case("root", || matrix(May::Manage, 0, &[], None)),
        case("owner", || matrix(May::Own, ALICE, &[], None)),
        case("stranger", || matrix(May::Nothing, BOB, &[], None)),
        case("member", || matrix(May::Manage, BOB, &[GROUP], None)),
        case("cap_sys_nice", || matrix(May::Manage, BOB, &[], Some(NICE))),
        case("cap_perfmon", || matrix(May::See, BOB, &[], Some(PERFMON))),
        case("no_escape_from_a_later_class", no_escape_from_a_later_class),
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

/// The rights of the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// Those of a privileged caller, or of a member of the group `lc_gid`.
    Manage,
    /// Those of the user that the targets belong to.
    Own,
    /// To see all there is.
    See,
    Nothing,
}

/// The request of the caller.
#[derive(Debug, Clone, Copy)]
enum Request {
    /// Sets one attribute.
    Set(Attributes),
    Clear,
    Get,
}

fn requests() -> Vec<Request> {
    let levels = (0..8).map(|number| level(number).into());
    let weights = [5, 2000].into_iter().filter_map(Weight::new);
    let slices = [60, 4_000_000].map(|us| Attributes::default().timeslice_us(us));
    let sets = levels.chain(weights.map(Into::into)).chain(slices);
    let others = [Request::Clear, Request::Get];
    sets.map(Request::Set).chain(others).collect()
}

/// The header's rule: a level ranks as its number, none as 6.
fn expected(
    may: May,
    target: &Target,
    is_alices: bool,
    given: Option<u8>,
    request: Request,
) -> Option<Errno> {
    let changes = may == May::Manage || (may == May::Own && is_alices);
    match (request, target) {
        (_, Target::Tsg(_)) if !changes && may != May::See => Some(Errno::NOENT),
        _ if !changes && may != May::See => Some(Errno::PERM),
        (Request::Get, _) => None,
        _ if !changes => Some(Errno::PERM),
        (Request::Clear, _) if given.is_none() => Some(Errno::NODATA),
        _ if may == May::Manage => None,
        // Root gave it, so that only privilege takes it away.
        (Request::Clear, _) => Some(Errno::PERM),
        (Request::Set(class), _) => {
            let rank = given.unwrap_or(6);
            // Without a class a slice is never more than the driver's own.
            let most = given.map_or(u32::MAX, told_slice_of);
            let raises = class.level.is_some_and(|level| level.number() < rank)
                || class.weight > Some(Weight::DEFAULT)
                || class.timeslice_us > Some(most);
            raises.then_some(Errno::PERM)
        }
    }
}

/// Makes every request of every kind of target, in a process of this user.
fn matrix(may: May, uid: u32, groups: &[u32], capability: Option<u32>) -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let owner = owner_process(ALICE)?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??;
    check_eq!(tsg.uid, ALICE);
    let (delegated, foreign) = (Group::new("delegated")?, Group::new("foreign")?);
    delegated.delegate(ALICE)?;
    let targets = [
        ("TSG", Target::Tsg(tsg.id), true),
        ("thread", Target::Thread(owner.pid()), true),
        ("process", Target::Process(owner.pid()), true),
        ("pidfd", Target::pidfd(owner.pid())?, true),
        ("delegated cgroup", delegated.target()?, true),
        ("root's cgroup", foreign.target()?, false),
    ];
    let requests = requests();
    let (ours, theirs) = passing::pair()?;
    let _child = Child::spawn(|| {
        match capability {
            Some(capability) => sys::become_user_with(uid, uid, capability)?,
            None => sys::become_user(uid, uid, groups)?,
        }
        let zernel = Zernel::open()?;
        loop {
            let number = passing::receive_number(&theirs)? as usize;
            let target = &targets[number / requests.len()].1;
            let answer = match requests[number % requests.len()] {
                Request::Set(class) => errno(zernel.set_class(target, class)),
                Request::Clear => errno(zernel.clear_class(target)),
                Request::Get => errno(zernel.class(target)),
            };
            let errno = answer.map_or(0, |errno| errno.raw_os_error() as u64);
            passing::send_number(&theirs, errno)?;
        }
    })?;
    drop(theirs);
    for (index, (name, target, is_alices)) in targets.iter().enumerate() {
        for given in [None, Some(3), Some(6), Some(7)] {
            for (number, &request) in requests.iter().enumerate() {
                if let Some(given) = given {
                    lab.zernel.set_class(target, level(given))?;
                }
                let want = expected(may, target, *is_alices, given, request);
                let (before, denied) = (lab.zernel.class(target)?, lab.stats()?.denied);
                passing::send_number(&ours, (index * requests.len() + number) as u64)?;
                let answer = passing::receive_number(&ours)?;
                let what = format!("{request:?} of the {name} with {given:?}");
                let errno = want.map_or(0, |errno| errno.raw_os_error() as u64);
                check_eq!(answer, errno, "{what}");
                let class = lab.zernel.class(target)?;
                match (request, want) {
                    (Request::Set(sets), None) => {
                        let mut own = sets;
                        own.level = own.level.or(before.own.level);
                        check_eq!(class.own, own, "{what}");
                        // The allowance of a manager stays when the owner takes less.
                        let new = (may == May::Manage).then(|| sets.names());
                        let privileged = before.privileged | new.unwrap_or_default();
                        check_eq!(class.privileged, privileged, "{what}");
                    }
                    (Request::Clear, None) => check_eq!(class.own, Attributes::default()),
                    _ => check_eq!(class, before, "{what}"),
                }
                let refused = u64::from(want == Some(Errno::PERM));
                check_eq!(lab.stats()?.denied, denied + refused, "{what}");
                // There may be nothing to clear.
                let _ = lab.zernel.clear_class(target);
            }
        }
    }
    Ok(())
}

fn no_escape_from_a_later_class() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("later")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    wait_moved(&root, tsg, group.id()?, None)?;
    let pid = owner.pid();
    let own = [Target::Tsg(tsg), Target::Thread(pid), Target::Process(pid)];
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for target in &own {
            zernel.set_class(target, level(6))?;
            check_eq!(zernel.class(target)?.privileged, Set::NONE);
        }
        Ok(())
    })?;
    // Level 6 is the rank of no class at all: it does not lower, so it does nothing.
    check_eq!(root.tsg(tsg)?.level, None);
    root.zernel.set_class(&group.target()?, level(7))?;
    for target in &own {
        let class = root.zernel.class(target)?;
        check_eq!(class.own.level, Some(level(6)));
        check_eq!(in_force(&class), (Some(7), Source::Cgroup), "{target:?}");
    }
    // A more urgent class from above does not raise a thread that was lowered: its process does,
    // and what says the same above it lowers nothing more.
    root.zernel.set_class(&group.target()?, level(1))?;
    check_eq!(root.listed(tsg)?, (Some(6), Source::Process));
    Ok(())
}

/// A member raises itself, by its own or a further group.
fn membership() -> Outcome {
    for (lc_gid, gid, groups, may) in [
        ("none", GROUP, &[GROUP][..], false),
        ("2000", ALICE, &[], false),
        ("2000", GROUP, &[], true),
        ("2000", ALICE, &[7, GROUP, 9], true),
        ("2000", ALICE, &[GROUP - 1, GROUP + 1], false),
        ("2001", ALICE, &[GROUP], false),
        ("none", ALICE, &[GROUP, u32::MAX - 1], false),
    ] {
        tune("lc_gid", lc_gid)?;
        in_child(|| {
            sys::become_user(ALICE, gid, groups)?;
            let answer = errno(Zernel::open()?.set_class(&Target::CurrentProcess, level(0)));
            let want = (!may).then_some(Errno::PERM);
            check_eq!(answer, want, "{gid} and {groups:?} with {lc_gid}");
            Ok(())
        })?;
    }
    Ok(())
}

/// The rule of `sched_setscheduler(2)`: the caller's effective user is the target's real or
/// effective one.
fn real_and_effective_users() -> Outcome {
    for (target, caller, allowed) in [
        ([ALICE, ALICE, ALICE], [ALICE, ALICE, ALICE], true),
        ([ALICE, BOB, BOB], [BOB, BOB, BOB], true),
        ([ALICE, BOB, BOB], [ALICE, ALICE, ALICE], true),
        ([ALICE, ALICE, BOB], [BOB, BOB, BOB], false),
        ([ALICE, ALICE, ALICE], [ALICE, BOB, ALICE], false),
        ([ALICE, ALICE, ALICE], [BOB, ALICE, BOB], true),
        ([ALICE, ALICE, ALICE], [BOB, BOB, ALICE], false),
    ] {
        let become_it = |[real, effective, saved]: [u32; 3]| -> Result<()> {
            Ok(sys::set_users(real, effective, saved)?)
        };
        let process = Child::idle(|| become_it(target))?;
        in_child(|| {
            become_it(caller)?;
            let zernel = Zernel::open()?;
            let want = (!allowed).then_some(Errno::PERM);
            for named in [
                Target::Process(process.pid()),
                Target::Thread(process.pid()),
            ] {
                let get = errno(zernel.class(&named));
                let set = errno(zernel.set_class(&named, level(7)));
                check_eq!([get, set], [want; 2], "{caller:?} asks for {target:?}");
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
        let zernel = Zernel::open()?;
        check_eq!(zernel.tsgs().count(), 0);
        for (target, number, want) in [
            (Target::CurrentProcess, 0, Some(Errno::PERM)),
            (Target::Process(owner.pid()), 7, Some(Errno::PERM)),
            (Target::Tsg(tsg.id), 7, Some(Errno::NOENT)),
            (Target::CurrentProcess, 7, None),
        ] {
            let answer = errno(zernel.set_class(&target, level(number)));
            check_eq!(answer, want, "{target:?}");
        }
        Ok(())
    })
}
