// SPDX-License-Identifier: GPL-2.0
//! Modules in use: what keeps them, and what happens to what they hold when they go.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Fault, Item, Operation, Sim};
use libzernel::{Level, Target, Zernel};

use super::{in_use, nothing_left};
use crate::check_eq;
use crate::child::Child;
use crate::common::{load, slice_of, unload, unload_all, unload_soon, wait_until, Lab};
use crate::harness::Outcome;
use testkit::passing;

fn load_both() -> Result<()> {
    load("zernel", "")?;
    load("zernel_sim", "gpus=2")
}

/// Unloads both, the way that must always work.
fn end() -> Outcome {
    unload_soon("zernel_sim")?;
    unload("zernel")?;
    nothing_left()
}

/// Waits for SIGKILL.
fn stay() -> Result<()> {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

pub(super) fn provider_keeps_zernel() -> Outcome {
    load_both()?;
    in_use("zernel", "a provider")?;
    check_eq!(Zernel::open()?.stats()?.gpus, 2);
    unload_soon("zernel_sim")?;
    check_eq!(Zernel::open()?.stats()?.gpus, 0);
    unload("zernel")?;
    nothing_left()
}

/// However the last reference to an open file is held.
pub(super) fn open_files_keep_modules() -> Outcome {
    for (path, name) in [("/dev/zernel", "zernel"), ("/dev/zernel-sim", "zernel_sim")] {
        load("zernel", "")?;
        if name == "zernel_sim" {
            load(name, "")?;
        }
        let file = File::options().read(true).write(true).open(path)?;
        in_use(name, "an open file")?;
        let second = file.try_clone()?;
        drop(file);
        in_use(name, "a dup of a file")?;
        let child = Child::spawn(stay)?;
        drop(second);
        in_use(name, "a file that a child inherited")?;
        child.kill()?;
        child.end()?;

        // On its way through a socket, held by nobody.
        let (from, to) = passing::pair()?;
        passing::send(&from, File::open(path)?.as_fd())?;
        drop(from);
        in_use(name, "a file in a socket")?;
        let received = passing::receive(&to)?;
        in_use(name, "a file out of a socket")?;
        drop(received);

        passing::pair().and_then(|(from, to)| {
            passing::send(&from, File::open(path)?.as_fd())?;
            in_use(name, "a file in a socket")?;
            drop((from, to));
            Ok(())
        })?;
        // A socket's files are put when its last end is closed, maybe a moment later.
        unload_all()?;
    }
    nothing_left()
}

/// An open attribute or debugfs file either keeps the module or works without it.
pub(super) fn attributes_keep_nothing_broken() -> Outcome {
    load_both()?;
    let state = File::open("/sys/kernel/debug/zernel/state")?;
    unload_soon("zernel_sim")?;
    in_use("zernel", "an open debugfs file")?;
    drop(state);

    let mut attribute = File::open("/sys/class/misc/zernel/enabled")?;
    let mut parameters = File::open("/sys/class/misc/zernel/lc_admission")?;
    let mut text = String::new();
    attribute.read_to_string(&mut text)?;
    check_eq!(text.trim_end(), "1");
    // An open attribute of sysfs keeps no module; what is removed says so.
    unload("zernel")?;
    let mut byte = [0];
    let gone = parameters
        .read(&mut byte)
        .map_err(|error| error.raw_os_error());
    check_eq!(
        gone,
        Err(Some(libc::ENODEV)),
        "an attribute of a module that is gone"
    );
    nothing_left()
}

/// The mapping keeps the file, and the file the module.
pub(super) fn mapped_words_keep_the_provider() -> Outcome {
    load_both()?;
    let sim = Sim::open()?;
    let context = sim.create_context(&ContextSpec::compute("mapped"))?;
    let words = context.words(1)?;
    // All descriptors go; `forget` leaves the mapping and nothing else.
    drop((context, sim));
    in_use("zernel_sim", "mapped words")?;
    check_eq!(Zernel::open()?.stats()?.tsgs, 0, "TSGs");
    words.store(0, 5);
    check_eq!(words.load(0), 5);
    drop(words);
    end()
}

/// Contexts that work, classes, a stream: the provider stays until they are gone, then it goes
/// and all is given back.
pub(super) fn busy_provider() -> Outcome {
    load_both()?;
    {
        let lab = Lab::open()?;
        let mut events = lab.zernel.events()?;
        let mut contexts = Vec::new();
        for number in 0..40 {
            let context = lab.sim.create_context(&ContextSpec {
                gpu: number % 2,
                ..ContextSpec::compute("busy")
            })?;
            context.submit(0, &[Item::work(Duration::from_millis(50)); 8])?;
            contexts.push(context);
        }
        lab.zernel
            .set_class(&Target::current_process(), Level::BE)?;
        for _ in 0..5 {
            in_use("zernel_sim", "working contexts")?;
            in_use("zernel", "a provider with TSGs")?;
        }
        lab.wait_slice(&contexts[39], slice_of(7))?;
        drop(contexts);
        let (mut added, mut removed) = (0, 0);
        while let Some(event) = events.next_within(Some(Duration::ZERO))? {
            added += u32::from(event.kind == Kind::TsgAdded);
            removed += u32::from(event.kind == Kind::TsgRemoved);
        }
        check_eq!((added, removed), (40, 40), "TSGs told");
        let stats = lab.stats()?;
        check_eq!(
            (stats.tsgs, stats.gpus, stats.classes),
            (0, 2, 1),
            "population"
        );
        // zernel itself stays in use by this file.
        drop(lab.sim);
        unload_soon("zernel_sim")?;
        let stats = lab.zernel.stats()?;
        check_eq!(
            (stats.tsgs, stats.gpus, stats.classes),
            (0, 0, 1),
            "what is left"
        );
        in_use("zernel", "an open file")?;
    }
    unload("zernel")?;
    nothing_left()
}

/// A call of the provider that takes long is waited for, and nothing is called afterwards.
pub(super) fn provider_leaves_during_a_call() -> Outcome {
    for operation in [Operation::SetTimeslice, Operation::GetTimeslice] {
        for error in [None, Some(rustix::io::Errno::AGAIN)] {
            load_both()?;
            {
                let lab = Lab::open()?;
                let (context, tsg) = lab.compute()?;
                wait_until("zernel knows it", || {
                    Ok(lab.tsg(tsg.id)?.timeslice_us == 1024)
                })?;
                lab.sim.inject(&Fault {
                    gpu: 0,
                    operation,
                    count: u32::MAX,
                    error,
                    delay: Duration::from_millis(300),
                    tsg: None,
                })?;
                let before = lab.sim.injected(0, operation)?;
                let other = lab.sim.create_context(&ContextSpec::compute("late"))?;
                lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
                wait_until("the call is under way", || {
                    Ok(lab.sim.injected(0, operation)? > before)
                })?;
                drop((context, other));
            }
            unload_soon("zernel_sim")?;
            check_eq!(Zernel::open()?.stats()?.gpus, 0, "GPUs");
            unload("zernel")?;
            nothing_left()?;
        }
    }
    Ok(())
}

/// The class of a process is there for the next provider, too.
pub(super) fn classes_outlive_the_provider() -> Outcome {
    load_both()?;
    let zernel = Zernel::open()?;
    zernel.set_class(&Target::current_process(), Level::BE)?;
    for _ in 0..3 {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        lab.wait_slice(&context, slice_of(7))?;
        check_eq!(tsg.level, Some(Level::BE), "class at once");
        drop((context, lab));
        unload_soon("zernel_sim")?;
        load("zernel_sim", "gpus=2")?;
    }
    zernel.clear_class(&Target::current_process())?;
    drop(zernel);
    end()
}

pub(super) fn ids_are_not_used_again() -> Outcome {
    let mut last = (0, 0);
    for _ in 0..5 {
        load_both()?;
        {
            let lab = Lab::open()?;
            let (_context, tsg) = lab.compute()?;
            let ids = (tsg.gpu.as_u64(), tsg.id.as_u64());
            ensure!(ids.0 > last.0 && ids.1 > last.1, "{ids:?} after {last:?}");
            ensure!(ids.1 > ids.0, "{ids:?}");
            last = (ids.1, ids.1);
        }
        end()?;
    }
    Ok(())
}
