// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns and budgets on NVIDIA's driver: zernel sees the work of TSGs in registers alone.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::class::Attributes;
use libzernel::sim::{Item, Sim};
use libzernel::{Level, Target, Timestamp, Weight};
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, power, wait_until};

use super::plan::{Plan, LONG, TICK};
use crate::lab::{faults, set_faults, tune, Lab, TURNS};
use crate::rm::abi::control;
use crate::rm::{truth, Spec, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.turns",
    &[
        case("one_runs_at_a_time", one_runs_at_a_time),
        case("weights_share_the_gpu", weights_share_the_gpu),
        case("idle_ones_have_no_turn", idle_ones_have_no_turn),
        case("budgets_hold", budgets_hold),
        case("lost_doorbell_is_found", lost_doorbell_is_found),
        case("false_pending_costs_little", false_pending_costs_little),
        case("unreadable_registers", unreadable_registers),
        case("gpu_has_a_load", gpu_has_a_load),
        case("registers_are_learned_again", registers_are_learned_again),
    ],
    TURNS,
);

/// Time of a run in which shares are compared.
const RUN: Duration = Duration::from_secs(3);

/// zernel and the engine, with TSGs on GPU 0.
struct Stage {
    lab: Lab,
    sim: Sim,
    plans: Vec<Plan>,
}

impl Stage {
    fn new() -> Result<Self> {
        tune("rotation", "fair")?;
        Ok(Self {
            lab: Lab::open()?,
            sim: Sim::open()?,
            plans: Vec::new(),
        })
    }

    /// A TSG of this class, with work that does not end if it is `busy`.
    fn add(&mut self, class: impl Into<Attributes>, busy: bool) -> Result<usize> {
        let plan = Plan::new(&self.sim, Spec::USUAL, 2)?;
        if busy {
            plan.submit(0, &[Item::work(LONG); 4])?;
        }
        let id = self.lab.tsg(&plan.runtime, plan.tsg)?.id;
        self.lab.zernel.set_class(&Target::Tsg(id), class)?;
        self.plans.push(plan);
        Ok(self.plans.len() - 1)
    }

    fn busy(&self) -> Result<Vec<u64>> {
        let busy = self
            .plans
            .iter()
            .map(|plan| Ok(plan.context.stats()?.busy_ns));
        busy.collect()
    }

    /// The GPU time of each TSG in a run, as a share of that of all.
    fn shares(&self, run: Duration) -> Result<Vec<f64>> {
        let before = self.busy()?;
        std::thread::sleep(run);
        let after = self.busy()?;
        let ran = after
            .iter()
            .zip(before)
            .map(|(after, before)| after - before);
        let ran: Vec<_> = ran.map(|ns| ns as f64).collect();
        let all: f64 = ran.iter().sum();
        ensure!(all > 0.0, "nobody ran");
        Ok(ran.iter().map(|ns| ns / all).collect())
    }

    /// TSGs that the driver schedules.
    fn enabled(&self) -> Result<usize> {
        let all = truth::tsgs()?;
        Ok(all.iter().filter(|tsg| tsg.disabled == 0).count())
    }

    fn has_turns(&self) -> Result<bool> {
        Ok(self.lab.gpu(&self.plans[0].runtime.bus())?.turns)
    }
}

/// Best-effort TSGs have turns, and no third one is enabled in them. A loaded host makes looks late:
/// how exact shares are is a matter of benchmarks.
fn one_runs_at_a_time() -> Outcome {
    let mut stage = Stage::new()?;
    for _ in 0..3 {
        stage.add(Level::BE, true)?;
    }
    ensure!(stage.has_turns()?, "the GPU has no turns");
    wait_until("one is enabled", || Ok(stage.enabled()? == 1))?;
    let before = stage.lab.stats()?.turns;
    let end = Instant::now() + RUN;
    while Instant::now() < end {
        let enabled = stage.enabled()?;
        // In a hand-over, a look at one after the other may miss both.
        ensure!(enabled <= 2, "{enabled} are enabled");
        std::thread::sleep(Duration::from_millis(1));
    }
    let turns = stage.lab.stats()?.turns - before;
    ensure!(turns > 20, "{turns} turns");
    let shares = stage.shares(RUN)?;
    ensure!(shares.iter().all(|&share| share > 0.1), "{shares:?}");
    Ok(())
}

fn weights_share_the_gpu() -> Outcome {
    let mut stage = Stage::new()?;
    let thrice = Weight::new(3 * 1024).context("a weight")?;
    stage.add(Attributes::from(Level::BE).weight(thrice), true)?;
    stage.add(Level::BE, true)?;
    wait_until("one is enabled", || Ok(stage.enabled()? == 1))?;
    let shares = stage.shares(2 * RUN)?;
    ensure!((0.55..0.92).contains(&shares[0]), "{shares:?}");
    Ok(())
}

/// A TSG that has nothing to run leaves the GPU to the others, and gets its turn when it has work.
fn idle_ones_have_no_turn() -> Outcome {
    let mut stage = Stage::new()?;
    stage.add(Level::BE, true)?;
    let idle = stage.add(Level::BE, false)?;
    wait_until("one is enabled", || Ok(stage.enabled()? == 1))?;
    let begin = stage.plans[0].context.stats()?;
    std::thread::sleep(RUN);
    let end = stage.plans[0].context.stats()?;
    let passed = end.now_ns.since(begin.now_ns).as_nanos() as f64;
    let share = (end.busy_ns - begin.busy_ns) as f64 / passed;
    ensure!(share > 0.7, "it ran for {share} of the time");
    for _ in 0..5 {
        let done = stage.plans[idle].submit(1, &[Item::work(TICK)])?;
        stage.plans[idle].wait(1, done)?;
    }
    Ok(())
}

/// LC work without end leaves BE its part, and without a budget none. In the half of the time in
/// which its budget is spent, it has slices of 200 µs beside those of 50 µs: a tenth for BE. On a
/// loaded host looks come late, and that half is shorter.
fn budgets_hold() -> Outcome {
    let mut stage = Stage::new()?;
    let lc = stage.add(Level::LC, true)?;
    let be = stage.add(Level::BE, true)?;
    for (budget, least, most) in [("50000", 0.01, 0.5), ("100000", 0.0, 0.005)] {
        tune("level0_budget_us", budget)?;
        std::thread::sleep(Duration::from_millis(500));
        // One of some runs has to show it.
        let mut seen = Vec::new();
        let holds = |shares: &[f64]| (least..=most).contains(&shares[be]) && shares[lc] > 0.5;
        while seen.len() < 4 && !seen.last().is_some_and(|shares: &Vec<f64>| holds(shares)) {
            seen.push(stage.shares(2 * RUN)?);
        }
        ensure!(
            seen.last().is_some_and(|shares| holds(shares)),
            "with {budget} us: {seen:?}"
        );
    }
    Ok(())
}

/// Work that the GPU has not heard of, as its TSG was disabled, begins with a try.
fn lost_doorbell_is_found() -> Outcome {
    let mut stage = Stage::new()?;
    stage.add(Level::BE, true)?;
    let deaf = stage.add(Level::BE, false)?;
    let plan = &stage.plans[deaf];
    for _ in 0..3 {
        wait_until("it is disabled", || {
            Ok(truth::tsg(plan.runtime.client, plan.tsg)?.disabled == 2)
        })?;
        plan.context.lose_doorbell(0)?;
        let begun = Timestamp::now();
        let done = plan.submit(0, &[Item::work(TICK)])?;
        plan.wait(0, done)?;
        println!("    # found after {:?}", Timestamp::now().since(begun));
    }
    Ok(())
}

/// A TSG that seems to have work has turns in which it shows that it has none.
fn false_pending_costs_little() -> Outcome {
    let mut stage = Stage::new()?;
    let busy = stage.add(Level::BE, true)?;
    let liar = stage.add(Level::BE, false)?;
    stage.plans[liar].context.lie_pending(0)?;
    wait_until("one is enabled", || Ok(stage.enabled()? == 1))?;
    let begin = stage.plans[busy].context.stats()?;
    std::thread::sleep(RUN);
    let end = stage.plans[busy].context.stats()?;
    let passed = end.now_ns.since(begin.now_ns).as_nanos() as f64;
    let share = (end.busy_ns - begin.busy_ns) as f64 / passed;
    stage.sim.lie(0, None)?;
    ensure!(share > 0.5, "it ran for {share} of the time");
    Ok(())
}

/// Where registers tell nothing, all run in slices; when the GPU starts anew, there are turns again.
fn unreadable_registers() -> Outcome {
    for value in [0xbadf_5040, u32::MAX] {
        let mut stage = Stage::new()?;
        for _ in 0..2 {
            stage.add(Level::BE, true)?;
        }
        wait_until("one is enabled", || Ok(stage.enabled()? == 1))?;
        stage.sim.lie(0, Some(value))?;
        wait_until("all run in slices", || {
            Ok(!stage.has_turns()? && stage.enabled()? == 2)
        })?;
        for plan in &stage.plans {
            crate::lab::wait_slice(&plan.runtime, plan.tsg, 200)?;
        }
        stage.sim.lie(0, None)?;
        drop(stage);
        wait_until("the GPU is stopped", || {
            Ok(truth::Counts::of_rm()?.get("started_gpus")? == 0)
        })?;
    }
    let mut stage = Stage::new()?;
    for _ in 0..2 {
        stage.add(Level::BE, true)?;
    }
    ensure!(stage.has_turns()?, "the GPU has no turns");
    wait_until("one is enabled", || Ok(stage.enabled()? == 1))
}

/// The load of the GPU grows with the work of its TSGs.
fn gpu_has_a_load() -> Outcome {
    let mut stage = Stage::new()?;
    let bus = {
        stage.add(Level::BE, true)?;
        stage.add(Level::BE, true)?;
        stage.plans[0].runtime.bus()
    };
    let busy = |stage: &Stage| -> Result<u64> { Ok(stage.lab.gpu(&bus)?.busy_ns) };
    let before = busy(&stage)?;
    wait_until("the GPU is busy", || {
        Ok(busy(&stage)? > before + 500_000_000)
    })?;
    let seen = busy(&stage)?;
    let ran: u64 = stage.busy()?.iter().sum();
    ensure!(seen < 2 * ran, "{seen} ns are seen of {ran} ns");
    Ok(())
}

/// Where the registers are is asked until the driver tells, then not again before a resume.
fn registers_are_learned_again() -> Outcome {
    let asked = || truth::kernel_calls(control::DEVICE_TABLE);
    for status in [Status::BUSY_RETRY, Status::NO_MEMORY, Status::GENERIC] {
        let before = asked()?;
        set_faults(&format!(
            "control:{:#x} status={:#x} kernel times=2",
            control::DEVICE_TABLE,
            status.0
        ))?;
        let mut stage = Stage::new()?;
        for _ in 0..2 {
            stage.add(Level::BE, true)?;
        }
        let takes_turns = |more: u64| -> Outcome {
            wait_until("the driver tells", || Ok(asked()? - before == more))?;
            let turns = stage.lab.stats()?.turns;
            wait_until("turns", || Ok(stage.lab.stats()?.turns > turns + 10))?;
            check_eq!(asked()? - before, more, "it was asked again");
            ensure!(stage.has_turns()?, "the GPU has no turns");
            Ok(())
        };
        takes_turns(3).with_context(|| format!("{status:?}"))?;
        check_eq!(faults()?, "");
        power::sleep("devices")?;
        takes_turns(4).context("after a resume")?;
    }
    Ok(())
}
