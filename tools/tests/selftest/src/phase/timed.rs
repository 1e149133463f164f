// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cases that depend on the time of samples; and `zernel-load train`, whose `--check` tells of loops
//! without a runtime that spins and of what the signal is good for.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::phase::Prefetch;
use libzernel::{Event, Phase, Target, Timestamp, Tracking, Zernel};
use rustix::process::{wait, WaitOptions};
use testkit::harness::Skip;
use testkit::module::unload_each;
use zernel_train::{Agreement, Program, Step, Watch};

use super::{hint, phases_in, phases_of, track_self, wait_phases, LONG};
use crate::block::disk;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{default_of, tune, wait_until};
use crate::gpuwait::{spin, synchronize, Probed};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

/// Times that a loop has until it is not disturbed: the host may stop the guest at any moment for
/// as long as it likes.
const TRIES: u32 = 3;

/// The time of a request of the disk: a small part of a loading, so that loading takes as long as
/// it should.
const LATENCY: Duration = Duration::from_millis(4);

/// Percent of the time, at least, in which the phase told is what the loop says.
const AGREEMENT: f64 = 95.0;

/// Samples after which a phase is told at most; one more may have begun before it.
const LAG: u64 = 3;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A program of a user with so many threads, of which one has a hint: the program never rests.
fn restless(user: u32, threads: usize) -> Result<Child> {
    Child::spawn(move || {
        sys::become_user(user, user, &[])?;
        let barrier = Arc::new(Barrier::new(threads));
        for _ in 1..threads {
            let barrier = barrier.clone();
            let small = std::thread::Builder::new().stack_size(16 << 10);
            small.spawn(move || {
                barrier.wait();
                // It stays: the others are looked at beside it.
                std::thread::sleep(LONG);
            })?;
        }
        let zernel = track_self()?;
        // At least one of its threads has to come back to user space.
        std::thread::sleep(Duration::from_millis(2));
        hint(&zernel, Phase::OptimizerStep, LONG)?;
        // Together the others have been released, and recorded, once.
        barrier.wait();
        std::thread::sleep(LONG);
        Ok(())
    })
}

/// Samples that were taken of a thread within 200 ms.
fn samples(zernel: &Zernel, tid: u32) -> Result<u64> {
    let count = || anyhow::Ok(phases_of(zernel, tid)?.context("not listed")?.samples);
    let before = count()?;
    std::thread::sleep(Duration::from_millis(200));
    Ok(count()? - before)
}

/// The frequency of samples of a thread of bob's: at least half of it is left beside `others` of alice's,
/// once there are so many tracked threads and they have come to `settle`.
fn beside(
    threads: usize,
    others: impl FnOnce() -> Result<Child>,
    settle: impl FnOnce(&Zernel, &Child) -> Outcome,
) -> Outcome {
    let zernel = Zernel::open()?;
    let few = restless(BOB, 1)?;
    wait_phases(&zernel, few.pid(), 1)?;
    let alone = samples(&zernel, few.pid())?;
    let many = others()?;
    let is_over = || many.wait_ended(Duration::ZERO).is_ok();
    wait_until("the many are tracked", || {
        Ok(is_over() || zernel.stats()?.threads >= threads as u64)
    })?;
    if is_over() {
        return many.join().context("the many");
    }
    settle(&zernel, &many)?;
    let beside = samples(&zernel, few.pid())?;
    println!("    # {alone} samples alone, {beside} beside {threads} threads of another user");
    ensure!(beside * 2 >= alone, "{beside} of {alone}");
    Ok(())
}

/// Very many threads of another user.
pub(super) fn beside_many() -> Outcome {
    const MANY: usize = 6_000;
    beside(
        MANY,
        || restless(ALICE, MANY),
        |zernel, many| {
            // None of the many is without: they are looked at in turn.
            wait_until("the many have samples", || {
                let of = phases_in(zernel, many.pid())?;
                Ok(of.iter().filter(|thread| thread.samples > 0).count() > 1)
            })
        },
    )
}

/// The sums of a program do not cost more the more threads it has: a list, which holds up who waits
/// for the table, takes hardly longer.
pub(super) fn sums_of_many() -> Outcome {
    const MANY: usize = 4_000;
    let zernel = Zernel::open()?;
    let list = || -> Result<Duration> {
        let mut least = Duration::MAX;
        for _ in 0..20 {
            let begin = Instant::now();
            ensure!(zernel.processes().count() > 0, "nothing is tracked");
            least = least.min(begin.elapsed());
        }
        Ok(least)
    };
    let few = restless(BOB, 1)?;
    wait_phases(&zernel, few.pid(), 1)?;
    let before = list()?;
    let many = restless(ALICE, MANY)?;
    wait_until("the many are tracked", || {
        Ok(zernel.stats()?.threads > MANY as u64)
    })?;
    let after = list()?;
    println!("    # {before:?} for 1 thread, {after:?} for {MANY} more");
    ensure!(after < 4 * before, "{after:?}, and {before:?} before");
    drop(many);
    Ok(())
}

/// A program of a user with so many children that rest, and others that come and go.
fn storm(user: u32, children: usize) -> Result<Child> {
    Child::session(move || {
        sys::become_user(user, user, &[])?;
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML_CHILDREN)?;
        for _ in 0..children {
            if sys::fork()?.is_none() {
                loop {
                    std::thread::sleep(LONG);
                }
            }
        }
        loop {
            if sys::fork()?.is_none() {
                sys::exit(0);
            }
            wait(WaitOptions::empty())?;
        }
    })
}

/// A user's programs, so many, none of which rests: each has a hint. The first one gets its own when
/// all others have theirs.
fn restless_programs(user: u32, count: usize) -> Result<Child> {
    Child::session(move || {
        sys::become_user(user, user, &[])?;
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML_CHILDREN)?;
        let (told, tell) = rustix::pipe::pipe()?;
        for _ in 0..count {
            if sys::fork()?.is_none() {
                // It is tracked once it has been on its way to user space.
                while hint(&zernel, Phase::OptimizerStep, LONG).is_err() {
                    std::thread::sleep(Duration::from_millis(2));
                }
                rustix::io::write(&tell, &[0])?;
                loop {
                    std::thread::sleep(LONG);
                }
            }
        }
        File::from(told).read_exact(&mut vec![0; count])?;
        hint(&zernel, Phase::OptimizerStep, LONG)?;
        loop {
            std::thread::sleep(LONG);
        }
    })
}

/// Very many programs of another user.
pub(super) fn beside_many_programs() -> Outcome {
    const MANY: usize = 2_000;
    beside(
        MANY,
        || restless_programs(ALICE, MANY),
        |zernel, many| {
            wait_until("each has its hint", || {
                let of = phases_in(zernel, many.pid())?;
                Ok(of.iter().any(|thread| thread.phase == Phase::OptimizerStep))
            })
        },
    )
}

/// Another user's programs that come and go, many of which rest.
pub(super) fn beside_a_storm() -> Outcome {
    const MANY: usize = 1_000;
    beside(
        MANY,
        || storm(ALICE, MANY),
        |_, _| {
            // They come to rest.
            std::thread::sleep(Duration::from_millis(500));
            Ok(())
        },
    )
}

/// In a process of its own, does something with a program that can load.
fn with_program(run: impl FnOnce(&mut Program) -> Outcome) -> Outcome {
    in_child(|| {
        // First: its making is looked at from then on, and making a disk takes reading it.
        let disk = disk(LATENCY)?;
        run(&mut Program::new()?.reading(disk))
    })
}

/// Sections of 1 to 200 ms of a runtime that spins while the GPU computes, whose driver tells
/// nothing.
pub(super) fn spinning() -> Outcome {
    in_child(|| {
        let _probed = Probed::new()?;
        let seed = Timestamp::now().as_ns();
        println!("    # seed {seed:#x}");
        let mut steps = Step::random(41, seed, 1..=200);
        for step in &mut steps {
            // An optimizer takes less than the longest burst of one.
            step.optimize = ms(4);
        }
        let disk = disk(LATENCY)?;
        let wait = |duration| synchronize(&mut || spin(duration));
        let mut program = Program::new()?.reading(disk).spinning(wait);
        let watch = Watch::start()?;
        let run = program.in_sequence(&steps);
        let lines = watch.stop()?;
        let tick = Duration::from_micros(default_of("phase_tick_us").into());
        let agreement = Agreement::of(&run?.sections, &lines.of(program.trainer()), tick);
        println!("    # {agreement}");
        check_eq!(lines.missed(), 0);
        ensure!(agreement.percent >= AGREEMENT, "too little: {agreement}");
        ensure!(agreement.longest_samples() <= LAG, "too late: {agreement}");
        Ok(())
    })
}

/// The same up to [`TRIES`] times, until it is as good as it is to be.
fn in_some_try(mut good: impl FnMut(&mut Program, u32) -> Result<bool>) -> Outcome {
    with_program(|program| {
        for number in 1..=TRIES {
            if good(program, number)? {
                return Ok(());
            }
        }
        bail!("in none of {TRIES} tries; what was seen is above");
    })
}

/// One loading of 40 ms before the end of 120 ms: at 667 per mille.
pub(super) fn ahead_of_the_end() -> Outcome {
    for predictor in ["quantile", "ema"] {
        tune("prefetch_predictor", predictor)?;
        // The CPU works between two computations, so that they are told apart.
        let steps = [Step::of(40, 120).optimizing(20); 14];
        in_some_try(|program, number| {
            let before = program.counts()?.signals;
            program.signals()?;
            let computations = program.with_signal(&steps)?.computations;
            let (signals, mut places) = (program.signals()?, Vec::new());
            for event in &signals {
                check_eq!((event.level, event.timeslice_us), (None, 0), "{event:?}");
                check_eq!((event.tsg.as_u64(), event.gpu.as_u64()), (0, 0));
            }
            for span in computations {
                let place = |event: &Event| span.permille(event.time_ns);
                let mut within = signals.iter().filter_map(place);
                places.extend(within.next());
                ensure!(within.next().is_none(), "two signals in {span:?}");
            }
            println!("    # {predictor}, loop {number}: at {places:?} per mille");
            let counts = program.counts()?;
            ensure!(counts.signals >= before + places.len() as u64, "{counts:?}");
            ensure!(counts.signals <= counts.computations + 1, "{counts:?}");
            let good = places.iter().filter(|place| (400..900).contains(*place));
            Ok(good.count() >= 8)
        })?;
    }
    Ok(())
}

/// The CPU works between two computations: at most 20 % of the idle time is left with the signal.
pub(super) fn beside_an_optimizer() -> Outcome {
    let steps = [Step::of(80, 100).optimizing(6); 16];
    in_some_try(|program, number| {
        let (alone, signalled) = (program.in_sequence(&steps)?, program.with_signal(&steps)?);
        let (idle, less) = (alone.idle(), signalled.idle());
        println!("    # loop {number}: idle for {idle:?}, with the signal for {less:?}");
        Ok(less * 5 <= idle)
    })
}

/// Also of a program without any loading, and of one that ignores signals.
pub(super) fn judged() -> Outcome {
    with_program(|program| {
        check_eq!(program.counts()?, Prefetch::default());
        let compute = |program: &Program, count: u32| -> Outcome {
            for _ in 0..count {
                program.compute(ms(60))?;
                std::thread::sleep(ms(20));
            }
            Ok(())
        };
        compute(program, 2)?;
        let fresh = program.counts()?;
        check_eq!((fresh.signals, fresh.overlap()), (0, 1.0));
        let steps = [Step::of(30, 60); 10];
        program.in_sequence(&steps[..3])?;
        // It loads when the computation is over, and ignores signals.
        let was = program.counts()?;
        program.in_sequence(&steps)?;
        let late = program.counts()?;
        println!("    # that ignores it: {late:?}");
        ensure!(late.late >= was.late + 5, "late");
        ensure!(late.late_ns > was.late_ns, "late by nothing");
        // It does not load at all.
        compute(program, 10)?;
        let useless = program.counts()?;
        println!("    # that loads nothing: {useless:?}");
        ensure!(useless.useless >= late.useless + 5, "useless");
        // It loads at once, and long before the end.
        tune("prefetch_lead_ns", 100_000_000)?;
        program.with_signal(&[Step::of(20, 120).optimizing(20); 10])?;
        let early = program.counts()?;
        println!("    # that loads at once: {early:?}");
        let more = early.early - useless.early;
        ensure!(more >= 5, "early");
        let by = early.early_ns - useless.early_ns;
        ensure!(by > 0 && by <= more * 160_000_000, "{by} ns");
        for counts in [late, useless, early] {
            let judged = counts.early + counts.late + counts.useless;
            ensure!(judged <= counts.signals, "{counts:?}");
            ensure!(counts.signals <= counts.computations + 1, "{counts:?}");
            ensure!(counts.overlap() > 1.0, "{counts:?}");
            ensure!(counts.predicted_overlap().is_some(), "{counts:?}");
        }
        Ok(())
    })
}

/// `zernel-load train`, and why it does not run.
pub(super) fn program() -> Outcome {
    const OUT: &str = "/tmp/zernel-selftest-train.json";
    let train = |arguments: &[&str], expected: i32, said: &str| -> Outcome {
        let output = Command::new("/zernel/bin/zernel-load")
            .args(["train", "--steps", "4", "--load", "20", "--compute", "30"])
            .args(arguments)
            .output()
            .context("start zernel-load")?;
        let text = String::from_utf8([output.stdout, output.stderr].concat())?;
        if text.contains("no throttled disk: this kernel has no") {
            return Err(Skip("this kernel has no null_blk").into());
        }
        check_eq!(output.status.code(), Some(expected), "{text}");
        ensure!(text.contains(said), "{said} is missing: {text}");
        Ok(())
    };
    train(&["--out", OUT], 0, "idle removed")?;
    fs::remove_file(OUT)?;
    for disk in fs::read_dir("/sys/kernel/config/nullb")? {
        let name = disk?.file_name();
        ensure!(!name.to_string_lossy().starts_with("zernel-"), "{name:?}");
    }
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        train(&[], 1, "takes root")
    })?;
    let missing = "cannot read batches from /nonexistent: No such file";
    train(&["--file", "/nonexistent"], 1, missing)?;
    unload_each(&["zernel_sim"])?;
    train(
        &[],
        5,
        "/dev/zernel-sim: not there; load the module first (modprobe)",
    )
}
