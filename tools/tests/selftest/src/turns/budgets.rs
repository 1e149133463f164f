// SPDX-License-Identifier: GPL-2.0
//! Levels above best-effort have a budget, so that they cannot keep it off the GPU.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::{Level, Target};
use testkit::passing;

use super::{at_most, keep_busy, Crowd, MS};
use crate::check_eq;
use crate::child::Child;
use crate::common::{self, default_of, level, slice_of, tune, wait_until, Lab};
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

/// A process with an LC TSG that never stops.
fn greedy() -> Result<Child> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        lab.zernel
            .set_class(&Target::current_process(), Level::LC)?;
        let (context, _) = lab.compute()?;
        lab.wait_slice(&context, slice_of(0))?;
        keep_busy(&context)?;
        passing::send_number(&theirs, 1)?;
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    })?;
    passing::receive_number(&ours)?;
    Ok(child)
}

/// Eight processes that try.
pub(super) fn not_starved() -> Outcome {
    let lab = Lab::open()?;
    let info = lab.sim.gpu_info(0)?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    lab.wait_slice(&context, slice_of(7))?;
    let children = (0..8).map(|_| greedy()).collect::<Result<Vec<_>>>()?;
    let before = throttles(&lab, Level::LC)?;
    for (budget, period) in [(0, 0), (10_000, 50_000)] {
        let (budget, period) = match period {
            0 => (
                default_of("level0_budget_us"),
                default_of("level0_period_us"),
            ),
            _ => {
                tune("level0_budget_us", budget)?;
                tune("level0_period_us", period)?;
                (budget, period)
            }
        };
        keep_busy(&context)?;
        // Many times as long as LC has a budget for.
        let began = context.stats()?.now_ns;
        wait_until("many periods have passed", || {
            let passed = context.stats()?.now_ns.since(began);
            Ok(passed >= Duration::from_micros(u64::from(period)) * 20)
        })?;
        wait_until(
            "best-effort runs",
            || Ok(context.stats()?.busy_ns >= 5 * MS),
        )?;
        let switch = info.save_ns + info.restore_ns;
        // Those that are throttled have their turns in between.
        let round = 9 * (u64::from(slice_of(7)) * 1_000 + switch);
        let budget = u64::from(budget) * 1_000;
        let stats = context.stats()?;
        let most = budget + switch + round + lateness();
        at_most("the longest wait of best-effort", stats.max_wait_ns, most)?;
    }
    let more = throttles(&lab, Level::LC)? - before;
    println!("    # LC was throttled {more} times");
    ensure!(more >= 5, "throttled {more} times");
    check_eq!(throttles(&lab, Level::BE)?, 0, "best-effort");
    for child in children {
        child.kill()?;
        child.end()?;
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
    lab.wait_slice(&context, 1024)?;
    tune("enabled", 1)?;
    lab.wait_slice(&context, slice_of(7))?;
    lab.zernel.clear_class(&target)?;
    lab.wait_slice(&context, 1024)
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
    let before: Vec<_> = [0, 6]
        .map(|number| throttles(&lab, level(number)))
        .into_iter()
        .collect::<Result<_>>()?;
    keep_busy(crowd.context(0))?;
    wait_until("level 6 is throttled", || {
        Ok(throttles(&lab, level(6))? > before[1])
    })?;
    lab.wait_slice(crowd.context(1), slice_of(7))?;
    check_eq!(throttles(&lab, Level::LC)?, before[0], "LC");
    check_eq!(crowd.context(0).stats()?.timeslice_us, slice_of(0));
    // LC without end has no bound here; without it, level 6 has its budget again.
    lab.zernel.clear_class(&crowd.target(0))?;
    lab.wait_slice(crowd.context(1), slice_of(6))
}

/// A budget never exceeds its period, whichever is changed.
pub(super) fn budget_and_period() -> Outcome {
    let set = |name: &str, value: u32| tune(&format!("level6_{name}_us"), value);
    let refused = |name: &str, value: u32| -> Outcome {
        let path = common::tunable_path(&format!("level6_{name}_us"));
        let before = std::fs::read_to_string(&path)?;
        let error = std::fs::write(&path, value.to_string()).err();
        let errno = error.and_then(|error| error.raw_os_error());
        check_eq!(errno, Some(libc::ERANGE), "{name} {value}");
        check_eq!(std::fs::read_to_string(&path)?, before, "{name}");
        Ok(())
    };
    refused("budget", 100_001)?;
    refused("period", 94_999)?;
    set("budget", 1_000)?;
    refused("budget", 999)?;
    set("period", 1_000)?;
    refused("period", 999)?;
    refused("budget", 1_001)?;
    set("period", 10_000_000)?;
    refused("period", 10_000_001)?;
    set("budget", 10_000_000)?;
    refused("period", 9_999_999)?;
    set("budget", 5_000)?;
    set("period", 5_000)
}
