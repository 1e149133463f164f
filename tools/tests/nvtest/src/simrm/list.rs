// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TSGs of a runtime, as zernel lists them.

use std::collections::BTreeSet;
use std::sync::Barrier;

use anyhow::{ensure, Context as _, Result};
use libzernel::Tsg;
use testkit::child::{in_child, Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, sys, wait_until, zernelctl};

use crate::lab::{agree, faults, set_faults, Lab, GPUS, LOADED, ORIGINAL_US};
use crate::rm::abi::{class, control, engine};
use crate::rm::truth::{self, Counts};
use crate::rm::{ControlFile, Form, Handle, Runtime, Spec, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.list",
    &[
        case("tsg_is_described", tsg_is_described),
        case("every_form_of_alloc", every_form_of_alloc),
        case("channels_follow", channels_follow),
        case("engines", engines),
        case(
            "engine_object_makes_it_compute",
            engine_object_makes_it_compute,
        ),
        case("engine_without_a_runlist", engine_without_a_runlist),
        case("without_a_subdevice", without_a_subdevice),
        case("another_user", another_user),
        case("each_gpu", each_gpu),
        case("threads_and_contexts", threads_and_contexts),
        case("freed_with_what_it_hangs_on", freed_with_what_it_hangs_on),
        case("failed_alloc_leaves_nothing", failed_alloc_leaves_nothing),
        case("command_line", command_line),
    ],
    LOADED,
);

fn tsg_is_described() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    check_eq!(lab.tsgs()?, [], "before");
    let tsg = runtime.compute()?;
    // The worker reads the slice when the TSG appears.
    lab.quiet()?;
    let listed = lab.tsg(&runtime, tsg)?;
    let gpu = lab.gpu(&runtime.bus())?;
    check_eq!(u64::from(listed.timeslice_us), ORIGINAL_US);
    check_eq!(u64::from(listed.default_timeslice_us), ORIGINAL_US);
    check_eq!(gpu.provider, "nvidia");
    check_eq!(gpu.tsgs, 1);
    check_eq!(listed.gpu, gpu.id);
    check_eq!(listed.engine, engine::GR0);
    check_eq!(listed.hw_tsg, runtime.number(tsg)?);
    check_eq!(listed.pid, std::process::id());
    check_eq!(listed.tid, std::process::id());
    check_eq!(listed.uid, 0);
    ensure!(listed.compute, "not on a compute engine");
    check_eq!(listed.channels, 0);
    check_eq!(listed.level, None);
    check_eq!(lab.tsgs()?.len(), 1);
    agree()?;
    runtime.free(tsg)?;
    check_eq!(lab.tsgs()?, [], "after");
    agree()
}

fn every_form_of_alloc() -> Outcome {
    let lab = Lab::open()?;
    for form in Form::ALL {
        for root in class::ROOTS {
            let file = ControlFile::open()?;
            let none = Handle::NONE;
            let client = file.alloc(form, none, none, none, root, &mut [])?;
            file.free(client, client)?;
        }
        let runtime = Runtime::with(Spec {
            form,
            ..Spec::USUAL
        })?;
        let tsg = runtime.compute()?;
        let channel = runtime.channel(tsg)?;
        let listed = lab
            .tsg(&runtime, tsg)
            .with_context(|| format!("{form:?}"))?;
        check_eq!(listed.channels, 1, "{form:?}");
        runtime.free(channel)?;
        agree().with_context(|| format!("{form:?}"))?;
    }
    Ok(())
}

fn channels_follow() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let mut channels = Vec::new();
    for count in 1..=8 {
        channels.push(runtime.channel(tsg)?);
        check_eq!(lab.tsg(&runtime, tsg)?.channels, count);
    }
    let id = lab.tsg(&runtime, tsg)?.id;
    for channel in channels.drain(4..) {
        runtime.free(channel)?;
    }
    let listed = lab.tsg(&runtime, tsg)?;
    check_eq!((listed.id, listed.channels), (id, 4));
    // Channels that hang on a share of the group go with the share.
    let other = runtime.compute()?;
    let share = runtime.context_share(other, runtime.vaspace)?;
    for _ in 0..3 {
        runtime.channel_of_share(other, share)?;
    }
    check_eq!(lab.tsg(&runtime, other)?.channels, 3);
    runtime.free(share)?;
    check_eq!(lab.tsg(&runtime, other)?.channels, 0, "after the share");
    agree()
}

fn engines() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let mut lists = BTreeSet::new();
    for engine in [
        engine::GR0,
        engine::COPY0,
        engine::COPY0 + 1,
        engine::COPY0 + 5,
    ] {
        let tsg = runtime.tsg(engine)?;
        let listed = lab.tsg(&runtime, tsg)?;
        check_eq!(listed.engine, engine);
        check_eq!(listed.compute, engine == engine::GR0, "engine {engine}");
        ensure!(
            lists.insert(listed.runlist),
            "engine {engine} shares run list {}",
            listed.runlist
        );
        let again = lab.tsg(&runtime, runtime.tsg(engine)?)?;
        check_eq!(again.runlist, listed.runlist, "engine {engine}");
    }
    Ok(())
}

/// A TSG for another engine that nevertheless gets a compute object is one for compute, beside the
/// others.
fn engine_object_makes_it_compute() -> Outcome {
    let lab = Lab::open()?;
    for subdevice in [true, false] {
        let runtime = Runtime::with(Spec {
            subdevice,
            ..Spec::USUAL
        })?;
        let honest = runtime.compute()?;
        let runlist = lab.tsg(&runtime, honest)?.runlist;
        // Numbers count per engine.
        runtime.free(honest)?;
        let tsg = runtime.tsg(engine::COPY0)?;
        let channel = runtime.channel(tsg)?;
        runtime.make(channel, class::COPY, &mut [])?;
        let before = lab.tsg(&runtime, tsg)?;
        ensure!(!before.compute, "copying is not computing");
        ensure!(
            before.runlist != runlist,
            "it is on that of GR0: {before:?}"
        );
        runtime.make(channel, class::COMPUTE, &mut [])?;
        let after = lab.tsg(&runtime, tsg)?;
        ensure!(after.compute, "it computes");
        check_eq!(after.id, before.id);
        check_eq!((after.engine, after.runlist), (engine::GR0, runlist));
        agree()?;
    }
    Ok(())
}

/// A TSG whose engine has no run list is on that of the first engine that computes.
fn engine_without_a_runlist() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let honest = runtime.compute()?;
    let runlist = lab.tsg(&runtime, honest)?.runlist;
    set_faults(&format!(
        "control:{:#x} status={:#x} kernel",
        control::RUNLIST_BASES,
        Status::OBJECT_NOT_FOUND.0
    ))?;
    let tsg = runtime.tsg(engine::COPY0)?;
    check_eq!(faults()?, "", "the driver was not asked");
    check_eq!(lab.tsg(&runtime, tsg)?.runlist, runlist);
    // Where the driver never tells, nobody knows.
    set_faults(&format!(
        "control:{:#x} status={:#x} kernel times=2",
        control::RUNLIST_BASES,
        Status::OBJECT_NOT_FOUND.0
    ))?;
    let tsg = runtime.tsg(engine::COPY0)?;
    check_eq!(faults()?, "", "the driver was not asked twice");
    ensure!(lab.tsg(&runtime, tsg)?.runlist != runlist, "it is known");
    Ok(())
}

fn without_a_subdevice() -> Outcome {
    let lab = Lab::open()?;
    for gpu in 0..GPUS as usize {
        let runtime = Runtime::with(Spec {
            subdevice: false,
            ..Spec::on(gpu)
        })?;
        let tsg = runtime.compute()?;
        let listed = lab.tsg(&runtime, tsg)?;
        check_eq!(listed.gpu, lab.gpu(&runtime.bus())?.id);
        lab.class(&runtime, tsg, libzernel::Level::BE)?;
        crate::lab::wait_slice(&runtime, tsg, 200)?;
    }
    agree()
}

fn another_user() -> Outcome {
    let lab = Lab::open()?;
    let owner = Child::spawn(|| {
        sys::become_user(1000, 1000, &[])?;
        let runtime = Runtime::open()?;
        runtime.compute()?;
        loop {
            std::thread::park();
        }
    })?;
    wait_until("the owner's TSG is listed", || Ok(lab.tsgs()?.len() == 1))?;
    let listed = lab.tsgs()?;
    check_eq!((listed[0].uid, listed[0].pid), (1000, owner.pid()));
    for (user, sees) in [(1000, 1), (1001, 0)] {
        in_child(|| {
            sys::become_user(user, user, &[])?;
            check_eq!(Lab::open()?.tsgs()?.len(), sees, "what user {user} sees");
            Ok(())
        })?;
    }
    owner.kill()?;
    check_eq!(owner.end()?, End::Signal(9));
    Ok(())
}

fn each_gpu() -> Outcome {
    let lab = Lab::open()?;
    let mut seen = BTreeSet::new();
    for gpu in 0..GPUS as usize {
        let runtime = Runtime::with(Spec::on(gpu))?;
        let tsg = runtime.compute()?;
        let listed = lab.tsg(&runtime, tsg)?;
        check_eq!(truth::tsg(runtime.client, tsg)?.gpu, runtime.card.gpu_id);
        ensure!(
            seen.insert(listed.gpu),
            "GPU {gpu} is listed as another one"
        );
        for known in lab.zernel.gpus() {
            let known = known?;
            let count = u32::from(known.id == listed.gpu);
            check_eq!(known.tsgs, count, "TSGs of {}", known.bus);
        }
    }
    Ok(())
}

/// As a runtime with several contexts does it: each thread makes its own groups.
fn threads_and_contexts() -> Outcome {
    const THREADS: usize = 8;
    const CONTEXTS: usize = 3;
    let lab = Lab::open()?;
    let barrier = Barrier::new(THREADS);
    let (made, looked) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let work = || -> Result<Vec<(Runtime, Vec<Handle>)>> {
        barrier.wait();
        let runtimes = (0..CONTEXTS)
            .map(|context| {
                let runtime = Runtime::with(Spec::on(context % GPUS as usize))?;
                let tsgs = [engine::GR0, engine::COPY0, engine::COPY0 + 1]
                    .into_iter()
                    .map(|engine| {
                        let tsg = runtime.tsg(engine)?;
                        for _ in 0..=context {
                            runtime.channel(tsg)?;
                        }
                        Ok(tsg)
                    })
                    .collect::<Result<_>>()?;
                Ok((runtime, tsgs))
            })
            .collect();
        // A thread that has ended has no number any more.
        made.wait();
        looked.wait();
        runtimes
    };
    let (listed, runtimes) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        made.wait();
        let listed = lab.tsgs();
        looked.wait();
        let runtimes: Result<Vec<_>> = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread that does not panic"))
            .collect();
        (listed, runtimes)
    });
    let (listed, runtimes) = (listed?, runtimes?);
    check_eq!(listed.len(), THREADS * CONTEXTS * 3);
    let threads: BTreeSet<_> = listed.iter().map(|tsg| tsg.tid).collect();
    check_eq!(threads.len(), THREADS, "threads that made them");
    for (context, (runtime, tsgs)) in runtimes.iter().flatten().enumerate() {
        for tsg in tsgs {
            let found = lab.tsg(runtime, *tsg)?;
            check_eq!(found.channels as usize, context % CONTEXTS + 1);
            check_eq!(found.pid, std::process::id());
        }
    }
    agree()
}

/// Frees a TSG by each of the things that take it along.
fn freed_with_what_it_hangs_on() -> Outcome {
    let lab = Lab::open()?;
    let gone = |what: &str| -> Result<()> {
        check_eq!(lab.tsgs()?, Vec::<Tsg>::new(), "after {what}");
        check_eq!(Counts::of_rm()?.get("tsgs")?, 0, "after {what}");
        agree().with_context(|| what.to_owned())
    };
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    runtime.channel(tsg)?;
    runtime.free(tsg)?;
    gone("the TSG itself")?;

    runtime.compute()?;
    runtime.free(runtime.vaspace)?;
    gone("its address space")?;

    let runtime = Runtime::open()?;
    runtime.channel(runtime.compute()?)?;
    runtime.free(runtime.device)?;
    gone("its device")?;

    let runtime = Runtime::open()?;
    runtime.channel(runtime.compute()?)?;
    runtime.free(runtime.client)?;
    gone("its client")?;

    let runtime = Runtime::open()?;
    runtime.channel(runtime.compute()?)?;
    drop(runtime);
    wait_until("the file's TSG is gone", || Ok(lab.tsgs()?.is_empty()))?;
    gone("its file")
}

fn failed_alloc_leaves_nothing() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let before = Counts::of_table()?;
    // No such engine, no such parent, no parameters, parameters nowhere, no such client.
    ensure!(runtime.tsg(0).is_err(), "engine 0");
    ensure!(runtime.tsg(63 + 1).is_err(), "engine 64");
    let file = &runtime.file;
    for form in Form::ALL {
        for (client, parent, at, size) in [
            (runtime.client, Handle(0x77), 0, 0),
            (runtime.client, runtime.device, 0, 20),
            (runtime.client, runtime.device, 0x10, 20),
            (runtime.client, runtime.device, u64::MAX, 20),
            (Handle(0x1234), runtime.device, 0, 0),
        ] {
            let none = Handle::NONE;
            let made = file.alloc_at(form, client, parent, none, class::TSG, at, size);
            ensure!(
                made.is_err(),
                "{form:?}, {client:?}, {parent:?}, {at:#x}: {made:?}"
            );
        }
    }
    check_eq!(lab.tsgs()?, []);
    check_eq!(Counts::of_table()?, before);
    agree()
}

/// The same through the program that people use.
fn command_line() -> Outcome {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    for _ in 0..3 {
        runtime.channel(tsg)?;
    }
    Lab::open()?.quiet()?;
    let text = zernelctl::says(&["tsg", "list", "--json"])?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let listed = json.as_array().context("no list")?;
    check_eq!(listed.len(), 1);
    for (name, value) in [
        ("engine", u64::from(engine::GR0)),
        ("channels", 3),
        ("pid", u64::from(std::process::id())),
        ("uid", 0),
        ("timeslice_us", ORIGINAL_US),
        ("hw_tsg", u64::from(runtime.number(tsg)?)),
    ] {
        check_eq!(listed[0][name], value, "{name}");
    }
    Ok(())
}
