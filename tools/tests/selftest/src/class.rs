// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of TSGs, threads, processes and cgroups: the one in force, and its effect.

use anyhow::{Context as _, Result};
use libzernel::class::{Assignment, Attributes, Of, Set, Why};
use libzernel::sim::{Context, ContextSpec};
use libzernel::tsg::Interleave;
use libzernel::{Level, Source, Target, Tsg, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{
    default_of, errno, in_force, level, slice_of, tid, tune, wait_until, Lab, DRIVER_SLICE,
};
use crate::group::{self, Group};
use crate::harness::{case, suite, Outcome, Suite};
use crate::list::PERFMON;
use crate::permit::{owner_process, ALICE, BOB};
use crate::sys;
use crate::turns::weight;

/// The suite.
pub const SUITE: Suite = suite(
    "class",
    &[
        case("set_get_clear_of_each_kind", set_get_clear_of_each_kind),
        case("the_most_specific_wins", the_most_specific_wins),
        case("every_level_has_its_slice", every_level_has_its_slice),
        case("reasons_of_a_slice", reasons_of_a_slice),
        case("attributes_one_by_one", attributes_one_by_one),
        case("assignments_are_listed", assignments_are_listed),
    ],
);

fn set_get_clear_of_each_kind() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("kinds")?;
    group.enter(0)?;
    let compute = lab.compute()?;
    let pid = std::process::id();
    for (name, target, source) in [
        ("TSG", Target::Tsg(compute.1.id), Source::Tsg),
        ("the thread", Target::CurrentThread, Source::Thread),
        ("thread by tid", Target::Thread(tid()), Source::Thread),
        ("the process", Target::CurrentProcess, Source::Process),
        ("process by pid", Target::Process(pid), Source::Process),
        ("process by pidfd", Target::pidfd(pid)?, Source::Process),
        ("cgroup", group.target()?, Source::Cgroup),
    ] {
        set_get_clear(&lab, &compute, &target, source).context(name)?;
    }
    Ok(())
}

/// Gives a class to a target of which there is one TSG, and takes it away.
fn set_get_clear(
    lab: &Lab,
    (context, tsg): &(Context, Tsg),
    target: &Target,
    source: Source,
) -> Outcome {
    let before = lab.stats()?;
    let none = lab.zernel.class(target)?;
    check_eq!(in_force(&none), (None, Source::None));
    check_eq!(
        (none.assignment, none.own, none.timeslice_us.value),
        (None, Attributes::default(), 0)
    );
    lab.zernel.set_class(target, level(3))?;
    let class = lab.zernel.class(target)?;
    check_eq!(in_force(&class), (Some(3), source));
    check_eq!((class.own, class.privileged), (level(3).into(), Set::LEVEL));
    check_eq!(class.level.assignment, class.assignment);
    let slice = class.timeslice_us;
    check_eq!((slice.value, slice.source), (slice_of(3), Source::Level));
    check_eq!(lab.stats()?.classes, before.classes + 1);
    lab.wait_slice(context, slice_of(3))?;
    check_eq!(lab.listed(tsg.id)?, (Some(3), source));
    let listed = lab.zernel.class_of(target)?.context("not listed")?;
    check_eq!(
        (Some(listed.id), listed.own, listed.privileged, listed.tsgs),
        (class.assignment, class.own, Set::LEVEL, 1)
    );
    lab.zernel.clear_class(target)?;
    check_eq!(lab.zernel.class(target)?, none, "after that");
    lab.wait_slice(context, DRIVER_SLICE)?;
    check_eq!(
        errno(lab.zernel.clear_class(target)),
        Some(Errno::NODATA),
        "nothing to clear"
    );
    let after = lab.stats()?;
    check_eq!(after.classes, before.classes);
    check_eq!(after.classes_set, before.classes_set + 1);
    check_eq!(after.classes_cleared, before.classes_cleared + 1);
    check_eq!(after.classes_expired, before.classes_expired);
    check_eq!(after.denied, before.denied);
    Ok(())
}

/// Targets above one another, set one after the other, and cleared in another order.
fn the_most_specific_wins() -> Outcome {
    let lab = Lab::open()?;
    let outer = Group::new("outer")?;
    let inner = outer.below("inner")?;
    inner.enter(0)?;
    let (context, tsg) = lab.compute()?;
    tune("default_class", 3)?;
    // The least specific first, with levels in no order of urgency.
    let chain = [
        (outer.target()?, Source::Cgroup, 5),
        (inner.target()?, Source::Cgroup, 2),
        (Target::CurrentProcess, Source::Process, 7),
        (Target::CurrentThread, Source::Thread, 1),
        (Target::Tsg(tsg.id), Source::Tsg, 4),
    ];
    let mut on = [false; 5];
    for index in [0, 1, 2, 3, 4, 0, 3, 1, 4, 2] {
        let (target, _, number) = &chain[index];
        on[index] = !on[index];
        match on[index] {
            true => lab.zernel.set_class(target, level(*number))?,
            false => lab.zernel.clear_class(target)?,
        }
        let mut expected = (3, Source::Default);
        for (on, (target, source, number)) in on.iter().zip(&chain) {
            if *on {
                expected = (*number, *source);
            }
            let class = in_force(&lab.zernel.class(target)?);
            check_eq!(class, (Some(expected.0), expected.1), "{target:?}");
            if !on {
                // A class in force from elsewhere is not the target's own.
                let answer = errno(lab.zernel.clear_class(target));
                check_eq!(answer, Some(Errno::NODATA), "{target:?}");
            }
        }
        let (number, source) = expected;
        check_eq!(lab.listed(tsg.id)?, (Some(number), source), "{on:?}");
        lab.wait_slice(&context, slice_of(number))?;
    }
    group::leave()
}

fn every_level_has_its_slice() -> Outcome {
    let lab = Lab::open()?;
    let spec = ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("of the second GPU")
    };
    let (context, tsg) = lab.context(&spec)?;
    let target = Target::Tsg(tsg.id);
    for number in 0..8u8 {
        lab.zernel.set_class(&target, level(number))?;
        let told = lab.zernel.class(&target)?.timeslice_us.value;
        check_eq!(told, slice_of(number), "level {number}");
        let (raw, interleave) = match number {
            0 | 1 => (2, Interleave::High),
            2..=5 => (1, Interleave::Medium),
            _ => (0, Interleave::Low),
        };
        wait_until(&format!("slice and interleave of level {number}"), || {
            let (stats, tsg) = (context.stats()?, lab.tsg(tsg.id)?);
            Ok(
                (stats.timeslice_us, stats.interleave) == (slice_of(number), raw)
                    && (tsg.timeslice_us, tsg.interleave) == (slice_of(number), interleave)
                    && (tsg.pending, tsg.failed) == (false, false)
                    && tsg.default_timeslice_us == DRIVER_SLICE,
            )
        })?;
    }
    Ok(())
}

/// The time slice in force for a target, its source and the reasons.
fn told(lab: &Lab, target: &Target) -> Result<(u32, Source, Why)> {
    let slice = lab.zernel.class(target)?.timeslice_us;
    Ok((slice.value, slice.source, slice.why))
}

fn slice(us: u32) -> Attributes {
    Attributes::default().timeslice_us(us)
}

/// Each attribute from the most specific target that has it, in force for TSGs that are there and
/// later ones, and cleared alone.
fn attributes_one_by_one() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("slices")?;
    group.enter(0)?;
    let (context, tsg) = lab.compute()?;
    let (me, ours) = (Target::CurrentProcess, group.target()?);
    let class = Attributes::from(level(3)).weight(weight(3000)?);
    lab.zernel.set_class(&ours, class)?;
    lab.zernel.set_class(&ours, slice(7_000))?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), weight(20)?)?;
    lab.wait_slice(&context, 7_000)?;
    // Ten times the slice of its level, and a tenth of it.
    for us in [100_000, 1_000, 333] {
        lab.zernel.set_class(&me, slice(us))?;
        lab.wait_slice(&context, us)?;
        let of_tsg = told(&lab, &Target::Tsg(tsg.id))?;
        check_eq!(of_tsg, (us, Source::Process, Why::NONE));
        check_eq!(told(&lab, &ours)?.0, 7_000);
    }
    let class = lab.zernel.class(&Target::Tsg(tsg.id))?;
    check_eq!(in_force(&class), (Some(3), Source::Cgroup));
    let weighs = (class.weight.value, class.weight.source);
    check_eq!(weighs, (weight(20)?, Source::Tsg));
    check_eq!(class.own, Attributes::from(weight(20)?));
    let decides = lab.zernel.class(&ours)?.assignment;
    check_eq!((class.level.assignment, decides.is_some()), (decides, true));
    check_eq!(lab.tsg(tsg.id)?.default_timeslice_us, DRIVER_SLICE);
    // Another level has another place in the run list, and nothing else.
    let (later, _) = lab.compute()?;
    lab.wait_slice(&later, 333)?;
    lab.zernel.set_class(&ours, level(0))?;
    wait_until(
        "the interleave level",
        || Ok(later.stats()?.interleave == 2),
    )?;
    check_eq!(later.stats()?.timeslice_us, 333);
    lab.zernel.clear_class(&me)?;
    lab.wait_slice(&context, 7_000)?;
    let clear = |set| lab.zernel.change_class(&ours, set, Attributes::default());
    clear(Set::TIMESLICE)?;
    lab.wait_slice(&context, slice_of(0))?;
    // Clear and set in one call: all that is left is what was set, as often as it is done.
    for _ in 0..2 {
        lab.zernel.change_class(&ours, Set::ALL, weight(4)?)?;
        let class = lab.zernel.class(&ours)?;
        check_eq!(class.own, Attributes::from(weight(4)?));
        check_eq!(class.level.value, None);
    }
    check_eq!(errno(clear(Set::LEVEL)), Some(Errno::NODATA));
    clear(Set::WEIGHT)?;
    check_eq!(lab.zernel.class(&ours)?.assignment, None);
    // A slice without a class.
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.wait_slice(&context, DRIVER_SLICE)?;
    lab.zernel.set_class(&me, slice(80_000))?;
    lab.wait_slice(&context, 80_000)?;
    check_eq!(context.stats()?.interleave, 0);
    lab.zernel.clear_class(&me)?;
    lab.wait_slice(&context, DRIVER_SLICE)?;
    group::leave()
}

/// Reasons for another slice than its own.
fn reasons_of_a_slice() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let target = Target::Tsg(tsg.id);
    let class = Attributes::from(Level::BE).timeslice_us(900);
    lab.zernel.set_class(&target, class)?;
    let short = default_of("rotation_timeslice_us");
    for (name, value, us, why) in [
        ("rotation", "fair", short, Why::TURNS),
        ("rotation", "none", 900, Why::NONE),
        ("max_timeslice_us", "600", 600, Why::CLAMPED),
        ("enabled", "0", 0, Why::DISABLED),
        ("enabled", "1", 600, Why::CLAMPED),
    ] {
        tune(name, value)?;
        let (slice, source) = match us {
            0 => (DRIVER_SLICE, Source::None),
            _ => (us, Source::Tsg),
        };
        lab.wait_slice(&context, slice)?;
        check_eq!(told(&lab, &target)?, (us, source, why), "{name} {value}");
    }
    // On a copy engine nothing of the process counts where that is tuned.
    tune("copy_timeslice_us", 0)?;
    tune("max_timeslice_us", 5_000_000)?;
    let (copy, tsg) = lab.context(&ContextSpec::copy("copy"))?;
    let told = || -> Result<_> {
        let class = lab.zernel.class(&Target::Tsg(tsg.id))?;
        Ok((class.level.value, class.level.why, class.timeslice_us.value))
    };
    lab.zernel.set_class(&Target::CurrentProcess, level(3))?;
    lab.wait_slice(&copy, DRIVER_SLICE)?;
    check_eq!(told()?, (None, Why::ENGINE, 0));
    // Else it does, with short slices.
    for (us, of_3) in [(10, 190), (37, 703), (100, 1_000)] {
        tune("copy_timeslice_us", us)?;
        for (class, us) in [(level(3), of_3), (Level::BE, us)] {
            lab.zernel.set_class(&Target::CurrentProcess, class)?;
            lab.wait_slice(&copy, us)?;
            check_eq!(told()?, (Some(class), Why::NONE, us));
        }
    }
    tune("copy_timeslice_us", 0)?;
    lab.wait_slice(&copy, DRIVER_SLICE)
}

/// The assignments that a user sees, by id.
fn seen(zernel: &Zernel) -> Result<Vec<u64>> {
    let ids: Result<Vec<_>, _> = zernel.classes().map(|one| one.map(|one| one.id)).collect();
    Ok(ids?)
}

fn assignments_are_listed() -> Outcome {
    let root = Lab::open()?;
    let owner = owner_process(ALICE)?;
    let tsg = root.zernel.tsgs().next().context("no TSG")??.id;
    let (delegated, foreign) = (Group::new("seen")?, Group::new("unseen")?);
    delegated.delegate(ALICE)?;
    let pid = owner.pid();
    let targets = [
        (Target::Process(pid), Of::Process(pid.into())),
        (Target::Thread(pid), Of::Thread(pid.into())),
        (Target::Tsg(tsg), Of::Tsg(tsg.as_u64())),
        (delegated.target()?, Of::Cgroup(delegated.id()?)),
        (foreign.target()?, Of::Cgroup(foreign.id()?)),
        (Target::CurrentThread, Of::Thread(tid().into())),
    ];
    for (number, (target, _)) in (0..).zip(&targets) {
        root.zernel.set_class(target, level(number))?;
    }
    let listed: Vec<Assignment> = root.zernel.classes().collect::<Result<_, _>>()?;
    check_eq!(listed.len(), targets.len());
    check_eq!(listed.is_sorted_by_key(|one| one.id), true);
    for ((number, one), (_, of)) in (0..).zip(&listed).zip(&targets) {
        check_eq!((one.target, one.own), (*of, level(number).into()));
        check_eq!((one.privileged, one.uid), (Set::LEVEL, 0));
        check_eq!(one.tsgs, u32::from(*of == Of::Tsg(tsg.as_u64())), "{of:?}");
    }
    let all = seen(&root.zernel)?;
    for (uid, caps, want) in [
        (BOB, 0, &[][..]),
        (BOB, PERFMON, &all[..]),
        (ALICE, 0, &all[..4]),
    ] {
        in_child(|| {
            sys::become_user_with(uid, uid, caps)?;
            let zernel = Zernel::open()?;
            check_eq!(seen(&zernel)?, want, "user {uid} with {caps:#x}");
            if uid == ALICE {
                // The user that changed it last sees it, and the owner.
                let class = zernel.class(&targets[0].0)?;
                check_eq!(class.level.assignment, Some(all[0]));
                zernel.set_class(&targets[3].0, level(7))?;
                let one = zernel.class_of(&targets[3].0)?.context("not listed")?;
                check_eq!((one.id, one.uid), (all[3], ALICE));
            }
            Ok(())
        })?;
    }
    // More than a part of the list: each once, in the order of their ids.
    let contexts: Vec<_> = (0..150).map(|_| root.compute()).collect::<Result<_>>()?;
    for (_, tsg) in &contexts {
        root.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    }
    let many = seen(&root.zernel)?;
    check_eq!((many.len(), many.is_sorted()), (156, true));
    drop(contexts);
    wait_until("theirs are gone", || Ok(seen(&root.zernel)? == all))?;
    drop(owner);
    wait_until("those of the process are gone", || {
        Ok(seen(&root.zernel)? == all[3..])
    })
}
