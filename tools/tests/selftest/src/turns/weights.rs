// SPDX-License-Identifier: GPL-2.0
//! Who may give which weight, and what is told of it.

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of, bytes_of_mut, Zeroable};
use libzernel::sys::abi;
use libzernel::{Level, Source, Target, Zernel};
use rustix::io::Errno;
use std::os::fd::AsFd;

use super::weight;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tune, Lab};
use crate::group::Group;
use crate::harness::Outcome;
use crate::permit::{owner_process, ALICE, BOB, GROUP, NICE};
use crate::sys;

/// Up to the usual weight for one's own; more, and another user's, only with privilege.
pub(super) fn permission() -> Outcome {
    let root = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let targets = [
        Target::Process(owner.pid()),
        Target::Thread(owner.pid()),
        Target::Tsg(tsg),
    ];
    let denied = root.stats()?.denied;
    for target in &targets {
        in_child(|| {
            sys::become_user(ALICE, ALICE, &[])?;
            let zernel = Zernel::open()?;
            let set = |number| {
                Ok(errno(zernel.set_class_with(
                    target,
                    Level::BE,
                    Some(weight(number)?),
                )))
            };
            let set = |number| -> Result<Option<Errno>> { set(number) };
            for number in [1, 1023, 1024, 7] {
                check_eq!(set(number)?, None, "{target:?} to {number}");
                check_eq!(zernel.class(target)?.weight, Some(weight(number)?));
            }
            for number in [1025, 3000, 10_000] {
                check_eq!(set(number)?, Some(Errno::PERM), "{target:?} to {number}");
                check_eq!(zernel.class(target)?.weight, Some(weight(7)?));
            }
            Ok(())
        })?;
    }
    check_eq!(root.stats()?.denied - denied, 9, "calls refused");
    // Others with privilege.
    let target = &targets[0];
    for (become_it, number) in [(0, 10_000), (1, 5_000), (2, 2_000)] {
        in_child(|| {
            match become_it {
                0 => {}
                1 => sys::become_user(BOB, BOB, &[GROUP])?,
                _ => sys::become_user_with(BOB, BOB, NICE)?,
            }
            let zernel = Zernel::open()?;
            let class = zernel.set_class_with(target, Level::BE, Some(weight(number)?))?;
            check_eq!(class.effective_weight, weight(number)?);
            check_eq!(class.privileged, true);
            Ok(())
        })?;
    }
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        let answer = Zernel::open()?.set_class_with(target, Level::BE, Some(weight(1)?));
        check_eq!(errno(answer), Some(Errno::PERM), "a stranger");
        Ok(())
    })?;
    check_eq!(root.zernel.class(target)?.weight, Some(weight(2_000)?));
    Ok(())
}

/// What an administrator gave little has no way to more.
pub(super) fn held_down() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("held-down")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    crate::cgroup::wait_moved(&root, tsg, group.id()?, None)?;
    let (process, thread) = (Target::Process(owner.pid()), Target::Thread(owner.pid()));
    let of_tsg = Target::Tsg(tsg);
    let little = Some(weight(100)?);
    let force = |what: &str| -> Outcome {
        let class = root.zernel.class(&of_tsg)?;
        check_eq!(class.effective, Some(Level::BE), "{what}");
        check_eq!(class.effective_weight, weight(100)?, "{what}");
        Ok(())
    };
    // Of the same target, and of more specific ones, made before and afterwards.
    for given in [&group.target()?, &process] {
        for before in [false, true] {
            let own = || -> Outcome {
                in_child(|| {
                    sys::become_user(ALICE, ALICE, &[])?;
                    let zernel = Zernel::open()?;
                    for target in [&thread, &of_tsg] {
                        zernel.set_class_with(target, Level::BE, Some(weight(1024)?))?;
                    }
                    Ok(())
                })
            };
            if before {
                own()?;
            }
            root.zernel.set_class_with(given, Level::BE, little)?;
            force("given")?;
            own()?;
            force("after the owner's own")?;
            for target in [&thread, &of_tsg] {
                root.zernel.clear_class(target)?;
            }
            root.zernel.clear_class(given)?;
        }
    }
    root.zernel.set_class_with(&process, Level::BE, little)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for number in [101, 1024, 10_000] {
            let answer = zernel.set_class_with(&process, Level::BE, Some(weight(number)?));
            check_eq!(errno(answer), Some(Errno::PERM), "to {number}");
        }
        check_eq!(errno(zernel.clear_class(&process)), Some(Errno::PERM));
        // Without a weight it keeps the one that it has; less is free.
        zernel.set_class(&process, Level::BE)?;
        check_eq!(zernel.class(&process)?.effective_weight, weight(100)?);
        zernel.set_class_with(&process, Level::BE, Some(weight(99)?))?;
        let answer = zernel.set_class_with(&process, Level::BE, Some(weight(1024)?));
        check_eq!(errno(answer), Some(Errno::PERM), "after less");
        Ok(())
    })?;
    let class = root.zernel.class(&of_tsg)?;
    check_eq!(
        (class.effective_weight, class.source, class.weight),
        (weight(99)?, Source::Process, None)
    );
    Ok(())
}

/// A program that knows of no weights neither changes nor sees them.
pub(super) fn older_programs() -> Outcome {
    const FIRST: usize = 32;
    let lab = Lab::open()?;
    let me = Target::current_process();
    lab.zernel
        .set_class_with(&me, Level::LC, Some(weight(77)?))?;
    let request = abi::zernel_v0_class {
        target: abi::ZERNEL_V0_TARGET_PROCESS,
        level: 7,
        ..abi::zernel_v0_class::zeroed()
    };
    let number = abi::LIBZERNEL_V0_IOC_CLASS_SET & !(0x3fff << 16) | (FIRST as u32) << 16;
    let mut bytes = [0xa5; 40];
    bytes[..FIRST].copy_from_slice(&bytes_of(&request)[..FIRST]);
    sys::ioctl_bytes(lab.zernel.as_fd(), number, &mut bytes)?;
    check_eq!(&bytes[FIRST..], [0xa5; 8], "what it does not know");
    let mut answer = abi::zernel_v0_class::zeroed();
    bytes_of_mut(&mut answer)[..FIRST].copy_from_slice(&bytes[..FIRST]);
    check_eq!((answer.level, answer.effective), (7, 7));
    let class = lab.zernel.class(&me)?;
    check_eq!(
        (class.level, class.weight, class.effective_weight),
        (Some(Level::BE), Some(weight(77)?), weight(77)?)
    );
    check_eq!(lab.zernel.clear_class(&me)?.weight, None);
    Ok(())
}
