// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPU time and switch costs from the GPU's own records of context switches.

mod ends;
mod instances;

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use testkit::harness::{case, Outcome, Suite, Surroundings};
use testkit::module::{load, unload_each};
use testkit::{check_eq, wait_until};
use zernel_verify::debugfs::{self, Line};

use super::engine::plan::{Plan, LONG, TICK};
use crate::lab::{set_faults, Lab, TURNS};
use crate::rm::abi::control;
use crate::rm::truth::{self, Counts};
use crate::rm::Spec;

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.records",
    &[
        case("times_agree", times_agree),
        case("an_idle_engine_is_nobodys", an_idle_engine_is_nobodys),
        case("reads_are_rare", reads_are_rare),
        case("costs_agree", costs_agree),
        case("losses_are_counted", losses_are_counted),
        case("unknown_contexts_are_nobodys", unknown_contexts_are_nobodys),
        case("clock_is_followed", clock_is_followed),
        case("clock_jumps", clock_jumps),
        case("refused_for_good_or_for_now", ends::refused),
        case("nobody_reads", ends::nobody_reads),
        case("gpu_stops", ends::gpu_stops),
        case("provider_leaves", ends::provider_leaves),
        case("driver_is_suspended", ends::driver_is_suspended),
        case("machine_sleeps", ends::machine_sleeps),
        case("process_is_killed", ends::process_is_killed),
        case("mig_instances", instances::records),
        case("mig_instance_without_records", instances::refused),
    ],
    RECORDS,
);

/// All modules, and the provider follows context switches.
pub const RECORDS: Surroundings = Surroundings {
    prepare: || {
        (TURNS.prepare)()?;
        unload_each(&["zernel_nvidia"])?;
        load("zernel_nvidia", "records=1")
    },
    settle: || {
        set_clock(0, 0)?;
        (TURNS.settle)()?;
        unload_each(&["zernel_nvidia"])?;
        nothing_is_left()
    },
};

/// Time of a run in which times are compared.
const RUN: Duration = Duration::from_millis(1_500);
/// The time slice of a TSG that shares the engine, in microseconds.
const SLICE: u64 = 4_000;

/// Fails if the kernel has memory, mappings or event buffers of the resource manager.
fn nothing_is_left() -> Result<()> {
    let counts = Counts::of_rm()?;
    for name in ["kernel_memory", "kernel_maps", "bound_buffers"] {
        check_eq!(counts.get(name)?, 0, "{name}");
    }
    Ok(())
}

/// Sets the clock of the GPUs: how far it is ahead, and its drift.
fn set_clock(ns: i64, ppb: i32) -> Result<()> {
    for (name, value) in [("ns", ns), ("ppb", ppb.into())] {
        let path = format!("/sys/module/nvidia/parameters/simrm_clock_{name}");
        fs::write(&path, value.to_string()).context(path)?;
    }
    Ok(())
}

/// Reads the file, with which the records until now are read.
fn lines() -> Result<Vec<Line>> {
    debugfs::lines("records")
}

/// The time of a TSG in a run, in ns.
#[derive(Debug)]
struct Run {
    /// The engine's own, without the moments in which the others were read.
    least: i64,
    /// With them.
    most: i64,
    told: i64,
}

impl Run {
    /// True if it is told within a per cent.
    fn agrees(&self) -> bool {
        let error = self.least / 100;
        self.least > 0 && (self.least - error..=self.most + error).contains(&self.told)
    }
}

/// zernel, and TSGs on GPU 0 that are given work.
struct Stage {
    lab: Lab,
    sim: Sim,
    plans: Vec<Plan>,
}

impl Stage {
    fn new() -> Result<Self> {
        Ok(Self {
            lab: Lab::open()?,
            sim: Sim::open()?,
            plans: Vec::new(),
        })
    }

    fn add(&mut self, items: &[Item]) -> Result<usize> {
        let plan = Plan::new(&self.sim, Spec::USUAL, 2)?;
        if !items.is_empty() {
            plan.submit(0, items)?;
        }
        self.plans.push(plan);
        Ok(self.plans.len() - 1)
    }

    /// Two TSGs that share the engine, whose records are read. They switch seldom enough for a host
    /// with other work.
    fn busy() -> Result<Self> {
        let mut stage = Self::new()?;
        for _ in 0..2 {
            let at = stage.add(&[Item::work(LONG); 4])?;
            let plan = &stage.plans[at];
            plan.runtime.set_timeslice(plan.tsg, SLICE)?;
        }
        stage.begin()?;
        Ok(stage)
    }

    /// Somebody asks for the load, and so for records.
    fn ask(&self) -> Result<()> {
        self.lab.gpu(&self.plans[0].runtime.bus())?;
        Ok(())
    }

    /// Waits until records come.
    fn begin(&self) -> Result<()> {
        let before = self.gpu()?.needs("records")?;
        wait_until("records come", || {
            self.ask()?;
            Ok(self.gpu()?.needs("records")? > before)
        })
    }

    fn gpu(&self) -> Result<Line> {
        let number = i64::from(truth::tsg(self.plans[0].runtime.client, self.plans[0].tsg)?.gpu);
        let lines = lines()?;
        let line = debugfs::of_gpu(&lines, number)?;
        line.cloned().context("nothing is told of the GPU")
    }

    /// The line of each TSG, in the order of their making.
    fn tsgs(&self) -> Result<Vec<Line>> {
        let mut found = lines()?;
        found.retain(|line| line.text("tsg").is_some());
        check_eq!(found.len(), self.plans.len());
        Ok(found)
    }

    fn told(&self, name: &str) -> Result<Vec<i64>> {
        let tsgs = self.tsgs()?;
        tsgs.iter().map(|line| line.needs(name)).collect()
    }

    fn truth(&self) -> Result<Vec<i64>> {
        let busy = self.plans.iter();
        let busy = busy.map(|plan| Ok(i64::try_from(plan.context.stats()?.busy_ns)?));
        busy.collect()
    }

    /// The time of each TSG in a run, as it is told under a name.
    fn run(&self, name: &str) -> Result<Vec<Run>> {
        let look = || -> Result<_> { Ok((self.truth()?, self.told(name)?, self.truth()?)) };
        let begin = look()?;
        let end = Instant::now() + RUN;
        while Instant::now() < end {
            self.ask()?;
            sleep(Duration::from_millis(20));
        }
        let end = look()?;
        let run = |at: usize| Run {
            least: end.0[at] - begin.2[at],
            most: end.2[at] - begin.0[at],
            told: end.1[at] - begin.1[at],
        };
        Ok((0..self.plans.len()).map(run).collect())
    }

    /// Fails unless records tell the time of each TSG within a per cent.
    fn agrees(&self) -> Result<()> {
        for name in ["records_ns", "ran_ns"] {
            self.agree_on(name, &[0, 1])?;
        }
        Ok(())
    }

    /// Fails unless the time of these TSGs is told within a per cent, in a run in which no record
    /// is lost: a host with other work may be late.
    fn agree_on(&self, name: &str, tsgs: &[usize]) -> Result<()> {
        for _ in 0..5 {
            self.is_known(tsgs)?;
            let lost = self.gpu()?.needs("lost")?;
            let runs = self.run(name)?;
            if self.gpu()?.needs("lost")? == lost {
                let all = tsgs.iter().all(|&at| runs[at].agrees());
                ensure!(all, "{name}: {runs:?}: {:?}", self.gpu()?);
                return Ok(());
            }
        }
        bail!("records are lost all the time: {:?}", self.gpu()?)
    }

    /// Waits until the time of these TSGs is known by records.
    fn is_known(&self, tsgs: &[usize]) -> Result<()> {
        wait_until("the time is known by records", || {
            self.ask()?;
            let known = self.told("known")?;
            Ok(tsgs.iter().all(|&at| known[at] == 1))
        })
    }
}

fn times_agree() -> Outcome {
    let stage = Stage::busy()?;
    stage.agrees()?;
    let gpu = stage.gpu()?;
    for name in ["odd", "out_of_time", "clock_jumps"] {
        check_eq!(gpu.needs(name)?, 0, "{name}");
    }
    Ok(())
}

/// A context stays on an engine that has nothing to do.
fn an_idle_engine_is_nobodys() -> Outcome {
    let mut stage = Stage::new()?;
    stage.add(&[])?;
    stage.add(&[])?;
    stage.begin_with_work()?;
    let before = (stage.told("ran_ns")?, stage.told("records_ns")?);
    let end = Instant::now() + RUN;
    while Instant::now() < end {
        for plan in &stage.plans {
            let done = plan.submit(0, &[Item::work(TICK)])?;
            plan.wait(0, done)?;
        }
        stage.ask()?;
        sleep(Duration::from_millis(50));
    }
    let ran: i64 = stage.told("ran_ns")?.iter().sum::<i64>() - before.0.iter().sum::<i64>();
    let resident: i64 =
        stage.told("records_ns")?.iter().sum::<i64>() - before.1.iter().sum::<i64>();
    let all = i64::try_from(RUN.as_nanos())?;
    ensure!(resident > all / 2, "records tell {resident} ns of {all} ns");
    ensure!(ran < all / 2, "{ran} ns count of {all} ns");
    Ok(())
}

impl Stage {
    /// As [`Self::begin`], with a moment's work for those that have none.
    fn begin_with_work(&self) -> Result<()> {
        wait_until("records come", || {
            self.ask()?;
            for plan in &self.plans {
                let done = plan.submit(0, &[Item::work(TICK)])?;
                plan.wait(0, done)?;
            }
            Ok(self.gpu()?.needs("records")? > 0)
        })
    }
}

/// However often the load is asked for, the driver is asked 30 times a second.
fn reads_are_rare() -> Outcome {
    const TRIES: usize = 20;
    let stage = Stage::busy()?;
    for _ in 0..TRIES {
        let before = truth::kernel_calls(control::RING_FLUSH)?;
        let begun = Instant::now();
        let mut asked = 0;
        while begun.elapsed() < RUN {
            stage.ask()?;
            asked += 1;
        }
        let most = begun.elapsed().as_millis() / 33 + 1;
        let reads = truth::kernel_calls(control::RING_FLUSH)? - before;
        ensure!(
            (5..=most).contains(&u128::from(reads)),
            "{reads} reads in {:?}",
            begun.elapsed()
        );
        // On a busy host, questions may be as rare as reads.
        if asked > 2 * most {
            return Ok(());
        }
    }
    bail!("this host asks too seldom");
}

/// Saves and restores take what the engine needs for them, and zernel shows the sum.
fn costs_agree() -> Outcome {
    const SWITCH: i64 = 42_226;
    let stage = Stage::busy()?;
    stage.run("ran_ns")?;
    let gpu = stage.gpu()?;
    for half in ["save", "restore"] {
        ensure!(gpu.needs(&format!("{half}s"))? > 50, "{gpu:?}");
        for what in ["min", "max", "mean"] {
            let told = gpu.needs(&format!("{half}_{what}_ns"))?;
            // The clock of the records has no fractions, nor an error.
            ensure!((told - SWITCH).abs() <= 1, "{half}_{what}_ns={told}");
        }
    }
    let id = stage.lab.gpu(&stage.plans[0].runtime.bus())?.id;
    let switches = stage.lab.zernel.switches(id)?;
    let count = i64::try_from(switches.count())?;
    ensure!(count > 50, "{count} switches");
    let mean = i64::try_from(switches.sum_ns)? / count;
    ensure!((mean - 2 * SWITCH).abs() <= 2, "a switch takes {mean} ns");
    Ok(())
}

/// More switches than there is room for.
fn losses_are_counted() -> Outcome {
    let stage = Stage::busy()?;
    for plan in &stage.plans {
        plan.runtime.set_timeslice(plan.tsg, 20)?;
    }
    let before = stage.gpu()?.needs("records")?;
    wait_until("records are lost", || {
        sleep(Duration::from_millis(1_500));
        Ok(stage.gpu()?.needs("lost")? > 0)
    })?;
    let gpu = stage.gpu()?;
    println!("    # {gpu:?}");
    ensure!(gpu.needs("records")? > before + 1_000, "{gpu:?}");
    for (truth, told) in stage.truth()?.into_iter().zip(stage.told("records_ns")?) {
        ensure!(told <= truth, "{told} ns of {truth} ns");
    }
    for plan in &stage.plans {
        plan.runtime.set_timeslice(plan.tsg, SLICE)?;
    }
    stage.agrees()
}

/// A driver that does not tell whose a context is, as 550: nobody else gets the time.
fn unknown_contexts_are_nobodys() -> Outcome {
    let mut stage = Stage::new()?;
    let work = [Item::work(LONG); 4];
    set_faults(&format!(
        "control:{:#x} status=0x56 forever kernel",
        control::CONTEXT
    ))?;
    stage.add(&work)?;
    set_faults("none")?;
    stage.add(&work)?;
    stage.begin()?;
    stage.agree_on("records_ns", &[1])?;
    ensure!(stage.truth()?[0] > 0, "it did not run");
    check_eq!(stage.told("records_ns")?[0], 0, "without a context");
    check_eq!(stage.told("known")?[0], 0);
    // One channel of several is enough.
    set_faults(&format!(
        "control:{:#x} status=0x56 kernel",
        control::CONTEXT
    ))?;
    stage.plans[1].runtime.channel(stage.plans[1].tsg)?;
    stage.run("ran_ns")?;
    check_eq!(stage.told("known")?, [0, 0]);
    Ok(())
}

/// The offset and the drift are within the errors that are told.
fn clock_is_followed() -> Outcome {
    const AHEAD: i64 = -3_000_000;
    const DRIFT: i32 = 50_000;
    set_clock(AHEAD, DRIFT)?;
    let stage = Stage::busy()?;
    stage.run("ran_ns")?;
    let gpu = stage.gpu()?;
    let (drift, error) = (gpu.needs("drift_ppb")?, gpu.needs("drift_error_ppb")?);
    println!("    # drift {drift} +- {error} ppb, {gpu:?}");
    ensure!((drift - i64::from(DRIFT)).abs() <= error + 100, "{gpu:?}");
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let expected = AHEAD + (now.tv_sec * i64::from(DRIFT));
    let (offset, error) = (gpu.needs("clock_ns")?, gpu.needs("clock_error_ns")?);
    // The time since the clock was read counts, too.
    ensure!(
        (offset - expected).abs() <= error + 200_000,
        "{expected}: {gpu:?}"
    );
    check_eq!(gpu.needs("clock_jumps")?, 0);
    stage.agrees()
}

/// The clock is set while TSGs run: nobody gets the difference.
fn clock_jumps() -> Outcome {
    let stage = Stage::busy()?;
    for (times, ahead) in [(1, 3_600_000_000_000), (2, -5_000_000_000), (3, 0)] {
        set_clock(ahead, 0)?;
        wait_until("the jump is noticed", || {
            Ok(stage.gpu()?.needs("clock_jumps")? == times)
        })?;
        let bound = stage.truth()?;
        for (told, truth) in stage.told("records_ns")?.into_iter().zip(bound) {
            ensure!(told <= truth + 100_000_000, "{told} ns of {truth} ns");
        }
    }
    stage.agrees()
}
