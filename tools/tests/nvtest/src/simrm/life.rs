// SPDX-License-Identifier: MIT OR Apache-2.0
//! zernel and its provider come after the runtimes and go before them.

use std::time::Duration;

use crate::modules::{is_loaded, load, try_unload, unload_each, Expedited};
use anyhow::{ensure, Result};
use libzernel::{Level, Target};
use rustix::io::Errno;
use testkit::child::Child;
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, passing, Repeat};

use crate::lab::{
    agree, buses, load_driver, load_zernel, run_in_slices, same_tsgs, wait_slice, Lab, ALL, BARE,
    DRIVER, GPUS, ORIGINAL_LEVEL, ORIGINAL_US,
};
use crate::rm::abi::engine;
use crate::rm::file::open_node;
use crate::rm::truth::{self, Counts};
use crate::rm::{ControlFile, Handle, Runtime, Spec};

/// The suite whose cases find the driver alone.
pub const SUITE: Suite = Suite::new(
    "simrm.life",
    &[
        case("earlier_tsgs_are_replayed", earlier_tsgs_are_replayed),
        case("earlier_owners_are_known", earlier_owners_are_known),
        case("unowned_tsgs_are_left_alone", unowned_tsgs_are_left_alone),
        case(
            "unloading_gives_everything_back",
            unloading_gives_everything_back,
        ),
        case(
            "slices_return_with_the_provider",
            slices_return_with_the_provider,
        ),
        case("provider_keeps_the_driver", provider_keeps_the_driver),
    ],
    DRIVER,
);

/// The suite whose cases find nothing.
pub const ORDERS: Suite = Suite::new("simrm.orders", &[case("every_order", every_order)], BARE);

/// Some runtimes with TSGs on every GPU and aliases between them.
fn population() -> Result<Vec<(Runtime, Vec<Handle>)>> {
    let mut all: Vec<(Runtime, Vec<Handle>)> = Vec::new();
    for number in 0..6 {
        let runtime = Runtime::with(Spec {
            subdevice: number % 3 != 1,
            ..Spec::on(number % GPUS as usize)
        })?;
        let mut tsgs = Vec::new();
        for turn in 0..=number {
            let engine = [engine::GR0, engine::COPY0, engine::COPY0 + 1][turn % 3];
            let tsg = runtime.tsg(engine)?;
            for _ in 0..turn {
                runtime.channel(tsg)?;
            }
            tsgs.push(tsg);
        }
        if number % 2 == 1 && number >= GPUS as usize {
            // A handle here for a TSG of an earlier client on the same GPU.
            let (source, theirs) = &all[number - GPUS as usize];
            let (client, device) = (runtime.client, runtime.device);
            let none = Handle::NONE;
            runtime
                .file
                .dup(client, device, none, source.client, theirs[0])?;
        }
        // Some that are gone before zernel comes.
        let gone = runtime.compute()?;
        runtime.channel(gone)?;
        runtime.free(gone)?;
        all.push((runtime, tsgs));
    }
    Ok(all)
}

fn earlier_tsgs_are_replayed() -> Outcome {
    let runtimes = population()?;
    for _ in 0..3 {
        load_zernel()?;
        let lab = Lab::open()?;
        same_tsgs(&lab.zernel, &buses(&runtimes[0].0.file)?)?;
        agree()?;
        let (runtime, tsgs) = &runtimes[5];
        for tsg in tsgs {
            let listed = lab.tsg(runtime, *tsg)?;
            check_eq!(listed.compute, listed.engine == engine::GR0);
        }
        lab.class(runtime, tsgs[0], Level::BE)?;
        wait_slice(runtime, tsgs[0], 200)?;
        drop(lab);
        unload_each(&["zernel_nvidia", "zernel"])?;
        check_eq!(truth::tsg(runtime.client, tsgs[0])?.slice_us, ORIGINAL_US);
    }
    Ok(())
}

fn earlier_owners_are_known() -> Outcome {
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        testkit::sys::become_user(1000, 1000, &[])?;
        let runtime = Runtime::open()?;
        runtime.compute()?;
        passing::send_number(&its, 1)?;
        std::thread::sleep(Duration::from_secs(60));
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    load_zernel()?;
    let lab = Lab::open()?;
    let listed = lab.tsgs()?;
    check_eq!(listed.len(), 1);
    check_eq!((listed[0].pid, listed[0].uid), (child.pid(), 1000));
    lab.zernel
        .set_class(&Target::Process(child.pid()), Level::BE)?;
    lab.quiet()?;
    check_eq!(truth::tsgs()?[0].slice_us, 200);
    child.kill()?;
    child.end()?;
    testkit::wait_until("its TSG is gone", || Ok(lab.tsgs()?.is_empty()))
}

/// Its maker is gone, its file is here: whose work it carries, nobody can say.
fn unowned_tsgs_are_left_alone() -> Outcome {
    use std::os::fd::AsFd;
    // A GPU that nobody has open stops, and all that is on it ends.
    let _started = open_node("/dev/nvidia0")?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        let runtime = Runtime::open()?;
        runtime.compute()?;
        passing::send(&its, runtime.file.as_fd())
    })?;
    let _file = ControlFile::from_fd(passing::receive(&ours)?);
    child.end()?;
    load_zernel()?;
    let lab = Lab::open()?;
    check_eq!(lab.tsgs()?, []);
    let table = Counts::of_table()?;
    check_eq!((table.get("tsgs")?, table.get("unowned")?), (1, 1));
    agree()
}

fn unloading_gives_everything_back() -> Outcome {
    load_zernel()?;
    let runtime = Runtime::open()?;
    let other = Runtime::with(Spec::on(1))?;
    let plain: Vec<_> = (0..20)
        .map(|_| runtime.compute())
        .collect::<Result<_, _>>()?;
    let own = other.compute()?;
    other.set_timeslice(own, 3_000)?;
    for (names, level) in [
        (&["zernel_nvidia"][..], Level::BE),
        (&["zernel_nvidia", "zernel"][..], Level::LC),
    ] {
        load_zernel()?;
        let lab = Lab::open()?;
        lab.zernel.set_class(&Target::current_process(), level)?;
        lab.quiet()?;
        let slice = if level == Level::BE { 200 } else { 5_000_000 };
        check_eq!(truth::tsg(other.client, own)?.slice_us, slice);
        drop(lab);
        unload_each(names)?;
        for tsg in &plain {
            let held = truth::tsg(runtime.client, *tsg)?;
            check_eq!(
                (held.slice_us, held.interleave),
                (ORIGINAL_US, ORIGINAL_LEVEL),
                "without {names:?}"
            );
        }
        let held = truth::tsg(other.client, own)?;
        check_eq!((held.slice_us, held.interleave), (3_000, ORIGINAL_LEVEL));
    }
    Ok(())
}

/// A class outlives the provider; whoever comes back is given its slice again.
fn slices_return_with_the_provider() -> Outcome {
    load_zernel()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let lab = Lab::open()?;
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    for _ in 0..5 {
        wait_slice(&runtime, tsg, 200)?;
        unload_each(&["zernel_nvidia"])?;
        check_eq!(lab.tsgs()?, []);
        check_eq!(truth::tsg(runtime.client, tsg)?.slice_us, ORIGINAL_US);
        let second = runtime.compute()?;
        load("zernel_nvidia", "")?;
        wait_slice(&runtime, second, 200)?;
        runtime.free(second)?;
    }
    Ok(())
}

fn provider_keeps_the_driver() -> Outcome {
    check_eq!(is_loaded("zernel"), false);
    load_zernel()?;
    for name in ["nvidia", "zernel"] {
        check_eq!(try_unload(name), Err(Errno::AGAIN), "{name} with its user");
    }
    unload_each(&["zernel_nvidia"])?;
    // An open file keeps the driver as ever.
    let runtime = Runtime::open()?;
    check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "with a client");
    drop(runtime);
    Ok(())
}

/// Loads and unloads in every order that is possible, with a client now and then.
fn every_order() -> Outcome {
    const ROUNDS: u64 = 24;
    let loads: [&[&str]; 3] = [
        &["zernel", "fakegpu", "nvidia", "zernel_nvidia"],
        &["fakegpu", "zernel", "nvidia", "zernel_nvidia"],
        &["fakegpu", "nvidia", "zernel", "zernel_nvidia"],
    ];
    let _expedited = Expedited::new()?;
    for round in Repeat::new(ROUNDS, "rounds") {
        for name in loads[round as usize % loads.len()] {
            let parameters = if *name == "fakegpu" { "gpus=2" } else { "" };
            load(name, parameters)?;
        }
        load_driver()?;
        run_in_slices()?;
        let lab = Lab::open()?;
        check_eq!(lab.stats()?.gpus, u64::from(GPUS), "round {round}");
        if round % 2 == 0 {
            let runtime = Runtime::open()?;
            let tsg = runtime.compute()?;
            lab.class(&runtime, tsg, Level::BE)?;
            wait_slice(&runtime, tsg, 200)?;
        }
        drop(lab);
        match round % 4 {
            // The GPUs vanish from below everybody.
            0 => {
                unload_each(&["fakegpu"])?;
                check_eq!(Lab::open()?.stats()?.gpus, 0, "round {round}");
                unload_each(&ALL)?;
            }
            1 => unload_each(&["zernel_nvidia", "nvidia", "fakegpu", "zernel"])?,
            2 => unload_each(&["zernel_nvidia", "nvidia", "zernel", "fakegpu"])?,
            _ => unload_each(&ALL)?,
        }
        for name in ALL {
            ensure!(!is_loaded(name), "{name} is left in round {round}");
        }
    }
    Ok(())
}
