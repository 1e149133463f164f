// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hundred rounds of loading and unloading while other processes use what is there.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::{ContextSpec, Item, Sim};
use libzernel::{Level, Target, Timestamp, Zernel};
use rustix::io::Errno;

use super::nothing_left;
use crate::child::Child;
use crate::common::{load, load_all, try_unload, unload_all, unload_soon, wait_until};
use crate::harness::Outcome;
use crate::sys;
use testkit::module::Expedited;
use testkit::{passing, Repeat};

/// Rounds, each of which loads and unloads both modules.
const ROUNDS: u64 = 200;

/// Errors of a client whose device comes and goes.
fn is_away(error: &anyhow::Error) -> bool {
    let errno = match error.downcast_ref::<libzernel::Error>() {
        Some(error) => error.errno(),
        None => error.downcast_ref::<Errno>().copied(),
    };
    // Not there, on its way out, no driver for the node yet or any more; or a node that devtmpfs
    // has made but not yet given its mode.
    matches!(
        errno,
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::ACCESS)
    )
}

/// One visit of a client; only root may raise and clear.
fn visit(number: u64, root: bool) -> Result<()> {
    let zernel = Zernel::open()?;
    zernel.stats()?;
    let me = Target::current_process();
    let raised = root && number % 2 == 0;
    zernel.set_class(&me, if raised { Level::LC } else { Level::BE })?;
    let _events = zernel.events()?;
    let sim = Sim::open()?;
    let context = sim.create_context(&ContextSpec::compute("visit"))?;
    // The class came first, so that this changes nothing.
    let undone = context.set_timeslice(50_000).map_err(|error| error.errno());
    ensure!(undone == Err(Some(Errno::PERM)), "own slice: {undone:?}");
    let submitted = context.submit(0, &[Item::work(Duration::from_micros(20)); 4])?;
    if number % 3 != 0 {
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
    }
    if root && number % 5 == 0 {
        zernel.clear_class(&me)?;
    }
    Ok(())
}

/// Visits until it is killed; reports every visit that found both devices.
fn client(socket: &OwnedFd, root: bool) -> Result<()> {
    for number in 0.. {
        match visit(number, root) {
            Ok(()) => passing::send_number(socket, number)?,
            Err(error) if is_away(&error) => {}
            Err(error) => return Err(error),
        }
        // Now and then nobody is there, so that the modules can go.
        std::thread::sleep(Duration::from_millis(5 + number * 7 % 30));
    }
    bail!("the numbers are used up")
}

/// The number of visits that were reported since the last question.
fn received(socket: &OwnedFd) -> u32 {
    let mut bytes = [0; 8];
    let report = || rustix::io::read(socket, &mut bytes).is_ok_and(|read| read == bytes.len());
    std::iter::repeat_with(report).take_while(|&is| is).count() as u32
}

pub(super) fn rounds_under_load() -> Outcome {
    let _expedited = Expedited::new()?;
    let (ours, its) = passing::pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let mut clients = Vec::new();
    for uid in [0, 1000] {
        let its = its.try_clone()?;
        clients.push(Child::spawn(move || {
            sys::become_user(uid, uid, &[])?;
            client(&its, uid == 0)
        })?);
    }
    let mut visits = 0u32;
    let mut rounds = Repeat::new(ROUNDS, "rounds");
    for round in &mut rounds {
        load("zernel", "")?;
        load("zernel_sim", &format!("gpus={}", round % 4 + 1))?;
        match round % 4 {
            // The provider goes and, at times, comes back to the same zernel.
            0 | 1 => {
                if round % 20 == 1 {
                    unload_soon("zernel_sim")?;
                    load("zernel_sim", "gpus=3")?;
                }
                ensure!(try_unload("zernel").is_err(), "before its provider");
            }
            // With some time for the clients.
            2 => std::thread::sleep(Duration::from_millis(15)),
            // At once; the one that is in use stays.
            _ => {
                for name in ["zernel", "zernel_sim", "zernel"] {
                    // The clients decide whether it goes.
                    let _ = try_unload(name);
                }
            }
        }
        unload_all()?;
        nothing_left().with_context(|| format!("after round {round}"))?;
        visits += received(&ours);
        let ended = |client: &Child| client.wait_ended(Duration::ZERO).is_ok();
        if let Some(ended) = clients.iter().position(ended) {
            let why = clients.swap_remove(ended).join();
            bail!("client {ended} ended in round {round}: {why:?}");
        }
    }
    // When they stay, each finds them.
    load_all()?;
    wait_until("a client finds the devices", || {
        visits += received(&ours);
        Ok(visits > 0)
    })?;
    for client in clients {
        client.kill()?;
        client.end()?;
    }
    println!("    # {visits} visits in {}", rounds.report());
    unload_all()?;
    nothing_left()
}
