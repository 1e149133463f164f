// SPDX-License-Identifier: GPL-2.0
//! The order of turns: slices, work conservation, independent engines, suspended GPUs.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{Activity, Context, ContextSpec, Item, Record, Sim, TsgStats};
use libzernel::{Level, Target, Timestamp};

use super::accounts::take_all;
use super::us;
use crate::check_eq;
use crate::common::{slice_of, wait_until, Lab};
use crate::harness::Outcome;

const MS: u64 = 1_000_000;

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

fn length(record: &Record) -> u64 {
    record.end_ns.as_ns() - record.start_ns.as_ns()
}

/// Both submit work while the GPU is suspended, so that they begin together.
fn start_together(lab: &Lab, contexts: &[&Context], items: &[Item]) -> Result<()> {
    let suspended = Suspended::new(&lab.sim, 0)?;
    for context in contexts {
        context.submit(0, items)?;
    }
    drop(suspended);
    for context in contexts {
        context.wait(0, items.len() as u64, Timestamp::NEVER)?;
    }
    Ok(())
}

/// Two busy TSGs take turns of exactly one slice each until one has finished.
pub(super) fn slices_are_respected() -> Outcome {
    let lab = Lab::open()?;
    let (first, first_tsg) = lab.compute()?;
    let (second, _) = lab.compute()?;
    // Equal levels would hide a mix-up, so one has another slice.
    lab.zernel
        .set_class(&Target::Tsg(first_tsg.id), Level::BE)?;
    lab.wait_slice(&first, slice_of(7))?;
    let slices = [
        (&first, u64::from(slice_of(7)) * 1_000),
        (&second, u64::from(second.stats()?.timeslice_us) * 1_000),
    ];
    let trace = lab.sim.trace(0, 1 << 16)?;
    let (began, total) = (Timestamp::now(), 12 * MS);
    start_together(&lab, &[&first, &second], &[Item::work(us(total / 1_000))])?;
    let records = take_all(&trace)?;
    let runs: Vec<_> = records
        .iter()
        .filter(|r| r.engine == 0 && r.activity == Activity::Run && r.start_ns >= began)
        .collect();
    let mut both = 0;
    for (context, slice) in slices {
        let own: Vec<_> = runs.iter().filter(|r| r.tsg == context.tsg()).collect();
        check_eq!(
            own.iter().map(|r| length(r)).sum::<u64>(),
            total,
            "work done"
        );
        let other_done = runs
            .iter()
            .filter(|r| r.tsg != context.tsg())
            .map(|r| r.end_ns)
            .max();
        for run in &own {
            // While the other one has work, a turn is one slice, but for the last.
            let is_last = Some(run.end_ns) == own.last().map(|r| r.end_ns);
            if other_done.is_some_and(|done| run.end_ns < done) && !is_last {
                check_eq!(length(run), slice, "a turn: {run:?}");
                both += 1;
            }
        }
    }
    ensure!(both >= 10, "{both} turns");
    Ok(())
}

/// While there is work, the engine runs or switches; and it switches only between TSGs.
pub(super) fn no_idle_while_work_waits() -> Outcome {
    let lab = Lab::open()?;
    let contexts = [lab.compute()?.0, lab.compute()?.0, lab.compute()?.0];
    let trace = lab.sim.trace(0, 1 << 16)?;
    let before = lab.sim.engine_stats(0, 0)?;
    let all: Vec<_> = contexts.iter().collect();
    start_together(&lab, &all, &[Item::work(us(4_000)), Item::work(us(1_500))])?;
    let after = lab.sim.engine_stats(0, 0)?;
    let records: Vec<_> = take_all(&trace)?
        .into_iter()
        .filter(|r| r.engine == 0)
        .collect();
    let first = records.iter().position(|r| r.activity != Activity::Idle);
    let last = records.iter().rposition(|r| r.activity != Activity::Idle);
    let (Some(first), Some(last)) = (first, last) else {
        anyhow::bail!("nothing ran");
    };
    for record in &records[first..=last] {
        ensure!(
            record.activity != Activity::Idle,
            "idle in between: {record:?}"
        );
    }
    check_eq!(after.busy_ns - before.busy_ns, 3 * 5_500_000, "busy time");
    // Each switch but the first saves one context and restores another.
    let (switches, cost) = (
        after.switches - before.switches,
        lab.sim.gpu_info(0)?.save_ns,
    );
    check_eq!(
        after.switch_ns - before.switch_ns,
        (2 * switches - 1) * cost,
        "switch time"
    );
    let restored: u64 = contexts
        .iter()
        .map(Context::stats)
        .map(|stats| stats.map(|stats| stats.switches))
        .sum::<Result<_, _>>()?;
    check_eq!(restored, switches);
    Ok(())
}

pub(super) fn engines_are_independent() -> Outcome {
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    let (compute, _) = lab.compute()?;
    let copies = [
        lab.sim.create_context(&ContextSpec::copy("a"))?,
        lab.sim.create_context(&ContextSpec::copy("b"))?,
    ];
    ensure!(
        copies[0].engine() != copies[1].engine(),
        "both on one copy engine"
    );
    let other = lab.sim.create_context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("other GPU")
    })?;
    let work = [Item::work(us(3_000)).notify()];
    let expect = |at: Timestamp, restore: u64| at.as_ns() + 3 * MS + restore;
    let mut ends = Vec::new();
    for (context, restore) in [
        (&compute, info.restore_ns),
        (&copies[0], info.copy_switch_ns),
        (&copies[1], info.copy_switch_ns),
        (&other, info.restore_ns),
    ] {
        let submitted = context.submit(0, &work)?;
        ends.push((context, expect(submitted.at, restore)));
    }
    for (context, end) in ends {
        let waited = context.wait(0, 1, Timestamp::NEVER)?;
        check_eq!(waited.at.as_ns(), end, "end on engine {}", context.engine());
    }
    Ok(())
}

/// Nothing runs, nothing is lost, contexts are restored afterwards.
pub(super) fn suspended_gpu_keeps_its_work() -> Outcome {
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    let done = |stats: &TsgStats| (stats.busy_ns, stats.switch_ns, stats.completed);
    let suspended = Suspended::new(&lab.sim, 0)?;
    lab.sim.suspend(0, true)?;
    ensure!(lab.sim.gpu_info(0)?.suspended, "not suspended");
    context.submit(0, &[Item::work(us(3_000)), Item::work(us(60_000_000))])?;
    let other = lab.sim.create_context(&ContextSpec {
        gpu: 1,
        ..ContextSpec::compute("other GPU")
    })?;
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
    check_eq!(
        (after.on_engine, after.queued, after.switches),
        (false, 1, 1),
        "its work"
    );
    drop(suspended);
    wait_until("it goes on", || {
        Ok(context.stats()?.busy_ns > before.busy_ns)
    })?;
    check_eq!(context.stats()?.switches, 2, "times it was restored");
    Ok(())
}
