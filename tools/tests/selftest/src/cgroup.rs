// SPDX-License-Identifier: GPL-2.0
//! Classes of cgroups: what is below them, who moves in and out, and their end.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::{Class, Source, Target};
use rustix::io::Errno;
use rustix::mount::{mount, unmount, MountFlags, UnmountFlags};

use crate::abi::unchanged;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, level, slice_of, told_slice_of, wait_until, Lab};
use crate::group::{self, Group, ROOT};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "cgroup",
    &[
        case("reaches_what_is_below", reaches_what_is_below),
        case("nearest_wins", nearest_wins),
        case("siblings_are_left_alone", siblings_are_left_alone),
        case("children_are_born_into_it", children_are_born_into_it),
        case("moving_changes_the_class", moving_changes_the_class),
        case("moving_another_process", moving_another_process),
        case("moving_within_a_class", moving_within_a_class),
        case("root_is_everybody", root_is_everybody),
        case("lives_without_processes", lives_without_processes),
        case("rmdir_ends_the_class", rmdir_ends_the_class),
        case("removed_cgroup", removed_cgroup),
        case("version_1_is_refused", version_1_is_refused),
        case("deep_nesting", deep_nesting),
    ],
);

/// A slice that zernel left alone.
const DRIVER_SLICE: u32 = 1024;

/// The class in force for a target.
fn in_force(class: &Class) -> (Option<u8>, Source) {
    (
        class.level.value.map(|level| level.number()),
        class.level.source,
    )
}

fn reaches_what_is_below() -> Outcome {
    let lab = Lab::open()?;
    let top = Group::new("top")?;
    let middle = top.below("middle")?;
    let bottom = middle.below("bottom")?;
    bottom.enter(0)?;
    let (context, tsg) = lab.compute()?;
    check_eq!(tsg.cgroup, bottom.id()?);
    lab.zernel.set_class(&top.target()?, level(7))?;
    lab.wait_slice(&context, slice_of(7))?;
    let (later, tsg) = lab.compute()?;
    check_eq!((tsg.level, tsg.source), (Some(level(7)), Source::Cgroup));
    lab.wait_slice(&later, slice_of(7))?;
    for target in [
        Target::CurrentProcess,
        Target::CurrentThread,
        top.target()?,
        middle.target()?,
        bottom.target()?,
    ] {
        let class = lab.zernel.class(&target)?;
        check_eq!(in_force(&class), (Some(7), Source::Cgroup), "{target:?}");
        check_eq!(class.timeslice_us.value, told_slice_of(7));
    }
    lab.zernel.clear_class(&top.target()?)?;
    lab.wait_slice(&context, DRIVER_SLICE)?;
    lab.wait_slice(&later, DRIVER_SLICE)?;
    group::leave()
}

fn nearest_wins() -> Outcome {
    let lab = Lab::open()?;
    let top = Group::new("far")?;
    let middle = top.below("near")?;
    let bottom = middle.below("nearest")?;
    bottom.enter(0)?;
    let (context, tsg) = lab.compute()?;
    let groups = [&top, &middle, &bottom];
    for (order, numbers) in [
        ([0, 1, 2], [5, 7, 2]),
        ([2, 1, 0], [0, 3, 7]),
        ([1, 0, 2], [4, 2, 6]),
    ] {
        let mut given = [None; 3];
        for index in order {
            lab.zernel
                .set_class(&groups[index].target()?, level(numbers[index]))?;
            given[index] = Some(numbers[index]);
            check_bottom(&lab, &context, tsg.id, &given)?;
        }
        for index in order {
            lab.zernel.clear_class(&groups[index].target()?)?;
            given[index] = None;
            check_bottom(&lab, &context, tsg.id, &given)?;
        }
    }
    group::leave()
}

/// Checks the class of a TSG below cgroups that were given these levels, the outermost first.
fn check_bottom(
    lab: &Lab,
    context: &libzernel::sim::Context,
    id: libzernel::tsg::Id,
    given: &[Option<u8>],
) -> Outcome {
    let nearest = given.iter().rev().find_map(|given| *given);
    let listed = lab.tsg(id)?;
    check_eq!(listed.level, nearest.map(level), "with {given:?}");
    lab.wait_slice(context, nearest.map_or(DRIVER_SLICE, slice_of))
        .with_context(|| format!("with {given:?}"))
}

fn siblings_are_left_alone() -> Outcome {
    let lab = Lab::open()?;
    let parent = Group::new("parent")?;
    let (mine, other) = (parent.below("mine")?, parent.below("other")?);
    mine.enter(0)?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&other.target()?, level(7))?;
    check_eq!(lab.tsg(tsg.id)?.level, None);
    let class = lab.zernel.class(&parent.target()?)?;
    check_eq!(in_force(&class), (None, Source::None));
    let class = lab.zernel.class(&mine.target()?)?;
    check_eq!(in_force(&class), (None, Source::None));
    // One more change, so that the worker has passed by for sure.
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(2))?;
    lab.wait_slice(&context, slice_of(2))?;
    check_eq!(context.stats()?.slice_changes, 1);
    group::leave()
}

fn children_are_born_into_it() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("born")?;
    lab.zernel.set_class(&group.target()?, level(7))?;
    group.enter(0)?;
    let id = group.id()?;
    in_child(|| {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        check_eq!((tsg.level, tsg.cgroup), (Some(level(7)), id));
        lab.wait_slice(&context, slice_of(7))
    })?;
    group::leave()
}

/// Waits until a TSG has the class and the slice of a cgroup.
/// Waits until a TSG has followed its process to a cgroup, where it has a level.
pub fn wait_moved(lab: &Lab, id: libzernel::tsg::Id, group: u64, number: Option<u8>) -> Outcome {
    let slice = number.map_or(DRIVER_SLICE, slice_of);
    wait_until(&format!("the TSG has level {number:?}"), || {
        let tsg = lab.tsg(id)?;
        Ok(
            (tsg.cgroup, tsg.level, tsg.timeslice_us) == (group, number.map(level), slice)
                && !tsg.pending,
        )
    })
}

fn root_id() -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(ROOT)?.ino())
}

fn moving_changes_the_class() -> Outcome {
    let lab = Lab::open()?;
    let (low, high, plain) = (
        Group::new("low")?,
        Group::new("high")?,
        Group::new("plain")?,
    );
    lab.zernel.set_class(&low.target()?, level(7))?;
    lab.zernel.set_class(&high.target()?, level(1))?;
    let (_context, tsg) = lab.compute()?;
    for _ in 0..3 {
        for (group, number) in [
            (&low, Some(7)),
            (&plain, None),
            (&high, Some(1)),
            (&low, Some(7)),
        ] {
            group.enter(0)?;
            // A question looks at where the process is now.
            let class = lab.zernel.class(&Target::CurrentProcess)?;
            check_eq!(class.level.value, number.map(level));
            wait_moved(&lab, tsg.id, group.id()?, number)?;
        }
        group::leave()?;
        wait_moved(&lab, tsg.id, root_id()?, None)?;
    }
    Ok(())
}

fn moving_another_process() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("moved")?;
    lab.zernel.set_class(&group.target()?, level(7))?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let _contexts = [lab.compute()?, lab.compute()?];
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    let (_mine, my_tsg) = lab.compute()?;
    wait_until("the child has two TSGs", || Ok(lab.stats()?.tsgs == 3))?;
    group.enter(child.pid())?;
    for tsg in lab.zernel.tsgs() {
        let tsg = tsg?;
        if tsg.pid == child.pid() {
            wait_moved(&lab, tsg.id, group.id()?, Some(7))?;
        }
    }
    check_eq!(lab.tsg(my_tsg.id)?.level, None);
    // A class of its own stays in force wherever it goes.
    lab.zernel
        .set_class(&Target::Process(child.pid()), level(3))?;
    std::fs::write(
        Path::new(ROOT).join("cgroup.procs"),
        child.pid().to_string(),
    )?;
    for tsg in lab.zernel.tsgs() {
        let tsg = tsg?;
        if tsg.pid == child.pid() {
            wait_moved(&lab, tsg.id, root_id()?, Some(3))?;
        }
    }
    Ok(())
}

/// Between two cgroups of one class, the hardware is left alone.
fn moving_within_a_class() -> Outcome {
    let lab = Lab::open()?;
    let parent = Group::new("same")?;
    let (first, second) = (parent.below("first")?, parent.below("second")?);
    lab.zernel.set_class(&parent.target()?, level(7))?;
    first.enter(0)?;
    let (context, tsg) = lab.compute()?;
    lab.wait_slice(&context, slice_of(7))?;
    for group in [&second, &first, &second] {
        group.enter(0)?;
        wait_moved(&lab, tsg.id, group.id()?, Some(7))?;
    }
    check_eq!(context.stats()?.slice_changes, 1);
    group::leave()
}

fn root_is_everybody() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("anywhere")?;
    let root = Target::cgroup(ROOT)?;
    let (outside, _) = lab.compute()?;
    group.enter(0)?;
    let (inside, _) = lab.compute()?;
    lab.zernel.set_class(&root, level(7))?;
    lab.wait_slice(&outside, slice_of(7))?;
    lab.wait_slice(&inside, slice_of(7))?;
    let class = lab.zernel.class(&Target::Process(1))?;
    check_eq!(in_force(&class), (Some(7), Source::Cgroup));
    lab.zernel.clear_class(&root)?;
    lab.wait_slice(&outside, DRIVER_SLICE)?;
    lab.wait_slice(&inside, DRIVER_SLICE)?;
    group::leave()
}

fn lives_without_processes() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("empty")?;
    lab.zernel.set_class(&group.target()?, level(7))?;
    for _ in 0..3 {
        in_child(|| {
            group.enter(0)?;
            let (_context, tsg) = Lab::open()?.compute()?;
            check_eq!(tsg.level, Some(level(7)));
            Ok(())
        })?;
        wait_until("its TSG is gone", || Ok(lab.stats()?.tsgs == 0))?;
        check_eq!(lab.stats()?.classes, 1);
        check_eq!(
            lab.zernel.class(&group.target()?)?.own.level,
            Some(level(7))
        );
    }
    Ok(())
}

fn rmdir_ends_the_class() -> Outcome {
    let lab = Lab::open()?;
    let parent = Group::new("stays")?;
    let before = lab.stats()?;
    lab.zernel.set_class(&parent.target()?, level(5))?;
    for round in 1..=5 {
        let group = parent.below("goes")?;
        lab.zernel.set_class(&group.target()?, level(7))?;
        check_eq!(lab.stats()?.classes, 2);
        group.remove()?;
        wait_until("the class has ended", || Ok(lab.stats()?.classes == 1))?;
        check_eq!(lab.stats()?.classes_expired, before.classes_expired + round);
        check_eq!(lab.stats()?.classes_cleared, before.classes_cleared);
    }
    // A new cgroup of the same name is another one.
    let again = parent.below("goes")?;
    let class = lab.zernel.class(&again.target()?)?;
    check_eq!((class.own.level, class.level.value), (None, Some(level(5))));
    Ok(())
}

fn removed_cgroup() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("removed")?;
    let target = group.target()?;
    check_eq!(lab.zernel.class(&target)?.own.level, None);
    group.remove()?;
    unchanged(&lab.zernel, || {
        let answers = [
            errno(lab.zernel.set_class(&target, level(7))),
            errno(lab.zernel.class(&target)),
            errno(lab.zernel.clear_class(&target)),
        ];
        check_eq!(answers, [Some(Errno::SRCH); 3]);
        Ok(())
    })
}

fn version_1_is_refused() -> Outcome {
    let lab = Lab::open()?;
    let place = Path::new("/tmp/cgroup-v1");
    std::fs::create_dir_all(place)?;
    let flags = MountFlags::empty();
    mount(
        "none",
        place,
        "cgroup",
        flags,
        Some(c"none,name=zerneltest"),
    )?;
    let answers = (|| -> Result<_> {
        let target = Target::Cgroup(File::open(place)?.into());
        Ok([
            errno(lab.zernel.set_class(&target, level(7))),
            errno(lab.zernel.class(&target)),
            errno(lab.zernel.clear_class(&target)),
        ])
    })();
    unmount(place, UnmountFlags::empty())?;
    check_eq!(answers?, [Some(Errno::BADF); 3]);
    Ok(())
}

fn deep_nesting() -> Outcome {
    const DEPTH: usize = 200;
    let lab = Lab::open()?;
    let mut groups = vec![Group::new("deep")?];
    for _ in 1..DEPTH {
        let next = groups[groups.len() - 1].below("d")?;
        groups.push(next);
    }
    groups[DEPTH - 1].enter(0)?;
    let (context, tsg) = lab.compute()?;
    for (depth, number) in [(0, 7), (100, 2), (DEPTH - 1, 5)] {
        lab.zernel
            .set_class(&groups[depth].target()?, level(number))?;
        check_eq!(lab.tsg(tsg.id)?.level, Some(level(number)), "depth {depth}");
        lab.wait_slice(&context, slice_of(number))?;
    }
    for (depth, number) in [(99, 7), (100, 2), (101, 2), (DEPTH - 2, 2)] {
        let class = lab.zernel.class(&groups[depth].target()?)?;
        check_eq!(
            in_force(&class),
            (Some(number), Source::Cgroup),
            "depth {depth}"
        );
    }
    group::leave()?;
    wait_moved(&lab, tsg.id, root_id()?, None)?;
    // The innermost first, which is how directories are removed.
    while let Some(group) = groups.pop() {
        group.remove()?;
    }
    wait_until("the classes have ended", || Ok(lab.stats()?.classes == 0))
}
