// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: with the memory operations and the holder of a request in them, launched again with the
//! same slot; and the place where a preemption cuts a graph.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::gpu::{look, Gpu, ONE, WARP};
use crate::neighbour::Neighbour;
use crate::programs::slices;
use crate::report::Findings;
use crate::slot::{DONE, HELD, RELEASE, TRIGGER};
use crate::sys;

const BOUND: Duration = Duration::from_secs(1);

/// Bytes of what a node tells.
const TOLD: u64 = 40;
const NODES: u64 = 3;
/// Time of a node, in nanoseconds.
const NODE_NS: f64 = 300_000.0;
/// A longer time in which a node does not run is a preemption.
const CUT_NS: u64 = 20_000;

/// Launches a graph with a request again and again: each time the words of its slot begin anew. The
/// number of rounds.
fn requests(gpu: &Gpu) -> Result<usize> {
    let entered = gpu.enter()?;
    let (words, holder) = (gpu.words()?, gpu.holder()?);
    let stream = gpu.driver.create_stream(gpu.context())?;
    let stream = stream.stream();
    let graph = gpu.api.graph(stream, || {
        entered.wait_word(stream, words.address(TRIGGER), 1)?;
        let (held, release) = (words.address(HELD), words.address(RELEASE));
        sys::launch(
            &holder,
            WARP,
            stream,
            [held, release, 1, BOUND.as_nanos() as u64],
        )?;
        sys::write_word(&entered, stream, words.address(DONE), 1)?;
        Ok(())
    })?;
    let rounds = gpu.options.rounds(500);
    for _ in 0..rounds {
        for word in [TRIGGER, RELEASE, DONE, HELD] {
            words.store(word, 0);
        }
        gpu.api.launch(&graph, stream)?;
        words.store(TRIGGER, 1);
        look("the holder of a graph", || words.load(HELD) == 1)?;
        words.store(RELEASE, 1);
        look("the end of a graph", || words.load(DONE) == 1)?;
        entered.wait_idle(stream)?;
    }
    Ok(rounds)
}

/// The places where a graph of three nodes was cut.
#[derive(Debug, Default)]
struct Cuts {
    launches: usize,
    within: usize,
    between: usize,
}

fn cuts(gpu: &Gpu) -> Result<Option<Cuts>> {
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    let stream = stream.stream();
    let stamp = gpu.stamp()?;
    let told = gpu.api.allocate((TOLD * NODES) as usize)?;
    gpu.api.fill(told, 0, (TOLD * NODES / 4) as usize)?;
    let read = || gpu.api.read::<[u64; 5]>(told, NODES as usize);
    // As many turns as fill the time of a node.
    const TRIAL: u64 = 20_000;
    for _ in 0..2 {
        sys::launch(&stamp, ONE, stream, [told, TRIAL])?;
        entered.wait_idle(stream)?;
    }
    let [begin, end, ..] = read()?[0];
    if begin == end {
        gpu.api.free(told)?;
        return Ok(None);
    }
    let turns = (TRIAL as f64 * NODE_NS / (end - begin) as f64) as u64;
    let graph = gpu.api.graph(stream, || {
        for node in 0..NODES {
            sys::launch(&stamp, ONE, stream, [told + node * TOLD, turns])?;
        }
        Ok(())
    })?;
    let busy = Neighbour::start(&gpu.options, true, Some(200))?;
    // Slices of other lengths than the nodes, so that they end anywhere.
    slices::set_own(370).context("the slices")?;
    let mut cuts = Cuts::default();
    for _ in 0..gpu.options.rounds(1000) {
        gpu.api.launch(&graph, stream)?;
        entered.wait_idle(stream)?;
        let nodes = read()?;
        cuts.launches += 1;
        cuts.within += nodes.iter().filter(|node| node[2] > CUT_NS).count();
        let pairs = nodes.windows(2);
        cuts.between += pairs
            .filter(|pair| pair[1][0] - pair[0][1] > CUT_NS)
            .count();
    }
    busy.stop()?;
    drop(graph);
    gpu.api.free(told)?;
    Ok(Some(cuts))
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    match requests(gpu) {
        Ok(rounds) => findings.value("launches of a graph with a request", rounds),
        Err(error) => {
            findings.value("a graph with a request", format!("fails: {error:#}"));
            findings.expect("a graph takes waits, holders and stores", false);
        }
    }
    match cuts(gpu) {
        Ok(Some(cuts)) => {
            findings.value("launches beside a busy process", cuts.launches);
            findings.value("preemptions within a node", cuts.within);
            findings.value("preemptions between nodes", cuts.between);
            let name = "a graph is cut within its nodes";
            findings.expect_on_hardware(name, cuts.within > 0);
        }
        Ok(None) => findings.value("cuts", "this GPU does not tell"),
        Err(error) => {
            findings.value("cuts", format!("not told: {error:#}"));
            findings.expect("a graph runs beside a busy process", false);
        }
    }
    Ok(findings)
}
