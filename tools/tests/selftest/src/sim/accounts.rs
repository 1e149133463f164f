// SPDX-License-Identifier: GPL-2.0
//! Time of engines and TSGs: every nanosecond is somebody's, in statistics and in traces.

use anyhow::ensure;
use libzernel::sim::{
    Activity, Condition, Context, ContextSpec, EngineStats, Item, Record, Sim, Trace, TsgStats,
};
use libzernel::Timestamp;

use super::us;
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

/// The number of looks at the sums while work is done.
const LOOKS: usize = 200;

fn is_whole(stats: &EngineStats) -> bool {
    let age = stats.now_ns.as_ns() - stats.created_ns.as_ns();
    stats.busy_ns + stats.switch_ns + stats.idle_ns == age
}

fn is_whole_tsg(stats: &TsgStats) -> bool {
    let age = stats.now_ns.as_ns() - stats.created_ns.as_ns();
    stats.busy_ns + stats.switch_ns + stats.wait_ns + stats.inactive_ns == age
}

/// Work of all kinds that keeps `contexts` busy for some milliseconds each.
fn mix(contexts: &[Context]) -> anyhow::Result<()> {
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

fn contexts(sim: &Sim, count: usize) -> anyhow::Result<Vec<Context>> {
    let spec = ContextSpec::compute("accounts");
    let contexts: Result<_, _> = (0..count).map(|_| sim.create_context(&spec)).collect();
    Ok(contexts?)
}

pub(super) fn engine_time_is_conserved() -> Outcome {
    let lab = Lab::open()?;
    let contexts = contexts(&lab.sim, 3)?;
    let before = lab.sim.engine_stats(0, 0)?;
    mix(&contexts)?;
    let mut last = before;
    for _ in 0..LOOKS {
        for (gpu, engine) in [(0, 0), (0, 1), (0, 2), (1, 0)] {
            let stats = lab.sim.engine_stats(gpu, engine)?;
            ensure!(is_whole(&stats), "GPU {gpu}, engine {engine}: {stats:?}");
        }
        let stats = lab.sim.engine_stats(0, 0)?;
        let grown = stats.busy_ns >= last.busy_ns
            && stats.idle_ns >= last.idle_ns
            && stats.switch_ns >= last.switch_ns
            && stats.now_ns >= last.now_ns;
        ensure!(grown, "time went back: {last:?}, {stats:?}");
        last = stats;
    }
    for context in &contexts {
        context.wait(0, 24, Timestamp::NEVER)?;
    }
    let after = lab.sim.engine_stats(0, 0)?;
    ensure!(is_whole(&after), "{after:?}");
    // The time for which the engine was busy is that of the TSGs.
    let (mut busy, mut switch, mut done) = (0, 0, 0);
    for context in &contexts {
        let stats = context.stats()?;
        (busy, switch) = (busy + stats.busy_ns, switch + stats.switch_ns);
        done += stats.completed;
    }
    check_eq!(after.busy_ns - before.busy_ns, busy, "busy time");
    check_eq!(after.completed - before.completed, done, "items");
    // An engine that leaves a context of an earlier owner is charged for it, too.
    let cost = lab.sim.gpu_info(0)?.save_ns;
    let switched = after.switch_ns - before.switch_ns;
    ensure!(
        switched == switch || switched == switch + cost,
        "{switched} ns, TSGs {switch} ns"
    );
    check_eq!((after.tsgs, after.runnable), (3, 0), "TSGs");
    Ok(())
}

pub(super) fn tsg_times_add_up() -> Outcome {
    let lab = Lab::open()?;
    let contexts = contexts(&lab.sim, 3)?;
    mix(&contexts)?;
    for _ in 0..LOOKS {
        for context in &contexts {
            let stats = context.stats()?;
            ensure!(is_whole_tsg(&stats), "{stats:?}");
        }
    }
    for (number, context) in contexts.iter().enumerate() {
        context.wait(0, 24, Timestamp::NEVER)?;
        let stats = context.stats()?;
        ensure!(is_whole_tsg(&stats), "{stats:?}");
        check_eq!(
            (stats.completed, stats.queued),
            (24, 0),
            "items of TSG {number}"
        );
        // Work and holds are all that makes a TSG busy; a hold here ends by its bound, and had
        // the engine for at most that long.
        let work = 3 * (300 + 170 * number as u64 + 500 + 900) * 1_000;
        let most = work + 3 * 400_000;
        ensure!(
            (work..=most).contains(&stats.busy_ns),
            "{} of {work} ns",
            stats.busy_ns
        );
        ensure!(stats.max_wait_ns <= stats.wait_ns, "{stats:?}");
    }
    let idle = contexts[0].stats()?;
    let later = contexts[0].stats()?;
    check_eq!(
        later.inactive_ns - idle.inactive_ns,
        later.now_ns.as_ns() - idle.now_ns.as_ns(),
        "time of a TSG with nothing to do"
    );
    Ok(())
}

/// All records of a trace, of which none was dropped.
pub(super) fn take_all(trace: &Trace) -> anyhow::Result<Vec<Record>> {
    let (records, dropped) = trace.read()?;
    check_eq!(dropped, 0, "records dropped");
    Ok(records)
}

pub(super) fn trace_has_no_gap() -> Outcome {
    let lab = Lab::open()?;
    let contexts = contexts(&lab.sim, 3)?;
    let copy = lab.sim.create_context(&ContextSpec::copy("trace"))?;
    let trace = lab.sim.trace(0, 1 << 16)?;
    let engines: Vec<_> = (0..3)
        .map(|e| lab.sim.engine_stats(0, e))
        .collect::<Result<_, _>>()?;
    mix(&contexts)?;
    mix(std::slice::from_ref(&copy))?;
    for context in contexts.iter().chain([&copy]) {
        context.wait(0, 24, Timestamp::NEVER)?;
    }
    // An activity is recorded when it ends, so give every engine an end.
    let mut last = Vec::new();
    for spec in [
        ContextSpec::compute("end"),
        ContextSpec::copy("end"),
        ContextSpec::copy("end"),
    ] {
        let context = lab.sim.create_context(&spec)?;
        super::run(&context, &[Item::work(us(10))])?;
        // Kept, so that the next one gets another engine.
        last.push(context);
    }
    let records = take_all(&trace)?;
    ensure!(records.len() > 20, "{} records", records.len());
    let mut busy = std::collections::HashMap::new();
    for engine in 0..3 {
        let of: Vec<_> = records.iter().filter(|r| r.engine == engine).collect();
        ensure!(!of.is_empty(), "no record of engine {engine}");
        ensure!(
            of[0].start_ns <= engines[engine as usize].now_ns,
            "late start: {:?}",
            of[0]
        );
        for pair in of.windows(2) {
            check_eq!(pair[1].start_ns, pair[0].end_ns, "gap or overlap: {pair:?}");
        }
        for record in of {
            ensure!(record.end_ns > record.start_ns, "empty record: {record:?}");
            check_eq!(
                record.tsg == 0,
                record.activity == Activity::Idle,
                "{record:?}"
            );
            if record.activity == Activity::Run {
                *busy.entry(record.tsg).or_insert(0) +=
                    record.end_ns.as_ns() - record.start_ns.as_ns();
            }
        }
    }
    for context in contexts.iter().chain([&copy]) {
        let stats = context.stats()?;
        check_eq!(
            busy.get(&stats.tsg),
            Some(&stats.busy_ns),
            "traced time of a TSG"
        );
    }
    Ok(())
}

pub(super) fn trace_drops_exactly() -> Outcome {
    const ROOM: u32 = 8;
    const RUNS: usize = 20;
    let lab = Lab::open()?;
    let (context, _) = lab.compute()?;
    super::run(&context, &[Item::work(us(10))])?;
    let trace = lab.sim.trace(0, ROOM)?;
    for _ in 0..RUNS {
        super::run(&context, &[Item::work(us(10))])?;
    }
    // Alone on its engine: the idle time before each run, and the run.
    let (records, dropped) = trace.read()?;
    check_eq!(
        (records.len(), dropped),
        (ROOM as usize, (2 * RUNS) as u64 - u64::from(ROOM))
    );
    let (records, again) = trace.read()?;
    check_eq!(
        (records.len(), again),
        (0, dropped),
        "after everything was taken"
    );
    super::run(&context, &[Item::work(us(10))])?;
    let (records, again) = trace.read()?;
    check_eq!((records.len(), again), (2, dropped), "with room again");
    Ok(())
}
