// SPDX-License-Identifier: MIT OR Apache-2.0
//! The real resource manager on GPUs that are none: everything up to the allocation of a device.

use crate::modules::{is_loaded, load, try_unload, unload_each, Expedited, STOCK};
use anyhow::{ensure, Context as _, Result};
use bytemuck::bytes_of_mut;
use rustix::io::Errno;
use testkit::child::{in_child, Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;
use testkit::{check_eq, passing, sys, wait_until, Repeat};

use crate::lab::{make_nodes, Lab, ALL, BARE};
use crate::options;
use crate::rm::abi::{class, control, DeviceParams};
use crate::rm::truth::Counts;
use crate::rm::{status_of, ControlFile, Form, Handle, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakegpu",
    &[
        case("gpu_is_listed", gpu_is_listed),
        case("clients_are_followed", clients_are_followed),
        case("earlier_clients_are_replayed", earlier_clients_are_replayed),
        case("files_live_on_elsewhere", files_live_on_elsewhere),
        case("driver_refuses_strangers", driver_refuses_strangers),
        case(
            "nothing_is_recorded_of_what_fails",
            nothing_is_recorded_of_what_fails,
        ),
        case("calls_reach_the_core", calls_reach_the_core),
        case("bound_driver_stays", bound_driver_stays),
        case("loads_and_unloads", loads_and_unloads),
    ],
    BARE,
);

/// Rounds of opening, allocating and closing.
const ROUNDS: u64 = 1_000;
/// Rounds of loading and unloading.
const LOADS: u64 = 100;

fn load_all() -> Result<()> {
    for name in ["fakegpu", "nvidia", "zernel", "zernel_nvidia"] {
        if !is_loaded(name) {
            load(name, "")?;
        }
    }
    make_nodes()
}

/// The objects in the table that user space can make here.
fn table() -> Result<(u64, u64)> {
    let counts = Counts::of_table()?;
    for name in [
        "devices",
        "subdevices",
        "tsg_handles",
        "tsgs",
        "channels",
        "forgotten",
    ] {
        check_eq!(counts.get(name)?, 0, "{name}");
    }
    Ok((counts.get("files")?, counts.get("clients")?))
}

fn gpu_is_listed() -> Outcome {
    load_all()?;
    let cards = ControlFile::open()?.cards()?;
    check_eq!(cards.len(), 1, "GPUs of the driver");
    let lab = Lab::open()?;
    let gpus: Vec<_> = lab.zernel.gpus().collect::<libzernel::Result<_>>()?;
    check_eq!(gpus.len(), 1, "GPUs of zernel");
    check_eq!(gpus[0].provider, "nvidia");
    let card = &cards[0];
    let bus = format!(
        "{:04x}:{:02x}:{:02x}.{}",
        card.domain, card.bus, card.slot, card.function
    );
    check_eq!(gpus[0].bus, bus);
    check_eq!(Counts::of_table()?.get("gpus")?, 1);
    // The GPU itself goes, and with it zernel's knowledge of it.
    unload_each(&["fakegpu"])?;
    wait_until("zernel forgets it", || Ok(lab.zernel.gpus().count() == 0))?;
    check_eq!(Counts::of_table()?.get("gpus")?, 0);
    Ok(())
}

fn clients_are_followed() -> Outcome {
    load_all()?;
    let seed = options::seed();
    println!("    # --seed {seed}");
    let mut random = Random::new(seed);
    let mut rounds = Repeat::new(ROUNDS, "rounds");
    let mut files: Vec<(ControlFile, Vec<Handle>)> = Vec::new();
    let mut made = 0;
    for round in &mut rounds {
        let file = ControlFile::open()?;
        let mut clients = Vec::new();
        for _ in 0..=random.below(3) {
            let form = Form::ALL[random.below(4) as usize];
            let root = class::ROOTS[random.below(3) as usize];
            let none = Handle::NONE;
            clients.push(file.alloc(form, none, none, none, root, &mut [])?);
            made += 1;
        }
        if random.one_in(3) {
            let client = clients.swap_remove(random.below(clients.len() as u64) as usize);
            file.free(client, client)?;
        }
        files.push((file, clients));
        if files.len() > 8 || random.one_in(2) {
            files.swap_remove(random.below(files.len() as u64) as usize);
        }
        let with_clients = files.iter().filter(|(_, clients)| !clients.is_empty());
        let clients: usize = files.iter().map(|(_, clients)| clients.len()).sum();
        let expected = (with_clients.count() as u64, clients as u64);
        wait_until("the table has what there is", || Ok(table()? == expected))
            .with_context(|| format!("round {round}: {:?}, expected {expected:?}", table()))?;
    }
    drop(files);
    wait_until("the table is empty", || Ok(table()? == (0, 0)))?;
    println!("    # {made} clients in {}", rounds.report());
    Ok(())
}

fn earlier_clients_are_replayed() -> Outcome {
    load("fakegpu", "")?;
    load("nvidia", "")?;
    make_nodes()?;
    let files: Vec<_> = (0..5)
        .map(|number| {
            let file = ControlFile::open()?;
            for _ in 0..number {
                file.client()?;
            }
            Ok(file)
        })
        .collect::<Result<_>>()?;
    load("zernel", "")?;
    for _ in 0..10 {
        load("zernel_nvidia", "")?;
        check_eq!(table()?, (4, 10));
        unload_each(&["zernel_nvidia"])?;
    }
    drop(files);
    load("zernel_nvidia", "")?;
    wait_until("the table is empty", || Ok(table()? == (0, 0)))
}

fn files_live_on_elsewhere() -> Outcome {
    use std::os::fd::AsFd;
    load_all()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(move || {
        let file = ControlFile::open()?;
        file.client()?;
        passing::send(&its, file.as_fd())?;
        Ok(())
    })?;
    let file = ControlFile::from_fd(passing::receive(&ours)?);
    check_eq!(child.end()?, End::Exit(0));
    check_eq!(table()?, (1, 1), "while the file is here");
    drop(file);
    wait_until(
        "the client is gone with its file",
        || Ok(table()? == (0, 0)),
    )?;
    for _ in 0..20 {
        let (ours, its) = passing::pair()?;
        let child = Child::spawn(move || {
            let file = ControlFile::open()?;
            file.client()?;
            passing::send_number(&its, 1)?;
            loop {
                let client = file.client()?;
                file.free(client, client)?;
            }
        })?;
        passing::receive_number(&ours)?;
        child.kill()?;
        check_eq!(child.end()?, End::Signal(9));
        wait_until("a killed process leaves nothing", || Ok(table()? == (0, 0)))?;
    }
    Ok(())
}

/// The real checks, with zernel and without it.
fn driver_refuses_strangers() -> Outcome {
    load_all()?;
    for loaded in [true, false] {
        if !loaded {
            unload_each(&["zernel_nvidia", "zernel"])?;
        }
        let file = ControlFile::open()?;
        let client = file.client()?;
        let mut ids = [0u32; 32];
        let own = file.control(client, client, control::ATTACHED_IDS, 0, &mut ids);
        check_eq!(
            status_of(own)?,
            Status::OK,
            "its owner, zernel loaded: {loaded}"
        );
        let stranger = || -> Result<()> {
            let file = ControlFile::open()?;
            let refused = Status::INVALID_CLIENT;
            let mut ids = [0u32; 32];
            let answer = file.control(client, client, control::ATTACHED_IDS, 0, &mut ids);
            check_eq!(status_of(answer)?, refused, "control");
            let mut slice = 100_000u64;
            let set = control::SET_TIMESLICE;
            let answer = file.control(client, Handle(0x5c00_0010), set, 0, &mut slice);
            check_eq!(status_of(answer)?, refused, "set a slice");
            ensure!(file.free(client, client).is_err(), "free");
            Ok(())
        };
        let context = || format!("zernel loaded: {loaded}");
        in_child(stranger).with_context(context)?;
        in_child(|| {
            sys::become_user(1000, 1000, &[])?;
            stranger()
        })
        .with_context(context)?;
        let own = file.control(client, client, control::ATTACHED_IDS, 0, &mut ids);
        check_eq!(status_of(own)?, Status::OK, "its owner still may");
    }
    Ok(())
}

fn nothing_is_recorded_of_what_fails() -> Outcome {
    load_all()?;
    let file = ControlFile::open()?;
    let client = file.client()?;
    for form in Form::ALL {
        let mut params: DeviceParams = bytemuck::Zeroable::zeroed();
        let params = bytes_of_mut(&mut params);
        let device = file.alloc(form, client, client, Handle::NONE, class::DEVICE, params);
        ensure!(
            status_of(device)? != Status::OK,
            "a GPU that is none was taken"
        );
        let mut params = [0u8; 20];
        let tsg = file.alloc(
            form,
            client,
            Handle(5),
            Handle::NONE,
            class::TSG,
            &mut params,
        );
        ensure!(status_of(tsg)? != Status::OK, "a TSG below nothing");
    }
    check_eq!(table()?, (1, 1));
    Ok(())
}

/// The answers of the real core to the kernel, on a GPU that was never started.
const ANSWERS: [(&str, u32); 20] = [
    ("client", 0),
    ("device", 0x40),
    ("subdevice_of_client", 0x36),
    ("memory_of_client", 0x36),
    ("event_buffer", 0x56),
    ("event_buffer_on_nothing", 0x57),
    ("bind_switches_of_client", 0x56),
    ("bind_switches_of_nothing", 0x57),
    ("enable_of_client", 0x56),
    ("get_of_client", 0x56),
    ("flush_of_client", 0x56),
    ("flush_of_nothing", 0x57),
    ("time_of_client", 0x56),
    ("context_of_client", 0x56),
    ("restart_of_client", 0x56),
    ("disable_of_client", 0x56),
    ("tables_of_client", 0x56),
    ("session_of_uvm", 0),
    ("retain_without_space", 0x1f),
    ("retain_of_nobody", 0x33),
];

fn calls_reach_the_core() -> Outcome {
    for (with_zernel, gpus) in [(false, 1), (true, 1), (true, 2)] {
        load("fakegpu", &format!("gpus={gpus}"))?;
        load("nvidia", "")?;
        if with_zernel {
            load("zernel", "")?;
            load("zernel_nvidia", "")?;
        }
        load("coreprobe", "")?;
        let told = std::fs::read_to_string("/sys/kernel/debug/coreprobe")?;
        let expected: String = ANSWERS
            .iter()
            .map(|(call, status)| format!("{call} {status:#x}\n"))
            .collect();
        check_eq!(told, expected, "GPUs: {gpus}, zernel loaded: {with_zernel}");
        if with_zernel {
            // The kernel's own clients are none of a program.
            check_eq!(table()?, (0, 0));
            unload_each(&["coreprobe", "zernel_nvidia", "zernel"])?;
        } else {
            check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "in use");
        }
        unload_each(&["coreprobe", "nvidia", "fakegpu"])?;
    }
    Ok(())
}

fn bound_driver_stays() -> Outcome {
    load_all()?;
    check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "bound");
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "in use");
    unload_each(&["zernel_nvidia"])?;
    let file = ControlFile::open()?;
    check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "open");
    drop(file);
    unload_each(&[STOCK])?;
    wait_until(
        "nobody uses the driver",
        || Ok(try_unload("nvidia").is_ok()),
    )?;
    // Without the driver its provider cannot be.
    ensure!(
        load("zernel_nvidia", "").is_err(),
        "loaded without the driver"
    );
    Ok(())
}

/// The four modules in every order in which they can come and go.
fn loads_and_unloads() -> Outcome {
    let _expedited = Expedited::new()?;
    let mut rounds = Repeat::new(LOADS, "rounds");
    for round in &mut rounds {
        let order: [&str; 4] = match round % 3 {
            0 => ["zernel", "fakegpu", "nvidia", "zernel_nvidia"],
            1 => ["fakegpu", "nvidia", "zernel", "zernel_nvidia"],
            _ => ["fakegpu", "zernel", "nvidia", "zernel_nvidia"],
        };
        for name in order {
            if !is_loaded(name) {
                load(name, "").with_context(|| format!("round {round}"))?;
            }
        }
        make_nodes()?;
        let file = ControlFile::open()?;
        file.client()?;
        check_eq!(table()?, (1, 1), "round {round}");
        check_eq!(Lab::open()?.stats()?.gpus, 1, "round {round}");
        if round % 4 != 0 {
            drop(file);
        } else {
            // The client outlives the provider, and the one after it.
            unload_each(&["zernel_nvidia"])?;
            load("zernel_nvidia", "")?;
            check_eq!(table()?, (1, 1), "round {round}, again");
            drop(file);
        }
        match round % 4 {
            0 => unload_each(&["fakegpu", "zernel_nvidia", "nvidia", "zernel"])?,
            1 => unload_each(&["zernel_nvidia", "zernel", "nvidia", "fakegpu"])?,
            2 => unload_each(&["zernel_nvidia"])?,
            _ => unload_each(&ALL)?,
        }
    }
    println!("    # {}", rounds.report());
    Ok(())
}
