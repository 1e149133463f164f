// SPDX-License-Identifier: GPL-2.0
//! Attributes of a class one by one: time slices of their own, reasons, the list of assignments.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context as _, Result};
use bytemuck::Zeroable;
use libzernel::class::{Assignment, Attributes, Of, Set, Why};
use libzernel::sys::{abi, zernel as calls};
use libzernel::{Level, Source, Target, Zernel};
use rustix::io::Errno;

use super::DRIVER_SLICE;
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{self, default_of, errno, level, slice_of, tid, tune, Lab};
use crate::group::{self, Group};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{owner_process, ALICE, BOB};
use crate::sys;

/// The time slice in force for a target, its source and the reasons.
fn told(lab: &Lab, target: &Target) -> Result<(u32, Source, Why)> {
    let slice = lab.zernel.class(target)?.timeslice_us;
    Ok((slice.value, slice.source, slice.why))
}

fn slice(us: u32) -> Attributes {
    Attributes::default().timeslice_us(us)
}

/// In place of that of its level, from the most specific target that has one, and back.
pub fn a_slice_of_its_own() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("slices")?;
    group.enter(0)?;
    let (context, tsg) = lab.compute()?;
    let (me, of_tsg) = (Target::CurrentProcess, Target::Tsg(tsg.id));
    lab.zernel.set_class(&group.target()?, level(3))?;
    lab.zernel.set_class(&group.target()?, slice(7_000))?;
    lab.wait_slice(&context, 7_000)?;
    // Ten times the slice of its level, and a tenth of it.
    for us in [100_000, 1_000, 333] {
        lab.zernel.set_class(&me, slice(us))?;
        lab.wait_slice(&context, us)?;
        check_eq!(told(&lab, &of_tsg)?, (us, Source::Process, Why::NONE));
        check_eq!(told(&lab, &group.target()?)?.0, 7_000);
    }
    let listed = lab.tsg(tsg.id)?;
    check_eq!(
        (listed.level, listed.source, listed.default_timeslice_us),
        (Some(level(3)), Source::Cgroup, DRIVER_SLICE)
    );
    // A later TSG gets it too; another level has another place in the run list, and nothing else.
    let (later, _) = lab.compute()?;
    lab.wait_slice(&later, 333)?;
    lab.zernel.set_class(&group.target()?, level(0))?;
    common::wait_until(
        "the interleave level",
        || Ok(later.stats()?.interleave == 2),
    )?;
    check_eq!(later.stats()?.timeslice_us, 333);
    lab.zernel.clear_class(&me)?;
    lab.wait_slice(&context, 7_000)?;
    lab.zernel
        .change_class(&group.target()?, Set::TIMESLICE, Attributes::default())?;
    lab.wait_slice(&context, slice_of(0))?;
    group::leave()
}

/// An owner shortens the slice that the driver gave; a manager gives any. All of it is given back.
pub fn a_slice_without_a_class() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let id = root.zernel.tsgs().next().context("no TSG")??.id;
    let target = Target::Tsg(id);
    let has = |us: u32| {
        common::wait_until(&format!("a slice of {us} us"), || {
            let tsg = root.tsg(id)?;
            Ok((tsg.level, tsg.timeslice_us, tsg.pending) == (None, us, false))
        })
    };
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        let set = |us| errno(zernel.set_class(&target, slice(us)));
        check_eq!(
            set(5_000),
            None,
            "longer than the driver's: it takes nothing"
        );
        has(DRIVER_SLICE)?;
        check_eq!(set(400), None);
        check_eq!([set(401), set(10_000_000)], [Some(Errno::PERM); 2]);
        check_eq!(set(300), None);
        check_eq!(errno(zernel.clear_class(&target)), Some(Errno::PERM));
        Ok(())
    })?;
    has(300)?;
    check_eq!(told(&root, &target)?, (300, Source::Tsg, Why::NONE));
    root.zernel.clear_class(&target)?;
    has(DRIVER_SLICE)?;
    drop(owner);
    let (context, tsg) = root.compute()?;
    let target = Target::Tsg(tsg.id);
    root.zernel.set_class(&target, slice(80_000))?;
    root.wait_slice(&context, 80_000)?;
    check_eq!(context.stats()?.interleave, 0);
    root.zernel.clear_class(&target)?;
    root.wait_slice(&context, DRIVER_SLICE)
}

/// Reasons for another slice than its own.
pub fn reasons_of_a_slice() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let (target, me) = (Target::Tsg(tsg.id), Target::CurrentProcess);
    lab.zernel
        .set_class(&target, Attributes::from(Level::BE).timeslice_us(900))?;
    let short = default_of("rotation_timeslice_us");
    lab.wait_slice(&context, short)?;
    check_eq!(told(&lab, &target)?, (short, Source::Tsg, Why::TURNS));
    tune("rotation", "none")?;
    lab.wait_slice(&context, 900)?;
    check_eq!(told(&lab, &target)?, (900, Source::Tsg, Why::NONE));
    tune("max_timeslice_us", 600)?;
    lab.wait_slice(&context, 600)?;
    check_eq!(told(&lab, &target)?, (600, Source::Tsg, Why::CLAMPED));
    tune("enabled", 0)?;
    lab.wait_slice(&context, DRIVER_SLICE)?;
    check_eq!(told(&lab, &target)?, (0, Source::None, Why::DISABLED));
    tune("enabled", 1)?;
    lab.wait_slice(&context, 600)?;
    // On a copy engine nothing of the process counts.
    let (_copy, copy) = lab.context(&libzernel::sim::ContextSpec::copy("copy"))?;
    lab.zernel.set_class(&me, level(3))?;
    let class = lab.zernel.class(&Target::Tsg(copy.id))?;
    check_eq!((class.level.value, class.level.why), (None, Why::ENGINE));
    Ok(())
}

/// Each attribute from the most specific target that has it, and cleared alone.
pub fn one_by_one() -> Outcome {
    let lab = Lab::open()?;
    let (_context, tsg) = lab.compute()?;
    let (me, thread, of_tsg) = (
        Target::CurrentProcess,
        Target::CurrentThread,
        Target::Tsg(tsg.id),
    );
    let weight = |n| crate::turns::weight(n);
    lab.zernel
        .set_class(&me, Attributes::from(level(3)).weight(weight(3000)?))?;
    lab.zernel.set_class(&thread, slice(500))?;
    lab.zernel.set_class(&of_tsg, weight(20)?)?;
    let class = lab.zernel.class(&of_tsg)?;
    check_eq!(
        (class.level.value, class.level.source),
        (Some(level(3)), Source::Process)
    );
    check_eq!(
        (class.weight.value, class.weight.source),
        (weight(20)?, Source::Tsg)
    );
    check_eq!(
        (class.timeslice_us.value, class.timeslice_us.source),
        (500, Source::Thread)
    );
    check_eq!(class.own, Attributes::from(weight(20)?));
    check_eq!(
        class.level.assignment,
        lab.zernel.class(&me)?.assignment,
        "the assignment that decides"
    );
    // Clear and set in one call: all that is left is what was set, as often as it is done.
    for _ in 0..2 {
        lab.zernel.change_class(&me, Set::ALL, weight(4)?)?;
        let class = lab.zernel.class(&me)?;
        check_eq!(class.own, Attributes::from(weight(4)?));
        check_eq!(class.level.value, None);
    }
    let nothing = lab
        .zernel
        .change_class(&me, Set::LEVEL, Attributes::default());
    check_eq!(errno(nothing), Some(Errno::NODATA));
    lab.zernel
        .change_class(&me, Set::WEIGHT, Attributes::default())?;
    check_eq!(lab.zernel.class(&me)?.assignment, None);
    Ok(())
}

/// The assignments that a user sees, by id.
fn seen(zernel: &Zernel) -> Result<Vec<u64>> {
    let ids: Result<Vec<_>, _> = zernel.classes().map(|one| one.map(|one| one.id)).collect();
    Ok(ids?)
}

pub fn assignments_are_listed() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let (delegated, foreign) = (Group::new("seen")?, Group::new("unseen")?);
    delegated.delegate(ALICE)?;
    let targets = [
        (
            Target::Process(owner.pid()),
            Of::Process(owner.pid().into()),
        ),
        (Target::Thread(owner.pid()), Of::Thread(owner.pid().into())),
        (Target::Tsg(tsg), Of::Tsg(tsg.as_u64())),
        (delegated.target()?, Of::Cgroup(delegated.id()?)),
        (foreign.target()?, Of::Cgroup(foreign.id()?)),
        (Target::CurrentThread, Of::Thread(tid().into())),
    ];
    for (number, (target, _)) in targets.iter().enumerate() {
        root.zernel.set_class(target, level(number as u8))?;
    }
    let listed: Vec<Assignment> = root.zernel.classes().collect::<Result<_, _>>()?;
    check_eq!(listed.len(), targets.len());
    check_eq!(listed.is_sorted_by_key(|one| one.id), true);
    for (number, (one, (target, of))) in listed.iter().zip(&targets).enumerate() {
        check_eq!(
            (one.target, one.own, one.privileged, one.uid),
            (*of, level(number as u8).into(), Set::LEVEL, 0)
        );
        check_eq!(one.tsgs, u32::from(*of == Of::Tsg(tsg.as_u64())), "{of:?}");
        let alone = root.zernel.class_of(target)?;
        check_eq!(alone.map(|alone| alone.id), Some(one.id), "{of:?}");
    }
    let all = seen(&root.zernel)?;
    let (alices, nobodys) = (all[..4].to_vec(), Vec::new());
    for (uid, caps, want) in [
        (ALICE, 0, &alices),
        (BOB, 0, &nobodys),
        (BOB, PERFMON, &all),
    ] {
        in_child(|| {
            sys::become_user_with(uid, uid, caps)?;
            check_eq!(&seen(&Zernel::open()?)?, want, "user {uid} with {caps:#x}");
            Ok(())
        })?;
    }
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        // The user that changed it last sees it, and the owner.
        let class = zernel.class(&targets[0].0)?;
        check_eq!(class.level.assignment, Some(all[0]));
        zernel.set_class(&targets[3].0, level(7))?;
        let one = zernel.class_of(&targets[3].0)?.context("not listed")?;
        check_eq!((one.id, one.uid), (all[3], ALICE));
        Ok(())
    })?;
    // More than a part of the list: each once, in the order of their ids.
    let contexts: Vec<_> = (0..150).map(|_| root.compute()).collect::<Result<_>>()?;
    for (_, tsg) in &contexts {
        root.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    }
    let many = seen(&root.zernel)?;
    check_eq!(many.len(), 156);
    check_eq!(many.is_sorted(), true);
    drop(contexts);
    common::wait_until("theirs are gone", || Ok(seen(&root.zernel)? == all))?;
    drop(owner);
    common::wait_until("those of the process are gone", || {
        Ok(seen(&root.zernel)? == all[3..])
    })
}

/// Calls that are not taken, each with its errno.
pub fn what_is_refused() -> Outcome {
    let lab = Lab::open()?;
    let good = abi::zernel_class_set {
        target: Target::CurrentProcess.raw(),
        set: abi::ZERNEL_CLASS_LEVEL,
        level: 3,
        ..Zeroable::zeroed()
    };
    let (none, all) = (
        abi::zernel_class_set {
            set: 0,
            level: 0,
            ..good
        },
        u32::MAX,
    );
    let (weight, slice) = (abi::ZERNEL_CLASS_WEIGHT, abi::ZERNEL_CLASS_TIMESLICE);
    let with = |set: u32, change: fn(&mut abi::zernel_class_set, u32), value: u32| {
        let mut call = abi::zernel_class_set { set, ..none };
        change(&mut call, value);
        call
    };
    let (level, weigh, us) = (
        (|call, v| call.level = v) as fn(&mut abi::zernel_class_set, u32),
        (|call, v| call.weight = v) as fn(&mut abi::zernel_class_set, u32),
        (|call, v| call.timeslice_us = v) as fn(&mut abi::zernel_class_set, u32),
    );
    let (preempt, deadline) = (abi::ZERNEL_CLASS_PREEMPTIBLE, abi::ZERNEL_CLASS_DEADLINE);
    let mut refused = vec![
        (Errno::NODATA, none),
        (Errno::NODATA, abi::zernel_class_set { clear: all, ..none }),
        (Errno::INVAL, abi::zernel_class_set { set: all, ..good }),
        (
            Errno::INVAL,
            abi::zernel_class_set {
                clear: all - 1,
                ..good
            },
        ),
        (Errno::INVAL, abi::zernel_class_set { weight: 7, ..good }),
        (
            Errno::INVAL,
            abi::zernel_class_set {
                preemptible: 1,
                ..good
            },
        ),
        (
            Errno::INVAL,
            abi::zernel_class_set {
                deadline_ns: 1,
                ..good
            },
        ),
        (
            Errno::INVAL,
            abi::zernel_class_set {
                set: preempt,
                preemptible: 2,
                ..none
            },
        ),
        (
            Errno::OPNOTSUPP,
            abi::zernel_class_set {
                clear: preempt,
                ..good
            },
        ),
        (
            Errno::OPNOTSUPP,
            abi::zernel_class_set {
                clear: deadline,
                ..good
            },
        ),
    ];
    let supported = |set| abi::zernel_class_set { set, ..none };
    refused.push((Errno::OPNOTSUPP, supported(preempt)));
    refused.push((Errno::INVAL, supported(deadline)));
    refused.push((
        Errno::OPNOTSUPP,
        abi::zernel_class_set {
            deadline_ns: 9,
            ..supported(deadline)
        },
    ));
    refused.push((Errno::INVAL, with(0, us, 500)));
    for bit in 5..32 {
        refused.push((Errno::INVAL, supported(1 << bit)));
        refused.push((
            Errno::INVAL,
            abi::zernel_class_set {
                clear: 1 << bit,
                ..good
            },
        ));
    }
    for value in [8, 256, u32::MAX] {
        refused.push((Errno::INVAL, with(abi::ZERNEL_CLASS_LEVEL, level, value)));
    }
    for value in [0, 10_001, u32::MAX] {
        refused.push((Errno::INVAL, with(weight, weigh, value)));
    }
    for value in [0, 9, 10_000_001, u32::MAX] {
        refused.push((Errno::INVAL, with(slice, us, value)));
    }
    let mut target = |kind, flags, id, errno| {
        let target = abi::zernel_target { kind, flags, id };
        refused.push((errno, abi::zernel_class_set { target, ..good }));
    };
    for kind in [
        abi::ZERNEL_TARGET_NONE,
        abi::ZERNEL_TARGET_GPU,
        abi::ZERNEL_TARGET_LEVEL,
        7,
    ] {
        target(kind, 0, 0, Errno::INVAL);
    }
    for flags in [3, 4, u32::MAX] {
        target(abi::ZERNEL_TARGET_PROCESS, flags, 0, Errno::INVAL);
    }
    let own = abi::ZERNEL_TARGET_SELF;
    target(abi::ZERNEL_TARGET_PROCESS, own, 1, Errno::INVAL);
    target(abi::ZERNEL_TARGET_TSG, own, 0, Errno::INVAL);
    target(abi::ZERNEL_TARGET_CGROUP, 0, 1, Errno::INVAL);
    target(abi::ZERNEL_TARGET_PROCESS, 0, 0, Errno::SRCH);
    target(abi::ZERNEL_TARGET_THREAD, 0, 0, Errno::SRCH);
    let fd = abi::ZERNEL_TARGET_FD;
    for id in [4000, 0x7fff_ffff, 0xffff_ffff, u64::MAX] {
        target(abi::ZERNEL_TARGET_CGROUP, fd, id, Errno::BADF);
        target(abi::ZERNEL_TARGET_PROCESS, fd, id, Errno::BADF);
    }
    // A pidfd of the other kind.
    let pidfd = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )?;
    target(
        abi::ZERNEL_TARGET_THREAD,
        fd,
        pidfd.as_raw_fd() as u64,
        Errno::BADF,
    );
    unchanged(&lab.zernel, || {
        for (number, (want, call)) in refused.iter().enumerate() {
            let mut raw = *call;
            let answer = calls::class_set(lab.zernel.as_fd(), &mut raw);
            check_eq!(answer, Err(*want), "call {number}");
            let mut get = abi::zernel_class_get {
                target: call.target,
                ..Zeroable::zeroed()
            };
            let is_own =
                call.target.kind == good.target.kind && call.target.flags == good.target.flags;
            if !(is_own && call.target.id == good.target.id) {
                let answer = calls::class_get(lab.zernel.as_fd(), &mut get);
                check_eq!(answer, Err(*want), "the target of call {number}");
            }
        }
        Ok(())
    })
}
