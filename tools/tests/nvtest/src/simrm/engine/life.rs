// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs on the engine end, in any order: with their channels, clients, files, GPUs and modules.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::modules::{try_unload, unload_soon};
use anyhow::{ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use rustix::io::Errno;
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Skip, Suite};
use testkit::random::Random;

use super::plan::{self, errno_of, Plan, LONG, TICK};
use crate::lab::{load_engine, ENGINE};
use crate::options;
use crate::rm::{truth, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.running",
    &[
        case("a_channel_that_goes_ends_the_work", a_channel_that_goes),
        case("a_later_channel_may_go", a_later_channel_may_go),
        case("files_close_in_any_order", files_close_in_any_order),
        case("a_waiter_is_woken", a_waiter_is_woken),
        case("a_gpu_stops_with_work", a_gpu_stops_with_work),
        case("a_process_dies_with_work", a_process_dies_with_work),
        case("modules_stay_while_there_is_work", modules_stay),
        case("the_driver_sleeps_with_work", the_driver_sleeps_with_work),
        case("threads_race", threads_race),
    ],
    ENGINE,
);

fn a_channel_that_goes() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 2)?;
    plan.submit(0, &[Item::work(LONG)])?;
    plan.runtime.free(plan.channels[1])?;
    let refused = errno_of(plan.context.submit(0, &[Item::fence()]));
    check_eq!(refused, Some(Errno::NOENT), "the other channel");
    let held = truth::tsg(plan.runtime.client, plan.tsg)?;
    check_eq!((held.attached, held.chids.len()), (0, 1));
    // With what is left it can be attached once more.
    let again = sim.attach(&libzernel::sim::Attachment {
        client: plan.runtime.client.0,
        object: plan.tsg.0,
        share_words: None,
    })?;
    let done = again.submit(0, &[Item::work(TICK)])?;
    again.wait(0, done.last_seq, plan::soon())?;
    plan.runtime.free(plan.tsg)?;
    check_eq!(errno_of(again.stats()), Some(Errno::NOENT), "without a TSG");
    Ok(())
}

fn a_later_channel_may_go() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let later = plan.runtime.channel(plan.tsg)?;
    plan.runtime.free(later)?;
    let done = plan.submit(0, &[Item::work(TICK)])?;
    plan.wait(0, done)
}

fn files_close_in_any_order() -> Outcome {
    for order in 0..6 {
        let sim = Sim::open()?;
        let plan = Plan::new(&sim, Spec::USUAL, 2)?;
        plan.submit(0, &[Item::work(LONG)])?;
        plan.submit(1, &[Item::work(TICK)])?;
        let Plan {
            context,
            runtime,
            tsg,
            ..
        } = plan;
        match order {
            0 => drop((context, sim, runtime)),
            1 => drop((runtime, context, sim)),
            2 => drop((sim, runtime, context)),
            3 => {
                runtime.free(tsg)?;
                drop((context, runtime));
            }
            4 => {
                runtime.free(runtime.device)?;
                drop((context, runtime));
            }
            _ => {
                runtime.file.free(runtime.client, runtime.client)?;
                drop((runtime, context));
            }
        }
        check_eq!(truth::tsgs()?, [], "order {order}");
    }
    Ok(())
}

fn a_waiter_is_woken() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let long = plan.submit(0, &[Item::work(LONG)])?;
    let Plan {
        context, runtime, ..
    } = plan;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| errno_of(context.wait(0, long, plan::soon())));
        std::thread::sleep(Duration::from_millis(20));
        drop(runtime);
        let woken = waiting.join().expect("a thread that does not panic");
        check_eq!(woken, Some(Errno::NOENT));
        Ok(())
    })
}

fn a_gpu_stops_with_work() -> Outcome {
    let sim = Sim::open()?;
    for round in 0..3 {
        // On GPU 1 there is nobody else: it stops with the runtime, and starts with the next one.
        let plan = Plan::new(&sim, Spec::on(1), 1)?;
        let done = plan.submit(0, &[Item::work(TICK), Item::work(LONG)])?;
        plan.wait(0, done - 1).with_context(|| format!("{round}"))?;
        let Plan {
            context, runtime, ..
        } = plan;
        drop(runtime);
        testkit::wait_until("the GPU stops", || {
            let gpus = fs::read_to_string("/sys/kernel/debug/simrm/gpus")?;
            let mut lines = gpus.lines().filter(|line| line.contains("instance=1 "));
            Ok(lines.all(|line| line.contains("started=0")))
        })?;
        check_eq!(errno_of(context.stats()), Some(Errno::NOENT), "{round}");
    }
    Ok(())
}

fn a_process_dies_with_work() -> Outcome {
    for _ in 0..5 {
        in_child(|| {
            let sim = Sim::open()?;
            let plan = Plan::new(&sim, Spec::USUAL, 2)?;
            plan.submit(0, &[Item::work(LONG)])?;
            plan::until_it_runs(&plan)?;
            // Nothing is tidied up.
            std::mem::forget((plan, sim));
            Ok(())
        })?;
    }
    testkit::wait_until("its TSGs are gone", || Ok(truth::tsgs()?.is_empty()))
}

fn modules_stay() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    plan.submit(0, &[Item::work(LONG)])?;
    check_eq!(try_unload("zernel_simrm"), Err(Errno::AGAIN), "the engine");
    check_eq!(try_unload("nvidia"), Err(Errno::AGAIN), "the driver");
    ensure!(plan.has_engine()?, "it goes on");
    let Plan {
        context,
        runtime,
        tsg,
        ..
    } = plan;
    drop((context, sim));
    check_eq!(truth::tsg(runtime.client, tsg)?.attached, 0);
    // The driver keeps its TSGs; the next engine can have them.
    unload_soon("zernel_simrm")?;
    runtime.set_timeslice(tsg, 500)?;
    load_engine()?;
    let sim = Sim::open()?;
    let context = sim.attach(&libzernel::sim::Attachment {
        client: runtime.client.0,
        object: tsg.0,
        share_words: None,
    })?;
    check_eq!(context.stats()?.timeslice_us, 500);
    let done = context.submit(0, &[Item::work(TICK)])?;
    context.wait(0, done.last_seq, plan::soon())?;
    Ok(())
}

fn the_driver_sleeps_with_work() -> Outcome {
    const SUSPEND: &str = "/proc/driver/nvidia/suspend";
    // The driver itself keeps a lock from one system call to another.
    if Path::new("/proc/lockdep").exists() {
        return Err(Skip("the driver's own way to suspend upsets lockdep").into());
    }
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let done = plan.submit(0, &[Item::work(50 * TICK)])?;
    fs::write(SUSPEND, "suspend").context("suspend the driver")?;
    let asleep = || -> Result<()> {
        ensure!(sim.gpu_info(0)?.suspended, "the GPU is awake");
        check_eq!(plan.misses(0, done), Some(Errno::TIME), "while it sleeps");
        Ok(())
    };
    let outcome = asleep();
    fs::write(SUSPEND, "resume").context("resume the driver")?;
    outcome?;
    plan.wait(0, done)
}

/// Clients with work come and go beside each other.
fn threads_race() -> Outcome {
    let rounds = if testkit::is_short() { 40 } else { 400 };
    let race = |thread: u64| -> Result<()> {
        let mut random = Random::new(options::seed().wrapping_add(thread));
        let sim = Sim::open()?;
        for _ in 0..rounds {
            let spec = Spec::on(random.below(2) as usize);
            let plan = Plan::new(&sim, spec, 1 + random.below(3) as usize)?;
            for _ in 0..random.below(6) {
                let length = Duration::from_micros(10 + random.below(3_000));
                match random.below(5) {
                    0..=1 => drop(plan.submit(0, &[Item::work(length)])?),
                    2 => plan.disable(&plan.channels, random.below(2) == 0)?,
                    3 => plan.restart(random.below(2) == 0)?,
                    _ => plan
                        .runtime
                        .set_timeslice(plan.tsg, 1 + random.below(5_000))?,
                }
            }
            match random.below(4) {
                0 => plan.runtime.free(plan.channels[0])?,
                1 => plan.runtime.free(plan.tsg)?,
                2 => {
                    let Plan {
                        context, runtime, ..
                    } = plan;
                    drop((runtime, context));
                }
                _ => drop(plan),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || race(thread)))
            .collect();
        for thread in threads {
            thread.join().expect("a thread that does not panic")?;
        }
        check_eq!(truth::tsgs()?, [], "after all of it");
        Ok(())
    })
}
