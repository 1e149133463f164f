// SPDX-License-Identifier: GPL-2.0
//! The most threads that can be tracked, of a user and in all, and the most cgroups.

use anyhow::{bail, Result};
use libzernel::{Target, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::{setrlimit, Resource, Rlimit};

use super::threads::Crowd;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, load, unload_all, wait_until_within, SOON};
use crate::group::Group;
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Tracked threads of a user who is not root, and of all.
const OF_A_USER: usize = 32_768;
const IN_ALL: usize = 131_072;

/// Tracked cgroups.
const CGROUPS: usize = 4_096;
/// The same on a debug kernel, which takes too long for as many as there can be.
const FEW_CGROUPS: usize = 64;

/// The rest of a user's quota with a tracked process of twice as many threads.
const ROOM: usize = 100;

/// Threads that are made when there is no room for them any more.
const LATER: usize = 5;

/// Makes the caller a user, who may make as many threads as there can be.
pub(super) fn become_somebody(uid: u32) -> Result<()> {
    let limit = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Nproc, limit)?;
    Ok(sys::become_user(uid, uid, &[])?)
}

/// A user tracks something, and is told what is expected.
fn track_as(uid: u32, target: &Target, expected: Result<usize, Errno>) -> Outcome {
    in_child(|| {
        become_somebody(uid)?;
        let result = Zernel::open()?.track(target, Tracking::PLAIN);
        let result = match result {
            Ok(threads) => Ok(threads as usize),
            Err(error) => Err(error.errno().unwrap_or(Errno::IO)),
        };
        check_eq!(result, expected, "user {uid}, {target:?}");
        Ok(())
    })
}

/// A user tracks something as soon as there is room for it.
fn track_soon_as(uid: u32, target: &Target) -> Outcome {
    in_child(|| {
        become_somebody(uid)?;
        let zernel = Zernel::open()?;
        wait_until_within(SOON, "there is room", || {
            match errno(zernel.track(target, Tracking::PLAIN)) {
                None => Ok(true),
                Some(Errno::DQUOT) => Ok(false),
                Some(errno) => bail!("track {target:?}: {errno}"),
            }
        })
    })
}

fn tracked(zernel: &Zernel) -> Result<usize> {
    Ok(usize::try_from(zernel.stats()?.threads)?)
}

/// A followed process makes threads that there is no room for: they are counted as missed.
fn make_missed(zernel: &Zernel, crowd: &mut Crowd) -> Outcome {
    let (before, threads) = (zernel.stats()?, crowd.threads()?);
    for _ in 0..LATER {
        crowd.make_one()?;
    }
    wait_until_within(SOON, "they are missed", || {
        Ok(zernel.stats()?.threads_missed >= before.threads_missed + LATER as u64)
    })?;
    check_eq!(crowd.threads()?, threads + LATER, "threads");
    let after = zernel.stats()?;
    check_eq!(after.threads_missed, before.threads_missed + LATER as u64);
    check_eq!(after.threads, before.threads);
    Ok(())
}

/// No module is loaded. Crowds of alice's are tracked beside root's, and more until there is no
/// room.
pub(super) fn of_threads(crowds: Vec<Crowd>) -> Outcome {
    load("zernel", "")?;
    let zernel = Zernel::open()?;
    for crowd in &crowds {
        zernel.track(&crowd.target(), Tracking::PLAIN)?;
    }
    let alices = crowds.iter().filter(|crowd| crowd.uid == ALICE);
    let held = alices.map(|crowd| crowd.size).sum::<usize>();
    let mut most = Crowd::new(ALICE, OF_A_USER - held - ROOM)?;
    let mut rest = Crowd::new(ALICE, ROOM)?;
    let mut over = Crowd::new(ALICE, 2 * ROOM)?;
    for crowd in [&most, &rest, &over] {
        crowd.wait_there()?;
    }
    track_as(ALICE, &most.target(), Ok(most.size))?;
    let before = tracked(&zernel)?;

    // It goes over, and changes nothing, by whomever it is tracked.
    for uid in [ALICE, 0] {
        track_as(uid, &over.target(), Err(Errno::DQUOT))?;
        check_eq!(tracked(&zernel)?, before);
    }
    // Those of its threads that had a record have one until they return to user space.
    over.wake()?;
    track_soon_as(ALICE, &rest.target())?;
    check_eq!(tracked(&zernel)?, before + ROOM);
    let one = Target::Thread(over.child.pid());
    track_as(ALICE, &one, Err(Errno::DQUOT))?;
    make_missed(&zernel, &mut rest)?;
    println!("    # {} threads of a user", held + most.size + rest.size);

    // Others are not bound by that.
    let bobs = Child::idle(|| become_somebody(BOB))?;
    track_as(BOB, &Target::Process(bobs.pid()), Ok(1))?;
    in_all(&zernel, bobs)?;

    // A thread that is tracked no more makes room.
    in_child(|| {
        become_somebody(ALICE)?;
        Zernel::open()?.untrack(&most.target())?;
        Ok(())
    })?;
    most.wake()?;
    track_soon_as(ALICE, &over.target())?;
    drop((crowds, most, rest, over));
    wait_until_within(10 * SOON, "no thread is tracked", || {
        Ok(tracked(&zernel)? == 0)
    })?;
    drop(zernel);
    // No record is left.
    unload_all()
}

/// There is no room for anybody. One of bob's threads is tracked.
fn in_all(zernel: &Zernel, bobs: Child) -> Outcome {
    let mut crowd = Crowd::new(0, IN_ALL - tracked(zernel)?)?;
    crowd.wait_there()?;
    track_as(0, &crowd.target(), Ok(crowd.size))?;
    check_eq!(tracked(zernel)?, IN_ALL);
    let others = [
        Child::idle(|| become_somebody(BOB))?,
        Child::idle(|| Ok(()))?,
    ];
    for (uid, other) in [BOB, 0].into_iter().zip(&others) {
        let target = Target::Process(other.pid());
        track_as(uid, &target, Err(Errno::NOSPC))?;
        check_eq!(tracked(zernel)?, IN_ALL);
    }
    make_missed(zernel, &mut crowd)?;
    println!("    # {IN_ALL} threads in all");
    // The one that ends makes room for one.
    drop(bobs);
    let target = Target::Process(others[0].pid());
    wait_until_within(SOON, "there is room", || {
        Ok(errno(zernel.track(&target, Tracking::PLAIN)).is_none())
    })?;
    check_eq!(tracked(zernel)?, IN_ALL);
    Ok(())
}

pub(super) fn of_cgroups() -> Outcome {
    let debug = std::path::Path::new("/proc/lockdep").exists();
    let most = if debug { FEW_CGROUPS } else { CGROUPS };
    load("zernel", "")?;
    let zernel = Zernel::open()?;
    let parent = Group::new("many")?;
    let mut groups = Vec::new();
    for number in 0..most {
        let group = parent.below(&number.to_string())?;
        zernel.track(&group.target()?, Tracking::PLAIN)?;
        groups.push(group);
    }
    check_eq!(zernel.cgroups().count(), most, "cgroups");
    if !debug {
        let one_more = parent.below("more")?;
        let target = one_more.target()?;
        let track = || errno(zernel.track(&target, Tracking::PLAIN));
        check_eq!(track(), Some(Errno::NOSPC));
        check_eq!(zernel.cgroups().count(), most, "cgroups");
        // One that is tracked can be tracked again.
        zernel.track(&groups[0].target()?, Tracking::ML)?;
        zernel.untrack(&groups[1].target()?)?;
        check_eq!(track(), None);
        zernel.untrack(&target)?;
    }
    // Those that are removed are not tracked any more.
    drop(groups);
    wait_until_within(SOON, "no cgroup is tracked", || {
        Ok(zernel.cgroups().count() == 0)
    })?;
    drop(zernel);
    unload_all()
}
