// SPDX-License-Identifier: GPL-2.0
//! A client process on the software GPU, and how it talks with the one that started it.
//!
//! It says [`Ready`] on a line, is told the start time on a line, runs, and says its [`Report`].

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::sim::{Context, ContextSpec, Item, Sim};
use libzernel::{Level, Target, Timestamp, Zernel};
use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};
use zernel_workload::{ClientSpec, Schedule};

use crate::client::{self, Machine, Requests};

/// Longest time that one step of a request may take before the run is given up.
const STUCK: Duration = Duration::from_secs(30);

/// Time after a run in which no client writes its report, so that the last ones are not disturbed.
const SETTLE: Duration = Duration::from_millis(100);

/// What a client process is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The client.
    pub client: ClientSpec,
    /// When its first request arrives, in nanoseconds from the start.
    pub phase_ns: u64,
    /// Seed of its random numbers.
    pub seed: u64,
    /// How long it runs, in nanoseconds.
    pub duration_ns: u64,
    /// Class that it gives itself.
    pub class: Option<Level>,
}

/// What a client process says when it can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Handle of its compute TSG.
    pub tsg: u64,
}

/// What a client process says at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Time slice of its compute TSG at the end, in microseconds.
    pub timeslice_us: u32,
    /// Its requests.
    pub requests: Requests,
}

/// The software GPU as a client's machine.
pub struct Device {
    compute: Context,
    copy: Context,
    kernels: Vec<Item>,
    copy_in: [Item; 1],
    copy_out: [Item; 1],
    start: Timestamp,
}

impl Device {
    /// Gives this process its class, if any, and makes its contexts.
    pub fn open(spec: &ClientSpec, class: Option<Level>) -> Result<Self> {
        // Without slack the kernel may not delay the wake-ups of a request.
        set_current_timer_slack(NonZeroU64::new(1)).context("cannot set the timer slack")?;
        if let Some(level) = class {
            Zernel::open()?.set_class(&Target::current_process(), level)?;
        }
        let sim = Sim::open()?;
        let label = spec.network.name();
        let kernels = spec.network.kernels();
        Ok(Self {
            compute: sim.create_context(&ContextSpec::compute(label))?,
            copy: sim.create_context(&ContextSpec::copy(label))?,
            kernels: vec![Item::work(spec.network.service() / kernels); kernels as usize],
            copy_in: [Item::work(spec.copy_in())],
            copy_out: [Item::work(spec.copy_out())],
            start: Timestamp::now(),
        })
    }

    /// Handle of the compute TSG.
    pub fn tsg(&self) -> u64 {
        self.compute.tsg()
    }

    /// Serves one request ahead of the run, so that no measured one pays for first uses.
    pub fn warm_up(&mut self, spec: &ClientSpec, seed: u64) -> Result<()> {
        let now = self.now();
        let prepare = spec.prepare_us.sample(seed, 0, Duration::ZERO);
        client::request(prepare, self, now).map(drop)
    }

    /// Sleeps until `start` and serves from then on for `duration`.
    pub fn serve(
        &mut self,
        spec: &ClientSpec,
        schedule: Schedule,
        seed: u64,
        start: Timestamp,
        duration: Duration,
    ) -> Result<Requests> {
        self.start = start;
        let requests = Requests::for_run(spec, duration);
        sleep_until(start)?;
        client::serve(spec, schedule, seed, self, duration, requests)
    }

    /// Submits `items` and waits until they are done.
    fn run(context: &Context, items: &[Item]) -> Result<()> {
        let submission = context.submit(0, items)?;
        loop {
            match context.wait(0, submission.last_seq, submission.at + STUCK) {
                Ok(_) => return Ok(()),
                Err(error) if error.errno() == Some(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Machine for Device {
    fn now(&mut self) -> Duration {
        Timestamp::now().since(self.start)
    }

    fn sleep_until(&mut self, time: Duration) -> Result<()> {
        sleep_until(self.start + time)
    }

    fn copy_in(&mut self) -> Result<()> {
        Self::run(&self.copy, &self.copy_in)
    }

    fn infer(&mut self) -> Result<()> {
        Self::run(&self.compute, &self.kernels)
    }

    fn copy_out(&mut self) -> Result<()> {
        Self::run(&self.copy, &self.copy_out)
    }
}

/// Sleeps until `time`, whatever signals come.
pub fn sleep_until(time: Timestamp) -> Result<()> {
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &time.timespec()) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).context("cannot sleep"),
        }
    }
}

/// Runs the client process of `order`, talking over standard input and output.
pub fn run(order: &Order) -> Result<()> {
    let spec = &order.client;
    let mut device = Device::open(spec, order.class)?;
    device.warm_up(spec, order.seed)?;
    say(&Ready { tsg: device.tsg() })?;

    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let start = Timestamp::from_ns(line.trim().parse().context("was told no start time")?);
    let duration = Duration::from_nanos(order.duration_ns);
    let phase = Duration::from_nanos(order.phase_ns);
    let schedule = Schedule::new(spec.arrival, phase, order.seed);
    let requests = device.serve(spec, schedule, order.seed, start, duration)?;
    let timeslice_us = device.compute.stats()?.timeslice_us;
    sleep_until(start + duration + SETTLE)?;
    say(&Report {
        timeslice_us,
        requests,
    })
}

fn say(what: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}
