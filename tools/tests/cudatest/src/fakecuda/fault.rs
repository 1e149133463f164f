// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors that stay with a context.

use std::time::Duration;

use anyhow::Result;
use libzernel::sim::{Sim, COMPUTE_ENGINE};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;

use super::lab::{finishes, tsgs, Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{count, counted, keep_status, kept, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.fault",
    &[
        case("an_error_stays_with_its_context", an_error_stays),
        case("a_kernel_with_a_bad_address_is_one", a_bad_address),
        case("a_holder_with_a_bad_address_is_one", a_bad_holder),
        case("the_gpu_is_given_back", the_gpu_is_given_back),
        case("callbacks_get_the_error_once", callbacks_get_the_error),
        case("another_context_does_not_wait_for_it", another_context),
    ],
    LOADED,
);

const LONG: Duration = Duration::from_secs(50);

/// All calls give the error, until the context is gone.
fn check(program: &Program, stream: u64) -> Result<()> {
    let cuda = &program.cuda;
    let spin = program.kernel("zernel_spin")?;
    for _ in 0..2 {
        cuda.synchronize().is(700)?;
        cuda.stream_query(stream).is(700)?;
        cuda.stream_synchronize(LEGACY).is(700)?;
        cuda.launch(spin, 1, 1, stream, &[1]).is(700)?;
        cuda.alloc(&mut 0, 64).is(700)?;
        cuda.stream_create(&mut 0, 0).is(700)?;
    }
    check_eq!(
        tsgs()?.len(),
        1,
        "the TSG is there until the context is gone"
    );
    let mut current = 0;
    cuda.context_get(&mut current).ok()?;
    check_eq!(current, program.context);
    cuda.context_destroy(program.context).ok()?;
    check_eq!(tsgs()?.len(), 0);
    cuda.synchronize().is(201)?;
    let mut new = 0;
    cuda.context_create(&mut new, 0, 0).ok()?;
    let memory = program.alloc(64)?;
    program.put(memory, &[7])?;
    check_eq!(program.values(memory, 1)?, [7]);
    Ok(())
}

fn an_error_stays() -> Outcome {
    let program = Program::new()?;
    let stream = program.stream(NON_BLOCKING)?;
    let fault = program.kernel("zernel_fault")?;
    let mut other = 0;
    program.cuda.context_create(&mut other, 0, 1).ok()?;
    program.cuda.context_pop(&mut other).ok()?;
    program.cuda.launch(fault, 1, 1, stream, &[]).ok()?;
    program.cuda.stream_synchronize(stream).is(700)?;
    program.cuda.context_push(other).ok()?;
    program.cuda.synchronize().ok()?;
    program.cuda.context_destroy(other).ok()?;
    check(&program, stream)
}

fn a_bad_address() -> Outcome {
    let program = Program::new()?;
    let (mac, own) = (program.kernel("zernel_mac")?, Words::new());
    program
        .cuda
        .launch(mac, 1, 1, LEGACY, &[own.address(), 1, 1, 1])
        .ok()?;
    program.cuda.stream_synchronize(LEGACY).is(700)?;
    check_eq!(own.load(0), 0);
    check(&program, LEGACY)
}

fn a_bad_holder() -> Outcome {
    let program = Program::new()?;
    let own = Words::new();
    let stream = program.stream(NON_BLOCKING)?;
    program.hold(stream, own.address(), own.address() + 4, 1, LONG)?;
    program.cuda.stream_synchronize(stream).is(700)?;
    check(&program, stream)
}

fn the_gpu_is_given_back() -> Outcome {
    let program = Program::new()?;
    let (stream, words) = (program.stream(NON_BLOCKING)?, Words::new());
    let base = program.register(words.address(), 4_096)?;
    program.hold(stream, base, base + 4, 1, LONG)?;
    let waiting = program.stream(NON_BLOCKING)?;
    program.cuda.wait_32(waiting, base + 8, 1, 0).ok()?;
    let fault = program.kernel("zernel_fault")?;
    program.cuda.launch(fault, 1, 1, LEGACY, &[]).ok()?;
    program.cuda.stream_synchronize(stream).is(700)?;
    program.cuda.stream_synchronize(waiting).is(700)?;
    // The holder holds no more, although nobody has released it.
    let sim = Sim::open()?;
    let idle = || -> Result<u32> { Ok(sim.engine_stats(0, COMPUTE_ENGINE)?.runnable) };
    wait_until("nothing runs", || Ok(idle()? == 0))?;
    check(&program, stream)
}

fn callbacks_get_the_error() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let (stream, other) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let base = program.register(words.address(), 4_096)?;
    cuda.stream_callback(stream, keep_status, 0, 1).is(1)?;
    cuda.stream_callback(stream, keep_status, 0, 0).ok()?;
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(kept(), (0, 1));
    let before = counted();
    cuda.wait_32(stream, base, 1, 0).ok()?;
    for _ in 0..3 {
        cuda.stream_callback(stream, keep_status, 0, 0).ok()?;
        cuda.host_function(stream, count, 1).ok()?;
    }
    let fault = program.kernel("zernel_fault")?;
    cuda.launch(fault, 1, 1, other, &[]).ok()?;
    cuda.stream_synchronize(other).is(700)?;
    wait_until("the callbacks are over", || Ok(kept().1 == 4))?;
    cuda.stream_callback(stream, keep_status, 0, 0).is(700)?;
    words.store(0, 1);
    cuda.context_destroy(program.context).ok()?;
    check_eq!((kept(), counted()), ((700, 4), before));
    Ok(())
}

fn another_context() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let stream = program.stream(NON_BLOCKING)?;
    let base = program.register(words.address(), 4_096)?;
    let fault = program.kernel("zernel_fault")?;
    let (mut event, mut other) = (0, 0);
    cuda.event_create(&mut event, 2).ok()?;
    cuda.wait_32(stream, base, 1, 0).ok()?;
    cuda.event_record(event, stream).ok()?;
    cuda.context_create(&mut other, 0, 0).ok()?;
    let waiting = program.stream(NON_BLOCKING)?;
    cuda.stream_wait(waiting, event, 0).ok()?;
    cuda.host_function(waiting, count, 1).ok()?;
    cuda.context_set(program.context).ok()?;
    let before = counted();
    cuda.launch(fault, 1, 1, LEGACY, &[]).ok()?;
    cuda.stream_synchronize(stream).is(700)?;
    finishes(&program, "the other context goes on", || {
        cuda.stream_synchronize(waiting).ok()
    })?;
    check_eq!(counted() - before, 1);
    // An event of a context that has failed is over for others.
    cuda.stream_wait(waiting, event, 0).ok()?;
    cuda.stream_synchronize(waiting).ok()
}
