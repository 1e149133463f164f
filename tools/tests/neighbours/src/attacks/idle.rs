// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callers that the scheduler lets run last, with a lock in their hands, beside busy threads.

use anyhow::Result;
use libzernel::sim::Sim;
use libzernel::{Target, Tracking, Zernel};
use testkit::sys;

use super::{contexts, set_to_and_fro};
use crate::troop::{Stage, Troop};

/// Busy threads, each a process, and callers beside them.
const BUSY: usize = 4;
const CALLERS: usize = 4;

/// TSGs of a caller.
const TSGS: usize = 15;

/// Readers of the list of TSGs.
pub fn readers(troop: &mut Troop) -> Result<()> {
    beside_busy(troop, |stage| {
        let zernel = Zernel::open()?;
        let sim = Sim::open()?;
        let _contexts = contexts(&sim, TSGS)?;
        lie_low(stage)?;
        loop {
            zernel.tsgs().try_for_each(|tsg| tsg.map(drop))?;
        }
    })
}

/// Writers of classes.
pub fn writers(troop: &mut Troop) -> Result<()> {
    beside_busy(troop, |stage| {
        let zernel = Zernel::open()?;
        let sim = Sim::open()?;
        let _contexts = contexts(&sim, TSGS)?;
        lie_low(stage)?;
        set_to_and_fro(&zernel, &Target::current_process())
    })
}

/// Trackers and listers of threads.
pub fn trackers(troop: &mut Troop) -> Result<()> {
    beside_busy(troop, |stage| {
        let zernel = Zernel::open()?;
        let me = Target::current_process();
        lie_low(stage)?;
        loop {
            zernel.track(&me, Tracking::ML)?;
            zernel.processes().try_for_each(|one| one.map(drop))?;
            zernel.threads().try_for_each(|one| one.map(drop))?;
            zernel.untrack(&me)?;
        }
    })
}

fn beside_busy(troop: &mut Troop, call: fn(&Stage) -> Result<()>) -> Result<()> {
    let user = troop.user();
    for _ in 0..CALLERS {
        troop.member(user, call)?;
    }
    for _ in 0..BUSY {
        troop.tenant(user, |stage| {
            stage.wait()?;
            // Without `pause`, at which an emulator that counts instructions stops each time: a
            // second of it would take minutes.
            for number in 0u64.. {
                std::hint::black_box(number);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn lie_low(stage: &Stage) -> Result<()> {
    stage.wait()?;
    Ok(sys::set_policy(0, libc::SCHED_IDLE)?)
}
