// SPDX-License-Identifier: GPL-2.0
//! Permission to give weights, and their visibility.

use anyhow::{Context as _, Result};
use libzernel::class::{Attributes, Set};
use libzernel::{Level, Source, Target, Zernel};
use rustix::io::Errno;

use super::weight;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{errno, tune, Lab};
use crate::group::Group;
use crate::harness::Outcome;
use crate::permit::{owner_process, ALICE, BOB, GROUP, NICE};
use crate::sys;

/// Never more than is in force for one's own; more, and another user's, only with privilege.
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
    // The most specific first: the weight of one is the most that those above it may set.
    for target in targets.iter().rev() {
        in_child(|| {
            sys::become_user(ALICE, ALICE, &[])?;
            let zernel = Zernel::open()?;
            let set = |number| {
                let class = Attributes::from(Level::BE).weight(weight(number)?);
                Ok(errno(zernel.set_class(target, class)))
            };
            let set = |number| -> Result<Option<Errno>> { set(number) };
            for number in [1024, 1023, 7, 7] {
                check_eq!(set(number)?, None, "{target:?} to {number}");
                check_eq!(zernel.class(target)?.own.weight, Some(weight(number)?));
            }
            for number in [8, 1025, 10_000] {
                check_eq!(set(number)?, Some(Errno::PERM), "{target:?} to {number}");
                check_eq!(zernel.class(target)?.own.weight, Some(weight(7)?));
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
            zernel.set_class(target, Attributes::from(Level::BE).weight(weight(number)?))?;
            let class = zernel.class(target)?;
            check_eq!(class.weight.value, weight(number)?);
            check_eq!(class.privileged.contains(Set::WEIGHT), true);
            Ok(())
        })?;
    }
    in_child(|| {
        sys::become_user(BOB, BOB, &[])?;
        let answer =
            Zernel::open()?.set_class(target, Attributes::from(Level::BE).weight(weight(1)?));
        check_eq!(errno(answer), Some(Errno::PERM), "a stranger");
        Ok(())
    })?;
    check_eq!(root.zernel.class(target)?.own.weight, Some(weight(2_000)?));
    Ok(())
}

/// A TSG that an administrator gave little has no way to more.
pub(super) fn held_down() -> Outcome {
    let root = Lab::open()?;
    let group = Group::new("held-down")?;
    let owner = owner_process(ALICE)?;
    group.enter(owner.pid())?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    crate::cgroup::wait_moved(&root, tsg, group.id()?, None)?;
    let (process, thread) = (Target::Process(owner.pid()), Target::Thread(owner.pid()));
    let of_tsg = Target::Tsg(tsg);
    let little = Attributes::from(Level::BE).weight(weight(100)?);
    let force = |what: &str| -> Outcome {
        let class = root.zernel.class(&of_tsg)?;
        check_eq!(class.level.value, Some(Level::BE), "{what}");
        check_eq!(class.weight.value, weight(100)?, "{what}");
        Ok(())
    };
    // Of the same target, and of more specific ones, made before and afterwards.
    for given in [&group.target()?, &process] {
        for before in [false, true] {
            let own = |want: Option<Errno>| -> Outcome {
                in_child(|| {
                    sys::become_user(ALICE, ALICE, &[])?;
                    let zernel = Zernel::open()?;
                    for target in [&thread, &of_tsg] {
                        let usual = Attributes::from(Level::BE).weight(weight(1024)?);
                        check_eq!(errno(zernel.set_class(target, usual)), want);
                    }
                    Ok(())
                })
            };
            if before {
                own(None)?;
            }
            root.zernel.set_class(given, little)?;
            force("given")?;
            // The same once more is no rise; where it is the first time, it is one.
            own((!before).then_some(Errno::PERM))?;
            force("after the owner's own")?;
            for target in [&thread, &of_tsg].into_iter().filter(|_| before) {
                root.zernel.clear_class(target)?;
            }
            root.zernel.clear_class(given)?;
        }
    }
    root.zernel.set_class(&process, little)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let zernel = Zernel::open()?;
        for number in [101, 1024, 10_000] {
            let answer = zernel.set_class(
                &process,
                Attributes::from(Level::BE).weight(weight(number)?),
            );
            check_eq!(errno(answer), Some(Errno::PERM), "to {number}");
        }
        check_eq!(errno(zernel.clear_class(&process)), Some(Errno::PERM));
        // Without a weight it keeps the one that it has; less is free.
        zernel.set_class(&process, Level::BE)?;
        check_eq!(zernel.class(&process)?.weight.value, weight(100)?);
        zernel.set_class(&process, Attributes::from(Level::BE).weight(weight(99)?))?;
        let answer = zernel.set_class(&process, Attributes::from(Level::BE).weight(weight(1024)?));
        check_eq!(errno(answer), Some(Errno::PERM), "after less");
        Ok(())
    })?;
    let class = root.zernel.class(&of_tsg)?;
    check_eq!(
        (class.weight.value, class.level.source, class.own.weight),
        (weight(99)?, Source::Process, None)
    );
    Ok(())
}
