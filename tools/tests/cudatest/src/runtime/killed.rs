// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that are killed in each state of a request: the GPU is given back, nothing of them is
//! left, and the process after them is served.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use cuda::Stream;
use libzernel::request::{Of, RequestStats};
use libzernel::sim::{OwnTsg, Sim};
use libzernel::sys::memory::SharedMemory;
use libzernel::tsg::{self, Tsg};
use libzernel::{Level, Target, Zernel};
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use testkit::check_eq;
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;
use testkit::{wait_until, Repeat};
use zernel_runtime::{Mode, Options, Runtime};

use super::{later, now};
use crate::lab::{lease, Program, LOADED};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "killed",
    &[
        case("that_waits_for_its_trigger", || killed(State::Begun)),
        case("whose_holder_runs", || killed(State::Held)),
        case("whose_work_runs", || killed(State::Ready)),
        case("whose_done_is_not_stored", || killed(State::Worked)),
        case("whose_holder_lingers", || killed(State::Lingering)),
        case("that_waits_in_a_stream", || killed(State::Inline)),
        case("at_any_time", killed_at_any_time),
    ],
    LOADED,
);

/// Kills in each state.
const TIMES: u64 = 100;
/// The same in a short run.
const FEW: u64 = 10;
/// The longest lease: a state lasts for as long as a test needs.
const LEASE_US: &str = "10000000";
/// Work that ends on its own long after the test.
const LONG: Duration = Duration::from_secs(600);
/// Work of a request.
const TICK: Duration = Duration::from_micros(100);

/// The state in which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The stream waits for the trigger.
    Begun,
    /// The holder has the GPU.
    Held,
    /// It is released, and its work runs.
    Ready,
    /// Its work is over, and that is not told.
    Worked,
    /// It is done, and a holder waits for the next.
    Lingering,
    /// A stream of the program waits for the trigger, with work behind it.
    Inline,
}

impl State {
    /// The process has the GPU.
    fn has_gpu(self) -> bool {
        matches!(self, Self::Held | Self::Ready | Self::Lingering)
    }

    /// Brings a new process into it, which then says so, and stays there.
    fn reach(self, progress: &Progress) -> Result<()> {
        let program = Program::new()?;
        let linger = match self {
            Self::Lingering => Duration::from_secs(10),
            _ => Duration::ZERO,
        };
        let runtime = attach(Options::default().linger(linger))?;
        let own = program.driver.create_stream(program.context())?;
        let spec = match self {
            Self::Begun => later(),
            Self::Inline => later().inline(own.stream()),
            _ => now(),
        };
        let mut request = runtime.begin(&spec)?;
        check_eq!(request.idle(), None);
        if self == Self::Inline {
            program.work(own.stream(), TICK)?;
        }
        if matches!(self, Self::Ready | Self::Worked | Self::Lingering) {
            request.ready();
            let time = if self == Self::Ready { LONG } else { TICK };
            program.work(own.stream(), time)?;
        }
        if matches!(self, Self::Worked | Self::Lingering) {
            program.wait(own.stream())?;
        }
        let _kept = match self {
            Self::Lingering => {
                request.done();
                None
            }
            _ => Some(request),
        };
        progress.tell_handle()?;
        progress.step();
        loop {
            thread::park();
        }
    }
}

/// A count that processes share, and what one tells of itself.
struct Progress(SharedMemory);

impl Progress {
    fn new() -> Result<Self> {
        let file = memfd_create("progress", MemfdFlags::CLOEXEC)?;
        let length = rustix::param::page_size();
        ftruncate(&file, length as u64)?;
        Ok(Self(SharedMemory::of_file(file.as_fd(), 0, length)?))
    }

    fn step(&self) {
        self.0.words()[0].fetch_add(1, Release);
    }

    fn steps(&self) -> u32 {
        self.0.words()[0].load(Acquire)
    }

    /// Tells the software GPU's handle of this process's compute TSG.
    fn tell_handle(&self) -> Result<()> {
        let tsg = OwnTsg::for_compute()?.into_iter().next();
        let tsg = tsg.context("the library has no context for compute")?;
        self.0.long_words()[1].store(tsg.stats.tsg, Release);
        Ok(())
    }

    /// The handle that was told.
    fn handle(&self) -> u64 {
        self.0.long_words()[1].load(Acquire)
    }

    fn wait(&self, what: &str, steps: u32, child: &Child) -> Result<()> {
        wait_until(what, || {
            ensure!(child.wait_ended(Duration::ZERO).is_err(), "it ended early");
            Ok(self.steps() >= steps)
        })
    }
}

fn attach(options: Options) -> Result<Runtime> {
    let runtime = Runtime::attach(&options.mode(Mode::Require))?;
    runtime.set_level(Level::LC)?;
    Ok(runtime)
}

/// Best-effort work beside, and what is to be seen from outside of a process.
struct Lab {
    zernel: Zernel,
    sim: Sim,
    best_effort: Child,
    /// Of the best-effort process.
    progress: Progress,
}

impl Lab {
    fn new() -> Result<Self> {
        lease(LEASE_US)?;
        let progress = Progress::new()?;
        let best_effort = Child::spawn(|| {
            let program = Program::new()?;
            Zernel::open()?.set_class(&Target::current_process(), Level::BE)?;
            progress.tell_handle()?;
            loop {
                program.work(Stream::LEGACY, TICK)?;
                program.wait(Stream::LEGACY)?;
                progress.step();
            }
        })?;
        progress.wait("the best-effort process works", 1, &best_effort)?;
        Ok(Self {
            zernel: Zernel::open()?,
            sim: Sim::open()?,
            best_effort,
            progress,
        })
    }

    /// The compute TSG of a process, as zernel lists it.
    fn tsg(&self, of: &Child) -> Result<tsg::Id> {
        let mut all = self.zernel.tsgs();
        let is_of = |tsg: &Tsg| tsg.compute && tsg.pid == of.pid();
        let found = all.find(|tsg| tsg.as_ref().map_or(true, is_of));
        Ok(found.context("it has no TSG")??.id)
    }

    /// Items of best-effort work that are over.
    fn completed(&self) -> Result<u64> {
        Ok(self.sim.tsg_stats(self.progress.handle())?.completed)
    }

    fn requests(&self) -> Result<RequestStats> {
        Ok(self.zernel.request_stats(Of::All)?)
    }

    /// Kills a process: the GPU serves others, and what it had is gone.
    fn kill(&self, victim: Child) -> Result<()> {
        victim.kill()?;
        check_eq!(victim.end()?, End::Signal(9));
        wait_until("nothing of it is left", || {
            let now = self.zernel.stats()?;
            let in_flight = self.requests()?.in_flight;
            // Those of the best-effort process: for compute, and for copies.
            Ok((now.tsgs, now.slots, in_flight) == (2, 0, 0))
        })?;
        ensure!(
            self.best_effort.wait_ended(Duration::ZERO).is_err(),
            "best-effort work ended"
        );
        let before = self.completed()?;
        wait_until("the GPU serves best-effort work", || {
            Ok(self.completed()? > before + 3)
        })
    }

    /// A process after it is served; the time that this took.
    fn next(&self) -> Result<Duration> {
        let before = self.requests()?;
        let begin = Instant::now();
        Child::spawn(|| {
            let program = Program::new()?;
            let runtime = attach(Options::default())?;
            let mut request = runtime.begin(&now())?;
            check_eq!(request.idle(), None);
            request.ready();
            program.work(Stream::LEGACY, TICK)?;
            program.wait(Stream::LEGACY)?;
            request.done();
            drop(runtime.begin(&later())?);
            let told = runtime.stats()?.context("the runtime is inert")?;
            check_eq!((told.done, told.cancelled, told.expired), (1, 1, 0));
            check_eq!(runtime.counters().failed_calls, 0);
            Ok(())
        })?
        .join()?;
        let took = begin.elapsed();
        let now = self.requests()?;
        check_eq!(now.begun - before.begun, 2);
        check_eq!(now.over() - before.over(), 2);
        Ok(took)
    }
}

/// As many as this run has time for.
fn kills() -> Repeat {
    if testkit::is_short() {
        println!("    # cut short: {FEW} of {TIMES} kills");
        return Repeat::new(FEW, "kills");
    }
    Repeat::new(TIMES, "kills")
}

fn killed(state: State) -> Outcome {
    let lab = Lab::new()?;
    let begun = lab.requests()?.begun;
    let mut slowest = Duration::ZERO;
    let mut kills = kills();
    for _ in &mut kills {
        let progress = Progress::new()?;
        let victim = Child::spawn(|| state.reach(&progress))?;
        progress.wait("it is in the state", 1, &victim)?;
        let tsg = lab.tsg(&victim)?;
        let told = lab.zernel.request_stats(Of::Tsg(tsg))?;
        let is_done = u64::from(state == State::Lingering);
        check_eq!((told.begun, told.expired), (1, 0));
        check_eq!((told.done, told.in_flight), (is_done, 1 - is_done));
        wait_until("it has the GPU, or has not", || {
            Ok(lab.sim.tsg_stats(progress.handle())?.on_engine == state.has_gpu())
        })?;
        lab.kill(victim)?;
        slowest = slowest.max(lab.next()?);
    }
    let told = lab.requests()?;
    check_eq!(told.begun - begun, 3 * kills.done());
    check_eq!((told.expired, told.over()), (0, told.begun));
    println!(
        "    # {state:?}: {}, the next process within {slowest:.1?}",
        kills.report()
    );
    Ok(())
}

fn killed_at_any_time() -> Outcome {
    let lab = Lab::new()?;
    let mut random = Random::new(17);
    let mut kills = kills();
    for _ in &mut kills {
        let progress = Progress::new()?;
        let victim = Child::spawn(|| serve(&progress))?;
        let steps = random.below(40) as u32;
        progress.wait("it has come so far", steps, &victim)?;
        lab.kill(victim)?;
        lab.next()?;
    }
    check_eq!(lab.requests()?.expired, 0);
    println!("    # {}", kills.report());
    Ok(())
}

/// Serves requests of all kinds, and steps between all that it does.
fn serve(progress: &Progress) -> Result<()> {
    let program = Program::new()?;
    progress.step();
    let runtime = attach(Options::default().linger(Duration::from_micros(500)))?;
    let own = program.driver.create_stream(program.context())?;
    for at in 0u64.. {
        let spec = if at % 2 == 0 { now() } else { later() };
        let spec = match at % 3 {
            0 => spec.inline(own.stream()),
            _ => spec,
        };
        let mut request = runtime.begin(&spec)?;
        progress.step();
        request.ready();
        program.work(own.stream(), TICK)?;
        progress.step();
        match at % 5 {
            0 => request.done_in(own.stream()),
            1 => request.cancel(),
            _ => {
                program.wait(own.stream())?;
                progress.step();
                request.done();
            }
        }
    }
    Ok(())
}
