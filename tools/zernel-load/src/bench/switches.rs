// SPDX-License-Identifier: GPL-2.0
//! What a context switch costs: with nothing tracked, beside a tracked thread, and of tracked ones.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Target, Timestamp, Tracking, Zernel};
use rustix::thread::{gettid, sched_setaffinity, CpuSet};

use super::{Figure, PATIENCE};
use crate::stats::median_and_max;

/// Nothing is tracked.
pub(super) const PLAIN: &str = "nothing is tracked";

/// A thread that takes no part is tracked.
pub(super) const BESIDE: &str = "another thread is tracked";

/// Both threads are.
pub(super) const TRACKED: &str = "both threads are tracked";

/// Round trips that are measured at once, of two switches each.
const TRIPS: u32 = 50;

/// Two threads on one CPU that wake each other in turn; this is the first.
struct PingPong {
    to: File,
    from: File,
    other: u32,
    thread: std::thread::JoinHandle<()>,
}

/// What is read from, and what is written to.
fn pipe() -> Result<(File, File)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    Ok((reader.into(), writer.into()))
}

impl PingPong {
    fn new() -> Result<Self> {
        let (mut ping, to) = pipe()?;
        let (from, mut pong) = pipe()?;
        let (tell, told) = mpsc::channel();
        let mut one = CpuSet::new();
        one.set(0);
        sched_setaffinity(None, &one).context("cannot stay on one CPU")?;
        // Inherits the CPU.
        let thread = std::thread::spawn(move || {
            let _ = tell.send(gettid().as_raw_nonzero().get().unsigned_abs());
            let mut byte = [0];
            // Until the other end goes.
            while ping.read_exact(&mut byte).is_ok() && pong.write_all(&byte).is_ok() {}
        });
        let other = told.recv().context("the other thread has ended")?;
        Ok(Self {
            to,
            from,
            other,
            thread,
        })
    }

    fn trip(&mut self) -> Result<()> {
        self.to.write_all(b"x")?;
        Ok(self.from.read_exact(&mut [0])?)
    }

    /// Instructions of one switch, with the system calls that bring it about.
    fn figure(&mut self, name: &'static str, repeat: u32) -> Result<Figure> {
        let mut samples = Vec::with_capacity(repeat as usize);
        for count in 0..=repeat {
            let start = Timestamp::now();
            for _ in 0..TRIPS {
                self.trip()?;
            }
            let took = Timestamp::now().since(start).as_nanos() as u64;
            // The first pays for first uses.
            if count > 0 {
                samples.push(took / u64::from(2 * TRIPS));
            }
        }
        let (median_ns, max_ns) = median_and_max(&mut samples);
        Ok(Figure {
            name,
            median_ns,
            max_ns,
        })
    }

    fn end(self) -> Result<()> {
        drop((self.to, self.from));
        let ended = self.thread.join();
        ensure!(ended.is_ok(), "the other thread panicked");
        Ok(())
    }
}

/// Costs of a switch.
pub(super) fn costs(repeat: u32, zernel: &Zernel) -> Result<Vec<Figure>> {
    let mut pair = PingPong::new()?;
    let plain = pair.figure(PLAIN, repeat)?;

    let (stop, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let idle = std::thread::spawn(move || {
        let _ = tell.send(gettid().as_raw_nonzero().get().unsigned_abs());
        // Returns to user space from time to time, so that its record arrives.
        while wait.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {}
    });
    track(zernel, told.recv().context("the idle thread has ended")?)?;
    let beside = pair.figure(BESIDE, repeat)?;

    track(zernel, gettid().as_raw_nonzero().get().unsigned_abs())?;
    zernel.track(&Target::Thread(pair.other), Tracking::PLAIN)?;
    pair.trip()?;
    wait_recorded(zernel, pair.other)?;
    let tracked = pair.figure(TRACKED, repeat)?;

    zernel.untrack(&Target::current_process())?;
    drop(stop);
    let ended = idle.join();
    ensure!(ended.is_ok(), "the idle thread panicked");
    pair.end()?;
    Ok(vec![plain, beside, tracked])
}

fn track(zernel: &Zernel, tid: u32) -> Result<()> {
    zernel.track(&Target::Thread(tid), Tracking::PLAIN)?;
    wait_recorded(zernel, tid)
}

fn wait_recorded(zernel: &Zernel, tid: u32) -> Result<()> {
    let begin = Instant::now();
    loop {
        for thread in zernel.threads() {
            let thread = thread?;
            if thread.tid == tid && thread.does != Does::Arrive {
                return Ok(());
            }
        }
        ensure!(begin.elapsed() < PATIENCE, "thread {tid} is not recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
}
