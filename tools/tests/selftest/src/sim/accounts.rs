// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of engines and TSGs: every nanosecond is somebody's, in statistics and in traces.

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{
    Activity, Condition, Context, ContextSpec, EngineStats, Item, Record, Sim, TsgStats,
};
use libzernel::Timestamp;

use super::us;
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

/// The number of looks at the sums while work is done.
const LOOKS: usize = 200;

fn check_engine(sim: &Sim, gpu: u32, engine: u32) -> Result<EngineStats> {
    let stats = sim.engine_stats(gpu, engine)?;
    let age = stats.now_ns.as_ns() - stats.created_ns.as_ns();
    let sum = stats.busy_ns + stats.switch_ns + stats.idle_ns;
    check_eq!(sum, age, "GPU {gpu}: {stats:?}");
    Ok(stats)
}

fn check_tsg(context: &Context) -> Result<TsgStats> {
    let stats = context.stats()?;
    let age = stats.now_ns.as_ns() - stats.created_ns.as_ns();
    let sum = stats.busy_ns + stats.switch_ns + stats.wait_ns + stats.inactive_ns;
    check_eq!(sum, age, "{stats:?}");
    Ok(stats)
}

/// Work of all kinds that keeps `contexts` busy for some milliseconds each.
fn mix(contexts: &[Context]) -> Result<()> {
    for (number, context) in contexts.iter().enumerate() {
        let long = us(300 + 170 * number as u64);
        let items = [
            Item::work(long),
            Item::work(us(500)).demand_permille(300),
            Item::wait(0, Condition::Equal, 1),
            Item::work(us(900)).block_granularity(us(100)),
            Item::hold(0, Condition::NotEqual, 1, us(400)),
            Item::release(0, 0),
            Item::fence(),
        ];
        for _ in 0..3 {
            context.submit(0, &[Item::release(0, 1)])?;
            context.submit(0, &items)?;
        }
    }
    Ok(())
}

fn contexts(sim: &Sim, count: usize) -> Result<Vec<Context>> {
    let spec = ContextSpec::compute("accounts");
    let contexts: Result<_, _> = (0..count).map(|_| sim.create_context(&spec)).collect();
    Ok(contexts?)
}

/// Every nanosecond of an engine and of a TSG counts once, at any moment.
pub(super) fn times_add_up() -> Outcome {
    let lab = Lab::open()?;
    let contexts = contexts(&lab.sim, 3)?;
    let before = check_engine(&lab.sim, 0, 0)?;
    mix(&contexts)?;
    for _ in 0..LOOKS {
        for (gpu, engine) in [(0, 0), (0, 1), (0, 2), (1, 0)] {
            check_engine(&lab.sim, gpu, engine)?;
        }
        for context in &contexts {
            check_tsg(context)?;
        }
    }
    for context in &contexts {
        context.wait(0, 24, Timestamp::NEVER)?;
    }
    let after = check_engine(&lab.sim, 0, 0)?;
    let (mut busy, mut switch) = (0, 0);
    for (number, context) in (0..).zip(&contexts) {
        let stats = check_tsg(context)?;
        check_eq!((stats.completed, stats.queued), (24, 0), "TSG {number}");
        // Work and holds alone make a TSG busy. A hold here ends by its bound, and had the engine for
        // at most that long.
        let least = 3 * (300 + 170 * number + 500 + 900) * 1_000;
        let range = least..=least + 3 * 400_000;
        ensure!(range.contains(&stats.busy_ns), "{range:?}: {stats:?}");
        ensure!(stats.max_wait_ns <= stats.wait_ns, "{stats:?}");
        let later = check_tsg(context)?;
        let grown = later.inactive_ns - stats.inactive_ns;
        let passed = later.now_ns.as_ns() - stats.now_ns.as_ns();
        check_eq!(grown, passed, "time of a TSG with nothing to do");
        (busy, switch) = (busy + stats.busy_ns, switch + stats.switch_ns);
    }
    // The time for which the engine was busy is that of the TSGs.
    check_eq!(after.busy_ns - before.busy_ns, busy, "busy time");
    check_eq!(after.completed - before.completed, 3 * 24, "items");
    // An engine that leaves a context of an earlier owner is charged for it, too.
    let switched = after.switch_ns - before.switch_ns - switch;
    let cost = lab.sim.gpu_info(0)?.save_ns;
    check_eq!([0, cost].contains(&switched), true, "{switched} ns");
    check_eq!((after.tsgs, after.runnable), (3, 0), "TSGs");
    Ok(())
}

pub(super) fn trace_has_no_gap() -> Outcome {
    let lab = Lab::open()?;
    let mut contexts = contexts(&lab.sim, 3)?;
    contexts.push(lab.sim.create_context(&ContextSpec::copy("trace"))?);
    let trace = lab.sim.trace(0, 1 << 16)?;
    let mut began = Vec::new();
    for engine in 0..3 {
        began.push(lab.sim.engine_stats(0, engine)?.now_ns);
    }
    mix(&contexts)?;
    for context in &contexts {
        context.wait(0, 24, Timestamp::NEVER)?;
    }
    // An activity is recorded when it ends, so give every engine an end.
    let mut last = Vec::new();
    for spec in [
        ContextSpec::compute("end"),
        ContextSpec::copy("end"),
        ContextSpec::copy("end"),
    ] {
        // Kept, so that the next one gets another engine.
        last.push(lab.sim.create_context(&spec)?);
        super::run(&last[last.len() - 1], &[Item::work(us(10))])?;
    }
    let (records, dropped) = trace.read()?;
    check_eq!(dropped, 0, "records dropped");
    ensure!(records.len() > 20, "{} records", records.len());
    for (engine, began) in (0..).zip(began) {
        let of: Vec<_> = records.iter().filter(|r| r.engine == engine).collect();
        let first = of.first().context("an engine without a record")?;
        ensure!(first.start_ns <= began, "late start: {first:?}");
        for pair in of.windows(2) {
            check_eq!(pair[1].start_ns, pair[0].end_ns, "gap or overlap: {pair:?}");
        }
        for record in of {
            ensure!(record.end_ns > record.start_ns, "empty record: {record:?}");
            let is_idle = record.activity == Activity::Idle;
            check_eq!(record.tsg == 0, is_idle, "{record:?}");
        }
    }
    for context in &contexts {
        let stats = context.stats()?;
        let ran = |r: &&Record| r.tsg == stats.tsg && r.activity == Activity::Run;
        let length = |r: &Record| r.end_ns.as_ns() - r.start_ns.as_ns();
        let busy: u64 = records.iter().filter(ran).map(length).sum();
        check_eq!(busy, stats.busy_ns, "traced time of a TSG");
    }
    Ok(())
}
