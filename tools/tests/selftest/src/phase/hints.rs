// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints, the counting of phases to the nanosecond, and races of both.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::{sleep, spawn};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::phase::Times;
use libzernel::{Phase, Target, Thread, Timestamp, Tracking, Zernel};
use rustix::io::Errno;
use testkit::Repeat;

use super::nice::{nice, set_nice};
use super::{hint, in_program, own, own_process, passed, track_self, wait_phase, LONG, MS};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tid, tune, wait_until};
use crate::harness::Outcome;
use crate::track::{self, wait_count};

/// A hint lasts as long as it says, and the next one takes its place, whichever is longer. Every
/// change of the phase is one, and what stays the same is none.
pub(super) fn wins_and_ends() -> Outcome {
    in_program(|zernel| {
        // To end what was not given is no error.
        hint(zernel, Phase::GpuCompute, Duration::ZERO)?;
        // First the phase that it is in already.
        for (count, phase) in (0..).zip(Phase::ALL.into_iter().cycle().take(20)) {
            hint(zernel, phase, Duration::from_millis(5))?;
            hint(zernel, phase, LONG)?;
            let before = own(zernel)?;
            sleep(Duration::from_millis(20));
            let after = own(zernel)?;
            for look in [&before, &after] {
                check_eq!((look.phase, look.hinted), (phase, true));
                check_eq!(look.transitions, count);
            }
            let (there, all) = passed(&before, &after, phase);
            check_eq!(there, all, "time in {phase}");
            ensure!(there >= 20 * MS, "{there} ns in {phase}");
        }
        for ms in [0, 10, 1, 20, 300] {
            let duration = Duration::from_millis(ms);
            let first = own(zernel)?.phase_ns.collective;
            let begin = Timestamp::now();
            hint(zernel, Phase::Collective, duration)?;
            wait_until("the hint is over", || {
                let now = own(zernel)?;
                ensure!(!now.hinted || now.phase == Phase::Collective, "{now:?}");
                Ok(!now.hinted)
            })?;
            let held = Timestamp::now().since(begin);
            ensure!(held >= duration, "{held:?} of {ms} ms");
            // It sleeps and has never used the GPU: nothing else.
            wait_phase(zernel, Phase::Unknown)?;
            let spent = own(zernel)?.phase_ns.collective - first;
            ensure!(spent >= ms * MS, "{spent} ns of {ms} ms");
        }
        Ok(())
    })
}

/// None of the times has decreased.
fn check_growth(was: &Times, is: &Times) -> Outcome {
    let mut phases = Phase::ALL.into_iter();
    let grows = phases.all(|phase| is.of(phase) >= was.of(phase));
    ensure!(grows, "{was:?} became {is:?}");
    Ok(())
}

/// All times together are the time since it is recorded, and none ever decreases.
pub(super) fn add_up() -> Outcome {
    in_program(|zernel| {
        let recorded = || -> Result<u64> {
            let thread = track::thread(zernel, tid())?.context("it is not listed")?;
            Ok(thread.recorded_ns())
        };
        let look = || -> Result<Thread> {
            let (least, phases, most) = (recorded()?, own(zernel)?, recorded()?);
            let within = (least..=most).contains(&phases.phase_ns.sum());
            ensure!(within, "recorded {least} to {most} ns: {phases:?}");
            let present = phases.phase_ns.of(phases.phase);
            ensure!(phases.present_ns <= present, "{phases:?}");
            Ok(phases)
        };
        let mut last = look()?;
        for round in 0..200 {
            let phase = Phase::ALL[round % Phase::ALL.len()];
            match round % 4 {
                0 => hint(zernel, phase, LONG)?,
                1 => sleep(Duration::from_micros(1_500)),
                2 => hint(zernel, phase, Duration::from_micros(300))?,
                _ => hint(zernel, phase, Duration::ZERO)?,
            }
            let now = look()?;
            check_eq!(now.id, last.id);
            check_growth(&last.phase_ns, &now.phase_ns)?;
            let counts = now.transitions >= last.transitions && now.samples >= last.samples;
            ensure!(counts, "{last:?} became {now:?}");
            last = now;
        }
        Ok(())
    })
}

/// The times of threads that have exited stay in the sums of their process, and so do those of one
/// that is tracked no more, and still sleeps, or is tracked again.
pub(super) fn stay() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let begin = Timestamp::now();
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        spawn(move || -> Outcome {
            Zernel::open()?.track(&Target::Thread(tid()), Tracking::ML)?;
            tell.send(tid())?;
            // Until the other end is dropped.
            Ok(wait.recv()?)
        });
        let sleeper = Target::Thread(told.recv()?);
        zernel.track(&Target::current_thread(), Tracking::ML)?;
        zernel.hint(&sleeper, Phase::Collective, LONG)?;
        sleep(Duration::from_millis(30));
        let mut last = own_process(&zernel)?.phase_ns;
        ensure!(last.collective >= 20 * MS, "{last:?}");
        let mut least = last.optimizer_step;
        for round in 0..4 {
            match round {
                0 | 2 => drop(zernel.untrack(&sleeper)?),
                _ => drop(zernel.track(&sleeper, Tracking::ML)?),
            }
            let exits = || -> Result<u64> {
                let zernel = Zernel::open()?;
                zernel.track(&Target::current_thread(), Tracking::ML)?;
                hint(&zernel, Phase::OptimizerStep, LONG)?;
                let hinted = Timestamp::now();
                sleep(Duration::from_millis(20));
                Ok(Timestamp::now().since(hinted).as_nanos() as u64)
            };
            let exiting = [0; 3].map(|_| spawn(exits));
            // The sampler looks meanwhile.
            while !exiting.iter().all(|thread| thread.is_finished()) {
                let now = own_process(&zernel)?.phase_ns;
                check_growth(&last, &now)?;
                last = now;
            }
            for thread in exiting {
                least += thread.join().expect("a thread that sleeps")?;
            }
        }
        drop(stop);
        wait_until("they have gone", || Ok(own_process(&zernel)?.threads == 1))?;
        let now = own_process(&zernel)?.phase_ns;
        check_growth(&last, &now)?;
        ensure!(now.optimizer_step >= least, "{now:?}, at least {least} ns");
        // Nothing counts twice: there were five threads.
        let wall = Timestamp::now().since(begin).as_nanos() as u64;
        ensure!(now.sum() <= 5 * wall, "{now:?} in {wall} ns");
        // It stays.
        sleep(Duration::from_millis(10));
        let later = own_process(&zernel)?.phase_ns;
        check_eq!(later.optimizer_step, now.optimizer_step);
        ensure!(later.sum() > now.sum(), "{now:?} became {later:?}");
        Ok(())
    })
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Threads that are hinted.
static TIDS: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];

/// Makes threads or processes, which begin with a nice value of 0.
fn make(number: usize) -> Outcome {
    TIDS[number].store(tid(), Relaxed);
    while !STOP.load(Relaxed) {
        match number {
            0 => in_child(|| {
                check_eq!(nice()?, 0, "a process");
                Ok(())
            })?,
            1 => {
                // Which may be hinted when it ends.
                let ends = spawn(|| TIDS[1].store(tid(), Relaxed));
                ends.join().expect("a thread that ends");
            }
            _ => check_eq!(spawn(nice).join().expect("a thread")?, 0, "a thread"),
        }
    }
    Ok(())
}

/// Gives hints to those who make others and those who end.
fn hint_all() -> Outcome {
    let zernel = Zernel::open()?;
    let mut turn = 0;
    while !STOP.load(Relaxed) {
        turn += 1;
        let thread = Target::Thread(TIDS[turn % TIDS.len()].load(Relaxed));
        let phase = Phase::ALL[turn % Phase::ALL.len()];
        let duration = Duration::from_micros([50, 1_000][turn % 2]);
        let answer = errno(zernel.hint(&thread, phase, duration));
        let fine = [None, Some(Errno::SRCH), Some(Errno::NODATA)];
        ensure!(fine.contains(&answer), "a hint for {thread:?}: {answer:?}");
    }
    Ok(())
}

/// Sets its own nice value all the time, and has it in the end.
fn set_own() -> Outcome {
    let zernel = Zernel::open()?;
    while !STOP.load(Relaxed) {
        let _ = hint(&zernel, Phase::GpuCompute, LONG);
        for value in [0, 3, 6] {
            set_nice(value)?;
        }
    }
    wait_until("a phase that asks for nothing", || {
        Ok(hint(&zernel, Phase::Unknown, LONG).is_ok())
    })?;
    set_nice(6)?;
    hint(&zernel, Phase::OptimizerStep, LONG)?;
    hint(&zernel, Phase::Unknown, LONG)?;
    check_eq!(nice()?, 6, "what it has set");
    Ok(())
}

/// Hints, threads and processes that come and go, nice values and tunables, all at once; meanwhile
/// the sums of the process hold what its threads did.
pub(super) fn everything_at_once() -> Outcome {
    tune("phase_tick_us", 100)?;
    let zernel = Zernel::open()?;
    let missed = zernel.stats()?.threads_missed;
    let mut repeat = Repeat::new(200, "times nice values on and off");
    let child = Child::spawn(|| {
        let zernel = track_self()?;
        let others: Vec<_> = (0..TIDS.len())
            .map(|number| spawn(move || make(number)))
            .chain([spawn(hint_all), spawn(set_own)])
            .collect();
        let mut last = 0;
        while repeat.next().is_some() {
            tune("phase_nice", repeat.done() % 2)?;
            let first = own(&zernel)?.phase_ns.sum();
            let all = own_process(&zernel)?.phase_ns.sum();
            ensure!(
                all >= first.max(last),
                "{all} ns after {last} ns, {first} ns"
            );
            last = all;
            if repeat.done() % 16 == 0 {
                zernel.untrack(&Target::current_process())?;
                zernel.track(&Target::current_process(), Tracking::ML)?;
                last = 0;
            }
        }
        println!("    # {}", repeat.report());
        tune("phase_nice", 1)?;
        STOP.store(true, Relaxed);
        for other in others {
            other.join().expect("a thread of the case")?;
        }
        check_eq!(nice()?, 0);
        Ok(())
    })?;
    // Longer than it takes.
    child.join_within(Duration::from_secs(3_000))?;
    wait_count(&zernel, 0)?;
    let left = (zernel.phases().count(), zernel.processes().count());
    check_eq!((left, zernel.stats()?.threads_missed), ((0, 0), missed));
    Ok(())
}
