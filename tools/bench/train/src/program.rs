// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine-learning program: loads and computes one after the other, with a loader that waits for
//! the signal, or with a queue of batches.

use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::event::Kind;
use libzernel::phase::Prefetch;
use libzernel::sim::{Context, ContextSpec, EngineStats, Item, Sim, COMPUTE_ENGINE};
use libzernel::{Event, EventStream, Process, Target, Timestamp, Tracking, Zernel};
use rustix::thread::gettid;

use crate::loader::{Batch, Finished, Loader, Order};
use crate::queue::{self, Queue};
use crate::run::{Diary, Does, EngineUse, Run, Span};
use crate::source::Source;
use crate::step::Step;

/// The GPU that it computes on.
const GPU: u32 = 0;

/// A machine-learning program: the thread that makes it, which trains, and a loader. Both are
/// tracked; other threads of the process are not, so that they may watch.
#[derive(Debug)]
pub struct Program {
    zernel: Zernel,
    sim: Sim,
    context: Context,
    /// That has the context.
    _owner: nvrm::Program,
    source: Option<Source>,
    stream: EventStream,
    trainer: u32,
    spins: Option<fn(Duration)>,
}

impl Program {
    /// One of which nothing is known.
    ///
    /// Errors: [`libzernel::Error`], of the cause `NoDevice` where a module is missing.
    pub fn new() -> Result<Self> {
        let (zernel, sim) = (Zernel::open()?, Sim::open()?);
        let stream = zernel.events()?;
        let trainer = gettid().as_raw_nonzero().get().unsigned_abs();
        zernel.track(&Target::Thread(trainer), Tracking::ML)?;
        let owner = nvrm::Program::open(&sim, GPU)?;
        let context = owner.context(&ContextSpec {
            gpu: GPU,
            ..ContextSpec::compute("train")
        })?;
        Ok(Self {
            zernel,
            sim,
            context,
            _owner: owner,
            source: None,
            stream,
            trainer,
            spins: None,
        })
    }

    /// And that reads its batches from `source`.
    pub fn reading(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// And whose runtime spins in `wait` while a GPU computes of which no provider tells.
    pub fn spinning(mut self, wait: fn(Duration)) -> Self {
        self.spins = Some(wait);
        self
    }

    /// The thread that trains.
    pub fn trainer(&self) -> u32 {
        self.trainer
    }

    /// The outcomes of its signals.
    pub fn counts(&self) -> Result<Prefetch> {
        let own = |process: &Process| process.pid == std::process::id();
        for process in self.zernel.processes() {
            let process = process?;
            if own(&process) {
                return Ok(process.prefetch);
            }
        }
        anyhow::bail!("zernel does not list this process among the tracked ones")
    }

    /// The signals that have come since the last question.
    pub fn signals(&mut self) -> Result<Vec<Event>> {
        let mut signals = Vec::new();
        while let Some(event) = self.stream.next_within(Some(Duration::ZERO))? {
            if event.kind == Kind::Signal && event.pid == std::process::id() {
                signals.push(event);
            }
        }
        Ok(signals)
    }

    /// Reads for so long.
    pub fn load(&mut self, duration: Duration) -> Result<()> {
        let source = self.source.as_mut().context(NO_SOURCE)?;
        source.read_for(duration)
    }

    /// Waits for work of the GPU. Returns when the engine had it.
    pub fn compute(&self, duration: Duration) -> Result<Span> {
        if let Some(wait) = self.spins {
            let began = Timestamp::now();
            wait(duration);
            let ended = Timestamp::now();
            return Ok(Span { began, ended });
        }
        let submitted = self.context.submit(0, &[Item::work(duration)])?;
        let done = self.context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        Ok(Span {
            began: submitted.at,
            ended: done.at,
        })
    }

    fn engine(&self) -> Result<EngineStats> {
        Ok(self.sim.engine_stats(GPU, COMPUTE_ENGINE)?)
    }

    /// Loads, computes and optimizes, one after the other.
    pub fn in_sequence(&mut self, steps: &[Step]) -> Result<Run> {
        let mut book = Book::new();
        for (number, step) in steps.iter().enumerate() {
            self.load(step.load)?;
            let read = book.diary.mark(number, Does::Load);
            book.loads.push(read);
            book.compute(self, number, step)?;
            book.optimize(number, step);
        }
        Ok(book.close())
    }

    /// Computes and optimizes while a thread loads the next batch, from the signal on; without one,
    /// when the computation is over.
    pub fn with_signal(&mut self, steps: &[Step]) -> Result<Run> {
        let mut source = self.source.take().context(NO_SOURCE)?;
        let finished = Finished::new()?;
        let loader = Loader {
            zernel: &self.zernel,
            source: &mut source,
            stream: self.zernel.events()?,
            finished: &finished,
        };
        let ((order, orders), (batch, batches)) = (channel(), channel());
        let program = &*self;
        let run = std::thread::scope(|scope| {
            scope.spawn(move || loader.run(&orders, &batch));
            let ask = move |after: usize, load| {
                let at = Timestamp::now();
                // One that has gone has said why.
                let _ = order.send(Order { after, at, load });
            };
            let next = |_| batches.recv().context(ENDED)?;
            let run = program.train(steps, 1, ask, next, |done| finished.tell(done));
            // A loader that still waits when the loop has failed waits no longer.
            finished.tell(usize::MAX)?;
            run
        });
        self.source = Some(source);
        run
    }

    /// Computes and optimizes while the workers of a queue load the next batches, one of `sources` each,
    /// as soon as there is room for one.
    pub fn with_queue(&self, steps: &[Step], queue: Queue, sources: Vec<Source>) -> Result<Run> {
        anyhow::ensure!(
            sources.len() == queue.workers,
            "a queue of {} workers has {} sources",
            queue.workers,
            sources.len()
        );
        std::thread::scope(|scope| {
            let workers = sources.into_iter().map(|source| {
                let ((order, orders), (batch, batches)) = (channel(), channel());
                scope.spawn(move || queue::work(source, &orders, &batch));
                (order, batches)
            });
            let (orders, batches): (Vec<_>, Vec<_>) = workers.unzip();
            let ask = move |number: usize, load| {
                // One that has gone has said why.
                let _ = orders[number % queue.workers].send(load);
            };
            let next = |number: usize| batches[number % queue.workers].recv().context(ENDED)?;
            self.train(steps, queue.depth(), ask, next, |_| Ok(()))
        })
    }

    /// Computes with batches that `next` gives, and asks for each when so many are asked for ahead.
    /// `done` is told the number of computations that are over.
    fn train(
        &self,
        steps: &[Step],
        ahead: usize,
        ask: impl Fn(usize, Duration),
        next: impl Fn(usize) -> Result<Batch>,
        done: impl Fn(usize) -> Result<()>,
    ) -> Result<Run> {
        let ask = |number: usize| {
            if let Some(step) = steps.get(number) {
                ask(number, step.load);
            }
        };
        let mut book = Book::new();
        (0..ahead).for_each(ask);
        for (number, step) in steps.iter().enumerate() {
            let batch = next(number)?;
            book.diary.mark(number, Does::Wait);
            book.signalled += usize::from(batch.signalled);
            book.loads.push(batch.read);
            ask(number + ahead);
            book.compute(self, number, step)?;
            done(number + 1)?;
            book.optimize(number, step);
        }
        Ok(book.close())
    }
}

/// The error of a program whose batches have ended.
const ENDED: &str = "the loader has ended early";

/// The error of a program that shall load and has no source.
const NO_SOURCE: &str = "the program has nothing to read batches from";

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended, or been untracked, already.
        let _ = self.zernel.untrack(&Target::Thread(self.trainer));
    }
}

/// The record of a run so far.
struct Book {
    diary: Diary,
    loads: Vec<Span>,
    computations: Vec<Span>,
    signalled: usize,
    engine: Option<(EngineStats, EngineStats)>,
}

impl Book {
    fn new() -> Self {
        Self {
            diary: Diary::new(),
            loads: Vec::new(),
            computations: Vec::new(),
            signalled: 0,
            engine: None,
        }
    }

    fn compute(&mut self, program: &Program, number: usize, step: &Step) -> Result<()> {
        let before = match self.engine {
            Some((first, _)) => first,
            None => program.engine()?,
        };
        self.computations.push(program.compute(step.compute)?);
        self.engine = Some((before, program.engine()?));
        self.diary.mark(number, Does::Compute);
        Ok(())
    }

    fn optimize(&mut self, number: usize, step: &Step) {
        if step.optimize.is_zero() {
            return;
        }
        let begin = Timestamp::now();
        while Timestamp::now().since(begin) < step.optimize {
            std::hint::spin_loop();
        }
        self.diary.mark(number, Does::Optimize);
    }

    fn close(self) -> Run {
        let (whole, sections) = self.diary.close();
        Run {
            whole,
            sections,
            loads: self.loads,
            computations: self.computations,
            signalled: self.signalled,
            engine: self.engine.map_or(EngineUse::default(), |(before, after)| {
                EngineUse::between(&before, &after)
            }),
        }
    }
}
