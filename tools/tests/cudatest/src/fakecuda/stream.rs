// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams, events and host functions: their order.

use std::time::Duration;

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{finishes, Program, LEGACY, LOADED, NON_BLOCKING, PER_THREAD};
use crate::sys::{count, counted, inner_status, query_inside, wait_for_word, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.stream",
    &[
        case("streams_run_side_by_side", side_by_side),
        case("events_order_streams", events_order_streams),
        case(
            "the_legacy_stream_and_blocking_ones_wait",
            the_legacy_stream,
        ),
        case("the_legacy_stream_has_points_behind_others", legacy_points),
        case("each_thread_has_a_default_stream", each_thread),
        case("there_are_more_streams_than_channels", more_than_channels),
        case("connections_are_shared", connections_are_shared),
        case("more_work_than_fits_waits_for_room", more_than_fits),
        case("host_functions_come_in_order", host_functions),
        case("a_host_function_makes_no_calls", no_calls_inside),
        case("events_tell_the_time", events_tell_the_time),
        case("contexts_wait_for_each_other", contexts_wait),
        case(
            "results_come_before_a_wait_of_another_context",
            results_before,
        ),
        case("a_destroyed_stream_works_on", a_destroyed_stream),
        case("bad_handles_are_refused", bad_handles),
    ],
    LOADED,
);

/// A page of words, as the GPU sees them: streams wait there until a case lets them on.
struct Page {
    words: Box<Words>,
    address: u64,
}

impl Page {
    fn new(program: &Program) -> Result<Self> {
        let words = Words::new();
        let address = program.register(words.address(), 4_096)?;
        Ok(Self { words, address })
    }

    /// Has a stream wait for a word.
    fn block(&self, program: &Program, stream: u64, at: usize) -> Result<()> {
        program
            .cuda
            .wait_32(stream, self.address + 4 * at as u64, 1, 0)
            .ok()
    }

    fn unblock(&self, at: usize) {
        self.words.store(at, 1);
    }
}

const TICK: Duration = Duration::from_micros(50);

fn side_by_side() -> Outcome {
    let program = Program::new()?;
    let page = Page::new(&program)?;
    let (one, two) = (program.stream(0)?, program.stream(0)?);
    page.block(&program, one, 0)?;
    program.work(one, TICK)?;
    program.work(two, TICK)?;
    program.cuda.stream_synchronize(two).ok()?;
    ensure!(!program.is_idle(one)? && program.is_idle(two)?);
    page.unblock(0);
    program.cuda.stream_synchronize(one).ok()?;
    ensure!(program.is_idle(one)?);
    let mut context = 0;
    program.cuda.stream_context(one, &mut context).ok()?;
    check_eq!(context, program.context);
    let (mut urgent, mut flags, mut priority) = (0, 9, 9);
    program
        .cuda
        .stream_create_urgent(&mut urgent, NON_BLOCKING, -99)
        .ok()?;
    program.cuda.stream_flags(urgent, &mut flags).ok()?;
    program.cuda.stream_priority(urgent, &mut priority).ok()?;
    check_eq!((flags, priority), (NON_BLOCKING, -5));
    Ok(())
}

fn event(program: &Program, flags: u32) -> Result<u64> {
    let mut event = 0;
    program.cuda.event_create(&mut event, flags).ok()?;
    Ok(event)
}

fn events_order_streams() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    for flags in [0, 2] {
        let event = event(&program, flags)?;
        cuda.event_query(event).ok()?;
        cuda.event_synchronize(event).ok()?;
        page.words.store(0, 0);
        page.block(&program, one, 0)?;
        cuda.event_record(event, one).ok()?;
        cuda.stream_wait(two, event, 0).ok()?;
        program.work(two, TICK)?;
        cuda.event_query(event).is(600)?;
        ensure!(!program.is_idle(two)?);
        page.unblock(0);
        cuda.event_synchronize(event).ok()?;
        cuda.stream_synchronize(two).ok()?;
        cuda.event_query(event).ok()?;
        cuda.event_destroy(event).ok()?;
        cuda.event_query(event).is(400)?;
    }
    Ok(())
}

fn the_legacy_stream() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let (blocking, other) = (program.stream(0)?, program.stream(NON_BLOCKING)?);
    page.block(&program, other, 0)?;
    program.work(0, TICK)?;
    cuda.stream_synchronize(0).ok()?;
    ensure!(
        !program.is_idle(other)?,
        "one that does not block is not waited for"
    );
    page.block(&program, blocking, 1)?;
    program.work(LEGACY, TICK)?;
    program.work(blocking, TICK)?;
    ensure!(!program.is_idle(LEGACY)?);
    page.unblock(1);
    cuda.stream_synchronize(blocking).ok()?;
    ensure!(program.is_idle(LEGACY)?, "it came before");
    page.block(&program, LEGACY, 2)?;
    program.work(blocking, TICK)?;
    ensure!(!program.is_idle(blocking)?);
    page.unblock(0);
    program.work(other, TICK)?;
    cuda.stream_synchronize(other).ok()?;
    ensure!(!program.is_idle(blocking)? && !program.is_idle(0)?);
    page.unblock(2);
    cuda.synchronize().ok()?;
    ensure!(program.is_idle(blocking)? && program.is_idle(0)?);
    Ok(())
}

fn legacy_points() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let (blocking, other) = (program.stream(0)?, program.stream(NON_BLOCKING)?);
    let (first, second) = (event(&program, 2)?, event(&program, 2)?);
    page.block(&program, blocking, 0)?;
    cuda.event_record(first, LEGACY).ok()?;
    cuda.event_query(first).is(600)?;
    cuda.stream_wait(other, first, 0).ok()?;
    // More looks than the channel has items.
    for _ in 0..2_000 {
        ensure!(!program.is_idle(0)? && !program.is_idle(other)?);
    }
    page.unblock(0);
    cuda.stream_synchronize(0).ok()?;
    ensure!(program.is_idle(blocking)?, "it was waited for");
    cuda.event_query(first).ok()?;
    cuda.stream_synchronize(other).ok()?;
    // So it is in the other direction.
    page.block(&program, LEGACY, 1)?;
    cuda.event_record(second, blocking).ok()?;
    cuda.event_query(second).is(600)?;
    page.unblock(1);
    cuda.event_synchronize(second).ok()?;
    // A wait for what is over is a point, too.
    let more = program.stream(0)?;
    page.block(&program, blocking, 2)?;
    cuda.stream_wait(LEGACY, second, 0).ok()?;
    program.work(more, TICK)?;
    ensure!(!program.is_idle(more)?);
    page.unblock(2);
    cuda.synchronize().ok()
}

fn each_thread() -> Outcome {
    let program = Program::new()?;
    let page = Page::new(&program)?;
    page.block(&program, PER_THREAD, 0)?;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            program.cuda.context_set(program.context).ok()?;
            program.work(PER_THREAD, TICK)?;
            program.cuda.stream_synchronize(PER_THREAD).ok()?;
            program.cuda.stream_synchronize_thread(0).ok()
        });
        other.join().map_err(|_| anyhow::anyhow!("panicked"))?
    })?;
    ensure!(!program.is_idle(PER_THREAD)?);
    program.work(LEGACY, TICK)?;
    ensure!(!program.is_idle(LEGACY)?, "it waits for those of threads");
    page.unblock(0);
    program.cuda.stream_synchronize_thread(0).ok()?;
    program.cuda.synchronize().ok()
}

fn more_than_channels() -> Outcome {
    const STREAMS: usize = 60;
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let streams = (0..STREAMS).map(|_| program.stream(NON_BLOCKING));
    let streams: Vec<u64> = streams.collect::<Result<_>>()?;
    // Those that wait have channels of their own, so that others do not wait behind them.
    for (at, &stream) in streams.iter().take(10).enumerate() {
        page.block(&program, stream, at)?;
    }
    for &stream in &streams[10..] {
        program.work(stream, TICK)?;
        cuda.stream_synchronize(stream).ok()?;
    }
    for (at, &stream) in streams.iter().enumerate().skip(10) {
        page.block(&program, stream, at)?;
    }
    for (at, &stream) in streams.iter().enumerate() {
        page.unblock(at);
        program.work(stream, TICK)?;
    }
    cuda.synchronize().ok()?;
    for stream in streams {
        ensure!(program.is_idle(stream)?);
        cuda.stream_destroy(stream).ok()?;
    }
    // Words of streams that are gone are used again.
    for _ in 0..1_500 {
        let stream = program.stream(NON_BLOCKING)?;
        cuda.stream_destroy(stream).ok()?;
    }
    Ok(())
}

fn more_than_fits() -> Outcome {
    const EACH: usize = 3_000;
    let program = Program::new()?;
    let stream = program.stream(NON_BLOCKING)?;
    let before = counted();
    for _ in 0..EACH {
        program.work(stream, Duration::from_micros(1))?;
    }
    for _ in 0..EACH {
        program.cuda.host_function(stream, count, 1).ok()?;
    }
    program.cuda.stream_synchronize(stream).ok()?;
    check_eq!(counted() - before, EACH as u32);
    Ok(())
}

fn host_functions() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let (stream, other) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let memory = program.alloc(4)?;
    let word = program.alloc_host(4)?;
    let before = counted();
    cuda.set_32_async(memory, 5, 1, stream).ok()?;
    cuda.copy_out_async(word, memory, 4, stream).ok()?;
    cuda.host_function(stream, wait_for_word, word as usize)
        .ok()?;
    cuda.host_function(stream, count, 3).ok()?;
    program.work(stream, TICK)?;
    cuda.stream_synchronize(stream).ok()?;
    check_eq!((crate::sys::load(word), counted() - before), (5, 3));
    // A function that waits holds up its own stream alone.
    cuda.host_function(stream, wait_for_word, page.words.address() as usize)
        .ok()?;
    cuda.set_32_async(memory, 6, 1, other).ok()?;
    cuda.stream_synchronize(other).ok()?;
    check_eq!(program.values(memory, 1)?, [6]);
    ensure!(!program.is_idle(stream)?);
    page.unblock(0);
    cuda.stream_synchronize(stream).ok()
}

fn no_calls_inside() -> Outcome {
    let program = Program::new()?;
    let (mut address, mut status) = (0, 0);
    let name = c"cuStreamQuery".as_ptr();
    program
        .cuda
        .proc_address(name, &mut address, 12_080, 0, &mut status)
        .ok()?;
    program
        .cuda
        .host_function(LEGACY, query_inside, address)
        .ok()?;
    program.cuda.synchronize().ok()?;
    check_eq!(inner_status(), 800);
    Ok(())
}

fn events_tell_the_time() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (begin, end) = (event(&program, 0)?, event(&program, 0)?);
    let (mut time, silent) = (-1.0, event(&program, 2)?);
    cuda.event_elapsed(&mut time, begin, end).is(400)?;
    cuda.event_record(begin, LEGACY).ok()?;
    program.work(LEGACY, Duration::from_millis(5))?;
    cuda.event_record(end, LEGACY).ok()?;
    cuda.event_synchronize(end).ok()?;
    cuda.event_elapsed(&mut time, begin, end).ok()?;
    ensure!(time >= 5.0, "{time} ms");
    cuda.event_record(silent, LEGACY).ok()?;
    cuda.event_elapsed(&mut time, begin, silent).is(400)?;
    let page = Page::new(&program)?;
    page.block(&program, LEGACY, 0)?;
    cuda.event_record(end, LEGACY).ok()?;
    cuda.event_elapsed(&mut time, begin, end).is(600)?;
    page.unblock(0);
    cuda.synchronize().ok()
}

fn contexts_wait() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let first = program.stream(NON_BLOCKING)?;
    page.block(&program, first, 0)?;
    let event = event(&program, 2)?;
    cuda.event_record(event, first).ok()?;
    let mut context = 0;
    cuda.context_create(&mut context, 0, 1).ok()?;
    let second = program.stream(NON_BLOCKING)?;
    cuda.stream_wait(second, event, 0).ok()?;
    let before = counted();
    cuda.host_function(second, count, 1).ok()?;
    ensure!(!program.is_idle(second)?);
    check_eq!(counted(), before);
    // An event is recorded in streams of its own context.
    cuda.event_record(event, second).is(400)?;
    page.unblock(0);
    cuda.stream_synchronize(second).ok()?;
    check_eq!(counted(), before + 1);
    Ok(())
}

/// Two contexts that wait for each other in turn, each for results of the other.
fn results_before() -> Outcome {
    const ROUNDS: u32 = 150;
    const COUNT: u32 = 1_024;
    let programs = [Program::new()?, Program::new()?];
    let cuda = &programs[0].cuda;
    let enter = |side: usize| cuda.context_set(programs[side].context).ok();
    let (mut streams, mut memory, mut results, mut kernels) = ([0; 2], [0; 2], [0; 2], [0; 2]);
    for (side, program) in programs.iter().enumerate() {
        enter(side)?;
        streams[side] = program.stream(NON_BLOCKING)?;
        memory[side] = program.alloc(4 * COUNT as usize)?;
        results[side] = program.alloc_host(4 * COUNT as usize)?;
        kernels[side] = program.kernel("zernel_mac")?;
    }
    let before = counted();
    for round in 1..=ROUNDS {
        for side in 0..2 {
            enter(side)?;
            let (stream, seed) = (streams[side], u64::from(round));
            cuda.launch(
                kernels[side],
                8,
                128,
                stream,
                &[memory[side], COUNT.into(), seed, 0],
            )
            .ok()?;
            cuda.copy_out_async(results[side], memory[side], 4 * COUNT as usize, stream)
                .ok()?;
            let event = event(&programs[side], 2)?;
            cuda.event_record(event, stream).ok()?;
            enter(1 - side)?;
            let (other, mine) = (streams[1 - side], results[1 - side] + 4);
            cuda.stream_wait(other, event, 0).ok()?;
            // It reads what the other context has left.
            cuda.copy_in_async(memory[1 - side] + 4, results[side] + 4, 4, other)
                .ok()?;
            cuda.copy_out_async(mine, memory[1 - side] + 4, 4, other)
                .ok()?;
            cuda.host_function(other, count, 1).ok()?;
            cuda.stream_synchronize(other).ok()?;
            check_eq!(crate::sys::load(mine), round + 1, "round {round}");
            cuda.event_destroy(event).ok()?;
        }
    }
    check_eq!(counted() - before, 2 * ROUNDS);
    both_ways(&programs, streams)
}

/// Waits in both directions, none of which can be over before all are there.
fn both_ways(programs: &[Program; 2], streams: [u64; 2]) -> Outcome {
    const CHAINS: usize = 12;
    let cuda = &programs[0].cuda;
    let before = counted();
    cuda.context_set(programs[0].context).ok()?;
    let page = Page::new(&programs[0])?;
    page.block(&programs[0], streams[0], 0)?;
    for turn in 0..2 * CHAINS {
        let (from, to) = (turn % 2, 1 - turn % 2);
        cuda.context_set(programs[from].context).ok()?;
        let event = event(&programs[from], 2)?;
        cuda.host_function(streams[from], count, 1).ok()?;
        cuda.event_record(event, streams[from]).ok()?;
        cuda.stream_wait(streams[to], event, 0).ok()?;
    }
    check_eq!(counted(), before);
    page.unblock(0);
    finishes(&programs[0], "all waits end", || {
        cuda.stream_synchronize(streams[1]).ok()?;
        cuda.stream_synchronize(streams[0]).ok()
    })?;
    check_eq!(counted() - before, 2 * CHAINS as u32);
    Ok(())
}

fn a_destroyed_stream() -> Outcome {
    let program = Program::new()?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let stream = program.stream(NON_BLOCKING)?;
    let before = counted();
    page.block(&program, stream, 0)?;
    cuda.host_function(stream, count, 1).ok()?;
    cuda.stream_destroy(stream).ok()?;
    cuda.stream_query(stream).is(400)?;
    page.unblock(0);
    cuda.synchronize().ok()?;
    check_eq!(counted(), before + 1);
    Ok(())
}

/// A stream beyond the connections waits behind another one.
fn connections_are_shared() -> Outcome {
    let program = Program::with("CUDA_DEVICE_MAX_CONNECTIONS", "2")?;
    let (cuda, page) = (&program.cuda, Page::new(&program)?);
    let stream = || program.stream(NON_BLOCKING);
    let (one, two, other) = (stream()?, stream()?, stream()?);
    page.block(&program, one, 0)?;
    // One is left.
    program.work(other, TICK)?;
    cuda.stream_synchronize(other).ok()?;
    page.block(&program, two, 1)?;
    for stream in [other, LEGACY] {
        program.work(stream, TICK)?;
    }
    // The legacy default stream has one of its own.
    cuda.stream_synchronize(LEGACY).ok()?;
    std::thread::sleep(Duration::from_millis(100));
    cuda.stream_query(other).is(600)?;
    page.unblock(0);
    page.unblock(1);
    cuda.stream_synchronize(other).ok()?;
    cuda.synchronize().ok()
}

fn bad_handles() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let spin = program.kernel("zernel_spin")?;
    cuda.stream_create(&mut 0, 2).is(1)?;
    cuda.stream_query(3).is(400)?;
    cuda.stream_query(program.context).is(400)?;
    cuda.stream_synchronize(0xdead_beef_0000).is(400)?;
    cuda.stream_destroy(LEGACY).is(400)?;
    cuda.event_create(&mut 0, 8).is(1)?;
    cuda.event_create(&mut 0, 4).is(1)?;
    cuda.event_record(3, LEGACY).is(400)?;
    cuda.launch(program.module, 1, 1, LEGACY, &[1]).is(400)?;
    cuda.launch(spin, 1, 1, 3, &[1]).is(400)?;
    cuda.launch(spin, 0, 1, LEGACY, &[1]).is(1)?;
    cuda.launch(spin, 1, 1_025, LEGACY, &[1]).is(1)?;
    let none = std::ptr::null();
    cuda.launch_raw(spin, 1, 1, 1, 1, 1, 1, 0, LEGACY, none, none)
        .is(1)?;
    cuda.synchronize().ok()
}
