// SPDX-License-Identifier: MIT OR Apache-2.0
//! TSGs of the driver that run: work, slices, and the controls that change both.

pub mod life;
pub mod plan;
pub mod registers;
pub mod sampling;
pub mod turns;

use std::thread::sleep;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{Attachment, ContextSpec, Item, Sim};
use rustix::io::Errno;
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};

use crate::lab::ENGINE;
use crate::rm::abi::{control, engine, Preempt};
use crate::rm::{status_of, truth, Handle, Runtime, Spec, Status};
use plan::{errno_of, Plan, LONG, TICK};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.engine",
    &[
        case("attach_errors", attach_errors),
        case("attach_of_others", attach_of_others),
        case("provider_calls_are_refused", provider_calls_are_refused),
        case("work_completes", work_completes),
        case("words_are_shared", words_are_shared),
        case("slices_share_the_engine", slices_share_the_engine),
        case("levels_count_with_a_policy", levels_count_with_a_policy),
        case("scheduled_and_enabled_or_not", scheduled_and_enabled_or_not),
        case(
            "preempt_gives_the_engine_away",
            preempt_gives_the_engine_away,
        ),
        case("preempt_waits_for_blocks", preempt_waits_for_blocks),
        case("restart_begins_at_the_top", restart_begins_at_the_top),
    ],
    ENGINE,
);

fn attach_errors() -> Outcome {
    let sim = Sim::open()?;
    let version = sim.version()?;
    ensure!(version.attach && !version.provider, "{version:?}");
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let attach = |client: Handle, object: Handle| {
        errno_of(sim.attach(&Attachment {
            client: client.0,
            object: object.0,
            share_words: None,
        }))
    };
    let client = runtime.client;
    check_eq!(attach(Handle(7), tsg), Some(Errno::NOENT), "no client");
    check_eq!(attach(client, Handle(7)), Some(Errno::NOENT), "no object");
    check_eq!(attach(client, client), Some(Errno::INVAL), "the client");
    check_eq!(attach(client, runtime.device), Some(Errno::INVAL), "a GPU");
    check_eq!(attach(client, tsg), Some(Errno::RANGE), "no channel");
    let channel = runtime.channel(tsg)?;
    check_eq!(attach(client, channel), Some(Errno::INVAL), "a channel");
    for _ in 1..version.max_channels {
        runtime.channel(tsg)?;
    }
    let to = Attachment {
        client: client.0,
        object: tsg.0,
        share_words: None,
    };
    let context = sim.attach(&to)?;
    check_eq!(attach(client, tsg), Some(Errno::BUSY), "twice");
    check_eq!(truth::tsg(client, tsg)?.attached, context.tsg());
    drop(context);
    check_eq!(truth::tsg(client, tsg)?.attached, 0, "given back");
    runtime.channel(tsg)?;
    check_eq!(attach(client, tsg), Some(Errno::RANGE), "too many channels");
    let decoder = runtime.tsg(engine::COPY0 + 20)?;
    runtime.channel(decoder)?;
    check_eq!(attach(client, decoder), Some(Errno::NODEV), "a decoder");
    let shared = Plan::new(&sim, Spec::on(1), 1)?;
    let other = Plan::new(&sim, Spec::USUAL, 1)?;
    let free = other.runtime.compute()?;
    other.runtime.channel(free)?;
    let across = sim.attach(&Attachment {
        client: other.runtime.client.0,
        object: free.0,
        share_words: Some(&shared.context),
    });
    check_eq!(errno_of(across), Some(Errno::INVAL), "words of another GPU");
    check_eq!(truth::tsg(other.runtime.client, free)?.attached, 0);
    Ok(())
}

/// A client belongs to the process that made it.
fn attach_of_others() -> Outcome {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    runtime.channel(tsg)?;
    let to = Attachment {
        client: runtime.client.0,
        object: tsg.0,
        share_words: None,
    };
    in_child(|| {
        let refused = errno_of(Sim::open()?.attach(&to));
        check_eq!(refused, Some(Errno::PERM));
        Ok(())
    })?;
    Sim::open()?.attach(&to)?;
    Ok(())
}

fn provider_calls_are_refused() -> Outcome {
    let sim = Sim::open()?;
    let made = errno_of(sim.create_context(&ContextSpec::compute("none")));
    check_eq!(made, Some(Errno::OPNOTSUPP), "create");
    check_eq!(errno_of(sim.suspend(0, true)), Some(Errno::OPNOTSUPP));
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let set = errno_of(plan.context.set_timeslice(200));
    check_eq!(set, Some(Errno::OPNOTSUPP), "control");
    check_eq!(errno_of(sim.tsg_stats(1)), Some(Errno::NOENT), "no TSG");
    Ok(())
}

fn work_completes() -> Outcome {
    let sim = Sim::open()?;
    for (gpu, engine, number) in [(0, engine::GR0, 0), (1, engine::COPY0 + 1, 2)] {
        let plan = Plan::on(&sim, Spec::on(gpu), engine, 3)?;
        check_eq!(plan.context.engine(), number);
        for channel in 0..3 {
            let done = plan.submit(channel, &[Item::work(TICK), Item::fence()])?;
            plan.wait(channel, done)?;
        }
        let stats = plan.context.stats()?;
        check_eq!((stats.completed, stats.queued), (6, 0));
        check_eq!(stats.busy_ns, 3 * TICK.as_nanos() as u64);
        check_eq!((stats.gpu, stats.engine), (gpu as u32, number));
        let no_channel = errno_of(plan.context.submit(3, &[Item::fence()]));
        check_eq!(no_channel, Some(Errno::NOENT), "a fourth channel");
    }
    Ok(())
}

/// One TSG waits for what another one stores.
fn words_are_shared() -> Outcome {
    let sim = Sim::open()?;
    let first = Plan::new(&sim, Spec::USUAL, 1)?;
    let second = Runtime::open()?;
    let tsg = second.compute()?;
    second.channel(tsg)?;
    second.control(tsg, control::SCHEDULE, &mut [1u8, 0, 0])?;
    let context = sim.attach(&Attachment {
        client: second.client.0,
        object: tsg.0,
        share_words: Some(&first.context),
    })?;
    let wait = Item::wait(5, libzernel::sim::Condition::AtLeast, 9);
    let waiting = context.submit(0, &[wait])?;
    let done = first.submit(0, &[Item::work(TICK), Item::release(5, 9)])?;
    first.wait(0, done)?;
    context.wait(0, waiting.last_seq, plan::soon())?;
    Ok(())
}

fn slices_share_the_engine() -> Outcome {
    let sim = Sim::open()?;
    let plans = [
        Plan::new(&sim, Spec::USUAL, 2)?,
        Plan::new(&sim, Spec::USUAL, 2)?,
    ];
    for (plan, slice) in plans.iter().zip([6_000, 2_000]) {
        plan.runtime.set_timeslice(plan.tsg, slice)?;
        check_eq!(u64::from(plan.context.stats()?.timeslice_us), slice);
        plan.submit(0, &[Item::work(LONG)])?;
    }
    sleep(Duration::from_secs(3));
    let busy = plans.iter().map(|plan| Ok(plan.context.stats()?.busy_ns));
    let busy: Vec<u64> = busy.collect::<Result<_>>()?;
    let ratio = busy[0] as f64 / busy[1] as f64;
    ensure!((2.85..3.15).contains(&ratio), "{busy:?}: {ratio}");
    Ok(())
}

/// Without a policy of the run lists all TSGs take turns.
fn levels_count_with_a_policy() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 1)?;
    let level = |plan: &Plan| -> Result<u32> { Ok(plan.context.stats()?.interleave) };
    plan.runtime
        .control(plan.tsg, control::SET_INTERLEAVE, &mut 2u32)?;
    check_eq!(level(&plan)?, 0, "without a policy");
    plan.policy(2)?;
    check_eq!(level(&plan)?, 2, "with one");
    let other = Plan::new(&sim, Spec::USUAL, 1)?;
    check_eq!(level(&other)?, 1, "a new TSG");
    plan.policy(0)?;
    check_eq!((level(&plan)?, level(&other)?), (0, 0), "without again");
    Ok(())
}

fn scheduled_and_enabled_or_not() -> Outcome {
    let sim = Sim::open()?;
    let plan = Plan::new(&sim, Spec::USUAL, 2)?;
    let stopped = |what: &str| {
        let done = plan.submit(1, &[Item::work(TICK)])?;
        check_eq!(plan.misses(1, done), Some(Errno::TIME), "{what}");
        ensure!(!plan.context.stats()?.enabled, "{what}");
        anyhow::Ok(done)
    };
    plan.schedule(false)?;
    let done = stopped("not scheduled")?;
    plan.schedule(true)?;
    plan.wait(1, done)?;
    // One channel is enough.
    plan.disable(&plan.channels[..1], true)?;
    let done = stopped("disabled")?;
    plan.disable(&plan.channels, true)?;
    plan.disable(&plan.channels[..1], false)?;
    check_eq!(plan.misses(1, done), Some(Errno::TIME), "half enabled");
    plan.disable(&plan.channels, false)?;
    plan.wait(1, done)?;
    // A running one stops, and goes on where it was.
    let long = plan.submit(0, &[Item::work(20 * TICK)])?;
    plan.disable(&plan.channels, true)?;
    let busy = plan.context.stats()?.busy_ns;
    sleep(Duration::from_millis(20));
    let stats = plan.context.stats()?;
    check_eq!(stats.busy_ns, busy, "while disabled");
    ensure!(!stats.on_engine && stats.queued == 1, "{stats:?}");
    plan.disable(&plan.channels, false)?;
    plan.wait(0, long)?;
    check_eq!(
        plan.context.stats()?.busy_ns,
        22 * TICK.as_nanos() as u64,
        "all of its work, once"
    );
    Ok(())
}

fn preempt_gives_the_engine_away() -> Outcome {
    let sim = Sim::open()?;
    let (holder, next) = plan::holder_and_next(&sim)?;
    let mut preempt = Preempt {
        wait: 1,
        ..Preempt::default()
    };
    holder
        .runtime
        .control(holder.tsg, control::PREEMPT, &mut preempt)?;
    ensure!(holder.has_engine()?, "nobody waits for it");
    let done = next.submit(0, &[Item::work(TICK)])?;
    check_eq!(next.misses(0, done), Some(Errno::TIME), "within the slice");
    holder
        .runtime
        .control(holder.tsg, control::PREEMPT, &mut preempt)?;
    next.wait(0, done)?;
    let held = truth::tsg(holder.runtime.client, holder.tsg)?;
    check_eq!(held.preempts, 2);
    check_eq!(holder.context.stats()?.preemptions, 1);
    Ok(())
}

fn preempt_waits_for_blocks() -> Outcome {
    let sim = Sim::open()?;
    let (holder, next) = plan::holder_and_next(&sim)?;
    holder.disable(&holder.channels, true)?;
    let blocks = Item::work(LONG).block_granularity(Duration::from_secs(5));
    holder.submit(1, &[blocks])?;
    holder.disable(&holder.channels, false)?;
    plan::until_it_runs(&holder)?;
    next.submit(0, &[Item::work(TICK)])?;
    let mut preempt = Preempt {
        wait: 1,
        manual: 1,
        timeout_us: 10_000,
        ..Preempt::default()
    };
    let answer = holder
        .runtime
        .control(holder.tsg, control::PREEMPT, &mut preempt);
    check_eq!(status_of(answer)?, Status::TIMEOUT, "a block of 5 s");
    preempt.wait = 0;
    let answer = holder
        .runtime
        .control(holder.tsg, control::PREEMPT, &mut preempt);
    check_eq!(status_of(answer)?, Status::OK, "without waiting");
    Ok(())
}

fn restart_begins_at_the_top() -> Outcome {
    let sim = Sim::open()?;
    let (holder, lc) = plan::holder_and_next(&sim)?;
    let middle = Plan::new(&sim, Spec::USUAL, 1)?;
    middle.runtime.set_timeslice(middle.tsg, plan::LONG_SLICE)?;
    middle.submit(0, &[Item::work(LONG)])?;
    lc.policy(2)?;
    lc.runtime
        .control(lc.tsg, control::SET_INTERLEAVE, &mut 2u32)?;
    let done = lc.submit(0, &[Item::work(TICK)])?;
    check_eq!(lc.misses(0, done), Some(Errno::TIME), "within the slice");
    lc.restart(false)?;
    lc.wait(0, done)?;
    check_eq!(holder.context.stats()?.preemptions, 1, "of the holder");
    check_eq!(truth::tsg(lc.runtime.client, lc.tsg)?.restarts, 1);
    // For one that has the engine it is skipped, unless it is forced.
    middle.restart(false)?;
    plan::until_it_runs(&middle)?;
    middle.restart(false)?;
    check_eq!(middle.context.stats()?.preemptions, 0, "skipped");
    middle.restart(true)?;
    check_eq!(middle.context.stats()?.preemptions, 1, "forced");
    // It is for those who may.
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let channel = runtime.channel(tsg)?;
    let answer = runtime.control(channel, control::RESTART_RUNLIST, &mut [0u8, 0]);
    check_eq!(status_of(answer)?, Status::OK, "without an engine");
    let answer = runtime.control(tsg, control::RESTART_RUNLIST, &mut [0u8, 0]);
    check_eq!(status_of(answer)?, Status::NOT_SUPPORTED, "of a TSG");
    in_child(|| {
        testkit::sys::become_user(1000, 1000, &[])?;
        let own = Runtime::open()?;
        let channel = own.channel(own.compute()?)?;
        let answer = own.control(channel, control::RESTART_RUNLIST, &mut [0u8, 0]);
        check_eq!(status_of(answer)?, Status::INSUFFICIENT_PERMISSIONS);
        Ok(())
    })
}
