// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: made by hand and by capture.

use std::time::Duration;

use anyhow::{ensure, Result};
use testkit::check_eq;
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;

use super::lab::{Program, LEGACY, LOADED, NON_BLOCKING};
use crate::sys::{address_of, count, counted, load, Words};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "fakecuda.graph",
    &[
        case("nodes_run_in_order", nodes_run_in_order),
        case("kernels_are_changed_between_launches", kernels_are_changed),
        case("words_are_used_again_by_a_launch", words_are_used_again),
        case("sources_are_read_when_a_node_runs", sources_are_read_late),
        case(
            "events_keep_their_place_in_a_graph",
            events_keep_their_place,
        ),
        case("launches_of_a_graph_come_in_order", launches_in_order),
        case("graphs_are_updated_by_others_alike", graphs_are_updated),
        case("lists_are_filled_up", lists_are_filled_up),
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
    // It is named by the graph that it is of.
    let other = Graph::new(&program)?.instantiate()?;
    cuda.graph_set_kernel(other, node, &kernel(mac, &places))
        .is(1)?;
    cuda.graph_destroy(graph.graph).ok()?;
    cuda.graph_set_kernel(exec, node, &kernel(mac, &places))
        .is(1)?;
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

/// A page of words, and its address as the GPU sees it.
fn page(program: &Program) -> Result<(Box<Words>, u64)> {
    let words = Words::new();
    let base = program.register(words.address(), 4_096)?;
    Ok((words, base))
}

impl Graph<'_> {
    /// A wait for a word to be 1.
    fn wait(&mut self, word: u64) -> Result<u64> {
        let (list, graph, program) = ([[1, word, 1, 0, 0, 0]], self.graph, self.program);
        self.add(|node, after, count| {
            let batch = [program.context, 1, list.as_ptr() as u64, 0];
            program
                .cuda
                .graph_words(node, graph, after, count, &batch)
                .ok()
        })
    }

    fn count(&mut self) -> Result<u64> {
        let (graph, program) = (self.graph, self.program);
        self.add(|node, after, at| {
            let parameters = [count as *const () as usize, 1];
            program
                .cuda
                .graph_host(node, graph, after, at, &parameters)
                .ok()
        })
    }
}

fn sources_are_read_late() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (words, base) = page(&program)?;
    let (own, memory) = (Words::new(), program.alloc(64)?);
    own.store(0, 1);
    let mut graph = Graph::new(&program)?;
    graph.wait(base)?;
    let handle = graph.graph;
    graph.add(|node, after, count| {
        let mut copy = [0; 25];
        (copy[4], copy[5], copy[15], copy[17]) = (1, own.address(), 2, memory);
        (copy[22], copy[23], copy[24]) = (4, 1, 1);
        cuda.graph_copy(node, handle, after, count, &copy, program.context)
            .ok()
    })?;
    let (exec, stream) = (graph.instantiate()?, program.stream(NON_BLOCKING)?);
    own.store(0, 2);
    cuda.graph_launch(exec, stream).ok()?;
    own.store(0, 3);
    words.store(0, 1);
    cuda.stream_synchronize(stream).ok()?;
    check_eq!(program.values(memory, 1)?, [3]);
    Ok(())
}

fn events_keep_their_place() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (words, base) = page(&program)?;
    let mut event = 0;
    cuda.event_create(&mut event, 0).ok()?;
    let mut child = Graph::new(&program)?;
    let inner = child.graph;
    child.wait(base)?;
    child.add(|node, after, count| cuda.graph_record(node, inner, after, count, event).ok())?;
    child.wait(base + 4)?;
    let mut graph = Graph::new(&program)?;
    let handle = graph.graph;
    graph.add(|node, after, count| cuda.graph_child(node, handle, after, count, inner).ok())?;
    // The record of this launch.
    graph.add(|node, after, count| cuda.graph_await(node, handle, after, count, event).ok())?;
    let (exec, stream) = (graph.instantiate()?, program.stream(NON_BLOCKING)?);
    cuda.graph_launch(exec, stream).ok()?;
    cuda.event_query(event).is(600)?;
    words.store(0, 1);
    wait_until("the event is over", || {
        Ok(cuda.event_query(event).status == 0)
    })?;
    ensure!(!program.is_idle(stream)?);
    words.store(1, 1);
    cuda.stream_synchronize(stream).ok()?;
    // Nothing is done by a launch with a call that is refused.
    let other = program.stream(NON_BLOCKING)?;
    let mut bad = Graph::new(&program)?;
    let (handle, memory) = (bad.graph, program.alloc(64)?);
    let set = [memory, 0, 4 << 32 | 5, 1, 1];
    bad.count()?;
    bad.add(|node, after, count| cuda.graph_record(node, handle, after, count, event).ok())?;
    bad.add(|node, after, count| {
        cuda.graph_set(node, handle, after, count, &set, program.context)
            .ok()
    })?;
    let (exec, before) = (bad.instantiate()?, counted());
    cuda.free(memory).ok()?;
    cuda.graph_launch(exec, other).is(1)?;
    cuda.synchronize().ok()?;
    check_eq!(counted(), before);
    Ok(())
}

fn launches_in_order() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let (words, base) = page(&program)?;
    let (one, two) = (program.stream(NON_BLOCKING)?, program.stream(NON_BLOCKING)?);
    let mut graph = Graph::new(&program)?;
    graph.count()?;
    let (exec, before) = (graph.instantiate()?, counted());
    cuda.wait_32(one, base, 1, 0).ok()?;
    cuda.graph_launch(exec, one).ok()?;
    cuda.graph_launch(exec, two).ok()?;
    // Another stream does as much meanwhile, and more.
    for _ in 0..100 {
        let stream = program.stream(NON_BLOCKING)?;
        program.work(stream, Duration::from_micros(10))?;
        cuda.stream_synchronize(stream).ok()?;
        cuda.stream_destroy(stream).ok()?;
    }
    ensure!(!program.is_idle(two)?, "it waits for the launch before");
    check_eq!(counted(), before);
    words.store(0, 1);
    cuda.stream_synchronize(two).ok()?;
    ensure!(program.is_idle(one)?);
    check_eq!(counted() - before, 2);
    Ok(())
}

fn graphs_are_updated() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mac = program.kernel("zernel_mac")?;
    let memory = program.alloc(64)?;
    let chain = |seeds: [u64; 2]| -> Result<Graph<'_>> {
        let mut graph = Graph::new(&program)?;
        for seed in seeds {
            graph.kernel(mac, &[memory + 4 * (seed % 2), 1, seed, 1])?;
        }
        Ok(graph)
    };
    let (first, second) = (chain([2, 3])?, chain([4, 5])?);
    let exec = first.instantiate()?;
    let mut result = [9; 3];
    cuda.graph_update(exec, second.graph, &mut result).ok()?;
    check_eq!(result[0], 0);
    cuda.graph_launch(exec, LEGACY).ok()?;
    check_eq!(program.values(memory, 2)?, [step(4), step(5)]);
    // Without the edge, with another kind, with one more.
    let mut loose = Graph::new(&program)?;
    loose.kernel(mac, &[memory, 1, 6, 1])?;
    loose.last = None;
    loose.kernel(mac, &[memory, 1, 7, 1])?;
    let mut other = Graph::new(&program)?;
    other.kernel(mac, &[memory, 1, 8, 1])?;
    other.count()?;
    let mut longer = chain([6, 7])?;
    longer.count()?;
    for (graph, expected) in [(&loose, 2), (&other, 3), (&longer, 2)] {
        cuda.graph_update(exec, graph.graph, &mut result).is(910)?;
        check_eq!(result[0], expected);
    }
    cuda.graph_launch(exec, LEGACY).ok()?;
    check_eq!(program.values(memory, 2)?, [step(4), step(5)]);
    Ok(())
}

fn lists_are_filled_up() -> Outcome {
    let program = Program::new()?;
    let cuda = &program.cuda;
    let mut graph = Graph::new(&program)?;
    let handle = graph.graph;
    let (first, second) = (graph.count()?, graph.count()?);
    let (nodes, mut count) = ([9_u64; 4], 4);
    cuda.graph_nodes(handle, nodes.as_ptr() as usize, &mut count)
        .ok()?;
    check_eq!((count, nodes.to_vec()), (2, vec![first, second, 0, 0]));
    let (mut from, mut to, mut data) = ([9; 4], [9; 4], [9; 4]);
    count = 3;
    cuda.graph_edges(handle, &mut from, &mut to, &mut data, &mut count)
        .ok()?;
    check_eq!(
        (count, from, to, data),
        (1, [first, 0, 0, 9], [second, 0, 0, 9], [0, 0, 0, 9])
    );
    let third = graph.count()?;
    // An edge that asks for more than order.
    cuda.graph_edges_add_with(handle, &first, &third, &1, 1)
        .is(801)?;
    cuda.graph_edges_add_with(handle, &first, &third, &0, 1)
        .ok()
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
