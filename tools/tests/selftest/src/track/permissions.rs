// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permission to track, the visibility of cgroups and the quota of a user. The suite `phase` tells who
//! sees threads and processes.

use anyhow::Result;
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;

use super::cgroups::sums;
use super::{threads_of, wait_count, wait_recorded};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tune};
use crate::group::{Group, ROOT};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{ALICE, BOB, GROUP, NICE};
use crate::sys;

/// A caller: its user, its further groups, and the only capability that it has.
type Who = (u32, &'static [u32], Option<u32>);

const ALICES: Who = (ALICE, &[], None);
const BOBS: Who = (BOB, &[], None);
const MEMBER: Who = (BOB, &[GROUP], None);
const NICES: Who = (BOB, &[], Some(NICE));
const WATCHER: Who = (1002, &[], Some(PERFMON));

const PLAIN: Option<Tracking> = Some(Tracking::PLAIN);
const ML: Option<Tracking> = Some(Tracking::ML);
const OFF: Option<Tracking> = None;
const REFUSED: Result<u32, Errno> = Err(Errno::PERM);

fn become_it((uid, groups, capability): Who) -> Outcome {
    match capability {
        Some(capability) => sys::become_user_with(uid, uid, capability)?,
        None => sys::become_user(uid, uid, groups)?,
    }
    Ok(())
}

/// Runs `run` as somebody.
fn by(who: Who, run: impl FnOnce(&Zernel) -> Outcome) -> Outcome {
    in_child(|| {
        become_it(who)?;
        run(&Zernel::open()?)
    })
}

/// A process of somebody in a cgroup.
fn of(who: Who, group: &Group) -> Result<Child> {
    let child = Child::idle(|| become_it(who))?;
    group.enter(child.pid())?;
    Ok(child)
}

/// Somebody tracks something, in a way or no more, and is told so many threads, or why not.
fn asks(who: Who, target: &Target, how: Option<Tracking>, expected: Result<u32, Errno>) -> Outcome {
    by(who, |zernel| {
        let answer = match how {
            Some(how) => zernel.track(target, how),
            None => zernel.untrack(target),
        };
        let answer = answer.map_err(|error| error.errno().unwrap_or(Errno::IO));
        check_eq!(answer, expected, "{how:?} {target:?}");
        Ok(())
    })
}

/// The owner of a process or of a cgroup, somebody with the capability, and a member of the group may;
/// an owner does not end what privilege has begun, nor take it over by beginning again.
pub(super) fn who_may() -> Outcome {
    let zernel = Zernel::open()?;
    tune("lc_gid", GROUP)?;
    let group = Group::new("owned")?;
    group.delegate(ALICE)?;
    let child = of(ALICES, &group)?;
    for (target, everybody) in [
        (Target::Process(child.pid()), Target::Process(1)),
        (group.target()?, Target::cgroup(ROOT)?),
    ] {
        let denied = zernel.stats()?.denied;
        asks(BOBS, &target, OFF, REFUSED)?;
        for target in [&target, &everybody] {
            asks(BOBS, target, PLAIN, REFUSED)?;
        }
        let stats = zernel.stats()?;
        check_eq!((stats.denied, stats.threads), (denied + 3, 0));
        let begins = |who, privileged: bool| -> Outcome {
            asks(who, &target, PLAIN, Ok(1))?;
            let threads = threads_of(&zernel, child.pid())?;
            let found: Vec<_> = threads.iter().map(|thread| thread.privileged).collect();
            check_eq!(found, [privileged], "{target:?}");
            Ok(())
        };
        begins(ALICES, false)?;
        asks(ALICES, &target, OFF, Ok(0))?;
        for who in [NICES, MEMBER] {
            begins(who, true)?;
            asks(ALICES, &target, OFF, REFUSED)?;
            begins(ALICES, true)?;
            asks(ALICES, &target, OFF, REFUSED)?;
            asks(who, &target, OFF, Ok(0))?;
        }
        begins(ALICES, false)?;
        asks(MEMBER, &target, OFF, Ok(0))?;
    }
    Ok(())
}

/// The owner of a cgroup has its own processes tracked, privilege those of all.
pub(super) fn of_cgroups() -> Outcome {
    let zernel = Zernel::open()?;
    tune("lc_gid", GROUP)?;
    let group = Group::new("owned")?;
    group.delegate(ALICE)?;
    let (alices, bobs) = (of(ALICES, &group)?, of(BOBS, &group)?);
    let target = group.target()?;
    let sees = |who, count| {
        by(who, |zernel| {
            check_eq!(zernel.cgroups().count(), count, "{who:?} sees");
            Ok(())
        })
    };
    asks(ALICES, &target, PLAIN, Ok(1))?;
    sees(ALICES, 1)?;
    wait_recorded(&zernel, alices.pid(), 1)?;
    check_eq!(threads_of(&zernel, bobs.pid())?, [], "not alice's to track");
    check_eq!(sums(&zernel, &group)?.privileged, false);
    // One of bob's that comes later is none of hers, either; one of hers is.
    let _more = [of(BOBS, &group)?, of(ALICES, &group)?];
    wait_count(&zernel, 2)?;
    sees(BOBS, 0)?;
    // Privilege has all of them, and is needed to end that.
    asks(MEMBER, &target, PLAIN, Ok(4))?;
    wait_count(&zernel, 4)?;
    check_eq!(sums(&zernel, &group)?.privileged, true);
    // Neither the tracker nor the owner of the directory sees the sum of all.
    sees(MEMBER, 0)?;
    sees(ALICES, 0)?;
    sees(WATCHER, 1)?;
    // She does not say what all of them are, nor are they hers when she begins again.
    asks(ALICES, &target, ML, REFUSED)?;
    check_eq!(zernel.phases().count(), 0);
    asks(ALICES, &target, PLAIN, Ok(4))?;
    asks(ALICES, &target, OFF, REFUSED)?;
    asks(NICES, &target, OFF, Ok(0))?;
    check_eq!(zernel.threads().count(), 0);
    Ok(())
}

/// A user has so many tracked cgroups, and no more.
pub(super) fn quota_of_cgroups() -> Outcome {
    const MOST: usize = 64;
    let zernel = Zernel::open()?;
    let parent = Group::new("quota")?;
    let groups = (0..=MOST).map(|number| parent.below(&number.to_string()));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    for group in &groups {
        group.delegate(ALICE)?;
    }
    by(ALICES, |zernel| {
        let track = |number: usize| -> Result<_> {
            let target = groups[number].target()?;
            Ok(errno(zernel.track(&target, Tracking::PLAIN)))
        };
        for number in 0..MOST {
            check_eq!(track(number)?, None);
        }
        check_eq!(track(MOST)?, Some(Errno::DQUOT));
        check_eq!(zernel.cgroups().count(), MOST);
        // One that is tracked can be tracked again.
        check_eq!(track(0)?, None);
        zernel.untrack(&groups[7].target()?)?;
        check_eq!(track(MOST)?, None);
        check_eq!(zernel.cgroups().count(), MOST);
        Ok(())
    })?;
    // Others have theirs.
    zernel.track(&groups[7].target()?, Tracking::PLAIN)?;
    Ok(())
}
