// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of programs of CUDA, on the software GPU.

mod bad_input;
mod class;
pub mod gpu_word;
mod graph;
pub mod killed;
mod many;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use cuda::Stream;
use libzernel::request::{Of, RequestStats};
use libzernel::{tsg, Level, Zernel};
use testkit::check_eq;
use testkit::child::in_child;
use testkit::harness::{case, Outcome, Suite};
use testkit::wait_until;
use zernel_runtime::{Counters, Error, Idle, Mode, Options, Request, Runtime, Spec, TsgsBefore};

use crate::lab::{driver, lease, tsgs, Program, LOADED};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "runtime",
    &[
        case("a_request_goes_through", a_request_goes_through),
        case("none_of_many_is_lost", many::one_thread),
        case("none_of_many_threads_is_lost", many::threads),
        case("threads_share_lanes", threads_share_lanes),
        case("without_a_lane_work_goes_on", without_a_lane_work_goes_on),
        case("done_in_a_stream", done_in_a_stream),
        case("inline_in_a_stream", inline_in_a_stream),
        case("a_dropped_request_is_over", a_dropped_request_is_over),
        case("a_holder_may_linger", a_holder_may_linger),
        case("the_end_of_a_runtime_ends_requests", the_end_ends_requests),
        case("a_lost_context_gives_the_gpu_back", a_lost_context),
        case(
            "a_destroyed_context_gives_the_gpu_back",
            a_destroyed_context,
        ),
        case("a_child_does_nothing", a_child_does_nothing),
        case("the_tsg_is_found_or_asked_for", the_tsg_is_found),
        case("an_instance_is_found_by_its_address", an_instance),
        case("machines_without_requests", machines_without_requests),
        case("a_stream_of_another_context", a_stream_of_another_context),
        case("bad_input", bad_input::table),
        case("a_page_that_is_unmapped", bad_input::unmapped),
        case("hostile_words", bad_input::hostile_words),
        case("two_runtimes", bad_input::two_runtimes),
        case("a_class_that_is_wanted", class::wanted),
        case("a_level_is_taken_away", class::cleared),
        case("wants_without_privilege", class::unprivileged),
        case("the_use_of_the_gpu", class::usage),
        case("launches_of_a_graph_have_requests", graph::launches),
        case("a_graph_has_a_lane_for_itself", graph::lanes),
        case("graphs_that_have_no_requests", graph::refused),
    ],
    LOADED,
);

const TICK: Duration = Duration::from_micros(200);
/// A prediction that never comes true in a test.
const LATE: Duration = Duration::from_secs(5);

/// With a lease that no pause of a loaded host ends.
fn attach(options: Options) -> Result<Runtime> {
    lease("5000000")?;
    let runtime = Runtime::attach(&gpu_word::by_this(options).mode(Mode::Require))?;
    runtime.set_level(Level::LC)?;
    Ok(runtime)
}

fn stats(runtime: &Runtime) -> Result<RequestStats> {
    runtime.stats()?.context("the runtime is inert")
}

/// At once triggered.
fn now() -> Spec {
    Spec::new().exact()
}

/// Triggered when the data is ready.
fn later() -> Spec {
    Spec::new().expected(LATE).exact()
}

fn a_request_goes_through() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    check_eq!(runtime.tsg().map(|tsg| vec![tsg]), Some(tsgs()?));
    check_eq!(runtime.inert(), None);
    for (spec, is_now) in [(now(), true), (later(), false)] {
        let mut request = runtime.begin(&spec)?;
        check_eq!(request.idle(), None);
        ensure!(request.number().is_some());
        if is_now {
            wait_until("it is triggered", || Ok(stats(&runtime)?.triggers == 1))?;
        }
        request.ready();
        request.ready();
        program.work(Stream::LEGACY, TICK)?;
        program.wait(Stream::LEGACY)?;
        request.done();
    }
    // A done word is seen at the next begin of its slot.
    drop(runtime.begin(&later())?);
    let told = stats(&runtime)?;
    check_eq!((told.begun, told.done, told.cancelled), (3, 2, 1));
    let counters = runtime.counters();
    let begun = Counters {
        begun: 3,
        ..Counters::default()
    };
    check_eq!(counters, begun);
    Ok(())
}

/// Runs requests one after the other, each with a kernel.
fn serve(program: &Program, runtime: &Runtime, stream: Stream, count: u64) -> Result<u64> {
    let mut begun = 0;
    for at in 0..count {
        let spec = if at % 2 == 0 { now() } else { later() };
        let mut request = runtime.begin(&spec)?;
        begun += u64::from(request.idle().is_none());
        request.ready();
        program.work(stream, Duration::from_micros(10))?;
        match at % 3 {
            0 => request.done_in(stream),
            _ => {
                program.wait(stream)?;
                request.done();
            }
        }
    }
    program.wait(stream)?;
    Ok(begun)
}

fn threads_share_lanes() -> Outcome {
    const THREADS: usize = 8;
    const EACH: u64 = 250;
    let program = Program::new()?;
    let runtime = attach(Options::default().lanes(16))?;
    let begun = AtomicU64::new(0);
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let threads = (0..THREADS).map(|_| {
            let (program, runtime, begun) = (&program, &runtime, &begun);
            scope.spawn(move || -> Result<()> {
                let own = program.driver.create_stream(program.context())?;
                let count = serve(program, runtime, own.stream(), EACH)?;
                begun.fetch_add(count, Relaxed);
                Ok(())
            })
        });
        let threads: Vec<_> = threads.collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let counters = runtime.counters();
    check_eq!(counters.begun, begun.load(Relaxed));
    check_eq!(counters.begun + counters.no_lane, THREADS as u64 * EACH);
    check_eq!((counters.refused, counters.failed_calls), (0, 0));
    check_eq!(stats(&runtime)?.begun, counters.begun);
    Ok(())
}

fn without_a_lane_work_goes_on() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default().lanes(2))?;
    let taken = [runtime.begin(&later())?, runtime.begin(&later())?];
    let mut other = runtime.begin(&later())?;
    check_eq!(other.idle(), Some(Idle::NoLane));
    other.ready();
    program.work(Stream::LEGACY, TICK)?;
    program.wait(Stream::LEGACY)?;
    other.done();
    check_eq!(runtime.counters().no_lane, 1);
    let [one, two] = taken;
    one.done();
    let again = runtime.begin(&later())?;
    check_eq!(again.idle(), None);
    two.cancel();
    again.cancel();
    Ok(())
}

fn done_in_a_stream() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default().lanes(1))?;
    let own = program.driver.create_stream(program.context())?;
    let mut request = runtime.begin(&now())?;
    request.ready();
    program.work(own.stream(), 100 * TICK)?;
    request.done_in(own.stream());
    // Its lane is not free before.
    check_eq!(runtime.begin(&now())?.idle(), Some(Idle::NoLane));
    program.wait(own.stream())?;
    let next = runtime.begin(&now())?;
    check_eq!(next.idle(), None);
    let told = stats(&runtime)?;
    check_eq!((told.done, told.cancelled), (1, 0));
    next.done();
    Ok(())
}

fn inline_in_a_stream() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let own = program.driver.create_stream(program.context())?;
    let stream = own.stream();
    let mut request = runtime.begin(&later().inline(stream))?;
    program.work(stream, TICK)?;
    let entered = program.driver.enter(program.context())?;
    ensure!(!entered.is_idle(stream)?, "the work is behind the wait");
    request.ready();
    entered.wait_idle(stream)?;
    request.done();
    Ok(())
}

fn a_dropped_request_is_over() -> Outcome {
    let _program = Program::new()?;
    let runtime = attach(Options::default())?;
    drop(runtime.begin(&now())?);
    let mut ready = runtime.begin(&now())?;
    ready.ready();
    drop(ready);
    runtime.begin(&now())?.cancel();
    // A done word is seen at the next begin of its slot.
    let all: Vec<Request> = (0..4)
        .map(|_| runtime.begin(&later()))
        .collect::<Result<_, _>>()?;
    let told = stats(&runtime)?;
    check_eq!((told.done, told.cancelled), (1, 2));
    drop(all);
    Ok(())
}

fn a_holder_may_linger() -> Outcome {
    let program = Program::new()?;
    let linger = Duration::from_millis(500);
    let runtime = attach(Options::default().lanes(1).linger(linger))?;
    for _ in 0..20 {
        let mut request = runtime.begin(&now())?;
        check_eq!(request.idle(), None);
        request.ready();
        program.work(Stream::LEGACY, TICK)?;
        program.wait(Stream::LEGACY)?;
        request.done();
    }
    check_eq!(runtime.counters().failed_calls, 0);
    let told = stats(&runtime)?;
    check_eq!((told.begun, told.cancelled, told.expired), (20, 0, 0));
    Ok(())
}

fn the_end_ends_requests() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let zernel = Zernel::open()?;
    let tsg = runtime.tsg().context("a TSG")?;
    let request = runtime.begin(&now())?;
    // The request keeps the runtime.
    drop(runtime);
    check_eq!(zernel.request_stats(Of::Tsg(tsg))?.in_flight, 1);
    drop(request);
    check_eq!(zernel.request_stats(Of::Tsg(tsg))?.in_flight, 0);
    program.work(Stream::LEGACY, TICK)?;
    Ok(program.wait(Stream::LEGACY)?)
}

fn a_lost_context() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let under_way = runtime.begin(&later())?;
    program.fail()?;
    check_eq!(runtime.begin(&later())?.idle(), Some(Idle::Refused));
    ensure!(matches!(runtime.inert(), Some(Error::Lost(_))));
    check_eq!(stats(&runtime)?.in_flight, 0, "the GPU is given back");
    check_eq!(runtime.begin(&later())?.idle(), Some(Idle::Lost));
    let counters = runtime.counters();
    check_eq!(
        (counters.begun, counters.lost, counters.failed_calls),
        (1, 1, 1)
    );
    under_way.done();
    Ok(())
}

fn a_destroyed_context() -> Outcome {
    let program = Program::new()?;
    let runtime = attach(Options::default())?;
    let mut request = runtime.begin(&now())?;
    request.ready();
    drop(program);
    check_eq!(tsgs()?, []);
    request.done();
    let idle = runtime.begin(&now())?.idle();
    ensure!(matches!(idle, Some(Idle::Refused | Idle::Lost)), "{idle:?}");
    Ok(())
}

fn a_child_does_nothing() -> Outcome {
    let _program = Program::new()?;
    let runtime = attach(Options::default())?;
    // The child drops its copies of both; the parent has its own.
    let request = RefCell::new(Some(runtime.begin(&later())?));
    let copy = RefCell::new(Some(runtime.clone()));
    in_child(|| {
        check_eq!(runtime.inert(), Some(Error::Forked));
        check_eq!(runtime.begin(&now())?.idle(), Some(Idle::Forked));
        check_eq!(runtime.set_level(Level::BE), Err(Error::Forked));
        check_eq!(runtime.stats(), Err(Error::Forked));
        drop((request.take(), copy.take()));
        Ok(())
    })?;
    check_eq!(stats(&runtime)?.in_flight, 1, "that of the parent");
    let mut request = request.take().context("it was the child's copy")?;
    request.ready();
    request.done();
    check_eq!(runtime.counters().begun, 1);
    Ok(())
}

fn the_tsg_is_found() -> Outcome {
    let require = || Options::default().mode(Mode::Require);
    let driver = driver()?;
    check_eq!(Runtime::attach(&require()).err(), Some(Error::NoContext));
    let first = Program::new()?;
    let before = TsgsBefore::now();
    let one = tsgs()?;
    let second = Program::new()?;
    let both = tsgs()?;
    let error = Runtime::attach(&require()).err();
    ensure!(
        matches!(&error, Some(Error::Ambiguous { tsgs, .. }) if *tsgs == both),
        "{error:?}"
    );
    let found = Runtime::attach(&require().before(before))?;
    check_eq!(
        found.tsg(),
        both.iter().find(|tsg| !one.contains(tsg)).copied()
    );
    driver.set_current(Some(first.context()))?;
    let named = Runtime::attach(&require().tsg(one[0]))?;
    check_eq!(named.tsg(), Some(one[0]));
    let other = tsg::Id::new(u64::MAX);
    let error = Runtime::attach(&require().tsg(other)).err();
    ensure!(matches!(error, Some(Error::WrongTsg { tsg, .. }) if tsg == other));
    drop((found, named, second));
    Ok(())
}

/// No provider tells of MIG instances: zernel has their TSGs with the whole GPU, at the same address.
fn an_instance() -> Outcome {
    std::env::set_var("FAKECUDA_MIG", "1");
    let program = Program::new()?;
    let device = program.driver.enter(program.context())?.device()?;
    let uuid = program.driver.uuid(device)?;
    let listed: Vec<_> = Zernel::open()?.gpus().collect::<libzernel::Result<_>>()?;
    let has_uuid = |gpu: &libzernel::Gpu| gpu.uuid.is_some_and(|own| *own.as_bytes() == uuid);
    ensure!(!listed.iter().any(has_uuid));
    let runtime = attach(Options::default())?;
    check_eq!(runtime.tsg().map(|tsg| vec![tsg]), Some(tsgs()?));
    let mut request = runtime.begin(&now())?;
    check_eq!(request.idle(), None);
    request.ready();
    request.done();
    Ok(())
}

fn machines_without_requests() -> Outcome {
    let _program = Program::new()?;
    let none = Options::default().device("/nonexistent/zernel");
    let inert = Runtime::attach(&none)?;
    let why = inert.inert().context("it is inert")?;
    check_eq!(why.name(), "ZERNEL_NO_MODULE");
    check_eq!(inert.begin(&now())?.idle(), Some(Idle::Inert));
    in_child(|| {
        // The stand-in says that the driver has no such function.
        std::env::set_var("FAKECUDA_ABSENT", "cuStreamWaitValue32");
        let library = "/lib/x86_64-linux-gnu/libcuda.so.1";
        let error = Runtime::attach(&Options::default().library(library).mode(Mode::Require));
        let error = error.err().context("an error")?;
        check_eq!(error.name(), "ZERNEL_NO_CUDA");
        let text = error.to_string();
        ensure!(text.ends_with("lacks cuStreamWaitValue32"), "{text}");
        Ok(())
    })
}

fn a_stream_of_another_context() -> Outcome {
    let other = Program::new()?;
    let before = TsgsBefore::now();
    let _program = Program::new()?;
    let runtime = attach(Options::default().before(before))?;
    let foreign = other.driver.create_stream(other.context())?;
    let spec = later().inline(foreign.stream());
    check_eq!(runtime.begin(&spec).err(), Some(Error::ForeignStream));
    check_eq!(
        runtime.check_stream(foreign.stream()),
        Err(Error::ForeignStream)
    );
    check_eq!(runtime.counters(), Counters::default());
    check_eq!(stats(&runtime)?.begun, 0, "nothing has begun");
    Ok(())
}
