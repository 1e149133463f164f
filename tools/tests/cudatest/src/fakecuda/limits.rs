// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits: what a stream that waits may use, and what is more than there can be.

use std::time::Duration;

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{finishes, Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{address_of, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.limits",
    &[
        case("a_stream_that_waits_leaves_channels", leaves_channels),
        case("a_stream_that_waits_leaves_completions", leaves_completions),
        case("work_of_any_length_fits", work_of_any_length),
        case("launches_have_limits", launches_have_limits),
        case("attributes_of_launches_are_looked_at", attributes),
    ],
    LOADED,
);

const TICK: Duration = Duration::from_micros(20);

/// A stream that waits for a word, one that stores it, and the address of the word.
fn one_waits_for_the_other(program: &Program, words: &Words) -> Result<(u64, u64, u64)> {
    let word = program.register(words.address(), 4_096)?;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    program.cuda.wait_32(one, word, 1, 0).ok()?;
    Ok((one, two, word))
}

fn leaves_channels() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let (waiting, other, word) = one_waits_for_the_other(&program, &words)?;
    let (memory, pinned) = (program.alloc(64)?, program.alloc_host(64)?);
    for _ in 0..20 {
        cuda.copy_in_async(memory, pinned, 64, waiting).ok()?;
        program.work(waiting, TICK)?;
    }
    cuda.write_32(other, word, 1, 0).ok()?;
    finishes(&program, "both streams end", || {
        cuda.stream_synchronize(other).ok()?;
        cuda.stream_synchronize(waiting).ok()
    })
}

fn leaves_completions() -> Outcome {
    /// So many that a context may have no more outstanding.
    const NODES: u32 = 800;
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let (waiting, other, word) = one_waits_for_the_other(&program, &words)?;
    let memory = program.alloc(4)?;
    let (mut graph, mut exec) = (0, 0);
    cuda.graph_create(&mut graph, 0).ok()?;
    let (mut node, none) = (0, std::ptr::null());
    for value in 1..=NODES {
        let set = [memory, 0, 4 << 32 | u64::from(value), 1, 1];
        let (after, count) = match value {
            1 => (none, 0),
            _ => (address_of(&node) as *const u64, 1),
        };
        let mut new = 0;
        cuda.graph_set(&mut new, graph, after, count, &set, program.context)
            .ok()?;
        node = new;
    }
    cuda.graph_instantiate(&mut exec, graph, 0).ok()?;
    cuda.graph_launch(exec, waiting).ok()?;
    finishes(&program, "the other stream goes on", || {
        // With and without an effect on memory.
        cuda.set_32_async(memory, 0, 1, other).ok()?;
        cuda.write_32(other, word + 4, 1, 0).ok()?;
        cuda.write_32(other, word, 1, 0).ok()?;
        cuda.stream_synchronize(other).ok()?;
        cuda.stream_synchronize(waiting).ok()
    })?;
    check_eq!(
        (program.values(memory, 1)?, words.load(1)),
        (vec![NODES], 1)
    );
    Ok(())
}

fn work_of_any_length() -> Outcome {
    let program = Program::new()?;
    let spin = program.kernel("zernel_spin")?;
    let stream = program.stream(NON_BLOCKING)?;
    // It ends with the process.
    program.cuda.launch(spin, 1, 32, stream, &[u64::MAX]).ok()?;
    let unknown = program.kernel("unknown")?;
    let most = i32::MAX as u32;
    program
        .cuda
        .launch(unknown, most, 1_024, stream, &[0, 0])
        .ok()?;
    ensure!(!program.is_idle(stream)?);
    Ok(())
}

fn launches_have_limits() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let spin = program.kernel("zernel_spin")?;
    let time = 1_000_u64;
    let (places, none) = ([address_of(&time)], std::ptr::null());
    let launch = |x, shared, extra| {
        cuda.launch_raw(
            spin,
            x,
            1,
            1,
            1,
            1,
            1,
            shared,
            LEGACY,
            places.as_ptr(),
            extra,
        )
    };
    launch(1, 48 << 10, none).ok()?;
    launch(1, (48 << 10) + 1, none).is(1)?;
    cuda.function_set(spin, 8, 101 << 10).is(1)?;
    cuda.function_set(spin, 8, 100 << 10).ok()?;
    launch(1, 100 << 10, none).ok()?;
    launch(1, (100 << 10) + 1, none).is(1)?;
    launch(1 << 31, 0, none).is(1)?;
    let extra = [0_u64];
    launch(1, 0, extra.as_ptr()).is(1)?;
    cuda.synchronize().ok()
}

fn attributes() -> Outcome {
    let program = Program::new()?;
    let spin = program.kernel("zernel_spin")?;
    let time = 1_000_u64;
    let places = [address_of(&time)];
    let launch = |ids: &[u64]| {
        let mut list = vec![[0_u64; 9]; ids.len()];
        for (attribute, id) in list.iter_mut().zip(ids) {
            attribute[0] = *id;
        }
        // One block of a warp.
        let one = 1 << 32;
        let config = [
            one | 1,
            32 << 32 | 1,
            one | 1,
            0,
            LEGACY,
            list.as_ptr() as u64,
            ids.len() as u64,
        ];
        program
            .cuda
            .launch_ex(&config, spin, places.as_ptr(), std::ptr::null())
    };
    launch(&[]).ok()?;
    // Cooperation, and a priority.
    launch(&[2, 8]).ok()?;
    // The size of a cluster, and an event.
    launch(&[2, 4]).is(801)?;
    launch(&[7]).is(801)?;
    launch(&[99]).is(801)?;
    program.cuda.synchronize().ok()
}
