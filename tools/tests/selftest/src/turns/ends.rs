// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs end or fail while it is their turn, and the provider goes while it is called.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Fault, Operation, Sim};
use libzernel::{Level, Zernel};
use rustix::io::Errno;

use super::{tenant, Crowd, MS};
use crate::check_eq;
use crate::common::{load_all, tune, unload_soon, wait_until, Lab};
use crate::events::Broken;
use crate::harness::Outcome;

/// Whoever is left goes on.
pub(super) fn destroyed() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let mut crowd = Crowd::taking_turns(&lab, &[1024; 6])?;
    while crowd.members.len() > 1 {
        let enabled = crowd.enabled()?;
        let current = *enabled.first().context("nobody is enabled")?;
        drop(crowd.members.swap_remove(current));
        crowd.wait_enabled(1)?;
        crowd.wait_everybody_runs(5 * MS)?;
    }
    check_eq!(lab.stats()?.errors, errors, "errors");
    Ok(())
}

fn busy(sim: &Sim, handle: u64) -> Result<u64> {
    Ok(sim.tsg_stats(handle)?.busy_ns)
}

pub(super) fn killed() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let mut tenants = (0..5)
        .map(|_| tenant(Level::BE))
        .collect::<Result<Vec<_>>>()?;
    while let Some((victim, handle)) = tenants.pop() {
        wait_until("its turn comes", || {
            let stats = lab.sim.tsg_stats(handle)?;
            Ok(stats.enabled && stats.on_engine && stats.busy_ns >= MS)
        })?;
        victim.kill()?;
        victim.end()?;
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

/// One that cannot be disabled stays enabled, and the others take turns beside it.
pub(super) fn one_that_fails() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
    let failing = Some(crowd.context(2));
    let broken = Broken::new(&lab.sim, Operation::SetEnabled, failing, Errno::IO)?;
    broken.wait_hits(1)?;
    crowd.wait_all_run(&[0, 1, 3], 20 * MS)?;
    drop(broken);
    // Each is looked at after the other: a suspension would have it take turns again.
    let enabled = || Ok::<_, anyhow::Error>(Crowd::who(&crowd.stats()?));
    wait_until("it is enabled, and one of the others", || {
        let enabled = enabled()?;
        Ok(enabled.contains(&2) && enabled.len() == 2)
    })?;
    for _ in 0..200 {
        let enabled = enabled()?;
        ensure!(enabled.contains(&2), "enabled: {enabled:?}");
    }
    crowd.wait_everybody_runs(10 * MS)?;
    // When the GPU comes back, which the worker finds out when it calls meanwhile, it tries again.
    wait_until("it takes turns again", || {
        std::thread::sleep(Duration::from_millis(100));
        Ok(crowd.enabled()?.len() == 1)
    })?;
    crowd.settle_turns()?;
    crowd.wait_everybody_runs(10 * MS)?;
    tune("rotation", "none")?;
    crowd.wait_enabled(4)
}

/// A call to enable or disable that takes long is waited for, and none comes afterwards.
pub(super) fn provider_leaves_in_a_call() -> Outcome {
    for error in [None, Some(Errno::AGAIN), Some(Errno::IO)] {
        load_all()?;
        {
            let lab = Lab::open()?;
            let _crowd = Crowd::taking_turns(&lab, &[1024; 4])?;
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
        }
        unload_soon("zernel_sim")?;
        let stats = Zernel::open()?.stats()?;
        check_eq!((stats.gpus, stats.tsgs), (0, 0), "GPUs, TSGs");
    }
    load_all()
}
