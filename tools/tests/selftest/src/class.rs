// SPDX-License-Identifier: GPL-2.0
//! Classes of TSGs, threads, processes and cgroups: which one is in force and what it does.

mod attributes;
mod errors;

use std::sync::mpsc;

use anyhow::{anyhow, Context as _, Result};
use libzernel::class::{Attributes, Set};
use libzernel::sim::ContextSpec;
use libzernel::tsg::Interleave;
use libzernel::{tsg, Class, Level, Source, Target};

use crate::check_eq;
use crate::child::Child;
use crate::common::{self, level, slice_of, tid, tune, Lab};
use crate::group::{self, Group};
use crate::harness::{case, suite, Outcome, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "class",
    &[
        case("set_get_clear_of_each_kind", set_get_clear_of_each_kind),
        case("precedence_of_all_combinations", precedence),
        case("every_level_has_its_slice", every_level_has_its_slice),
        case("existing_and_later_tsgs", existing_and_later_tsgs),
        case("copy_engines_only_by_name", copy_engines_only_by_name),
        case("thread_is_not_its_process", thread_is_not_its_process),
        case("other_processes_are_left_alone", other_processes),
        case("both_gpus", both_gpus),
        case("a_slice_of_its_own", attributes::a_slice_of_its_own),
        case(
            "a_slice_without_a_class",
            attributes::a_slice_without_a_class,
        ),
        case("reasons_of_a_slice", attributes::reasons_of_a_slice),
        case("attributes_one_by_one", attributes::one_by_one),
        case("assignments_are_listed", attributes::assignments_are_listed),
        case("what_is_refused", attributes::what_is_refused),
        case("nothing_to_clear", errors::nothing_to_clear),
        case("no_such_tsg", errors::no_such_tsg),
        case("no_such_task", errors::no_such_task),
        case("wrong_descriptors", errors::wrong_descriptors),
    ],
);

/// The slice of a TSG that zernel leaves alone.
const DRIVER_SLICE: u32 = 1024;

/// A target of each kind, made anew for each use: all name the caller or what belongs to it.
fn targets(id: tsg::Id, group: &Group) -> Result<Vec<(&'static str, Target, Source)>> {
    let pid = std::process::id();
    Ok(vec![
        ("TSG", Target::Tsg(id), Source::Tsg),
        ("thread 0", Target::CurrentThread, Source::Thread),
        ("thread by tid", Target::Thread(tid()), Source::Thread),
        ("process 0", Target::CurrentProcess, Source::Process),
        ("process by pid", Target::Process(pid), Source::Process),
        ("process by pidfd", Target::pidfd(pid)?, Source::Process),
        ("cgroup", group.target()?, Source::Cgroup),
    ])
}

/// The own level, the level in force, its source and the time slice.
fn summary(class: &Class) -> (Option<Level>, Option<Level>, Source, u32) {
    let level = class.level;
    let slice = class.timeslice_us.value;
    (class.own.level, level.value, level.source, slice)
}

fn set_get_clear_of_each_kind() -> Outcome {
    let lab = Lab::open()?;
    let group = Group::new("kinds")?;
    group.enter(0)?;
    let (context, tsg) = lab.compute()?;
    for (name, target, source) in targets(tsg.id, &group)? {
        let before = lab.stats()?;
        let none = lab.zernel.class(&target)?;
        check_eq!(
            summary(&none),
            (None, None, Source::None, 0),
            "{name} at first"
        );
        check_eq!((none.assignment, none.own), (None, Attributes::default()));
        lab.zernel.set_class(&target, level(3))?;
        let class = lab.zernel.class(&target)?;
        let three = Some(level(3));
        check_eq!(
            summary(&class),
            (three, three, source, slice_of(3)),
            "{name}"
        );
        check_eq!(class.privileged, Set::LEVEL, "{name}");
        check_eq!(class.level.assignment, class.assignment, "{name}");
        check_eq!(class.timeslice_us.source, Source::Level, "{name}");
        check_eq!(lab.stats()?.classes, before.classes + 1, "{name}");
        lab.wait_slice(&context, slice_of(3)).context(name)?;
        let listed = lab.tsg(tsg.id)?;
        check_eq!(
            (listed.level, listed.source),
            (Some(level(3)), source),
            "{name}"
        );
        let listed = lab.zernel.class_of(&target)?.context("not listed")?;
        check_eq!(
            (Some(listed.id), listed.own, listed.privileged, listed.tsgs),
            (class.assignment, class.own, Set::LEVEL, 1),
            "{name}"
        );
        lab.zernel.clear_class(&target)?;
        check_eq!(lab.zernel.class(&target)?, none, "{name} after that");
        lab.wait_slice(&context, DRIVER_SLICE).context(name)?;
        let after = lab.stats()?;
        check_eq!(after.classes, before.classes, "{name}");
        check_eq!(after.classes_set, before.classes_set + 1, "{name}");
        check_eq!(after.classes_cleared, before.classes_cleared + 1, "{name}");
        check_eq!(after.classes_expired, before.classes_expired, "{name}");
    }
    Ok(())
}

/// Walks through all 64 combinations, one change at a time (a Gray code), and compares the class
/// of the TSG, its time slice and what each target is told.
fn precedence() -> Outcome {
    let lab = Lab::open()?;
    let outer = Group::new("outer")?;
    let inner = outer.below("inner")?;
    inner.enter(0)?;
    let (context, tsg) = lab.compute()?;
    // The most specific first, each with a level of its own that is not in order of urgency.
    let targets = [
        (Some(Target::Tsg(tsg.id)), Source::Tsg, 4),
        (Some(Target::CurrentThread), Source::Thread, 1),
        (Some(Target::CurrentProcess), Source::Process, 7),
        (Some(inner.target()?), Source::Cgroup, 2),
        (Some(outer.target()?), Source::Cgroup, 5),
        (None, Source::Default, 3),
    ];
    let mut on = [false; 6];
    for step in 1..=64u32 {
        let change = (step.trailing_zeros() as usize).min(5);
        on[change] = !on[change];
        match (&targets[change], on[change]) {
            ((Some(target), _, number), true) => {
                lab.zernel.set_class(target, level(*number))?;
            }
            ((Some(target), ..), false) => {
                lab.zernel.clear_class(target)?;
            }
            ((None, _, number), true) => tune("default_class", number)?,
            ((None, ..), false) => tune("default_class", "none")?,
        }
        // The class in force for each target: the first that is on, from itself downwards.
        for (index, (target, ..)) in targets.iter().enumerate() {
            let winner = (index..6).find(|&i| on[i]).map(|i| &targets[i]);
            let (effective, source) = match winner {
                Some((_, source, number)) => (Some(level(*number)), *source),
                None => (None, Source::None),
            };
            if index == 0 {
                let listed = lab.tsg(tsg.id)?;
                check_eq!(
                    (listed.level, listed.source),
                    (effective, source),
                    "with {on:?}"
                );
                let slice = winner.map_or(DRIVER_SLICE, |(_, _, number)| slice_of(*number));
                lab.wait_slice(&context, slice)
                    .with_context(|| format!("with {on:?}"))?;
            }
            if let Some(target) = target {
                let class = lab.zernel.class(target)?;
                let told = (class.level.value, class.level.source);
                check_eq!(told, (effective, source), "{target:?} with {on:?}");
                let own = on[index].then(|| level(targets[index].2));
                check_eq!(class.own.level, own, "{target:?} with {on:?}");
            }
        }
    }
    check_eq!(on, [false; 6]);
    group::leave()
}

fn every_level_has_its_slice() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    for number in 0..8u8 {
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(number))?;
        let class = lab.zernel.class(&Target::Tsg(tsg.id))?;
        check_eq!(class.timeslice_us.value, slice_of(number), "level {number}");
        lab.wait_slice(&context, slice_of(number))?;
        let (raw, interleave) = match number {
            0 | 1 => (2, Interleave::High),
            2..=5 => (1, Interleave::Medium),
            _ => (0, Interleave::Low),
        };
        common::wait_until(&format!("interleave {raw} for level {number}"), || {
            Ok(context.stats()?.interleave == raw)
        })?;
        common::wait_until("zernel knows of it", || {
            let tsg = lab.tsg(tsg.id)?;
            Ok(
                (tsg.timeslice_us, tsg.interleave) == (slice_of(number), interleave)
                    && !tsg.pending
                    && !tsg.failed
                    && tsg.default_timeslice_us == DRIVER_SLICE,
            )
        })?;
    }
    Ok(())
}

fn existing_and_later_tsgs() -> Outcome {
    let lab = Lab::open()?;
    let (first, _) = lab.compute()?;
    let (second, _) = lab.compute()?;
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.wait_slice(&first, slice_of(7))?;
    lab.wait_slice(&second, slice_of(7))?;
    let (third, tsg) = lab.compute()?;
    check_eq!((tsg.level, tsg.source), (Some(level(7)), Source::Process));
    lab.wait_slice(&third, slice_of(7))?;
    lab.zernel.clear_class(&Target::CurrentProcess)?;
    for context in [&first, &second, &third] {
        lab.wait_slice(context, DRIVER_SLICE)?;
    }
    let (fourth, tsg) = lab.compute()?;
    check_eq!((tsg.level, tsg.source), (None, Source::None));
    check_eq!(fourth.stats()?.timeslice_us, DRIVER_SLICE);
    Ok(())
}

fn copy_engines_only_by_name() -> Outcome {
    let lab = Lab::open()?;
    let (copy, tsg) = lab.context(&ContextSpec::copy("copy"))?;
    let (compute, other) = lab.compute()?;
    check_eq!((tsg.compute, other.compute), (false, true));
    let slice = copy.stats()?.timeslice_us;
    lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
    lab.zernel.set_class(&Target::CurrentThread, level(7))?;
    tune("default_class", 7)?;
    lab.wait_slice(&compute, slice_of(7))?;
    let (later, later_tsg) = lab.context(&ContextSpec::copy("later"))?;
    for (context, id) in [(&copy, tsg.id), (&later, later_tsg.id)] {
        let listed = lab.tsg(id)?;
        check_eq!((listed.level, listed.source), (None, Source::None));
        let class = lab.zernel.class(&Target::Tsg(id))?;
        check_eq!(
            (class.level.value, class.level.source),
            (None, Source::None)
        );
        check_eq!(context.stats()?.slice_changes, 0);
    }
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(2))?;
    let class = lab.zernel.class(&Target::Tsg(tsg.id))?;
    check_eq!(
        (class.level.value, class.level.source),
        (Some(level(2)), Source::Tsg)
    );
    lab.wait_slice(&copy, slice_of(2))?;
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    lab.wait_slice(&copy, slice)?;
    check_eq!(later.stats()?.slice_changes, 0);
    Ok(())
}

fn thread_is_not_its_process() -> Outcome {
    let lab = Lab::open()?;
    let (mine, my_tsg) = lab.compute()?;
    let (send, receive) = mpsc::channel();
    let (quit, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let lab = &lab;
        let thread = scope.spawn(move || -> Result<()> {
            let (context, tsg) = lab.compute()?;
            send.send((tid(), context, tsg))?;
            // Ends when the other side is dropped.
            let _ = wait.recv();
            Ok(())
        });
        let checked = (|| {
            let (tid, context, tsg) = receive.recv()?;
            check_eq!(tsg.tid, tid);
            check_eq!(tsg.pid, my_tsg.pid);
            lab.zernel.set_class(&Target::Thread(tid), level(1))?;
            lab.wait_slice(&context, slice_of(1))?;
            check_eq!(lab.tsg(my_tsg.id)?.level, None);
            check_eq!(mine.stats()?.slice_changes, 0);
            lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
            lab.wait_slice(&mine, slice_of(7))?;
            check_eq!(context.stats()?.timeslice_us, slice_of(1));
            check_eq!(
                lab.zernel.class(&Target::CurrentThread)?.level.source,
                Source::Process
            );
            lab.zernel.clear_class(&Target::Thread(tid))?;
            lab.wait_slice(&context, slice_of(7))
        })();
        drop(quit);
        let ended = thread.join().map_err(|_| anyhow!("the thread panicked"))?;
        checked.and(ended)
    })
}

fn other_processes() -> Outcome {
    let lab = Lab::open()?;
    let (_context, mine) = lab.compute()?;
    let (theirs, their_tsg) = lab.compute()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        lab.zernel.set_class(&Target::CurrentProcess, level(7))?;
        lab.wait_slice(&context, slice_of(7))?;
        check_eq!(lab.tsg(mine.id)?.level, None);
        check_eq!(lab.tsg(their_tsg.id)?.level, None);
        Ok(())
    })?;
    child.join()?;
    check_eq!(theirs.stats()?.slice_changes, 0);
    Ok(())
}

fn both_gpus() -> Outcome {
    let lab = Lab::open()?;
    let spec = ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("second")
    };
    let (first, first_tsg) = lab.compute()?;
    let (second, second_tsg) = lab.context(&spec)?;
    check_eq!(first_tsg.gpu == second_tsg.gpu, false);
    lab.zernel.set_class(&Target::CurrentProcess, level(0))?;
    lab.wait_slice(&first, slice_of(0))?;
    lab.wait_slice(&second, slice_of(0))?;
    Ok(())
}
