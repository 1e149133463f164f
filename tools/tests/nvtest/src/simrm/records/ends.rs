// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of context switches begin, fail and end, and leave nothing behind.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use testkit::child::Child;
use testkit::harness::Outcome;
use testkit::module::{is_loaded, load, unload_each};
use testkit::{check_eq, power, wait_until};

use super::super::engine::plan::{Plan, LONG, LONG_SLICE};
use super::super::suspend::Suspended;
use super::{nothing_is_left, Stage};
use crate::lab::{self, set_faults};
use crate::rm::abi::{control, engine};
use crate::rm::truth::{self, Counts};
use crate::rm::Spec;

/// A step that fails leaves nothing; the driver is asked again unless it refused for good.
pub(super) fn refused() -> Outcome {
    let steps = [
        "alloc:0x3e".to_owned(),
        "map".to_owned(),
        "alloc:0x90cd".to_owned(),
        format!("control:{:#x}", control::BIND_SWITCHES),
        format!("control:{:#x}", control::RING_ENABLE),
    ];
    for step in &steps {
        for (status, is_final) in [("0x51", false), ("0x56", true)] {
            set_faults(&format!("{step} status={status} times=1 kernel"))?;
            let mut stage = Stage::new()?;
            stage.add(&[Item::work(LONG); 4])?;
            stage.add(&[Item::work(LONG); 4])?;
            wait_until("the driver refuses", || {
                stage.ask()?;
                Ok(lab::faults()?.is_empty())
            })?;
            if is_final {
                // The registers are learned now, too.
                stage.ask()?;
                sleep(Duration::from_millis(200));
                let asked = truth::kernel_calls(control::ID_INFO)?;
                let records = stage.gpu()?.needs("records")?;
                for _ in 0..10 {
                    stage.ask()?;
                    sleep(Duration::from_millis(40));
                }
                check_eq!(truth::kernel_calls(control::ID_INFO)?, asked, "{step}");
                check_eq!(stage.gpu()?.needs("records")?, records, "{step}");
                nothing_is_left()?;
            } else {
                stage.begin().with_context(|| step.clone())?;
            }
            drop(stage);
            stopped()?;
        }
    }
    // One that fails while it is read is made anew.
    for step in [control::RING_FLUSH, control::RING_GET] {
        let stage = Stage::busy()?;
        let made = truth::kernel_calls(control::BIND_SWITCHES)?;
        set_faults(&format!("control:{step:#x} status=0x51 times=1 kernel"))?;
        wait_until("the ring is made anew", || {
            stage.ask()?;
            Ok(truth::kernel_calls(control::BIND_SWITCHES)? > made)
        })?;
        stage.agrees()?;
    }
    // Without a clock there are times, and no moments.
    set_faults(&format!("control:{:#x} status=0x56 forever", control::TIME))?;
    let stage = Stage::busy()?;
    ensure!(stage.gpu()?.needs("clock_ns").is_err(), "there is a clock");
    Ok(())
}

/// Waits until no GPU is started.
fn stopped() -> Result<()> {
    wait_until("the GPU is stopped", || {
        Ok(Counts::of_rm()?.get("started_gpus")? == 0)
    })
}

/// Waits until there are as many event buffers that the kernel has bound.
fn bound(count: u64) -> Result<()> {
    wait_until(&format!("{count} event buffers are bound"), || {
        Ok(Counts::of_rm()?.get("bound_buffers")? == count)
    })
}

/// Two seconds after the last read, records are written no more; and again when somebody asks.
pub(super) fn nobody_reads() -> Outcome {
    let stage = Stage::busy()?;
    bound(1)?;
    let begun = Instant::now();
    bound(0)?;
    let after = begun.elapsed();
    ensure!(after > Duration::from_millis(1_500), "after {after:?}");
    // The buffer goes first, its memory then.
    wait_until("nothing is left", || Ok(nothing_is_left().is_ok()))?;
    stage.begin()?;
    bound(1)?;
    stage.agrees()
}

pub(super) fn gpu_stops() -> Outcome {
    for _ in 0..3 {
        let stage = Stage::busy()?;
        bound(1)?;
        drop(stage);
        stopped()?;
        nothing_is_left()?;
    }
    Ok(())
}

/// With records on, the provider can be unloaded at any time.
pub(super) fn provider_leaves() -> Outcome {
    let stage = Stage::busy()?;
    for _ in 0..3 {
        bound(1)?;
        unload_each(&["zernel_nvidia"])?;
        nothing_is_left()?;
        check_eq!(Counts::of_rm()?.get("kernel_clients")?, 0);
        load("zernel_nvidia", "records=1")?;
        stage.begin()?;
    }
    ensure!(is_loaded("zernel_nvidia"), "it is not loaded");
    stage.agrees()
}

/// Records end before the driver is suspended, and none are made until it is back.
pub(super) fn driver_is_suspended() -> Outcome {
    let stage = Stage::busy()?;
    let made = truth::kernel_calls(control::BIND_SWITCHES)?;
    let suspended = Suspended::now()?;
    nothing_is_left()?;
    stage.ask()?;
    sleep(Duration::from_millis(100));
    nothing_is_left()?;
    suspended.resume();
    stage.begin()?;
    check_eq!(truth::kernel_calls(control::BIND_SWITCHES)?, made + 1);
    stage.agrees()
}

/// Records end as the machine goes to sleep, and begin anew afterwards.
pub(super) fn machine_sleeps() -> Outcome {
    let stage = Stage::busy()?;
    let made = truth::kernel_calls(control::BIND_SWITCHES)?;
    power::sleep("devices")?;
    nothing_is_left()?;
    stage.begin()?;
    check_eq!(truth::kernel_calls(control::BIND_SWITCHES)?, made + 1);
    stage.agrees()
}

/// A process that ends while its TSG has the engine leaves the other one its time.
pub(super) fn process_is_killed() -> Outcome {
    let stage = Stage::busy()?;
    for _ in 0..3 {
        let child = Child::spawn(|| {
            let sim = Sim::open()?;
            let plan = Plan::on(&sim, Spec::USUAL, engine::GR0, 2)?;
            plan.runtime.set_timeslice(plan.tsg, LONG_SLICE)?;
            plan.submit(0, &[Item::work(LONG)])?;
            sleep(LONG);
            Ok(())
        })?;
        sleep(Duration::from_millis(200));
        child.kill()?;
        child.end()?;
    }
    wait_until("the children's TSGs are gone", || {
        Ok(truth::tsgs()?.len() == stage.plans.len())
    })?;
    stage.agrees()
}
