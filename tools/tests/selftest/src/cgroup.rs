// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of cgroups: their reach, processes that move in and out, and their end.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use libzernel::{Source, Target};
use rustix::io::Errno;
use rustix::mount::{mount, unmount, MountFlags, UnmountFlags};

use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{
    in_force, level, refuses_class, slice_of, told_slice_of, wait_until, Lab, DRIVER_SLICE,
};
use crate::group::{self, Group, ROOT};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "cgroup",
    &[
        case("reaches_what_is_below", reaches_what_is_below),
        case("moving_changes_the_class", moving_changes_the_class),
        case("root_is_everybody", root_is_everybody),
        case("rmdir_ends_the_class", rmdir_ends_the_class),
        case("version_1_is_refused", version_1_is_refused),
        case("deep_nesting", deep_nesting),
    ],
);

/// TSGs that are there and later ones, of this process and of a child, but none in a sibling.
fn reaches_what_is_below() -> Outcome {
    let lab = Lab::open()?;
    let top = Group::new("top")?;
    let (middle, sibling) = (top.below("middle")?, top.below("sibling")?);
    let bottom = middle.below("bottom")?;
    bottom.enter(0)?;
    let (context, first) = lab.compute()?;
    check_eq!(first.cgroup, bottom.id()?);
    lab.zernel.set_class(&sibling.target()?, level(2))?;
    for other in [&top, &middle, &bottom] {
        let class = lab.zernel.class(&other.target()?)?;
        check_eq!(in_force(&class), (None, Source::None));
    }
    check_eq!(lab.tsg(first.id)?.level, None);
    lab.zernel.set_class(&middle.target()?, level(7))?;
    lab.wait_slice(&context, slice_of(7))?;
    let (later, tsg) = lab.compute()?;
    check_eq!(lab.listed(tsg.id)?, (Some(7), Source::Cgroup));
    lab.wait_slice(&later, slice_of(7))?;
    for target in [
        Target::CurrentProcess,
        Target::CurrentThread,
        middle.target()?,
        bottom.target()?,
    ] {
        let class = lab.zernel.class(&target)?;
        check_eq!(in_force(&class), (Some(7), Source::Cgroup), "{target:?}");
        check_eq!(class.timeslice_us.value, told_slice_of(7));
    }
    in_child(|| {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        check_eq!((tsg.level, tsg.cgroup), (Some(level(7)), bottom.id()?));
        lab.wait_slice(&context, slice_of(7))
    })?;
    // Between two cgroups of one class, the hardware is left alone.
    for group in [&middle, &bottom] {
        group.enter(0)?;
        wait_moved(&lab, first.id, group.id()?, Some(7))?;
    }
    check_eq!(context.stats()?.slice_changes, 1);
    lab.zernel.clear_class(&middle.target()?)?;
    lab.wait_slice(&context, DRIVER_SLICE)?;
    lab.wait_slice(&later, DRIVER_SLICE)?;
    group::leave()
}

/// Waits until a TSG has followed its process to a cgroup, where it has a level.
pub fn wait_moved(lab: &Lab, id: libzernel::tsg::Id, group: u64, number: Option<u8>) -> Outcome {
    let slice = number.map_or(DRIVER_SLICE, slice_of);
    wait_until(&format!("the TSG has level {number:?}"), || {
        let tsg = lab.tsg(id)?;
        let is = (tsg.cgroup, tsg.level, tsg.timeslice_us, tsg.pending);
        Ok(is == (group, number.map(level), slice, false))
    })
}

fn root_id() -> Result<u64> {
    Ok(fs::metadata(ROOT)?.ino())
}

/// From and to cgroups that have no other process.
fn moving_changes_the_class() -> Outcome {
    let lab = Lab::open()?;
    let (low, high) = (Group::new("low")?, Group::new("high")?);
    let plain = Group::new("plain")?;
    lab.zernel.set_class(&low.target()?, level(7))?;
    lab.zernel.set_class(&high.target()?, level(1))?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let _contexts = [lab.compute()?, lab.compute()?];
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    wait_until("the child has two TSGs", || Ok(lab.stats()?.tsgs == 2))?;
    let theirs: Vec<_> = lab.zernel.tsgs().collect::<Result<_, _>>()?;
    let (mine, _) = lab.compute()?;
    let process = Target::Process(child.pid());
    for own in [None, Some(3)] {
        for (group, number) in [(&low, Some(7)), (&plain, None), (&high, Some(1))] {
            group.enter(child.pid())?;
            // A question looks at where the process is now.
            let class = lab.zernel.class(&process)?;
            check_eq!(in_force(&class).0, own.or(number));
            for tsg in &theirs {
                wait_moved(&lab, tsg.id, group.id()?, own.or(number))?;
            }
        }
        group::put(child.pid())?;
        wait_moved(&lab, theirs[0].id, root_id()?, own)?;
        check_eq!(lab.stats()?.classes, if own.is_some() { 3 } else { 2 });
        // A class of its own stays in force wherever it goes.
        lab.zernel.set_class(&process, level(3))?;
    }
    check_eq!(mine.stats()?.slice_changes, 0);
    Ok(())
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

fn rmdir_ends_the_class() -> Outcome {
    let lab = Lab::open()?;
    let parent = Group::new("stays")?;
    let before = lab.stats()?;
    lab.zernel.set_class(&parent.target()?, level(5))?;
    for round in 1..=5 {
        let group = parent.below("goes")?;
        let target = group.target()?;
        // A new cgroup of the same name is another one.
        let class = lab.zernel.class(&target)?;
        check_eq!((class.own.level, class.level.value), (None, Some(level(5))));
        lab.zernel.set_class(&target, level(7))?;
        check_eq!(lab.stats()?.classes, 2);
        group.remove()?;
        wait_until("the class has ended", || Ok(lab.stats()?.classes == 1))?;
        let after = lab.stats()?;
        check_eq!(after.classes_expired, before.classes_expired + round);
        check_eq!(after.classes_cleared, before.classes_cleared);
        refuses_class(&lab, &target, Errno::SRCH)?;
    }
    Ok(())
}

fn version_1_is_refused() -> Outcome {
    let lab = Lab::open()?;
    let (place, name) = (Path::new("/tmp/cgroup-v1"), c"none,name=zerneltest");
    fs::create_dir_all(place)?;
    mount("none", place, "cgroup", MountFlags::empty(), Some(name))?;
    let opened = File::open(place).map(|file| Target::Cgroup(file.into()));
    let refused = opened.map(|target| refuses_class(&lab, &target, Errno::BADF));
    unmount(place, UnmountFlags::empty())?;
    refused?
}

/// The nearest cgroup with a class wins, in whichever order they get and lose it.
fn deep_nesting() -> Outcome {
    const DEPTH: usize = 200;
    // On level 31, for the first is on level 1.
    const LAST: usize = 30;
    let lab = Lab::open()?;
    let mut groups = vec![Group::new("deep")?];
    for _ in 1..DEPTH {
        let next = groups[groups.len() - 1].below("d")?;
        groups.push(next);
    }
    groups[DEPTH - 1].enter(0)?;
    let (context, tsg) = lab.compute()?;
    check_eq!(tsg.cgroup, groups[LAST].id()?);
    for depth in [LAST + 1, DEPTH - 1] {
        refuses_class(&lab, &groups[depth].target()?, Errno::LOOP)?;
    }
    let mut given = [None; LAST + 1];
    for (depth, number) in [
        (0, Some(7)),
        (LAST, Some(5)),
        (15, Some(2)),
        (0, Some(4)),
        (LAST, None),
        (15, None),
        (15, Some(1)),
        (0, None),
        (0, Some(3)),
    ] {
        let target = groups[depth].target()?;
        match number {
            Some(number) => lab.zernel.set_class(&target, level(number))?,
            None => lab.zernel.clear_class(&target)?,
        }
        given[depth] = number;
        let nearest = |depth: usize| given[..=depth].iter().rev().find_map(|given| *given);
        for depth in [0, 1, 14, 15, 16, LAST - 1, LAST] {
            let class = lab.zernel.class(&groups[depth].target()?)?;
            check_eq!(in_force(&class).0, nearest(depth), "depth {depth}");
        }
        let number = nearest(LAST);
        check_eq!(lab.listed(tsg.id)?.0, number);
        lab.wait_slice(&context, number.map_or(DRIVER_SLICE, slice_of))?;
    }
    group::leave()?;
    wait_moved(&lab, tsg.id, root_id()?, None)?;
    // The innermost first, which is how directories are removed.
    while let Some(group) = groups.pop() {
        group.remove()?;
    }
    wait_until("the classes have ended", || Ok(lab.stats()?.classes == 0))
}
