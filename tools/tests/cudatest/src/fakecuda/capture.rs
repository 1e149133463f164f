// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures of streams: graphs that they give, and what makes them useless.

use std::time::Duration;

use anyhow::Result;
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{count, counted, load, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.capture",
    &[
        case("a_stream_is_captured", a_stream_is_captured),
        case("captures_fork_and_join", captures_fork_and_join),
        case("other_streams_are_as_before", other_streams),
        case("bad_captures_are_refused", bad_captures),
        case(
            "the_legacy_stream_is_refused_where_it_waits",
            the_legacy_stream,
        ),
        case("captures_do_not_mix", captures_do_not_mix),
        case("threads_and_modes_count", threads_and_modes),
        case("a_capture_ends_with_its_context", ends_with_its_context),
    ],
    LOADED,
);

fn a_stream_is_captured() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (memory, stream) = (program.alloc(64)?, program.stream(NON_BLOCKING)?);
    let pinned = program.alloc_host(4)?;
    let (mut graph, mut state, mut nodes) = (0, -1, 0);
    cuda.capture_begin(stream, 0).ok()?;
    cuda.capture_state(stream, &mut state).ok()?;
    check_eq!(state, 1);
    cuda.set_32_async(memory, 5, 1, stream).ok()?;
    program.work(stream, Duration::from_micros(10))?;
    cuda.copy_out_async(pinned, memory, 4, stream).ok()?;
    cuda.host_function(stream, count, 1).ok()?;
    cuda.capture_end(stream, &mut graph).ok()?;
    cuda.capture_state(stream, &mut state).ok()?;
    cuda.graph_nodes(graph, 0, &mut nodes).ok()?;
    check_eq!((state, nodes), (0, 4));
    let before = counted();
    check_eq!(program.values(memory, 1)?, [0], "nothing has run");
    let mut exec = 0;
    cuda.graph_instantiate(&mut exec, graph, 0).ok()?;
    cuda.graph_launch(exec, stream).ok()?;
    cuda.stream_synchronize(stream).ok()?;
    check_eq!((load(pinned), counted() - before), (5, 1));
    Ok(())
}

fn captures_fork_and_join() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let memory = program.alloc(64)?;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let (mut fork, mut join) = (0, 0);
    cuda.event_create(&mut fork, 2).ok()?;
    cuda.event_create(&mut join, 2).ok()?;
    let begin = |joined: bool| -> Result<i32> {
        cuda.capture_begin(one, 0).ok()?;
        cuda.set_32_async(memory, 1, 4, one).ok()?;
        cuda.event_record(fork, one).ok()?;
        cuda.stream_wait(two, fork, 0).ok()?;
        cuda.set_32_async(memory + 4, 2, 1, two).ok()?;
        cuda.set_32_async(memory + 8, 3, 1, one).ok()?;
        cuda.event_record(join, two).ok()?;
        if joined {
            cuda.stream_wait(one, join, 0).ok()?;
        }
        let mut graph = 0;
        let status = cuda.capture_end(one, &mut graph).status;
        if status == 0 {
            let mut exec = 0;
            cuda.graph_instantiate(&mut exec, graph, 0).ok()?;
            cuda.graph_launch(exec, LEGACY).ok()?;
        }
        Ok(status)
    };
    check_eq!(begin(false)?, 904);
    cuda.event_query(join).is(907)?;
    check_eq!(begin(true)?, 0);
    check_eq!(program.values(memory, 4)?, [1, 2, 3, 1]);
    Ok(())
}

fn bad_captures() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let (mut graph, mut state, mut event) = (1, 0, 0);
    cuda.event_create(&mut event, 2).ok()?;
    cuda.capture_begin(LEGACY, 0).is(900)?;
    cuda.capture_begin(one, 3).is(1)?;
    cuda.capture_end(one, &mut graph).is(401)?;
    cuda.event_record(event, two).ok()?;
    cuda.capture_begin(one, 0).ok()?;
    cuda.capture_begin(one, 0).is(401)?;
    program.work(two, Duration::from_micros(10))?;
    let spin = program.kernel("zernel_spin")?;
    // A call that waits for it makes the capture useless.
    cuda.stream_synchronize(one).is(900)?;
    cuda.capture_state(one, &mut state).ok()?;
    check_eq!(state, 2);
    cuda.launch(spin, 1, 1, one, &[1]).is(901)?;
    cuda.capture_end(one, &mut graph).is(901)?;
    check_eq!(graph, 0);
    program.work(one, Duration::from_micros(10))?;
    // So does one that waits for all streams.
    cuda.capture_begin(one, 0).ok()?;
    cuda.synchronize().is(900)?;
    cuda.capture_end(one, &mut graph).is(901)?;
    cuda.synchronize().ok()
}

/// Begins to capture a stream.
fn begin(program: &Program, stream: u64) -> Result<()> {
    program.cuda.capture_begin(stream, 0).ok()
}

/// Ends a capture that is of no use.
fn is_useless(program: &Program, stream: u64) -> Result<()> {
    program.cuda.capture_end(stream, &mut 0).is(901)
}

fn event(program: &Program) -> Result<u64> {
    let mut event = 0;
    program.cuda.event_create(&mut event, 2).ok()?;
    Ok(event)
}

fn other_streams() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let (memory, own) = (program.alloc(4)?, Words::new());
    begin(&program, one)?;
    program.work(two, Duration::from_millis(20))?;
    cuda.set_32_async(memory, 7, 1, two).ok()?;
    // Memory that is not registered has the result when the call is over.
    cuda.copy_out_async(own.address(), memory, 4, two).ok()?;
    check_eq!(own.load(0), 7);
    let mut graph = 0;
    cuda.capture_end(one, &mut graph).ok()
}

fn the_legacy_stream() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (blocking, other) = (program.stream(0)?, program.stream(NON_BLOCKING)?);
    let (spin, event) = (program.kernel("zernel_spin")?, event(&program)?);
    begin(&program, other)?;
    cuda.launch(spin, 1, 1, LEGACY, &[1]).ok()?;
    cuda.event_record(event, LEGACY).ok()?;
    cuda.stream_synchronize(LEGACY).ok()?;
    let mut graph = 0;
    cuda.capture_end(other, &mut graph).ok()?;
    let calls: [&dyn Fn() -> Result<()>; 4] = [
        &|| cuda.launch(spin, 1, 1, LEGACY, &[1]).is(906),
        &|| cuda.event_record(event, LEGACY).is(906),
        &|| cuda.stream_synchronize(LEGACY).is(906),
        &|| cuda.stream_query(LEGACY).is(906),
    ];
    for call in calls {
        begin(&program, blocking)?;
        call()?;
        is_useless(&program, blocking)?;
    }
    cuda.synchronize().ok()
}

fn captures_do_not_mix() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let (before, inside) = (event(&program)?, event(&program)?);
    cuda.event_record(before, two).ok()?;
    begin(&program, one)?;
    cuda.stream_wait(one, before, 0).is(905)?;
    is_useless(&program, one)?;
    begin(&program, one)?;
    begin(&program, two)?;
    cuda.event_record(inside, one).ok()?;
    cuda.stream_wait(two, inside, 0).is(902)?;
    is_useless(&program, one)?;
    is_useless(&program, two)?;
    cuda.event_synchronize(inside).is(907)?;
    cuda.stream_wait(two, inside, 0).is(907)?;
    cuda.synchronize().ok()
}

fn threads_and_modes() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let stream = program.stream(NON_BLOCKING)?;
    let elsewhere = |run: &(dyn Fn() -> Result<()> + Sync)| -> Result<()> {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                cuda.context_set(program.context).ok()?;
                run()
            });
            other.join().map_err(|_| anyhow::anyhow!("panicked"))?
        })
    };
    // The mode, and if a call that could break a capture is refused here and elsewhere.
    for (mode, here, there) in [(0, 900, 900), (1, 900, 0), (2, 0, 0)] {
        for (is_here, expected) in [(true, here), (false, there)] {
            cuda.capture_begin(stream, mode).ok()?;
            let call = || cuda.alloc(&mut 0, 16).is(expected);
            match is_here {
                true => call()?,
                false => elsewhere(&call)?,
            }
            let mut graph = 0;
            let end = cuda.capture_end(stream, &mut graph);
            end.is(if expected == 0 { 0 } else { 901 })?;
        }
        cuda.capture_begin(stream, mode).ok()?;
        let end = if mode == 2 { 0 } else { 908 };
        elsewhere(&|| cuda.capture_end(stream, &mut 0).is(end))?;
        if mode != 2 {
            cuda.capture_end(stream, &mut 0).ok()?;
        }
    }
    // A thread that does not care.
    begin(&program, stream)?;
    let mut mode = 2;
    cuda.capture_mode(&mut mode).ok()?;
    check_eq!(mode, 0);
    cuda.alloc(&mut 0, 16).ok()?;
    cuda.capture_mode(&mut mode).ok()?;
    check_eq!(mode, 2);
    mode = 3;
    cuda.capture_mode(&mut mode).is(1)?;
    cuda.copy_in(64, 64, 4).is(900)?;
    is_useless(&program, stream)
}

fn ends_with_its_context() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let stream = program.stream(0)?;
    let event = event(&program)?;
    begin(&program, stream)?;
    cuda.event_record(event, stream).ok()?;
    // A stream of another context is a part of it.
    let mut other = 0;
    cuda.context_create(&mut other, 0, 0).ok()?;
    let joined = program.stream(0)?;
    cuda.stream_wait(joined, event, 0).ok()?;
    let mut state = 0;
    cuda.capture_state(joined, &mut state).ok()?;
    check_eq!(state, 1);
    cuda.synchronize().is(900)?;
    cuda.capture_state(stream, &mut state).ok()?;
    check_eq!(state, 2);
    cuda.context_destroy(program.context).ok()?;
    cuda.capture_state(joined, &mut state).ok()?;
    check_eq!(state, 0);
    cuda.synchronize().ok()?;
    // No capture is left that could refuse it.
    cuda.alloc(&mut 0, 16).ok()
}
