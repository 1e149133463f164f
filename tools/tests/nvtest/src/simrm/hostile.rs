// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants that stop in the middle, lie, send garbage or are killed at any moment.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::modules::{load, unload_each};
use anyhow::{ensure, Context as _, Result};
use libzernel::{tsg, Level, Target};
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;
use testkit::{check_eq, sys, wait_until, Repeat, SOON};

use crate::lab::{agree, buses, same_tsgs, set_faults, Lab, GPUS, LOADED};
use crate::options;
use crate::rm::abi::{class, engine, escape, TsgParams};
use crate::rm::file::number;
use crate::rm::truth;
use crate::rm::{ControlFile, Form, Handle, Runtime, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.hostile",
    &[
        case("stopped_allocation_delays_nobody", stopped_allocation),
        case("parameters_that_change", parameters_that_change),
        case("garbage", garbage),
        case("killed_at_random", killed_at_random),
    ],
    LOADED,
);

/// The time for which a tenant stops in the middle of a call, if the call is not told to go on.
const STOP: Duration = Duration::from_secs(60);

/// A tenant can stop the driver in the middle of an allocation, since the driver reads its memory.
fn stopped_allocation() -> Outcome {
    let lab = Lab::open()?;
    let victim = Runtime::open()?;
    let tsg = victim.compute()?;
    let us = STOP.as_micros();
    set_faults(&format!("alloc:0xa06c us={us} users"))?;
    let attacker = Child::spawn(|| {
        sys::become_user(1000, 1000, &[])?;
        let runtime = Runtime::open()?;
        runtime.compute()?;
        Ok(())
    })?;
    wait_until("the attacker is in its call", || {
        Ok(crate::lab::faults()?.is_empty())
    })?;
    let listed = lab.class(&victim, tsg, Level::BE)?;
    lab.quiet()?;
    check_eq!(victim.timeslice(tsg)?, 200);
    let other = Runtime::open()?;
    let second = other.compute()?;
    other.channel(second)?;
    other.free(second)?;
    drop(other);
    lab.zernel.clear_class(&Target::Tsg(listed.id))?;
    lab.quiet()?;
    drop(lab);
    unload_each(&["zernel_nvidia"])?;
    load("zernel_nvidia", "")?;
    ensure!(
        attacker.wait_ended(Duration::ZERO).is_err(),
        "the others were not done before the attacker's call"
    );
    set_faults("none")?;
    check_eq!(attacker.end()?, End::Exit(0));
    agree()
}

/// The engine in the parameters changes while the driver reads them. That may cost the tenant the
/// name of the engine; it must not hide a TSG, nor keep what computes from being classed.
fn parameters_that_change() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    // Words that another thread writes: the parameters, as the kernel sees them.
    let params: Vec<AtomicU32> = [0, 0, runtime.vaspace.0, engine::GR0, 0]
        .into_iter()
        .map(AtomicU32::new)
        .collect();
    check_eq!(size_of_val(&params[..]), size_of::<TsgParams>());
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(options::seed());
            while !done.load(Relaxed) {
                let engines = [engine::GR0, engine::COPY0, 0, 77, engine::COPY0 + 3];
                let choice = random.below(engines.len() as u64) as usize;
                params[3].store(engines[choice], Relaxed);
            }
        });
        let made = make_and_drop(&lab, &runtime, &params);
        done.store(true, Relaxed);
        made
    })?;
    agree()?;
    let mut unnamed = 0;
    for (tsg, id) in &made {
        let held = truth::tsg(runtime.client, *tsg)?;
        let listed = lab.tsgs()?.into_iter().find(|tsg| tsg.id == *id);
        let listed = listed.with_context(|| format!("TSG {id} is gone: {held:?}"))?;
        check_eq!((listed.hw_tsg, listed.channels), (held.number, 0));
        unnamed += u32::from(listed.engine != held.engine);
        if held.engine == engine::GR0 {
            // Nothing computes without such an object.
            let channel = runtime.channel(*tsg)?;
            runtime.make(channel, class::COMPUTE, &mut [])?;
        }
    }
    println!(
        "    # {unnamed} of {} TSGs without the right engine",
        made.len()
    );
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    lab.quiet()?;
    for (tsg, _) in &made {
        let held = truth::tsg(runtime.client, *tsg)?;
        if held.engine == engine::GR0 {
            check_eq!(held.slice_us, 200, "a TSG that computes: {held:?}");
        }
    }
    agree()
}

/// Makes TSGs with parameters that change, and frees most of them; those that stay, with zernel's
/// number of each.
fn make_and_drop(
    lab: &Lab,
    runtime: &Runtime,
    params: &[AtomicU32],
) -> Result<Vec<(Handle, tsg::Id)>> {
    const ENOUGH: u64 = 60;
    let mut kept = Vec::new();
    let mut turns = 0..;
    for _ in Repeat::new(ENOUGH, "TSGs") {
        for turn in &mut turns {
            let made = runtime.file.alloc_at(
                Form::ALL[turn % Form::ALL.len()],
                runtime.client,
                runtime.device,
                Handle::NONE,
                class::TSG,
                params.as_ptr() as u64,
                size_of::<TsgParams>() as u32,
            );
            let Ok(made) = made else { continue };
            if turn % 17 == 0 {
                let newest = lab.tsgs()?.into_iter().map(|tsg| tsg.id).max();
                kept.push((made, newest.context("zernel lists no TSG")?));
                break;
            }
            runtime.free(made)?;
        }
    }
    Ok(kept)
}

/// Calls of any number and size with any content, from processes without privilege.
fn garbage() -> Outcome {
    const CLIENTS: u64 = 4;
    const LENGTH: Duration = Duration::from_secs(6);
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let bystander = Runtime::open()?;
    let tsg = bystander.compute()?;
    lab.class(&bystander, tsg, Level::BE)?;
    let seed = options::seed();
    println!("    # garbage: seed {seed}");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            Child::spawn(move || {
                sys::become_user(1000, 1000, &[])?;
                throw(&mut Random::new(seed + client), Instant::now() + LENGTH)
            })
        })
        .collect::<Result<_>>()?;
    for client in clients {
        client.join_within(LENGTH + SOON)?;
    }
    lab.quiet()?;
    check_eq!(truth::tsg(bystander.client, tsg)?.slice_us, 200);
    check_eq!(lab.stats()?.errors, errors);
    same_tsgs(&lab.zernel, &buses(&bystander.file)?)?;
    agree()
}

/// Calls that the interface layer itself answers without the resource manager, and calls that do
/// not belong to the driver at all.
const ESCAPES: [u32; 20] = [
    0x27,
    0x28,
    escape::FREE,
    escape::CONTROL,
    escape::ALLOC,
    escape::DUP,
    0x35,
    0x39,
    0x41,
    0x4a,
    0x4d,
    0x4e,
    0x4f,
    0x54,
    0x57,
    0x5c,
    0x5d,
    0x5e,
    escape::XFER,
    0xff,
];

/// A runtime to be thrown at, and handles that mean something to it; the last is of a TSG.
fn target() -> Result<(Runtime, Vec<u32>)> {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let known = vec![runtime.client.0, runtime.device.0, tsg.0];
    Ok((runtime, known))
}

fn throw(random: &mut Random, end: Instant) -> Result<()> {
    const SIZES: [usize; 10] = [0, 4, 8, 16, 24, 28, 32, 48, 56, 4_000];
    let (mut runtime, mut known) = target()?;
    let mut bytes = vec![0u8; 4_096];
    while Instant::now() < end {
        let escape = ESCAPES[random.below(ESCAPES.len() as u64) as usize];
        let size = if random.one_in(4) {
            random.below(64) as usize
        } else {
            SIZES[random.below(SIZES.len() as u64) as usize]
        };
        // Words that mean something, among words that do not. No address but null and wild ones.
        for (place, word) in bytes.chunks_exact_mut(4).take(16).enumerate() {
            let value = match random.below(6) {
                0 => 0,
                1 | 2 => known[random.below(known.len() as u64) as usize],
                3 => [class::TSG, class::DEVICE, class::CHANNEL, 0xa06c_0103, 0x41]
                    [random.below(5) as usize],
                _ => random.edge() as u32,
            };
            let wild = matches!(place, 4..=7);
            let value = if wild && !random.one_in(2) { 0 } else { value };
            word.copy_from_slice(&value.to_ne_bytes());
        }
        let fd = rustix::fd::AsFd::as_fd(&runtime.file);
        // The result does not matter.
        let _ = sys::ioctl_bytes(fd, number(escape, size), &mut bytes);
        if random.one_in(32) {
            if let Ok(tsg) = runtime.compute() {
                known.push(tsg.0);
            }
        }
        if random.one_in(400) || runtime.timeslice(Handle(known[known.len() - 1])).is_err() {
            (runtime, known) = target()?;
        }
    }
    Ok(())
}

/// Processes with threads that make and free things, each killed at some moment.
fn killed_at_random() -> Outcome {
    const PROCESSES: u64 = 8;
    const ROUNDS: u64 = 12;
    let lab = Lab::open()?;
    let mut random = Random::new(options::seed());
    println!("    # killed at random: seed {}", options::seed());
    let gpus = buses(&ControlFile::open()?)?;
    // The GPUs stay started: a process that is killed while it starts one meets a path of the
    // driver that forgets its interrupt.
    let _started: Vec<_> = (0..GPUS as usize)
        .map(|gpu| Runtime::with(Spec::on(gpu)))
        .collect::<Result<_, _>>()?;
    let mut added = lab.stats()?.tsgs_added;
    for round in Repeat::new(ROUNDS, "rounds") {
        let children: Vec<_> = (0..PROCESSES)
            .map(|_| {
                let seed = random.draw();
                Child::session(move || churn(seed))
            })
            .collect::<Result<_>>()?;
        for (number, child) in children.iter().enumerate() {
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            if number + 1 == children.len() {
                wait_until("somebody has made a TSG", || {
                    Ok(lab.stats()?.tsgs_added > added)
                })?;
            }
            child.kill()?;
        }
        for child in children {
            check_eq!(child.end()?, End::Signal(9), "round {round}");
        }
        wait_until("all is gone", || Ok(lab.tsgs()?.is_empty()))?;
        agree().with_context(|| format!("round {round}"))?;
        same_tsgs(&lab.zernel, &gpus)?;
        added = lab.stats()?.tsgs_added;
    }
    Ok(())
}

fn churn(seed: u64) -> Result<()> {
    let work = |seed: u64| -> Result<()> {
        let mut random = Random::new(seed);
        loop {
            let runtime = Runtime::with(Spec::on(random.below(2) as usize))?;
            let mut tsgs = Vec::new();
            for _ in 0..random.below(20) {
                tsgs.push(runtime.compute()?);
                for _ in 0..random.below(4) {
                    runtime.channel(tsgs[tsgs.len() - 1])?;
                }
            }
            let zernel = libzernel::Zernel::open()?;
            // Lowering oneself is free, and clearing it may find nothing.
            zernel.set_class(&Target::current_process(), Level::BE)?;
            let _ = zernel.clear_class(&Target::current_process());
            match random.below(4) {
                0 => runtime.free(runtime.client)?,
                1 => runtime.free(runtime.device)?,
                2 => tsgs.iter().try_for_each(|tsg| runtime.free(*tsg))?,
                _ => {}
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(seed + 1));
        work(seed)?;
        other.join().expect("a thread that does not panic")
    })
}
