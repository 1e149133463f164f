// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad input: each kind has an error of its own, and changes nothing. A request that is over, and a
//! begin in one, are none in Rust: the end takes the request.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use cuda::Stream;
use libzernel::class::Attributes;
use libzernel::{tsg, Level};
use testkit::check_eq;
use testkit::child::{in_child, Child, End};
use testkit::harness::Outcome;
use zernel_runtime::{Error, Idle, Mode, Options, ReleaseWord, Runtime, Spec};

use super::{attach, later, now, stats};
use crate::lab::{self, stream_of, Program};
use crate::sys::Cuda;

/// The name and the errno of an error.
type Told = (&'static str, i32);

/// Those of a result; empty and 0 for no error.
fn told<T>(result: Result<T, Error>) -> Told {
    let error = result.err();
    error.map_or(("", 0), |error| (error.name(), error.errno()))
}

fn required() -> Options {
    Options::default().mode(Mode::Require)
}

fn in_thread<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T> {
    let end = std::thread::scope(|scope| scope.spawn(run).join());
    end.map_err(|_| anyhow::anyhow!("a thread panicked"))
}

fn with_variable(name: &str, value: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    in_child(|| {
        std::env::set_var(name, value);
        run()
    })
}

/// A stream of another context, and some that are none; the current context is `program`'s after it.
struct Streams {
    foreign: Stream,
    destroyed: Stream,
    misaligned: Stream,
    captured: Stream,
}

pub(super) fn table() -> Outcome {
    let other = Program::new()?;
    let other_own = other.driver.create_stream(other.context())?;
    let tsg_of_other = lab::tsgs()?[0];
    let program = Program::new()?;
    let tsg = lab::tsgs()?.into_iter().find(|&tsg| tsg != tsg_of_other);
    let tsg = tsg.context("a TSG")?;
    let runtime = attach(Options::default().tsg(tsg))?;
    let cuda = Cuda::open()?;
    let (mut own, mut gone) = (0, 0);
    cuda.stream_create(&mut own, 1).ok()?;
    cuda.stream_create(&mut gone, 1).ok()?;
    cuda.stream_destroy(gone).ok()?;
    let streams = Streams {
        foreign: other_own.stream(),
        destroyed: stream_of(gone),
        misaligned: stream_of(own + 1),
        captured: stream_of(own),
    };
    let alive = runtime.begin(&later())?;
    let before = (runtime.counters(), stats(&runtime)?, lab::tsgs()?);
    let attached = |options: Options| told(Runtime::attach(&options));
    let begun = |stream| told(runtime.begin(&later().inline(stream)));
    let checked = |stream| told(runtime.check_stream(stream));
    let captured = |call: &dyn Fn(Stream) -> Told| -> Result<_> {
        let mut graph = 0;
        cuda.capture_begin(own, 0).ok()?;
        let result = call(streams.captured);
        cuda.capture_end(own, &mut graph).ok()?;
        Ok(result)
    };
    let gpu_word = || required().tsg(tsg).release_word(ReleaseWord::Gpu);
    let long = Duration::from_secs(11);
    let slice = |us| Attributes::default().timeslice_us(us);
    let cases: Vec<(&str, Told, Told)> = vec![
        (
            "no lanes",
            attached(required().lanes(0)),
            ("ZERNEL_BAD_LANES", 22),
        ),
        (
            "65 lanes",
            attached(required().lanes(65)),
            ("ZERNEL_BAD_LANES", 22),
        ),
        (
            "a short bound",
            attached(required().bound(Duration::from_nanos(999))),
            ("ZERNEL_BAD_BOUND", 22),
        ),
        (
            "a long bound",
            attached(required().bound(long)),
            ("ZERNEL_BAD_BOUND", 22),
        ),
        (
            "a long linger",
            attached(required().linger(long)),
            ("ZERNEL_BAD_BOUND", 22),
        ),
        (
            "a release word",
            told("bar1".parse::<ReleaseWord>()),
            ("ZERNEL_BAD_WORD", 22),
        ),
        (
            "no library for a GPU's word",
            attached(gpu_word().gdrcopy("/nonexistent/libgdrapi.so.2")),
            ("ZERNEL_NO_GPU_WORD", 65),
        ),
        (
            "another library for a GPU's word",
            attached(gpu_word().gdrcopy("/lib/x86_64-linux-gnu/libc.so.6")),
            ("ZERNEL_NO_GPU_WORD", 65),
        ),
        (
            "a mode",
            told("on".parse::<Mode>()),
            ("ZERNEL_BAD_MODE", 22),
        ),
        (
            "no context",
            in_thread(|| told(Runtime::attach(&required())))?,
            ("ZERNEL_NO_CONTEXT", 9),
        ),
        (
            "several TSGs",
            attached(required()),
            ("ZERNEL_AMBIGUOUS_TSG", 76),
        ),
        (
            "a TSG that is none",
            attached(required().tsg(tsg::Id::new(u64::MAX))),
            ("ZERNEL_WRONG_TSG", 18),
        ),
        (
            "no module",
            attached(required().device("/nonexistent/zernel")),
            ("ZERNEL_NO_MODULE", 2),
        ),
        (
            "no library",
            attached(required().library("/nonexistent/libcuda.so.1")),
            ("ZERNEL_NO_CUDA", 79),
        ),
        (
            "a library of something else",
            attached(required().library("/lib/x86_64-linux-gnu/libc.so.6")),
            ("ZERNEL_NO_CUDA", 79),
        ),
        (
            "in a foreign stream",
            begun(streams.foreign),
            ("ZERNEL_FOREIGN_STREAM", 66),
        ),
        (
            "in a destroyed stream",
            begun(streams.destroyed),
            ("ZERNEL_CUDA_FAILED", 5),
        ),
        (
            "in a misaligned stream",
            begun(streams.misaligned),
            ("ZERNEL_CUDA_FAILED", 5),
        ),
        (
            "in a captured stream",
            captured(&begun)?,
            ("ZERNEL_CAPTURING", 115),
        ),
        (
            "a foreign stream",
            checked(streams.foreign),
            ("ZERNEL_FOREIGN_STREAM", 66),
        ),
        (
            "a destroyed stream",
            checked(streams.destroyed),
            ("ZERNEL_CUDA_FAILED", 5),
        ),
        (
            "a misaligned stream",
            checked(streams.misaligned),
            ("ZERNEL_CUDA_FAILED", 5),
        ),
        (
            "a captured stream",
            captured(&checked)?,
            ("ZERNEL_CAPTURING", 115),
        ),
        (
            "a short slice",
            told(runtime.set_class(slice(9))),
            ("ZERNEL_CALL_FAILED", 22),
        ),
        (
            "a long slice",
            told(runtime.set_class(slice(10_000_001))),
            ("ZERNEL_CALL_FAILED", 22),
        ),
        (
            "a short slice that is wanted",
            told(runtime.want_class(Level::LC, Some(9))),
            ("ZERNEL_CALL_FAILED", 22),
        ),
        (
            "off, with too many lanes",
            attached(Options::default().mode(Mode::Off).lanes(65)),
            ("ZERNEL_BAD_LANES", 22),
        ),
    ];
    ensure!(cases.len() >= 27);
    for (name, result, expected) in cases {
        check_eq!(result, expected, "{name}");
    }
    check_eq!((runtime.counters(), stats(&runtime)?, lab::tsgs()?), before);
    with_variable(Options::VARIABLE, "on", || {
        check_eq!(told(Options::from_environment()), ("ZERNEL_BAD_MODE", 22));
        Ok(())
    })?;
    in_child(|| {
        check_eq!(
            told(runtime.check_stream(streams.foreign)),
            ("ZERNEL_FORKED", 10)
        );
        check_eq!(runtime.begin(&now())?.idle(), Some(Idle::Forked));
        check_eq!(told(runtime.stats()), ("ZERNEL_FORKED", 10));
        check_eq!(told(runtime.set_level(Level::BE)), ("ZERNEL_FORKED", 10));
        Ok(())
    })?;
    check_eq!((runtime.counters(), stats(&runtime)?, lab::tsgs()?), before);
    // The request that was there all along goes on.
    let mut alive = alive;
    alive.ready();
    alive.done();
    drop(program);
    Ok(())
}

/// A process that takes the words of its request away gets the fault of its own access. Nothing is left
/// of it, as the suite verifies behind each case.
pub(super) fn unmapped() -> Outcome {
    // Faults that nobody handles are in the kernel's log otherwise.
    const LOGGED: &str = "/proc/sys/debug/exception-trace";
    let before = std::fs::read_to_string(LOGGED)?;
    std::fs::write(LOGGED, "0")?;
    let result = unmap_in_children();
    std::fs::write(LOGGED, before)?;
    result
}

fn unmap_in_children() -> Outcome {
    for is_touched in [true, false] {
        let child = Child::spawn(|| {
            let _program = Program::new()?;
            let runtime = attach(Options::default())?;
            let mut request = runtime.begin(&later())?;
            lab::unmap(lab::slots()?)?;
            // Calls that leave the words alone go on.
            check_eq!(
                (stats(&runtime)?.in_flight, request.predicted().is_some()),
                (1, true)
            );
            if is_touched {
                request.ready();
            }
            rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            )?;
            Ok(())
        })?;
        let expected = if is_touched { 11 } else { 9 };
        check_eq!(child.end()?, End::Signal(expected));
    }
    Ok(())
}

/// The words of a request are the program's own, which can store anything to them.
pub(super) fn hostile_words() -> Outcome {
    const ROUNDS: u64 = 200;
    let _program = Program::new()?;
    let runtime = attach(Options::default())?;
    let slots = lab::slots()?;
    let memory = File::options().write(true).open("/proc/self/mem")?;
    let mut random = 7_u32;
    for round in 0..ROUNDS {
        let spec: Spec = if round % 2 == 0 { now() } else { later() };
        let mut request = runtime.begin(&spec)?;
        let words: Vec<u8> = (0..5 * 16)
            .flat_map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                random.to_ne_bytes()
            })
            .collect();
        memory.write_all_at(&words, slots.start as u64)?;
        request.ready();
        match round % 3 {
            0 => request.cancel(),
            1 => request.done(),
            _ => drop(request),
        }
    }
    // All of them are counted.
    let counters = runtime.counters();
    check_eq!(counters.begun + counters.refused, ROUNDS);
    check_eq!(stats(&runtime)?.begun, counters.begun);
    Ok(())
}

/// Two runtimes of one context have lanes and requests of their own.
pub(super) fn two_runtimes() -> Outcome {
    let _program = Program::new()?;
    // Before any holder: a module that is loaded waits for those of its context.
    let first = attach(Options::default().lanes(2))?;
    let second = attach(Options::default().lanes(2))?;
    let mut requests = Vec::new();
    for runtime in [&first, &second] {
        for _ in 0..2 {
            let request = runtime.begin(&later())?;
            check_eq!(request.idle(), None);
            requests.push(request);
        }
        check_eq!(runtime.begin(&later())?.idle(), Some(Idle::NoLane));
        check_eq!(runtime.counters().no_lane, 1);
    }
    check_eq!(stats(&second)?.in_flight, 4);
    drop(requests);
    // The end of one leaves the other.
    drop(first);
    check_eq!(second.begin(&later())?.idle(), None);
    Ok(())
}
