// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracked threads: very many, that are listed.

use std::sync::atomic::AtomicU32;

use anyhow::Result;
use libzernel::sim::Sim;
use libzernel::{Level, Target, Tracking, Zernel};
use testkit::sys;

use super::contexts;
use crate::troop::Troop;

/// The word that the threads wait for.
static WORD: AtomicU32 = AtomicU32::new(0);

/// Processes that list everything.
const LISTERS: usize = 2;

/// A process of so many tracked threads lists processes, another one of its user threads.
pub fn listed(troop: &mut Troop, threads: usize) -> Result<()> {
    let user = troop.user();
    troop.tenant(user, move |stage| {
        let zernel = Zernel::open()?;
        // The caller is one.
        for _ in 1..threads {
            sys::spawn_waiter(&WORD)?;
        }
        zernel.track(&Target::current_process(), Tracking::ML)?;
        stage.wait()?;
        loop {
            zernel.processes().try_for_each(|one| one.map(drop))?;
        }
    })?;
    troop.tenant(user, |stage| {
        let zernel = Zernel::open()?;
        stage.wait()?;
        loop {
            zernel.threads().try_for_each(|one| one.map(drop))?;
        }
    })
}

/// A tenant with something of everything lists all of it.
pub fn everything(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    for _ in 0..LISTERS {
        troop.tenant(user, |stage| {
            let (zernel, sim) = (Zernel::open()?, Sim::open()?);
            let _contexts = contexts(&sim, 8)?;
            let me = Target::current_process();
            zernel.track(&me, Tracking::ML)?;
            zernel.set_class(&me, Level::BE)?;
            stage.wait()?;
            loop {
                zernel.tsgs().try_for_each(|one| one.map(drop))?;
                zernel.classes().try_for_each(|one| one.map(drop))?;
                zernel.gpus().try_for_each(|one| one.map(drop))?;
                zernel.threads().try_for_each(|one| one.map(drop))?;
                zernel.processes().try_for_each(|one| one.map(drop))?;
                zernel.cgroups().try_for_each(|one| one.map(drop))?;
                zernel.stats()?;
            }
        })?;
    }
    Ok(())
}
