// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of kernels that are preempted again and again: each is the same as alone.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use cuda::{Function, Grid, Stream};

use crate::gpu::{Gpu, Options, ONE};
use crate::neighbour::Neighbour;
use crate::programs::slices;
use crate::report::Findings;
use crate::software;
use crate::sys::{self, Graph};
use crate::witness::Gap;

/// Threads of a block, as the kernels have them.
const THREADS: u32 = 256;
/// Words behind the values of the scratch.
const MORE: u32 = 64;
/// Time of a launch alone.
const KERNEL: Duration = Duration::from_millis(2);
/// Preemptions of each kernel.
const PREEMPTIONS: usize = 10_000;
/// The longest that a kernel is run for them.
const LONGEST: Duration = Duration::from_secs(40);
/// Time slice of both processes, in microseconds.
const SLICE_US: u64 = 200;

/// A turn of both with its switches, and some room, in nanoseconds.
const TURN_NS: f64 = 900_000.0;
/// Bytes of what a stamp tells.
const TOLD: usize = 40;

/// The form of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// All blocks are on the GPU at once.
    Together,
    /// A kernel, a copy of its results, and a kernel that adds to them.
    Graph,
}

const KERNELS: [(&str, &CStr, Kind); 6] = [
    ("wmma", c"zernel_lost_matrix", Kind::Plain),
    ("cp.async", c"zernel_lost_async", Kind::Plain),
    ("barriers of a grid", c"zernel_lost_grid", Kind::Together),
    ("atomics", c"zernel_lost_atomics", Kind::Plain),
    ("shared memory", c"zernel_lost_shared", Kind::Plain),
    (
        "a graph of three nodes",
        c"zernel_lost_atomics",
        Kind::Graph,
    ),
];

/// A kernel with its memory.
struct Work<'a> {
    gpu: &'a Gpu,
    stream: Stream,
    kernel: Function,
    /// The first node of a graph.
    fill: Function,
    name: &'static CStr,
    module: usize,
    kind: Kind,
    grid: Grid,
    out: u64,
    scratch: u64,
    rounds: u32,
}

impl<'a> Work<'a> {
    fn new(gpu: &'a Gpu, stream: Stream, name: &'static CStr, kind: Kind) -> Result<Self> {
        let grid = Grid {
            blocks: match gpu.is_software()? {
                // The results are computed by the CPU.
                true => 4,
                false => gpu.multiprocessors()?,
            },
            threads: THREADS,
        };
        let count = (grid.blocks * THREADS) as usize;
        let api = &gpu.api;
        Ok(Self {
            gpu,
            stream,
            kernel: gpu.lost(name)?,
            fill: gpu.mac()?,
            name,
            module: api.load(Gpu::lost_text())?,
            kind,
            grid,
            out: api.allocate(count * 4)?,
            scratch: api.allocate((count + MORE as usize) * 4)?,
            rounds: 200,
        })
    }

    fn count(&self) -> u32 {
        self.grid.blocks * self.grid.threads
    }

    fn arguments(&self) -> [u64; 5] {
        let seed = 0x5eed;
        [
            self.out,
            self.count().into(),
            seed,
            self.rounds.into(),
            self.scratch,
        ]
    }

    /// The memory as each launch finds it.
    fn prepare(&self) -> Result<()> {
        let halves: Vec<u32> = (0..self.count() + MORE)
            .map(|i| i.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
            // Two numbers of 16 bits each, from 1/8 to 1/4.
            .map(|x| x & 0x03ff_03ff | 0x3000_3000)
            .collect();
        self.gpu
            .api
            .write(self.scratch, bytemuck::cast_slice(&halves))?;
        // The counter of the barrier, which a kernel finds at 0.
        let barrier = self.scratch + 4 * u64::from(self.count());
        self.gpu.api.fill(barrier, 0, MORE as usize)?;
        self.gpu.api.fill(self.out, 0, self.count() as usize)?;
        // A memset does not wait for its end, and streams of the program do not wait for it.
        Ok(self.gpu.enter()?.wait_idle(Stream::LEGACY)?)
    }

    fn graph(&self) -> Result<Option<Graph<'_>>> {
        if self.kind != Kind::Graph {
            return Ok(None);
        }
        let graph = self.gpu.api.graph(self.stream, || {
            let count = u64::from(self.count());
            let arguments = [self.scratch, count, 7, self.rounds.into()];
            sys::launch(&self.fill, self.grid, self.stream, arguments)?;
            let length = self.count() as usize * 4;
            self.gpu
                .api
                .copy(self.out, self.scratch, length, self.stream)?;
            // It adds to what was copied.
            let next = [self.out, count, 11, self.rounds.into(), self.scratch];
            sys::launch(&self.kernel, self.grid, self.stream, next)?;
            Ok(())
        })?;
        Ok(Some(graph))
    }

    /// Launches it.
    fn launch(&self, graph: Option<&Graph<'_>>) -> Result<()> {
        match (graph, self.kind) {
            (Some(graph), _) => self.gpu.api.launch(graph, self.stream),
            (None, Kind::Together) => {
                let of = (self.module, self.name);
                let arguments = self.arguments();
                self.gpu
                    .api
                    .launch_together(of, self.grid, self.stream, arguments)
            }
            (None, _) => Ok(sys::launch(
                &self.kernel,
                self.grid,
                self.stream,
                self.arguments(),
            )?),
        }
    }

    /// Waits for it; its results.
    fn results(&self) -> Result<Vec<u32>> {
        self.gpu.enter()?.wait_idle(self.stream)?;
        self.gpu.api.read(self.out, self.count() as usize)
    }

    /// Runs it once; its results.
    fn once(&self, graph: Option<&Graph<'_>>) -> Result<Vec<u32>> {
        self.prepare()?;
        self.launch(graph)?;
        self.results()
    }

    /// Chooses the rounds of a launch by its time alone.
    fn calibrate(&mut self) -> Result<()> {
        for _ in 0..6 {
            let graph = self.graph()?;
            let begin = Instant::now();
            self.once(graph.as_ref())?;
            let time = begin.elapsed();
            drop(graph);
            if time >= KERNEL {
                break;
            }
            self.rounds = self.rounds.saturating_mul(4);
        }
        Ok(())
    }

    fn free(self) -> Result<()> {
        let api = &self.gpu.api;
        api.free(self.out)?;
        api.free(self.scratch)?;
        drop(self.kernel);
        api.unload(self.module)
    }
}

/// A launch: its begin and end by the timer of the GPU.
type Launch = [u64; 2];

/// The slices of a neighbour that are within launches: so often they were preempted.
fn preemptions(launches: &[Launch], gaps: &[Gap]) -> usize {
    let within = |&[begin, end]: &Launch| {
        // It has the GPU from the end of a gap to the begin of the next.
        let first = gaps.partition_point(|gap| gap.to < begin);
        let slices = gaps[first..].windows(2);
        slices.take_while(|pair| pair[1].from <= end).count()
    };
    launches.iter().map(within).sum()
}

/// Runs a kernel until it was preempted often enough. Preemptions, launches, and those whose results
/// differ. In a context of its own: two of its streams that share a channel would count what the one
/// waits for as time of the other.
fn preempt(options: &Options, name: &'static CStr, kind: Kind) -> Result<(usize, usize, usize)> {
    let gpu = &Gpu::new(options)?;
    let is_software = gpu.is_software()?;
    let has_slices = slices::set_own(SLICE_US).is_ok();
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    let stamp = gpu.stamp()?;
    let told = gpu.api.allocate(2 * TOLD)?;
    gpu.api.fill(told, 0, TOLD / 2)?;
    let mut work = Work::new(gpu, stream.stream(), name, kind)?;
    work.calibrate()?;
    let graph = work.graph()?;
    let expected = work.once(graph.as_ref())?;
    ensure!(
        expected.iter().any(|&value| value != 0),
        "a kernel computes nothing"
    );
    ensure!(
        work.once(graph.as_ref())? == expected,
        "results differ without a neighbour"
    );

    let busy = Neighbour::start(options, true, has_slices.then_some(SLICE_US))?;
    let target = options.rounds(PREEMPTIONS);
    let until = Instant::now() + if options.short { LONGEST / 20 } else { LONGEST };
    let before = if is_software {
        software::preemptions()?
    } else {
        0
    };
    let (mut launches, mut wrong, mut seen) = (Vec::new(), 0, 0.0);
    while seen < target as f64 && Instant::now() < until {
        let mark = |at: usize| {
            let arguments = [told + (at * TOLD) as u64, 1];
            sys::launch(&stamp, ONE, stream.stream(), arguments)
        };
        work.prepare()?;
        mark(0)?;
        work.launch(graph.as_ref())?;
        mark(1)?;
        wrong += usize::from(work.results()? != expected);
        let begin = gpu.api.read::<u64>(told, 1)?[0];
        let end = gpu.api.read::<u64>(told + TOLD as u64, 1)?[0];
        launches.push([begin, end]);
        if is_software {
            seen = (software::preemptions()? - before) as f64;
            continue;
        }
        // A slice of each and two switches, with some room.
        seen += (end.saturating_sub(begin) as f64 / TURN_NS - 1.0).max(0.0);
    }
    let gaps = busy.stop()?;
    let preemptions = match is_software {
        true => seen as usize,
        false => preemptions(&launches, &gaps),
    };
    drop(graph);
    entered.synchronize()?;
    gpu.api.free(told)?;
    work.free()?;
    Ok((preemptions, launches.len(), wrong))
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let target = gpu.options.rounds(PREEMPTIONS);
    // Longer slices make fewer preemptions, which is told.
    let has_slices = slices::set_own(SLICE_US).is_ok();
    findings.value(
        "slices of 200 us",
        if has_slices { "taken" } else { "not taken" },
    );
    for (name, kernel, kind) in KERNELS {
        match preempt(&gpu.options, kernel, kind) {
            Ok((preemptions, launches, wrong)) => {
                let text = format!("{preemptions} in {launches} launches, {wrong} of them wrong");
                findings.value(&format!("preemptions, {name}"), text);
                findings.expect(format!("{name}: each result is bit-identical"), wrong == 0);
                findings.expect(format!("{name}: preempted"), preemptions > 0);
                let enough = format!("{name}: at least {target} preemptions");
                findings.expect_on_hardware(enough, preemptions >= target);
            }
            Err(error) => {
                findings.value(name, format!("{error:#}"));
                findings.expect(format!("{name} runs"), false);
            }
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_the_neighbour_within_a_launch_is_a_preemption() {
        let gap = |from, to| Gap { from, to };
        // It has the GPU from 10 to 20, from 30 to 40 and from 50 to 60.
        let gaps = [gap(0, 10), gap(20, 30), gap(40, 50), gap(60, 70)];
        assert_eq!(preemptions(&[[5, 25]], &gaps), 1);
        assert_eq!(preemptions(&[[5, 45]], &gaps), 2);
        assert_eq!(preemptions(&[[12, 18], [25, 65]], &gaps), 2);
        assert_eq!(preemptions(&[[25, 29], [100, 200]], &gaps), 0);
        assert_eq!(preemptions(&[[0, 100]], &[]), 0);
    }
}
