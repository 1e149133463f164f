// SPDX-License-Identifier: GPL-2.0
//! TSGs end while it is their turn, and the provider goes while it is called.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{Fault, Operation, Sim};
use libzernel::{Level, Target, Zernel};
use testkit::passing;

use super::{keep_busy, Crowd, MS};
use crate::check_eq;
use crate::child::Child;
use crate::common::{load_all, unload_soon, wait_until, Lab};
use crate::harness::Outcome;

/// Whoever is left goes on.
pub(super) fn destroyed() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let mut crowd = Crowd::taking_turns(&lab, &[1024; 6])?;
    while crowd.members.len() > 1 {
        let enabled = crowd.enabled()?;
        ensure!(!enabled.is_empty(), "nobody is enabled");
        drop(crowd.members.swap_remove(enabled[0]));
        let left = crowd.members.len();
        crowd.wait_enabled(1)?;
        crowd.wait_all_run(&(0..left).collect::<Vec<_>>(), 5 * MS)?;
    }
    check_eq!(lab.stats()?.errors, errors, "errors");
    Ok(())
}

/// A process with a best-effort TSG that is always busy; returns the TSG's handle, too.
fn tenant() -> Result<(Child, u64)> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        lab.zernel
            .set_class(&Target::current_process(), Level::BE)?;
        keep_busy(&context)?;
        passing::send_number(&theirs, context.tsg())?;
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    })?;
    let handle = passing::receive_number(&ours)?;
    Ok((child, handle))
}

fn busy(sim: &Sim, handle: u64) -> Result<u64> {
    Ok(sim.tsg_stats(handle)?.busy_ns)
}

pub(super) fn killed() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let mut tenants = Vec::new();
    for _ in 0..5 {
        tenants.push(tenant()?);
    }
    while let Some(victim) = tenants.pop() {
        wait_until("its turn comes", || {
            let stats = lab.sim.tsg_stats(victim.1)?;
            Ok(stats.enabled && stats.on_engine && stats.busy_ns >= MS)
        })?;
        victim.0.kill()?;
        victim.0.end()?;
        for (_, handle) in &tenants {
            let before = busy(&lab.sim, *handle)?;
            wait_until("the others go on", || {
                Ok(busy(&lab.sim, *handle)? >= before + 5 * MS)
            })?;
        }
    }
    wait_until("all TSGs are gone", || Ok(lab.stats()?.tsgs == 0))?;
    check_eq!(lab.stats()?.errors, errors, "errors");
    Ok(())
}

/// A call to enable or disable that takes long is waited for, and none comes afterwards.
pub(super) fn provider_leaves_in_a_call() -> Outcome {
    for error in [
        None,
        Some(rustix::io::Errno::AGAIN),
        Some(rustix::io::Errno::IO),
    ] {
        load_all()?;
        {
            let lab = Lab::open()?;
            let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
            let operation = Operation::SetEnabled;
            let before = lab.sim.injected(0, operation)?;
            lab.sim.inject(&Fault {
                gpu: 0,
                operation,
                count: u32::MAX,
                error,
                delay: Duration::from_millis(300),
                tsg: None,
            })?;
            wait_until("a call is under way", || {
                Ok(lab.sim.injected(0, operation)? > before)
            })?;
            drop(crowd);
        }
        unload_soon("zernel_sim")?;
        let stats = Zernel::open()?.stats()?;
        check_eq!((stats.gpus, stats.tsgs), (0, 0), "GPUs, TSGs");
    }
    load_all()
}
