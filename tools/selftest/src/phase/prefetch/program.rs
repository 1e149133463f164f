// SPDX-License-Identifier: GPL-2.0
//! A program that loads and computes: one after the other, or with a loader that waits for the
//! signal.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::event::Kind;
use libzernel::phase::Prefetch;
use libzernel::sim::{Context, Item};
use libzernel::{Event, EventStream, Target, Timestamp, Tracking};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};

use super::super::own_process;
use crate::block::Disk;
use crate::check_eq;
use crate::common::Lab;

/// What a request of the disk takes: a small part of what is loaded, so that loading takes as long
/// as it is to.
const LATENCY: Duration = Duration::from_millis(4);

/// What a step is to do, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// It reads.
    pub load: Duration,
    /// The GPU computes.
    pub compute: Duration,
    /// The CPU works.
    pub optimize: Duration,
}

impl Step {
    /// One that loads and computes for so many milliseconds.
    pub const fn of(load: u64, compute: u64) -> Self {
        Self {
            load: Duration::from_millis(load),
            compute: Duration::from_millis(compute),
            optimize: Duration::ZERO,
        }
    }

    /// And whose optimizer takes so many.
    pub const fn optimizing(self, ms: u64) -> Self {
        Self {
            optimize: Duration::from_millis(ms),
            ..self
        }
    }
}

/// When the GPU computed.
#[derive(Debug, Clone, Copy)]
pub struct Computation {
    /// When the engine saw it.
    pub began: Timestamp,
    /// When it was done.
    pub ended: Timestamp,
}

impl Computation {
    /// How long it took.
    pub fn took(&self) -> Duration {
        self.ended.since(self.began)
    }

    /// In which thousandth of it that was, if it was in it.
    pub fn permille(&self, at: Timestamp) -> Option<u128> {
        let within = (self.began..=self.ended).contains(&at);
        let all = self.took().as_nanos().max(1);
        within.then(|| at.since(self.began).as_nanos() * 1_000 / all)
    }
}

/// What a loop did.
#[derive(Debug, Default)]
pub struct Run {
    /// In the order of the steps.
    pub computations: Vec<Computation>,
    /// From the begin of the first step to the end of the last.
    pub took: Duration,
    /// Batches that were loaded because of the signal.
    pub signalled: usize,
}

impl Run {
    /// For how long the GPU had nothing to do from the first computation to the last.
    pub fn idle(&self) -> Duration {
        let pairs = self.computations.iter().zip(&self.computations[1..]);
        pairs.map(|(one, next)| next.began.since(one.ended)).sum()
    }
}

/// A machine-learning program, and the events that it sees.
pub struct Program {
    lab: Lab,
    context: Context,
    disk: Option<Disk>,
    stream: EventStream,
}

impl Program {
    /// One of which nothing is known.
    pub fn new() -> Result<Self> {
        let lab = Lab::open()?;
        let stream = lab.zernel.events()?;
        lab.zernel.track(&Target::current_process(), Tracking::ML)?;
        let (context, _) = lab.compute()?;
        Ok(Self {
            lab,
            context,
            disk: None,
            stream,
        })
    }

    /// One that can load.
    pub fn with_disk() -> Result<Self> {
        let disk = Disk::new(LATENCY)?;
        let mut program = Self::new()?;
        program.disk = Some(disk);
        Ok(program)
    }

    /// What came of its signals.
    pub fn counts(&self) -> Result<Prefetch> {
        Ok(own_process(&self.lab.zernel)?.prefetch)
    }

    /// The signals that have come since the last question.
    pub fn signals(&mut self) -> Result<Vec<Event>> {
        let mut signals = Vec::new();
        while let Some(event) = self.stream.next_within(Some(Duration::ZERO))? {
            if event.kind == Kind::Prefetch {
                check_eq!(event.pid, std::process::id(), "{event:?}");
                check_eq!((event.level, event.timeslice_us), (None, 0), "{event:?}");
                check_eq!((event.tsg.as_u64(), event.gpu.as_u64()), (0, 0));
                signals.push(event);
            }
        }
        Ok(signals)
    }

    /// Reads for so long.
    pub fn load(&mut self, duration: Duration) -> Result<()> {
        let disk = self.disk.as_mut().context("a program with a disk")?;
        disk.read_for(duration)
    }

    /// Waits for work of the GPU.
    pub fn compute(&self, duration: Duration) -> Result<Computation> {
        compute(&self.context, duration)
    }

    /// Loads, then computes.
    pub fn in_sequence(&mut self, steps: &[Step]) -> Result<Run> {
        let mut run = Run::default();
        let begin = Timestamp::now();
        for step in steps {
            self.load(step.load)?;
            run.computations.push(self.compute(step.compute)?);
            optimize(step.optimize);
        }
        run.took = Timestamp::now().since(begin);
        Ok(run)
    }

    /// Computes while a thread loads the next batch, from the signal on; without one, when the
    /// computation is over.
    pub fn with_signal(&mut self, steps: &[Step]) -> Result<Run> {
        let finished = Finished::new()?;
        let loader = Loader {
            disk: self.disk.as_mut().context("a program with a disk")?,
            stream: self.lab.zernel.events()?,
            finished: &finished,
        };
        let context = &self.context;
        let ((order, orders), (batch, batches)) = (channel(), channel());
        std::thread::scope(|scope| {
            scope.spawn(move || loader.run(&orders, &batch));
            train(steps, context, &finished, order, &batches)
        })
    }
}

fn compute(context: &Context, duration: Duration) -> Result<Computation> {
    let submitted = context.submit(0, &[Item::work(duration)])?;
    let done = context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
    Ok(Computation {
        began: submitted.at,
        ended: done.at,
    })
}

fn optimize(duration: Duration) {
    let begin = Timestamp::now();
    while Timestamp::now().since(begin) < duration {
        std::hint::spin_loop();
    }
}

/// How many computations are over.
struct Finished {
    count: AtomicUsize,
    bell: OwnedFd,
}

impl Finished {
    fn new() -> Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let count = AtomicUsize::new(0);
        Ok(Self { count, bell })
    }

    fn tell(&self, count: usize) -> Result<()> {
        self.count.store(count, Ordering::Release);
        rustix::io::write(&self.bell, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Whether so many are. If not, the bell rings with the next one.
    fn are(&self, count: usize) -> bool {
        // Empty if it has not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.count.load(Ordering::Acquire) >= count
    }
}

/// A batch that is to be loaded.
struct Order {
    /// At the latest when so many computations are over.
    after: usize,
    at: Timestamp,
    load: Duration,
}

/// Orders batches, and computes with them.
fn train(
    steps: &[Step],
    context: &Context,
    finished: &Finished,
    order: Sender<Order>,
    batches: &Receiver<Result<bool>>,
) -> Result<Run> {
    let mut run = Run::default();
    let begin = Timestamp::now();
    let ask = |after: usize| -> Result<()> {
        if let Some(step) = steps.get(after) {
            let (at, load) = (Timestamp::now(), step.load);
            order.send(Order { after, at, load })?;
        }
        Ok(())
    };
    ask(0)?;
    for (number, step) in steps.iter().enumerate() {
        run.signalled += usize::from(batches.recv()??);
        ask(number + 1)?;
        run.computations.push(compute(context, step.compute)?);
        finished.tell(number + 1)?;
        optimize(step.optimize);
    }
    run.took = Timestamp::now().since(begin);
    Ok(run)
}

/// The thread that loads.
struct Loader<'a> {
    disk: &'a mut Disk,
    stream: EventStream,
    finished: &'a Finished,
}

impl Loader<'_> {
    /// Loads what is ordered. Each batch says whether the signal was what it was loaded for.
    fn run(mut self, orders: &Receiver<Order>, batch: &Sender<Result<bool>>) {
        while let Ok(order) = orders.recv() {
            let loaded = self.wait(&order).and_then(|signalled| {
                self.disk.read_for(order.load)?;
                Ok(signalled)
            });
            if batch.send(loaded).is_err() {
                return;
            }
        }
    }

    /// Waits until it is time. Returns whether the signal said so.
    fn wait(&mut self, order: &Order) -> Result<bool> {
        loop {
            while let Some(event) = self.stream.next_within(Some(Duration::ZERO))? {
                // One from before tells of another batch.
                if event.kind == Kind::Prefetch && event.time_ns >= order.at {
                    return Ok(true);
                }
            }
            if self.finished.are(order.after) {
                return Ok(false);
            }
            let mut fds = [
                PollFd::new(&self.stream, PollFlags::IN),
                PollFd::new(&self.finished.bell, PollFlags::IN),
            ];
            poll(&mut fds, None)?;
        }
    }
}
