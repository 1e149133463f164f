// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a kernel alone, and beside a holder of the same context.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cuda::{Function, Grid, Stream};

use crate::gpu::{look, us, Gpu, WARP};
use crate::report::Findings;
use crate::slot::{HELD, RELEASE};
use crate::sys;

const BOUND: Duration = Duration::from_secs(10);
/// Blocks for each multiprocessor, and threads of each: all that fit.
const BLOCKS: u32 = 8;
const THREADS: u32 = 256;
const STEPS: u64 = 20_000;

/// A kernel for the whole GPU.
struct Work<'a> {
    gpu: &'a Gpu,
    kernel: Function,
    grid: Grid,
    memory: u64,
    steps: u64,
}

impl Work<'_> {
    /// The median time of its kernel, in microseconds.
    fn time(&self, stream: Stream, rounds: usize) -> Result<Vec<f64>> {
        let entered = self.gpu.enter()?;
        let threads = self.grid.blocks * self.grid.threads;
        let arguments = [self.memory, threads.into(), 1, self.steps];
        let mut times = Vec::new();
        for _ in 0..rounds {
            let begin = Instant::now();
            sys::launch(&self.kernel, self.grid, stream, arguments)?;
            entered.wait_idle(stream)?;
            times.push(us(begin, Instant::now()));
        }
        Ok(times)
    }
}

/// Waves of blocks of the kernel, and the most that a holder may cost: in one wave that fills the GPU
/// to its last thread, the block whose place the holder has waits for the end of the others.
const WAVES: [(u32, f64); 2] = [(1, 1.5), (20, 1.02)];

fn measure(gpu: &Gpu, waves: u32) -> Result<[Vec<f64>; 3]> {
    let entered = gpu.enter()?;
    let words = gpu.words()?;
    let grid = Grid {
        blocks: gpu.multiprocessors()? * BLOCKS * waves,
        threads: THREADS,
    };
    let work = Work {
        gpu,
        kernel: gpu.mac()?,
        grid,
        memory: gpu
            .api
            .allocate((grid.blocks * grid.threads) as usize * 4)?,
        // On the software GPU the CPU computes the results.
        steps: if gpu.is_software()? {
            20
        } else {
            STEPS / u64::from(waves)
        },
    };
    let holder = gpu.holder()?;
    let (stream, lane) = (gpu.api.stream()?, gpu.driver.create_stream(gpu.context())?);
    let rounds = gpu.options.rounds(400);
    work.time(stream.stream(), rounds.div_ceil(10))?;
    let before = work.time(stream.stream(), rounds)?;
    let (held, release) = (words.address(HELD), words.address(RELEASE));
    let bound = BOUND.as_nanos() as u64;
    sys::launch(&holder, WARP, lane.stream(), [held, release, 1, bound])?;
    look("the holder", || words.load(HELD) == 1)?;
    let beside = work.time(stream.stream(), rounds)?;
    words.store(RELEASE, 1);
    entered.wait_idle(lane.stream())?;
    let after = work.time(stream.stream(), rounds)?;
    gpu.api.free(work.memory)?;
    Ok([before, beside, after])
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    for (waves, most) in WAVES {
        let [before, beside, after] = measure(gpu, waves)?;
        let mut median = |name: &str, times| {
            let name = format!("kernel of {waves} waves, {name}, us");
            let figure = findings.figure(&name, times).context("no times")?;
            anyhow::Ok(figure.p50)
        };
        let before = median("alone", before)?;
        let beside = median("beside a holder", beside)?;
        let after = median("alone again", after)?;
        let ratio = beside / before.min(after);
        findings.value(&format!("ratio, {waves} waves"), format!("{ratio:.4}"));
        let name = format!("{waves} waves: at most {most} of the time alone");
        findings.expect_on_hardware(name, ratio <= most);
    }
    Ok(findings)
}
