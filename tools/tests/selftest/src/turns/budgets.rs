// SPDX-License-Identifier: MIT OR Apache-2.0
//! Levels above best-effort have a budget, so that they cannot keep it off the GPU.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{Fault, Item, Operation};
use libzernel::{Level, Target};

use super::{at_most, keep_busy, tenant, Crowd, MS};
use crate::check_eq;
use crate::common::{self, default_of, level, slice_of, tune, wait_until, Lab};
use crate::events::DEFAULT_US;
use crate::harness::Outcome;

/// The lateness of the worker, in ns: a longer one is no lateness but a budget that is not kept, or
/// a machine on which only a short run is asked for.
fn lateness() -> u64 {
    match testkit::is_short() {
        true => 1_000 * MS,
        false => 100 * MS,
    }
}

fn throttles(lab: &Lab, level: Level) -> Result<u64> {
    Ok(common::level_info(&lab.zernel, level)?.throttles)
}

/// Eight processes that try.
pub(super) fn not_starved() -> Outcome {
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    let children = (0..8)
        .map(|_| tenant(Level::LC))
        .collect::<Result<Vec<_>>>()?;
    let before = throttles(&lab, Level::LC)?;
    let (budget, period) = ("level0_budget_us", "level0_period_us");
    for (of, every) in [(default_of(budget), default_of(period)), (10_000, 50_000)] {
        tune(budget, of)?;
        tune(period, every)?;
        let (context, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        lab.wait_slice(&context, slice_of(7))?;
        keep_busy(&context)?;
        // Many times as long as LC has a budget for.
        let began = context.stats()?.now_ns;
        wait_until("many periods have passed", || {
            let passed = context.stats()?.now_ns.since(began);
            Ok(passed >= Duration::from_micros(u64::from(every)) * 20)
        })?;
        let runs = || Ok(context.stats()?.busy_ns >= 5 * MS);
        wait_until("best-effort runs", runs)?;
        let switch = info.save_ns + info.restore_ns;
        // Those that are throttled have their turns in between.
        let round = 9 * (u64::from(slice_of(7)) * 1_000 + switch);
        let most = u64::from(of) * 1_000 + switch + round + lateness();
        let longest = context.stats()?.max_wait_ns;
        at_most("the longest wait of best-effort", longest, most)?;
    }
    let more = throttles(&lab, Level::LC)? - before;
    println!("    # LC was throttled {more} times");
    ensure!(more >= 5, "throttled {more} times");
    check_eq!(throttles(&lab, Level::BE)?, 0, "best-effort");
    drop(children);
    Ok(())
}

/// The time until a slow driver has lowered the slice counts for the level. If the call were free after each
/// piece of a budget that comes back, LC would have half of the GPU.
pub(super) fn slow_calls() -> Outcome {
    const CALL: Duration = Duration::from_millis(30);
    const BUDGET_US: u64 = 100_000;
    const PERIOD_US: u64 = 1_000_000;
    let lab = Lab::open()?;
    tune("rotation", "none")?;
    tune("level0_period_us", PERIOD_US)?;
    tune("level0_budget_us", BUDGET_US)?;
    let crowd = Crowd::new(&lab, 5)?;
    for at in 0..5 {
        let number = if at == 0 { 0 } else { 7 };
        lab.zernel.set_class(&crowd.target(at), level(number))?;
    }
    lab.wait_set()?;
    lab.sim.inject(&Fault {
        gpu: 0,
        operation: Operation::SetTimeslice,
        count: u32::MAX,
        error: None,
        delay: CALL,
        tsg: None,
    })?;
    // Spent in pieces, the budget comes back in pieces.
    for _ in 0..15 {
        let piece = Duration::from_micros(BUDGET_US / 15);
        crowd.context(0).submit(0, &[Item::work(piece)])?;
        std::thread::sleep(Duration::from_micros(PERIOD_US / 15));
    }
    (0..5).try_for_each(|at| keep_busy(crowd.context(at)))?;
    let busy = || -> Result<Vec<u64>> {
        (0..5)
            .map(|at| Ok(crowd.context(at).stats()?.busy_ns))
            .collect()
    };
    let clock = || Ok::<_, anyhow::Error>(lab.sim.engine_stats(0, 0)?.now_ns.as_ns());
    let (began, before) = (clock()?, busy()?);
    let most = |time: u64, others: u64| {
        // As throttled it has a slice for each of another's; the worker can come late.
        time / PERIOD_US * (BUDGET_US + CALL.as_micros() as u64) + others / 4 * 11 / 10 + time / 10
    };
    wait_until("LC has no more than its budget", || {
        let time = clock()? - began;
        let had: Vec<u64> = busy()?
            .iter()
            .zip(&before)
            .map(|(now, b)| now - b)
            .collect();
        let others = had.iter().skip(1).sum();
        ensure!(time <= 10_000 * MS, "{had:?} ns of {time}");
        Ok(time >= 4_000 * MS && had[0] <= most(time, others))
    })?;
    lab.sim.inject(&Fault {
        gpu: 0,
        operation: Operation::SetTimeslice,
        count: 0,
        error: None,
        delay: Duration::ZERO,
        tsg: None,
    })?;
    Ok(())
}

/// GPU time of TSGs that end, or leave the level, counts for it.
pub(super) fn of_those_that_leave() -> Outcome {
    // None of them has it all.
    const BUDGET_US: u32 = 200_000;
    let lab = Lab::open()?;
    for ends in [true, false] {
        tune("level0_period_us", 1_000_000)?;
        tune("level0_budget_us", BUDGET_US)?;
        // Work before this counts for a period.
        std::thread::sleep(Duration::from_secs(1));
        let before = throttles(&lab, Level::LC)?;
        let mut sum = 0;
        while throttles(&lab, Level::LC)? == before {
            ensure!(sum <= 6_000 * MS, "never throttled, ends: {ends}");
            let (context, tsg) = lab.compute()?;
            let target = Target::Tsg(tsg.id);
            lab.zernel.set_class(&target, Level::LC)?;
            lab.wait_slice(&context, slice_of(0))?;
            keep_busy(&context)?;
            wait_until("it has run", || Ok(context.stats()?.busy_ns >= 100 * MS))?;
            if !ends {
                lab.zernel.clear_class(&target)?;
                wait_until("it has left", || Ok(lab.tsg(tsg.id)?.level.is_none()))?;
            }
            sum += context.stats()?.busy_ns;
        }
        println!("    # throttled after {} ms, ends: {ends}", sum / MS);
    }
    Ok(())
}

/// A budget as long as its period is none, and who stays below its budget has its slice.
pub(super) fn no_bound() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    let target = Target::Tsg(tsg.id);
    lab.zernel.set_class(&target, Level::LC)?;
    for number in 0..7 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    let count = || -> Result<Vec<u64>> { Level::all().map(|l| throttles(&lab, l)).collect() };
    let before = count()?;
    keep_busy(&context)?;
    wait_until("many periods have passed", || {
        Ok(context.stats()?.busy_ns >= 600 * MS)
    })?;
    check_eq!(count()?, before, "throttled");
    check_eq!(context.stats()?.timeslice_us, slice_of(0));
    // With a bound it is, and then again not.
    tune("level0_budget_us", 50_000)?;
    wait_until("it is throttled", || {
        Ok(throttles(&lab, Level::LC)? > before[0])
    })?;
    lab.wait_slice(&context, slice_of(7))?;
    // The level in force is what it was.
    check_eq!(lab.tsg(tsg.id)?.level, Some(Level::LC));
    tune("level0_budget_us", 100_000)?;
    lab.wait_slice(&context, slice_of(0))?;
    tune("level0_budget_us", 1_000)?;
    lab.wait_slice(&context, slice_of(7))?;
    // Nobody is throttled where nothing is applied.
    tune("enabled", 0)?;
    lab.wait_slice(&context, DEFAULT_US)
}

/// The GPU time of LC counts for level 6, too.
pub(super) fn less_urgent_first() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::new(&lab, 3)?;
    for (at, number) in [0, 6, 7].into_iter().enumerate() {
        lab.zernel.set_class(&crowd.target(at), level(number))?;
        lab.wait_slice(crowd.context(at), slice_of(number))?;
    }
    for number in 0..6 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    tune("level6_budget_us", 20_000)?;
    // Work before this case counts for a period.
    std::thread::sleep(Duration::from_millis(300));
    lab.wait_slice(crowd.context(1), slice_of(6))?;
    let before = (throttles(&lab, Level::LC)?, throttles(&lab, level(6))?);
    keep_busy(crowd.context(0))?;
    wait_until("level 6 is throttled", || {
        Ok(throttles(&lab, level(6))? > before.1)
    })?;
    lab.wait_slice(crowd.context(1), slice_of(7))?;
    check_eq!(throttles(&lab, Level::LC)?, before.0, "LC");
    check_eq!(crowd.context(0).stats()?.timeslice_us, slice_of(0));
    // LC without end has no bound here; without it, level 6 has its budget again.
    lab.zernel.clear_class(&crowd.target(0))?;
    lab.wait_slice(crowd.context(1), slice_of(6))
}
