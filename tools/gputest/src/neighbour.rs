// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another process that uses the GPU: this program again.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};

use crate::gpu::{Gpu, Options};
use crate::programs::slices;
use crate::sys;
use crate::witness::{Gap, Witness};

/// Kernels that are in the queue of a busy one.
const QUEUED: usize = 4;
/// Time of each of its kernels.
const KERNEL: Duration = Duration::from_millis(5);
/// Times without the GPU that count.
pub const GAP_NS: u64 = 10_000;

/// A neighbour that runs.
#[derive(Debug)]
pub struct Neighbour {
    child: Child,
    input: Option<ChildStdin>,
}

impl Neighbour {
    /// Starts one that has the GPU busy with as many threads as fit, or with few. A slice in
    /// microseconds is set on its own TSGs.
    pub fn start(options: &Options, is_full: bool, slice_us: Option<u64>) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--neighbour");
        command.arg("--library").arg(&options.library);
        command.arg("--device").arg(options.device.to_string());
        if is_full {
            command.arg("--full");
        }
        if let Some(slice) = slice_us {
            command.arg("--slice").arg(slice.to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the neighbour")?;
        let input = child.stdin.take();
        let mut neighbour = Self { child, input };
        let output = neighbour.child.stdout.as_mut().context("its output")?;
        let mut line = [0; 6];
        output
            .read_exact(&mut line)
            .context("the neighbour did not start")?;
        ensure!(&line == b"ready\n", "the neighbour says {line:?}");
        Ok(neighbour)
    }

    /// Starts several that have the GPU busy.
    pub fn start_all(options: &Options, count: usize, slice_us: Option<u64>) -> Result<Vec<Self>> {
        let start = |_| Self::start(options, true, slice_us);
        (0..count).map(start).collect()
    }

    /// Ends it; the times in which it did not have the GPU.
    pub fn stop(mut self) -> Result<Vec<Gap>> {
        drop(self.input.take());
        let output = self.child.stdout.take().context("its output")?;
        let mut gaps = Vec::new();
        for line in BufReader::new(output).lines() {
            let line = line?;
            let (from, to) = line.split_once(' ').context("a line of the neighbour")?;
            let (from, to) = (from.parse()?, to.parse()?);
            gaps.push(Gap { from, to });
        }
        ensure!(self.child.wait()?.success(), "the neighbour has failed");
        Ok(gaps)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // One that has ended is ended once more to no effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The neighbour's own part: works until its input ends.
pub fn run(options: &Options, is_full: bool, slice_us: Option<u64>) -> Result<()> {
    let gpu = Gpu::new(options)?;
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    let spin = gpu.spin()?;
    let blocks = match is_full {
        true => gpu.multiprocessors()?,
        false => 1,
    };
    let grid = cuda::Grid {
        blocks,
        threads: if is_full { 1024 } else { 32 },
    };
    let event = gpu.driver.create_event(gpu.context())?;
    let launch = || sys::launch(&spin, grid, stream.stream(), [KERNEL.as_nanos() as u64]);
    launch()?;
    entered.wait_idle(stream.stream())?;
    if let Some(us) = slice_us {
        slices::set_own(us)?;
    }
    let seen = gpu.api.stream()?;
    let witness = Witness::start_in(&gpu, seen.stream(), GAP_NS)?;
    let (ended, end) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        drop(ended);
    });
    let mut is_first = true;
    while end.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
        for _ in 0..QUEUED {
            launch()?;
        }
        entered.record(&event, stream.stream())?;
        if is_first {
            std::io::stdout().write_all(b"ready\n")?;
            std::io::stdout().flush()?;
            is_first = false;
        }
        // A kernel is still to come when the last but one is over.
        launch()?;
        entered.wait_passed(&event)?;
    }
    entered.wait_idle(stream.stream())?;
    let mut output = std::io::stdout().lock();
    for gap in witness.stop()? {
        writeln!(output, "{} {}", gap.from, gap.to)?;
    }
    Ok(())
}
