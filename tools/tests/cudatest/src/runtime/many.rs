// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many requests, of one thread and of many: none is lost, and nothing is left of them.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Result};
use cuda::OwnStream;
use testkit::check_eq;
use testkit::harness::Outcome;
use testkit::Repeat;
use zernel_runtime::{Options, Runtime};

use super::{attach, later, now, serve, stats};
use crate::lab::Program;

/// Open files and mappings of slots of this process.
fn kept() -> Result<(usize, usize)> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let slots = maps.lines().filter(|line| line.ends_with("/dev/zernel"));
    Ok((fs::read_dir("/proc/self/fd")?.count(), slots.count()))
}

/// Requests of a thread, one after the other.
pub(super) fn one_thread() -> Outcome {
    const COUNT: u64 = 10_000;
    const EACH: u64 = 100;
    let program = Program::new()?;
    let before = kept()?;
    let runtime = attach(Options::default())?;
    let own = program.driver.create_stream(program.context())?;
    let mut rounds = Repeat::new(COUNT / EACH, "hundreds of requests");
    for _ in &mut rounds {
        check_eq!(serve(&program, &runtime, own.stream(), EACH)?, EACH);
    }
    let count = rounds.done() * EACH;
    // The done words of the last ones are seen when their slots begin again, or end.
    drop(runtime.begin(&later())?);
    let told = stats(&runtime)?;
    check_eq!(told.begun, count + 1);
    ensure!(told.in_flight <= 3, "{told:?}");
    check_eq!(told.over() + told.in_flight, told.begun);
    check_eq!((told.expired, told.cancelled), (0, 1));
    check_eq!(runtime.counters().failed_calls, 0);
    drop(runtime);
    check_eq!(kept()?, before);
    Ok(())
}

/// Threads, and the lanes of each.
const THREADS: u64 = 16;
const LANES: u64 = 4;

/// Requests of a thread, so many at once as it has lanes. Returns the number that has begun.
fn serve_at_once(program: &Program, runtime: &Runtime, own: &OwnStream, turns: u64) -> Result<u64> {
    let mut begun = 0;
    for turn in 0..turns {
        let requests = (0..LANES).map(|lane| {
            runtime.begin(&match (turn + lane) % 2 {
                0 => now(),
                _ => later(),
            })
        });
        let mut requests = requests.collect::<Result<Vec<_>, _>>()?;
        for request in &mut requests {
            begun += u64::from(request.idle().is_none());
            request.ready();
        }
        program.work(own.stream(), Duration::from_micros(10))?;
        for (lane, request) in requests.into_iter().enumerate() {
            match lane {
                0 => request.done_in(own.stream()),
                _ => request.done(),
            }
        }
        program.wait(own.stream())?;
    }
    Ok(begun)
}

/// Requests of many threads, each with several at once.
pub(super) fn threads() -> Outcome {
    const COUNT: u64 = 160_000;
    const TURNS: u64 = 25;
    const ROUND: u64 = THREADS * LANES * TURNS;
    let program = Program::new()?;
    let before = kept()?;
    let runtime = attach(Options::default().lanes((THREADS * LANES) as u32))?;
    let streams = (0..THREADS).map(|_| program.driver.create_stream(program.context()));
    let streams = streams.collect::<cuda::Result<Vec<_>>>()?;
    let begun = AtomicU64::new(0);
    let mut rounds = Repeat::new(COUNT / ROUND, "rounds of 1,600 requests");
    for _ in &mut rounds {
        let results: Vec<Result<()>> = thread::scope(|scope| {
            let threads = streams.iter().map(|own| {
                let (program, runtime, begun) = (&program, &runtime, &begun);
                scope.spawn(move || -> Result<()> {
                    begun.fetch_add(serve_at_once(program, runtime, own, TURNS)?, Relaxed);
                    Ok(())
                })
            });
            let threads: Vec<_> = threads.collect();
            let ends = threads.into_iter().map(|thread| thread.join());
            ends.map(|end| end.unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
                .collect()
        });
        results.into_iter().collect::<Result<()>>()?;
    }
    let count = rounds.done() * ROUND;
    let counters = runtime.counters();
    check_eq!((counters.begun, begun.load(Relaxed)), (count, count));
    check_eq!((counters.no_lane, counters.refused), (0, 0));
    check_eq!((counters.lost, counters.failed_calls), (0, 0));
    let told = stats(&runtime)?;
    check_eq!(told.begun, count);
    check_eq!(told.over() + told.in_flight, count);
    check_eq!((told.expired, told.cancelled), (0, 0));
    ensure!(told.in_flight <= THREADS * LANES, "{told:?}");
    drop((streams, runtime));
    check_eq!(kept()?, before);
    Ok(())
}
