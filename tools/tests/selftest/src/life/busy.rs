// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules in use: what keeps them, and what happens to what they hold when they go.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::event::Kind;
use libzernel::sim::{ContextSpec, Fault, Item, Operation, Sim};
use libzernel::{Level, Target, Zernel};
use rustix::io::Errno;
use testkit::module::Expedited;
use testkit::passing;

use super::{in_use, nothing_left};
use crate::check_eq;
use crate::child::Child;
use crate::common::{load, slice_of, unload, unload_all, unload_soon, wait_until, Lab};
use crate::harness::Outcome;

/// Rounds of use and unloading.
const ROUNDS: u32 = 20;

fn load_both() -> Result<()> {
    load("zernel", "")?;
    load("zernel_sim", "gpus=2")
}

/// Unloads both, the way that must always work.
fn end() -> Outcome {
    unload_soon("zernel_sim")?;
    check_eq!(Zernel::open()?.stats()?.gpus, 0, "GPUs");
    unload("zernel")?;
    nothing_left()
}

/// A provider keeps zernel; after a reload no id comes again.
pub(super) fn provider_keeps_zernel() -> Outcome {
    let mut last = 0;
    for _ in 0..5 {
        load_both()?;
        in_use("zernel", "a provider")?;
        {
            let lab = Lab::open()?;
            check_eq!(lab.stats()?.gpus, 2);
            let (_context, tsg) = lab.compute()?;
            let ids = (tsg.gpu.as_u64(), tsg.id.as_u64());
            ensure!(ids.1 > ids.0 && ids.0 > last, "{ids:?} after {last}");
            last = ids.1;
        }
        end()?;
    }
    Ok(())
}

/// However the last reference to an open file is held.
pub(super) fn open_files() -> Outcome {
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
        let child = Child::idle(|| Ok(()))?;
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
        drop((received, to));

        let (from, to) = passing::pair()?;
        passing::send(&from, File::open(path)?.as_fd())?;
        in_use(name, "a file in a socket")?;
        drop((from, to));
        // A socket's files are put when its last end is closed, maybe a moment later.
        unload_all()?;
    }
    nothing_left()
}

/// An open attribute or debugfs file either keeps the module or works without it.
pub(super) fn attributes() -> Outcome {
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
    let gone = parameters
        .read(&mut [0])
        .map_err(|error| error.raw_os_error());
    check_eq!(gone, Err(Some(libc::ENODEV)), "a module that is gone");
    nothing_left()
}

/// The mapping keeps the file, and the file the module.
pub(super) fn mapped_words() -> Outcome {
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
            let spec = ContextSpec::compute("busy");
            let gpu = number % 2;
            let context = lab.sim.create_context(&ContextSpec { gpu, ..spec })?;
            context.submit(0, &[Item::work(Duration::from_millis(50)); 8])?;
            contexts.push(context);
        }
        let me = Target::current_process();
        lab.zernel.set_class(&me, Level::BE)?;
        in_use("zernel_sim", "working contexts")?;
        in_use("zernel", "a provider with TSGs")?;
        lab.wait_slice(&contexts[39], slice_of(7))?;
        drop(contexts);
        let (mut added, mut removed) = (0, 0);
        while let Some(event) = events.next_within(Some(Duration::ZERO))? {
            added += u32::from(event.kind == Kind::TsgAdded);
            removed += u32::from(event.kind == Kind::TsgRemoved);
        }
        check_eq!((added, removed), (40, 40), "TSGs told");
        let stats = lab.stats()?;
        let counts = (stats.tsgs, stats.gpus, stats.classes);
        check_eq!(counts, (0, 2, 1), "population");
        // zernel itself stays in use by this file.
        drop(lab.sim);
        unload_soon("zernel_sim")?;
        let stats = lab.zernel.stats()?;
        let counts = (stats.tsgs, stats.gpus, stats.classes);
        check_eq!(counts, (0, 0, 1), "what is left");
        in_use("zernel", "an open file")?;
    }
    unload("zernel")?;
    nothing_left()
}

/// A call of the provider that takes long is waited for, and nothing is called afterwards.
pub(super) fn leaves_during_a_call() -> Outcome {
    for (operation, error) in [
        (Operation::SetTimeslice, None),
        (Operation::SetTimeslice, Some(Errno::AGAIN)),
        (Operation::GetTimeslice, None),
        (Operation::GetTimeslice, Some(Errno::AGAIN)),
    ] {
        load_both()?;
        {
            let lab = Lab::open()?;
            let (_context, tsg) = lab.compute()?;
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
            let _other = lab.sim.create_context(&ContextSpec::compute("late"))?;
            lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
            wait_until("the call is under way", || {
                Ok(lab.sim.injected(0, operation)? > before)
            })?;
        }
        end()?;
    }
    Ok(())
}

/// Without open files and mappings the provider goes at once, also during a call.
pub(super) fn leaves_right_after_use() -> Outcome {
    let _expedited = Expedited::new()?;
    for _ in 0..ROUNDS {
        load_both()?;
        let lab = Lab::open()?;
        let context = lab.sim.create_context(&ContextSpec::compute("used"))?;
        let before = lab.sim.injected(0, Operation::SetTimeslice)?;
        lab.sim.inject(&Fault {
            gpu: 0,
            operation: Operation::SetTimeslice,
            count: u32::MAX,
            error: None,
            delay: Duration::from_millis(50),
            tsg: None,
        })?;
        lab.zernel
            .set_class(&Target::current_process(), Level::BE)?;
        wait_until("the call is under way", || {
            Ok(lab.sim.injected(0, Operation::SetTimeslice)? > before)
        })?;
        drop(context);
        drop(lab);
        unload("zernel_sim").context("nobody uses it")?;
        unload("zernel")?;
        nothing_left()?;
    }
    Ok(())
}
