// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices by level: their policies, and levels that keep the GPU to the end of a burst.

mod slack;

use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::request::{Begin, Slots};
use libzernel::sim::{Context, ContextSpec, Item};
use libzernel::{Level, LevelInfo, Target, Zernel};

use crate::check_eq;
use crate::child::in_child;
use crate::common::{
    default_of, level, level_info, slice_of, tune, wait_until, wait_until_within, Lab, Lacking,
    SOON,
};
use crate::harness::{case, suite, Outcome, Suite};
use crate::permit::{owner_process, ALICE};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "slices",
    &[
        case("exponential", exponential),
        case("a_level_keeps_the_gpu", a_level_keeps_the_gpu),
        case("its_budget_bounds_it", its_budget_bounds_it),
        case("an_owner_keeps_nothing", an_owner_keeps_nothing),
        case("slices_follow_latencies", slices_follow_latencies),
        case("slices_follow_slacks", slack::slices_follow_slacks),
        case("slacks_end", slack::slacks_end),
        case("a_liar_gains_nothing", slack::a_liar_gains_nothing),
        case("changed_under_load", changed_under_load),
        case("nothing_is_kept_without_budgets", nothing_is_kept),
        case("slacks_without_looks", slack::without_looks),
        case("copies_without_places", copies_without_places),
        case("slices_are_enough", slices_are_enough),
    ],
);

/// The slices of the policy `exponential`, by level.
const EXPONENTIAL: [u32; 8] = [10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 100, 100];

/// As long as an item can be.
const ENDLESS: Duration = Duration::from_secs(60);

/// The preset is in force at once, and the table is kept.
fn exponential() -> Outcome {
    let lab = Lab::open()?;
    tune("rotation", "none")?;
    let (context, tsg) = lab.compute()?;
    let target = Target::Tsg(tsg.id);
    tune("slice_policy", "exponential")?;
    for (number, slice) in (0..8).zip(EXPONENTIAL) {
        lab.zernel.set_class(&target, level(number))?;
        lab.wait_slice(&context, slice)?;
        check_eq!(lab.zernel.class(&target)?.timeslice_us.value, slice);
        check_eq!(on_a_gpu(&lab, level(number))?.timeslice_us, slice);
        // The table is written, and not in force.
        let name = format!("level{number}_timeslice_us");
        tune(&name, 77)?;
        lab.wait_set()?;
        let shown = if number == 7 { 77 } else { slice };
        lab.wait_slice(&context, shown)?;
        tune(&name, default_of(&name))?;
    }
    tune("level2_timeslice_us", 4_321)?;
    lab.zernel.set_class(&target, level(2))?;
    lab.wait_slice(&context, EXPONENTIAL[2])?;
    tune("slice_policy", "table")?;
    lab.wait_slice(&context, 4_321)
}

/// A level on the GPU.
fn on_a_gpu(lab: &Lab, level: Level) -> Result<LevelInfo> {
    for info in lab.zernel.levels() {
        let info = info?;
        if info.gpu.is_some() && info.level == Some(level) {
            return Ok(info);
        }
    }
    bail!("level {level} is on no GPU");
}

/// Rounds in which a burst of level 3 runs, and work above it comes meanwhile, until `is_over`.
fn rounds(
    burst: &Context,
    urgent: &(Context, Target),
    lab: &Lab,
    is_over: impl Fn() -> Result<bool>,
) -> Outcome {
    wait_until_within(2 * SOON, "bursts meet urgent work", || {
        // One that is raised asks for the GPU at once, besides its place in the run list.
        lab.zernel.set_class(&urgent.1, level(6))?;
        lab.wait_set()?;
        burst.submit(0, &[Item::work(Duration::from_millis(50))])?;
        urgent
            .0
            .submit(0, &[Item::work(Duration::from_micros(100))])?;
        lab.zernel.set_class(&urgent.1, Level::LC)?;
        wait_until("both are done", || {
            Ok(burst.stats()?.queued + urgent.0.stats()?.queued == 0)
        })?;
        is_over()
    })
}

/// A burst of a level that is not preemptible is never interrupted.
fn a_level_keeps_the_gpu() -> Outcome {
    let lab = Lab::open()?;
    let (burst, tsg) = lab.compute()?;
    let (urgent, urgent_tsg) = lab.compute()?;
    let urgent = (urgent, Target::Tsg(urgent_tsg.id));
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(3))?;
    // No bound, and slices of 0.5 ms.
    tune("level3_budget_us", 100_000)?;
    tune("level3_timeslice_us", 500)?;
    let flags = || -> Result<(bool, bool)> {
        let of_level = on_a_gpu(&lab, level(3))?.preemptible;
        Ok((of_level, lab.tsg(tsg.id)?.preemptible))
    };
    check_eq!(flags()?, (true, true));
    let interrupted = || Ok(burst.stats()?.preemptions > 0);
    rounds(&burst, &urgent, &lab, interrupted)?;
    tune("level3_preemptible", 0)?;
    check_eq!(flags()?, (false, false));
    // The length of its budget.
    lab.wait_slice(&burst, 100_000)?;
    let before = burst.stats()?.preemptions;
    let waits = urgent.0.stats()?.wait_ns;
    // It has waited for longer than slices of 0.5 ms would have kept it.
    let waited = || Ok(urgent.0.stats()?.wait_ns >= waits + 60_000_000);
    rounds(&burst, &urgent, &lab, waited)?;
    check_eq!(burst.stats()?.preemptions, before, "interrupted");
    tune("level3_preemptible", 1)?;
    lab.wait_slice(&burst, 500)?;
    check_eq!(flags()?, (true, true));
    let interrupted = || Ok(burst.stats()?.preemptions > before);
    rounds(&burst, &urgent, &lab, interrupted)
}

/// A burst without end lasts as long as the budget.
fn its_budget_bounds_it() -> Outcome {
    let lab = Lab::open()?;
    let (burst, tsg) = lab.compute()?;
    let (urgent, urgent_tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), level(3))?;
    lab.zernel
        .set_class(&Target::Tsg(urgent_tsg.id), Level::LC)?;
    tune("level3_budget_us", 20_000)?;
    tune("level3_preemptible", 0)?;
    lab.wait_slice(&burst, 20_000)?;
    burst.submit(0, &[Item::work(ENDLESS); 60])?;
    // It is treated like best-effort then, and more urgent work takes the GPU from it.
    lab.wait_slice(&burst, slice_of(7))?;
    wait_until("its budget is spent", || {
        Ok(level_info(&lab.zernel, level(3))?.throttles > 0)
    })?;
    let done = urgent.stats()?.completed;
    for round in 1..=20 {
        urgent.submit(0, &[Item::work(Duration::from_micros(100))])?;
        wait_until("urgent work is done", || {
            Ok(urgent.stats()?.completed == done + round)
        })?;
    }
    ensure!(burst.stats()?.queued > 0, "the burst has ended");
    Ok(())
}

/// An owner that lowers itself to a level that is not preemptible is preemptible there.
fn an_owner_keeps_nothing() -> Outcome {
    let lab = Lab::open()?;
    tune("level3_preemptible", 0)?;
    let _owner = owner_process(ALICE)?;
    let tsg = lab.zernel.tsgs().next().context("no TSG")??.id;
    let target = Target::Tsg(tsg);
    let now = || -> Result<_> {
        let listed = lab.tsg(tsg)?;
        let slice = lab.zernel.class(&target)?.timeslice_us.value;
        Ok((listed.level, listed.preemptible, slice))
    };
    lab.zernel.set_class(&target, level(1))?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        Ok(Zernel::open()?.set_class(&Target::Tsg(tsg), level(3))?)
    })?;
    check_eq!(now()?, (Some(level(3)), true, slice_of(3)));
    // Its manager puts it there.
    lab.zernel.set_class(&target, level(3))?;
    let budget = default_of("level3_budget_us");
    check_eq!(now()?, (Some(level(3)), false, budget));
    // A default is given to nobody in particular.
    lab.zernel.clear_class(&target)?;
    tune("default_class", 3)?;
    check_eq!(now()?, (Some(level(3)), true, slice_of(3)));
    Ok(())
}

/// Where a level misses its target, the slices below it become shorter, and longer where it has time.
fn slices_follow_latencies() -> Outcome {
    let lab = Lab::open()?;
    tune("rotation", "none")?;
    // Requests are not to expire, however slow the machine.
    tune("lease_us", 10_000_000)?;
    tune("level7_timeslice_us", 5_000)?;
    let (_context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    let (be, be_tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(be_tsg.id), Level::BE)?;
    let (same, same_tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(same_tsg.id), Level::LC)?;
    lab.wait_slice(&be, 5_000)?;
    let slots = Slots::map(&Zernel::open()?, 0..1)?;
    let slot = slots.slot(0).context("it was mapped")?;
    // A request of a millisecond or more.
    let serve = || -> Result<u32> {
        let request = slot.begin(&Begin::new(tsg.id).key(1))?.number;
        slot.ready_call(request)?;
        std::thread::sleep(Duration::from_millis(1));
        slot.done_call(request)?;
        Ok(be.stats()?.timeslice_us)
    };
    let serve_until = |slice: u32| {
        wait_until(&format!("best-effort has a slice of {slice} us"), || {
            Ok(serve()? == slice)
        })
    };
    tune("slice_period_us", 10_000)?;
    tune("slice_policy", "pid")?;
    // Without a target it is the table's, in some control periods.
    for _ in 0..50 {
        check_eq!(serve()?, 5_000);
    }
    tune("level0_target_us", 10)?;
    serve_until(100)?;
    tune("level0_target_us", 10_000_000)?;
    serve_until(10_000)?;
    check_eq!(on_a_gpu(&lab, Level::BE)?.timeslice_us, 10_000);
    tune("level0_target_us", 0)?;
    serve_until(5_000)?;
    tune("level0_target_us", 10)?;
    serve_until(100)?;
    // A TSG that comes has it from the start.
    let (later, later_tsg) = lab.compute()?;
    lab.zernel
        .set_class(&Target::Tsg(later_tsg.id), Level::BE)?;
    lab.wait_slice(&later, 100)?;
    // In steps of a sixteenth or more, of which 32 control periods make one.
    tune("level0_target_us", 0)?;
    serve_until(5_000)?;
    for (gain, value) in [("kp", 0), ("ki", 2), ("kd", 0)] {
        tune(&format!("slice_{gain}_permille"), value)?;
    }
    tune("level0_target_us", 10_000_000)?;
    wait_until("best-effort has a longer slice", || Ok(serve()? != 5_000))?;
    let slice = be.stats()?.timeslice_us;
    ensure!(slice < 10_000, "{slice} us is no step");
    // Without requests nothing changes.
    std::thread::sleep(Duration::from_millis(800));
    check_eq!(be.stats()?.timeslice_us, slice);
    tune("slice_policy", "table")?;
    lab.wait_slice(&be, 5_000)?;
    lab.wait_slice(&later, 5_000)?;
    check_eq!(same.stats()?.timeslice_us, slice_of(0), "its own level");
    Ok(())
}

/// Policies change while TSGs of all levels run: each goes on, and has its slice again.
fn changed_under_load() -> Outcome {
    let lab = Lab::open()?;
    tune("rotation", "none")?;
    // Requests are not to expire, however slow the machine.
    tune("lease_us", 10_000_000)?;
    let mut tsgs = Vec::new();
    let contexts = Level::all()
        .map(|level| {
            let (context, tsg) = lab.compute()?;
            lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
            context.submit(0, &[Item::work(ENDLESS); 60])?;
            tsgs.push(tsg.id);
            Ok((level, context))
        })
        .collect::<Result<Vec<_>>>()?;
    tune("slice_policy", "table")?;
    tune("level0_target_us", 1_000)?;
    tune("slice_period_us", 10_000)?;
    let slots = Slots::map(&Zernel::open()?, 0..1)?;
    let slot = slots.slot(0).context("it was mapped")?;
    let lc = tsgs.first().context("no TSG")?;
    for round in 0..40 {
        let policy = ["slack", "exponential", "pid", "table"][round % 4];
        tune("slice_policy", policy)?;
        let kept = format!("level{}_preemptible", round % 6);
        tune(&kept, 0)?;
        let begin = Begin::new(*lc).key(1).slo(Duration::from_millis(1));
        let request = slot.begin(&begin)?.number;
        slot.ready_call(request)?;
        std::thread::sleep(Duration::from_millis(3));
        slot.done_call(request)?;
        tune(&kept, 1)?;
    }
    lab.wait_set()?;
    for number in 0..7 {
        // Without bounds nobody is throttled, so that slices stay.
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    for (level, context) in &contexts {
        lab.wait_slice(context, slice_of_table(*level))?;
        ensure!(context.stats()?.enabled, "level {level} is not scheduled");
    }
    // Each has its turn in a round of the run list.
    tune("level0_timeslice_us", 1_000)?;
    let before = contexts
        .iter()
        .map(|(_, context)| Ok(context.stats()?.busy_ns))
        .collect::<Result<Vec<_>>>()?;
    for ((level, context), before) in contexts.iter().zip(before) {
        wait_until_within(2 * SOON, &format!("level {level} runs"), || {
            Ok(context.stats()?.busy_ns > before)
        })?;
    }
    Ok(())
}

/// Where nothing can bound it no level keeps the GPU, and the log names the cause.
fn nothing_is_kept() -> Outcome {
    for (operations, named) in [
        ("set_enabled", "set_enabled"),
        ("query_tsg", "query_tsg"),
        ("set_enabled,query_tsg", "set_enabled and query_tsg"),
    ] {
        let lacking = Lacking::new(operations)?;
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), level(3))?;
        tune("level3_preemptible", 0)?;
        lab.wait_slice(&context, default_of("level3_budget_us"))?;
        lacking.wait_named("preemptible", &[named])?;
        ensure!(on_a_gpu(&lab, level(3))?.preemptible, "level 3 keeps it");
        ensure!(lab.tsg(tsg.id)?.preemptible, "its TSG keeps it");
        tune("level3_preemptible", 1)?;
    }
    Ok(())
}

/// Copies of a provider without interleave levels have the slices of their classes, and the log names that.
fn copies_without_places() -> Outcome {
    let lacking = Lacking::new("set_interleave")?;
    let lab = Lab::open()?;
    let (copy, tsg) = lab.context(&ContextSpec::copy("copy"))?;
    let before = copy.stats()?.interleave;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    lab.wait_slice(&copy, 19 * default_of("copy_timeslice_us"))?;
    lacking.wait_named("copy_timeslice_us", &["set_interleave"])?;
    check_eq!(copy.stats()?.interleave, before, "its interleave level");
    Ok(())
}

/// Policies that need slices alone do without all other operations, and none is called missing.
fn slices_are_enough() -> Outcome {
    let lacking = Lacking::new("set_interleave,preempt,set_enabled,query_load,query_tsg,kick")?;
    exponential()?;
    slices_follow_latencies()?;
    let mut lines = lacking.lines()?;
    lines.retain(|line| !line.contains("copy_timeslice_us"));
    check_eq!(lines, Vec::<String>::new(), "in the log");
    Ok(())
}

/// The slice of a level in the table, where nobody takes turns.
fn slice_of_table(level: Level) -> u32 {
    default_of(&format!("level{}_timeslice_us", level.number()))
}
