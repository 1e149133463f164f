// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: made by hand and by capture.

use std::time::Duration;

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};

use super::lab::{Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{address_of, count, counted, load, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.graph",
    &[
        case("nodes_run_in_order", nodes_run_in_order),
        case("kernels_are_changed_between_launches", kernels_are_changed),
        case("words_are_used_again_by_a_launch", words_are_used_again),
        case("a_stream_is_captured", a_stream_is_captured),
        case("captures_fork_and_join", captures_fork_and_join),
        case("bad_captures_are_refused", bad_captures),
        case("bad_graphs_are_refused", bad_graphs),
    ],
    LOADED,
);

/// A graph, and the last node of it.
struct Graph<'a> {
    program: &'a Program,
    graph: u64,
    last: Option<u64>,
}

impl<'a> Graph<'a> {
    fn new(program: &'a Program) -> Result<Self> {
        let mut graph = 0;
        program.cuda.graph_create(&mut graph, 0).ok()?;
        let last = None;
        Ok(Self {
            program,
            graph,
            last,
        })
    }

    /// Adds a node behind the last one.
    fn add(&mut self, add: impl FnOnce(&mut u64, *const u64, usize) -> Result<()>) -> Result<u64> {
        let (mut node, after) = (0, self.last.unwrap_or(0));
        add(&mut node, &after, usize::from(self.last.is_some()))?;
        self.last = Some(node);
        Ok(node)
    }

    fn kernel(&mut self, function: u64, arguments: &[u64]) -> Result<u64> {
        let places: Vec<u64> = arguments.iter().map(address_of).collect();
        let parameters = kernel(function, &places);
        let (program, graph) = (self.program, self.graph);
        self.add(|node, after, count| {
            program
                .cuda
                .graph_kernel(node, graph, after, count, &parameters)
                .ok()
        })
    }

    fn instantiate(&self) -> Result<u64> {
        let mut exec = 0;
        self.program
            .cuda
            .graph_instantiate(&mut exec, self.graph, 0)
            .ok()?;
        Ok(exec)
    }
}

/// `CUDA_KERNEL_NODE_PARAMS` of one block of a warp.
fn kernel(function: u64, places: &[u64]) -> [u64; 9] {
    let (one, warp) = (1, 32);
    [
        function,
        one << 32 | one,
        warp << 32 | one,
        one << 32 | one,
        0,
        places.as_ptr() as u64,
        0,
        0,
        0,
    ]
}

/// A word of the generator of `zernel_mac`.
fn step(x: u32) -> u32 {
    x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

fn nodes_run_in_order() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (memory, result) = (program.alloc(64)?, program.alloc_host(64)?);
    let mac = program.kernel("zernel_mac")?;
    let mut graph = Graph::new(&program)?;
    let (handle, context) = (graph.graph, program.context);
    graph.add(|node, after, count| cuda.graph_empty(node, handle, after, count).ok())?;
    graph.add(|node, after, count| {
        let set = [memory, 0, 4 << 32 | 5, 16, 1];
        cuda.graph_set(node, handle, after, count, &set, context)
            .ok()
    })?;
    graph.kernel(mac, &[memory, 2, 9, 1])?;
    graph.add(|node, after, count| {
        let mut copy = [0; 25];
        (copy[4], copy[6], copy[15], copy[16]) = (2, memory, 1, result);
        (copy[22], copy[23], copy[24]) = (64, 1, 1);
        cuda.graph_copy(node, handle, after, count, &copy, context)
            .ok()
    })?;
    let host = graph.add(|node, after, at| {
        cuda.graph_host(node, handle, after, at, &[count as *const () as usize, 1])
            .ok()
    })?;
    let (mut nodes, mut kind) = (0, -1);
    cuda.graph_nodes(handle, 0, &mut nodes).ok()?;
    cuda.graph_kind(host, &mut kind).ok()?;
    check_eq!((nodes, kind), (5, 3));
    let exec = graph.instantiate()?;
    cuda.graph_destroy(handle).ok()?;
    cuda.graph_kind(host, &mut kind).is(1)?;
    let (stream, before) = (program.stream(NON_BLOCKING)?, counted());
    for launches in 1..=3 {
        cuda.graph_launch(exec, stream).ok()?;
        cuda.stream_synchronize(stream).ok()?;
        check_eq!(
            (load(result), load(result + 4), load(result + 8)),
            (step(9), step(10), 5)
        );
        check_eq!(counted() - before, launches);
    }
    cuda.graph_exec_destroy(exec).ok()?;
    cuda.graph_launch(exec, stream).is(1)
}

fn kernels_are_changed() -> Outcome {
    let program = Program::new()?;
    let (cuda, memory) = (&program.cuda, program.alloc(64)?);
    let (mac, spin) = (
        program.kernel("zernel_mac")?,
        program.kernel("zernel_spin")?,
    );
    let mut graph = Graph::new(&program)?;
    let node = graph.kernel(mac, &[memory, 1, 5, 1])?;
    let exec = graph.instantiate()?;
    cuda.graph_launch(exec, LEGACY).ok()?;
    check_eq!(program.values(memory, 1)?, [step(5)]);
    let arguments = [memory, 1, 6, 1];
    let places: Vec<u64> = arguments.iter().map(address_of).collect();
    cuda.graph_set_kernel(exec, node, &kernel(mac, &places))
        .ok()?;
    cuda.graph_launch(exec, LEGACY).ok()?;
    check_eq!(program.values(memory, 1)?, [step(6)]);
    cuda.graph_set_kernel(exec, node + 16, &kernel(spin, &places))
        .is(1)?;
    cuda.graph_set_kernel(exec, node, &kernel(12_345, &places))
        .is(400)?;
    cuda.graph_launch(exec, LEGACY).ok()?;
    check_eq!(program.values(memory, 1)?, [step(6)]);
    Ok(())
}

fn words_are_used_again() -> Outcome {
    let program = Program::new()?;
    let (cuda, words) = (&program.cuda, Words::new());
    let base = program.register(words.address(), 4_096)?;
    let list = [
        [1, base, 1, 0, 0, 0],
        [2, base, 0, 0, 0, 0],
        [2, base + 4, 7, 0, 0, 0],
    ];
    let mut graph = Graph::new(&program)?;
    let handle = graph.graph;
    let node = graph.add(|node, after, count| {
        let batch = [program.context, 3, list.as_ptr() as u64, 0];
        cuda.graph_words(node, handle, after, count, &batch).ok()
    })?;
    let mut kind = -1;
    cuda.graph_kind(node, &mut kind).ok()?;
    check_eq!(kind, 12);
    let (exec, stream) = (graph.instantiate()?, program.stream(NON_BLOCKING)?);
    for _ in 0..20 {
        words.store(1, 0);
        cuda.graph_launch(exec, stream).ok()?;
        ensure!(!program.is_idle(stream)?);
        words.store(0, 1);
        cuda.stream_synchronize(stream).ok()?;
        check_eq!((words.load(0), words.load(1)), (0, 7));
    }
    Ok(())
}

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

fn bad_graphs() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mut graph = Graph::new(&program)?;
    let handle = graph.graph;
    let spin = program.kernel("zernel_spin")?;
    let (first, second) = (graph.kernel(spin, &[1_000])?, graph.kernel(spin, &[1_000])?);
    let (mut node, mut exec) = (0, 0);
    let none = std::ptr::null();
    cuda.graph_create(&mut node, 1).is(1)?;
    cuda.graph_empty(&mut node, handle, &12_345, 1).is(1)?;
    cuda.graph_empty(&mut node, handle, none, 1).is(1)?;
    cuda.graph_empty(&mut node, 12_345, none, 0).is(1)?;
    cuda.graph_set(
        &mut node,
        handle,
        none,
        0,
        &[0, 0, 3 << 32, 1, 1],
        program.context,
    )
    .is(1)?;
    cuda.graph_host(&mut node, handle, none, 0, &[0, 0]).is(1)?;
    check_eq!(node, 0);
    cuda.graph_instantiate(&mut exec, handle, 16).is(1)?;
    cuda.graph_edges_add(handle, &first, &second, 1).is(1)?;
    cuda.graph_edges_add(handle, &second, &first, 1).ok()?;
    // A circle.
    cuda.graph_instantiate(&mut exec, handle, 0).is(1)?;
    cuda.graph_launch(exec, LEGACY).is(1)
}
