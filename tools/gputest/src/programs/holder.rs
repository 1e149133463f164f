// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of a request through the GPU: trigger, holder, release, the work behind it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cuda::Window;

use crate::gpu::{look, pause, us, Gpu, ONE, WARP};
use crate::neighbour::Neighbour;
use crate::programs::slices;
use crate::report::{Figure, Findings};
use crate::slot::{DONE, HELD, RELEASE, TRIGGER};
use crate::sys;
use crate::sys::memory::Words;

/// The word behind `held`.
const END: usize = 4;
const MARK: usize = 16;

/// Longest time of a holder.
const BOUND: Duration = Duration::from_millis(100);
/// Time from the holder's start to its release.
const HELD_FOR: Duration = Duration::from_micros(100);

/// Other processes, their time slices in microseconds, and the interleave level of this one, which
/// takes privilege.
const BESIDE: [(usize, Option<u64>, Option<u32>); 6] = [
    (1, None, None),
    (1, Some(200), None),
    (1, Some(50), None),
    (3, Some(200), None),
    (3, Some(200), Some(2)),
    (3, Some(50), Some(2)),
];
/// Time slice of this process beside those, in microseconds.
const LONG_US: u64 = 1_000_000;

/// Numbers of requests rise through the program: a word that has one has reached those before.
const FIRST_END: u32 = 100_000;
const FIRST_OF_GPU: u32 = 200_000;
const FIRST_UNRELEASED: u32 = 500_000;

/// Figures of which claims are.
struct Alone {
    ended: Option<Figure>,
    marked: Option<Figure>,
}

/// The word that a holder waits for.
enum Release<'a> {
    /// That of the slot, in memory of the host.
    Host(&'a Words),
    /// One in memory of the GPU.
    Gpu(&'a Window),
}

impl Release<'_> {
    fn address(&self) -> u64 {
        match self {
            Self::Host(words) => words.address(RELEASE),
            Self::Gpu(window) => window.address(0),
        }
    }

    fn store(&self, number: u32) {
        match self {
            Self::Host(words) => words.store(RELEASE, number),
            Self::Gpu(window) => window.store(0, number),
        }
    }
}

/// Times in microseconds.
#[derive(Default)]
struct Times {
    trigger_to_held: Vec<f64>,
    release_to_mark: Vec<f64>,
    release_to_done: Vec<f64>,
}

fn measure(
    gpu: &Gpu,
    words: &Words,
    release: &Release<'_>,
    first: u32,
    rounds: usize,
) -> Result<Times> {
    let entered = gpu.enter()?;
    let stream = gpu.driver.create_stream(gpu.context())?;
    let stream = stream.stream();
    let (holder, mark) = (gpu.holder()?, gpu.mark()?);
    let mut times = Times::default();
    for number in (first..).take(rounds) {
        entered.wait_word(stream, words.address(TRIGGER), number)?;
        let (held, address) = (words.address(HELD), release.address());
        let bound = BOUND.as_nanos() as u64;
        sys::launch(&holder, WARP, stream, [held, address, number.into(), bound])?;
        sys::launch(&mark, ONE, stream, [words.address(MARK), number.into()])?;
        sys::write_word(&entered, stream, words.address(DONE), number)?;
        pause(Duration::from_micros(50 + u64::from(number * 37 % 100)));
        let triggered = Instant::now();
        words.store(TRIGGER, number);
        let held = look("the holder", || words.load(HELD) == number)?;
        pause(HELD_FOR);
        let released = Instant::now();
        release.store(number);
        let marked = look("the kernel behind the holder", || {
            words.load(MARK) == number
        })?;
        let done = look("the end of the stream", || words.load(DONE) == number)?;
        times.trigger_to_held.push(us(triggered, held));
        times.release_to_mark.push(us(released, marked));
        times.release_to_done.push(us(released, done));
    }
    entered.wait_idle(stream)?;
    Ok(times)
}

/// Times in microseconds from the release to the holder's own end.
fn ends(
    gpu: &Gpu,
    words: &Words,
    release: &Release<'_>,
    first: u32,
    rounds: usize,
) -> Result<Vec<f64>> {
    let entered = gpu.enter()?;
    let stream = gpu.driver.create_stream(gpu.context())?;
    let stream = stream.stream();
    let holder = gpu.holder_with_end()?;
    let mut times = Vec::new();
    for number in (first..).take(rounds) {
        let (held, address) = (words.address(HELD), release.address());
        let bound = BOUND.as_nanos() as u64;
        sys::launch(&holder, WARP, stream, [held, address, number.into(), bound])?;
        look("the holder", || words.load(HELD) == number)?;
        pause(Duration::from_micros(50 + u64::from(number * 37 % 100)));
        let released = Instant::now();
        release.store(number);
        let ended = look("the end of the holder", || words.load(END) == number)?;
        times.push(us(released, ended));
        entered.wait_idle(stream)?;
    }
    Ok(times)
}

/// Times in microseconds of holders that nobody releases.
fn unreleased(gpu: &Gpu, words: &Words, first: u32, bound: Duration) -> Result<Vec<f64>> {
    let entered = gpu.enter()?;
    let stream = gpu.driver.create_stream(gpu.context())?;
    let stream = stream.stream();
    let holder = gpu.holder()?;
    let mut times = Vec::new();
    for number in (first..).take(gpu.options.rounds(100)) {
        let (held, release) = (words.address(HELD), words.address(RELEASE));
        let bound = bound.as_nanos() as u64;
        sys::launch(&holder, WARP, stream, [held, release, number.into(), bound])?;
        sys::write_word(&entered, stream, words.address(DONE), number)?;
        let held = look("the holder", || words.load(HELD) == number)?;
        let done = look("the end of the holder", || words.load(DONE) == number)?;
        times.push(us(held, done));
    }
    Ok(times)
}

/// Figures of holders that wait for one of the words, without another process. Numbers are from `first`
/// on.
fn alone(
    gpu: &Gpu,
    words: &Words,
    release: &Release<'_>,
    first: u32,
    findings: &mut Findings,
) -> Result<Alone> {
    let rounds = gpu.options.rounds(5000);
    let times = measure(gpu, words, release, first, rounds)?;
    let how = match release {
        Release::Host(_) => "alone",
        Release::Gpu(_) => "alone, word of the GPU",
    };
    let name = |what: &str| format!("{what}, {how}, us");
    findings.figure(&name("trigger to held"), times.trigger_to_held);
    let marked = findings.figure(&name("release to the next kernel"), times.release_to_mark);
    findings.figure(
        &name("release to a store of the stream"),
        times.release_to_done,
    );
    // The software GPU knows the holder of the runtime alone.
    let times = match gpu.is_software()? {
        true => Vec::new(),
        false => ends(gpu, words, release, first + FIRST_END, rounds)?,
    };
    let ended = findings.figure(&name("release to the holder's own end"), times);
    Ok(Alone { ended, marked })
}

/// The same for a word in memory of the GPU, where GDRCopy is there; the faster of both words.
fn compare(gpu: &Gpu, words: &Words, host: &Alone, findings: &mut Findings) -> Result<()> {
    let window = match gpu.window() {
        Ok(window) => window,
        Err(error @ cuda::Error::NoWindow(_)) => {
            findings.value(
                "holders that wait for a word of the GPU",
                format!("not measured: {error}"),
            );
            return Ok(());
        }
        Err(error) => return Err(error).context("a word in memory of the GPU"),
    };
    let other = alone(gpu, words, &Release::Gpu(&window), FIRST_OF_GPU, findings)?;
    if let (Some(host), Some(other)) = (&host.ended, &other.ended) {
        let faster = if other.p50 < host.p50 { "gpu" } else { "host" };
        findings.value(
            "the faster release word, by p50 to the holder's own end",
            faster,
        );
    }
    Ok(())
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let words = gpu.words()?;
    let host = Release::Host(&words);
    let figures = alone(gpu, &words, &host, 1, &mut findings)?;
    compare(gpu, &words, &figures, &mut findings)?;

    let bound = Duration::from_millis(1);
    let ended = unreleased(gpu, &words, FIRST_UNRELEASED, bound)?;
    let ended = findings.figure("a holder of 1 ms that nobody releases, us", ended);

    for (round, (count, slice, level)) in (1..).zip(BESIDE) {
        let others = Neighbour::start_all(&gpu.options, count, slice)?;
        let has_slice = slice.is_none() || slices::set_own(LONG_US).is_ok();
        let has_level = level.is_none_or(|level| slices::set_own_level(level).is_ok());
        if has_slice && has_level {
            let rounds = gpu.options.rounds(200);
            let beside = measure(gpu, &words, &host, round * 1_000_000, rounds)?;
            let name = |what| {
                let slice = slice.map_or("usual slices".into(), |us| format!("slices of {us} us"));
                let level = level.map_or(String::new(), |level| format!(", level {level}"));
                format!("{what}, beside {count} busy with {slice}{level}, us")
            };
            findings.figure(&name("trigger to held"), beside.trigger_to_held);
            findings.figure(&name("release to the next kernel"), beside.release_to_mark);
        }
        for other in others {
            other.stop()?;
        }
    }

    let holds = figures.ended.is_some_and(|ended| ended.p99 < 5.0);
    findings.expect_on_hardware("release to the holder's end: p99 below 5 us", holds);
    let holds = figures.marked.is_some_and(|marked| marked.p99 < 10.0);
    findings.expect_on_hardware("release to the next kernel: p99 below 10 us", holds);
    let holds = ended.is_some_and(|ended| ended.min >= 990.0 && ended.p50 <= 1100.0);
    findings.expect_on_hardware("a holder of 1 ms ends by itself after 1 to 1.1 ms", holds);
    Ok(findings)
}
