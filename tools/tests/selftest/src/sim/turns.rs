// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent engines and suspended GPUs.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{ContextSpec, Item, Sim, TsgStats};
use libzernel::Timestamp;
use rustix::io::Errno;

use super::us;
use crate::check_eq;
use crate::common::{errno, wait_until, Lab};
use crate::harness::Outcome;

/// A suspended GPU; dropped, it goes on.
pub(crate) struct Suspended<'a> {
    sim: &'a Sim,
    gpu: u32,
}

impl<'a> Suspended<'a> {
    /// Suspends a GPU.
    pub(crate) fn new(sim: &'a Sim, gpu: u32) -> Result<Self> {
        sim.suspend(gpu, true)?;
        Ok(Self { sim, gpu })
    }
}

impl Drop for Suspended<'_> {
    fn drop(&mut self) {
        // Fails only when the device is gone, and its GPUs with it.
        let _ = self.sim.suspend(self.gpu, false);
    }
}

pub(super) fn engines_are_independent() -> Outcome {
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    let (compute, copy) = (ContextSpec::compute("compute"), ContextSpec::copy("copy"));
    let mut all = Vec::new();
    for (spec, restore) in [
        (compute, info.restore_ns),
        (copy, info.copy_switch_ns),
        (copy, info.copy_switch_ns),
        (ContextSpec { gpu: 1, ..compute }, info.restore_ns),
    ] {
        let context = lab.sim.create_context(&spec)?;
        let submitted = context.submit(0, &[Item::work(us(3_000))])?;
        all.push((context, submitted.at.as_ns() + 3_000_000 + restore));
    }
    for (context, end) in &all {
        let waited = context.wait(0, 1, Timestamp::NEVER)?;
        check_eq!(
            waited.at.as_ns(),
            *end,
            "end on engine {}",
            context.engine()
        );
    }
    let is_one = all[1].0.engine() == all[2].0.engine();
    check_eq!(is_one, false, "both on one copy engine");
    Ok(())
}

/// Nothing runs, nothing is lost, contexts are restored afterwards.
pub(super) fn suspended() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let other = lab.sim.create_context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("other GPU")
    })?;
    let done = |stats: &TsgStats| (stats.busy_ns, stats.switch_ns, stats.completed);
    let suspended = Suspended::new(&lab.sim, 0)?;
    lab.sim.suspend(0, true)?;
    ensure!(lab.sim.gpu_info(0)?.suspended, "not suspended");
    check_eq!(errno(context.set_timeslice(9)), Some(Errno::AGAIN));
    context.submit(0, &[Item::work(us(3_000)), Item::work(us(60_000_000))])?;
    super::run(&other, &[Item::work(us(5_000))])?;
    let stats = context.stats()?;
    check_eq!(done(&stats), (0, 0, 0), "work done by a suspended GPU");
    check_eq!((stats.on_engine, stats.queued), (false, 2), "its work");
    let now = Timestamp::now();
    drop(suspended);
    let waited = context.wait(0, 1, Timestamp::NEVER)?;
    let restore = Duration::from_nanos(lab.sim.gpu_info(0)?.restore_ns);
    ensure!(waited.at >= now + us(3_000) + restore, "done too early");

    // In the middle of the minute of work.
    wait_until("it runs", || Ok(context.stats()?.busy_ns > 3_000_000))?;
    let suspended = Suspended::new(&lab.sim, 0)?;
    let before = context.stats()?;
    super::run(&other, &[Item::work(us(5_000))])?;
    let after = context.stats()?;
    check_eq!(done(&after), done(&before), "work done while suspended");
    let kept = (after.on_engine, after.queued, after.switches);
    check_eq!(kept, (false, 1, 1), "its work");
    drop(suspended);
    wait_until("it goes on", || {
        Ok(context.stats()?.busy_ns > before.busy_ns)
    })?;
    check_eq!(context.stats()?.switches, 2, "times it was restored");
    Ok(())
}
