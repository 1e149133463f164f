// SPDX-License-Identifier: GPL-2.0
//! The frequency of samples of one user's threads beside very many of another's.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Phase, Target, Tracking, Zernel};

use super::{phases_of, wait_phases};
use crate::child::Child;
use crate::common::{tid, Lab};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Longer than the case takes.
const LONG: Duration = Duration::from_secs(60);

/// A program of a user with so many threads, of which one has a hint: the program never rests.
fn restless(user: u32, threads: usize) -> Result<Child> {
    Child::spawn(move || {
        sys::become_user(user, user, &[])?;
        let barrier = Arc::new(Barrier::new(threads));
        for _ in 1..threads {
            let barrier = barrier.clone();
            std::thread::Builder::new()
                .stack_size(16 << 10)
                .spawn(move || {
                    barrier.wait();
                    // It stays: the others are looked at beside it.
                    std::thread::sleep(LONG);
                })?;
        }
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        // At least one of its threads has to come back to user space.
        std::thread::sleep(Duration::from_millis(2));
        zernel.hint(&Target::Thread(tid()), Phase::OptimizerStep, LONG)?;
        // Together the others have been released, and recorded, once.
        barrier.wait();
        std::thread::sleep(LONG);
        Ok(())
    })
}

/// Samples that were taken of a thread within 200 ms.
fn samples(zernel: &Zernel, tid: u32) -> Result<u64> {
    let count = || Ok::<_, anyhow::Error>(phases_of(zernel, tid)?.context("not listed")?.samples);
    let before = count()?;
    std::thread::sleep(Duration::from_millis(200));
    Ok(count()? - before)
}

pub(super) fn beside_many() -> Outcome {
    const MANY: usize = 6_000;
    let lab = Lab::open()?;
    let few = restless(BOB, 1)?;
    wait_phases(&lab.zernel, few.pid(), 1)?;
    let alone = samples(&lab.zernel, few.pid())?;
    let many = restless(ALICE, MANY)?;
    crate::common::wait_until("the many are tracked", || {
        let is_over = many.wait_ended(Duration::ZERO).is_ok();
        Ok(is_over || lab.zernel.stats()?.threads >= MANY as u64)
    })?;
    if many.wait_ended(Duration::ZERO).is_ok() {
        return many.join().context("the many");
    }
    // None of the many is without: they are looked at in turn.
    crate::common::wait_until("the many have samples", || {
        let of = super::phases_in(&lab.zernel, many.pid())?;
        Ok(of.iter().filter(|thread| thread.samples > 0).count() > 1)
    })?;
    let beside = samples(&lab.zernel, few.pid())?;
    println!("    # {alone} samples alone, {beside} beside {MANY} threads of another user");
    ensure!(beside * 2 >= alone, "{beside} of {alone}");
    Ok(())
}
