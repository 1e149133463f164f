// SPDX-License-Identifier: GPL-2.0
//! The signal to load the next batch: when it comes, to whom, and what it is good for.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use libzernel::event::Kind;
use libzernel::phase::Prefetch;
use libzernel::{Event, EventStream, Timestamp};
use testkit::passing;
use zernel_train::{Program, Run, Span, Step};

use crate::block::disk;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys;

const CAP_PERFMON: u32 = 38;
const NOBODY: u32 = 1002;

/// Times that a loop has until it is not disturbed: the host may stop the guest at any moment for
/// as long as it likes.
const TRIES: u32 = 3;

/// The time of a request of the disk: a small part of a loading, so that loading takes as long as
/// it should.
const LATENCY: Duration = Duration::from_millis(4);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A program that can load.
fn with_disk() -> Result<Program> {
    // First: its making is looked at from then on, and making a disk takes reading it.
    let disk = disk(LATENCY)?;
    Ok(Program::new()?.reading(disk))
}

/// The signals that a program got since the last question.
fn signals(program: &mut Program) -> Result<Vec<Event>> {
    let signals = program.signals()?;
    for event in &signals {
        check_eq!((event.level, event.timeslice_us), (None, 0), "{event:?}");
        check_eq!((event.tsg.as_u64(), event.gpu.as_u64()), (0, 0));
    }
    Ok(signals)
}

/// Does something up to [`TRIES`] times, until it is as good as it is to be.
fn in_some_try(mut good: impl FnMut(u32) -> Result<bool>) -> Outcome {
    for number in 1..=TRIES {
        if good(number)? {
            return Ok(());
        }
    }
    bail!("in none of {TRIES} tries; what was seen is above");
}

/// Computes so often, with a pause after each.
fn computations(program: &Program, count: u32, duration: Duration) -> Result<Vec<Span>> {
    let mut computations = Vec::new();
    for _ in 0..count {
        computations.push(program.compute(duration)?);
        std::thread::sleep(ms(20));
    }
    Ok(computations)
}

/// Waits until so many computations are over.
fn wait_ended(program: &Program, count: u64) -> Result<Prefetch> {
    wait_until(&format!("{count} computations are over"), || {
        Ok(program.counts()?.computations >= count)
    })?;
    program.counts()
}

pub(super) fn without_history() -> Outcome {
    in_child(|| {
        let mut program = with_disk()?;
        check_eq!(program.counts()?, Prefetch::default());
        computations(&program, 1, ms(100))?;
        let counts = wait_ended(&program, 1)?;
        check_eq!((counts.signals, counts.overlap()), (0, 1.0));
        // It has never loaded.
        computations(&program, 1, ms(100))?;
        check_eq!(wait_ended(&program, 2)?.signals, 0);
        check_eq!(signals(&mut program)?, []);
        program.load(ms(40))?;
        let computation = program.compute(ms(100))?;
        let counts = wait_ended(&program, 3)?;
        check_eq!(counts.signals, 1);
        let signals = signals(&mut program)?;
        check_eq!(signals.len(), 1, "{signals:?}");
        ensure!(
            computation.permille(signals[0].time_ns).is_some(),
            "{computation:?}, signalled at {}",
            signals[0].time_ns
        );
        Ok(())
    })
}

/// Where in each of its computations the signal came, in thousandths.
fn places(program: &mut Program, computations: &[Span]) -> Result<Vec<Option<u128>>> {
    let signals = signals(program)?;
    let of = |computation: &Span| {
        let mut places = signals
            .iter()
            .filter_map(|signal| computation.permille(signal.time_ns));
        let first = places.next();
        ensure!(places.next().is_none(), "two signals in {computation:?}");
        Ok(first)
    };
    computations.iter().map(of).collect()
}

/// Where in its computations the signal came, in ascending order. `run` is what computes.
fn seen(
    program: &mut Program,
    run: impl FnOnce(&mut Program) -> Result<Vec<Span>>,
) -> Result<Vec<u128>> {
    let before = program.counts()?.signals;
    signals(program)?;
    let computations = run(program)?;
    let mut places: Vec<_> = places(program, &computations)?
        .into_iter()
        .flatten()
        .collect();
    places.sort_unstable();
    let counts = program.counts()?;
    let least = before + places.len() as u64;
    ensure!(counts.signals >= least, "{least} signals: {counts:?}");
    ensure!(counts.signals <= counts.computations + 1, "{counts:?}");
    Ok(places)
}

/// One loading of 40 ms before the end of 120 ms: at 667 per mille.
pub(super) fn ahead_of_the_end() -> Outcome {
    for predictor in ["quantile", "ema"] {
        tune("prefetch_predictor", predictor)?;
        in_child(|| {
            let mut program = with_disk()?;
            // The CPU works between two computations, so that they are told apart.
            let steps = [Step::of(40, 120).optimizing(20); 14];
            in_some_try(|number| {
                let places = seen(&mut program, |program| {
                    Ok(program.with_signal(&steps)?.computations)
                })?;
                println!("    # {predictor}, loop {number}: at {places:?} per mille");
                let good = places.iter().filter(|place| (400..900).contains(*place));
                Ok(good.count() >= 8)
            })
        })?;
    }
    Ok(())
}

/// A program that loads when the computation is over, whatever it is told, loads for no longer than
/// that takes.
pub(super) fn unheeded() -> Outcome {
    in_child(|| {
        let mut program = with_disk()?;
        let steps = [Step::of(40, 120); 12];
        in_some_try(|number| {
            let places = seen(&mut program, |program| {
                Ok(program.in_sequence(&steps)?.computations)
            })?;
            println!("    # loop {number}: at {places:?} per mille");
            let good = places.iter().filter(|place| (200..1_000).contains(*place));
            Ok(good.count() >= 8)
        })
    })
}

/// Its lead says when the signal comes, and nothing need have been loaded.
pub(super) fn fixed_lead() -> Outcome {
    in_child(|| {
        let mut program = Program::new()?;
        computations(&program, 3, ms(150))?;
        let middle = |program: &mut Program, lead: u64| -> Result<u128> {
            tune("prefetch_lead_ns", lead * 1_000_000)?;
            let places = seen(program, |program| computations(program, 7, ms(150)))?;
            println!("    # {lead} ms before the end of 150 ms: at {places:?} per mille");
            Ok(places.get(places.len() / 2).copied().unwrap_or(1_000))
        };
        in_some_try(|_| {
            let late = middle(&mut program, 30)?;
            let early = middle(&mut program, 100)?;
            let at_once = middle(&mut program, 1_000)?;
            // 800, 333 and 0, and some ms until it is told.
            Ok((650..960).contains(&late) && (200..500).contains(&early) && at_once < 150)
        })
    })
}

/// Starts a child that looks, once it is told to, whether its stream got signals of `pid`.
fn watcher(
    lab: &Lab,
    prepare: impl FnOnce() -> Result<()>,
    sees: bool,
) -> Result<(Child, OwnedFd)> {
    let (ours, its) = passing::pair()?;
    let streams = lab.stats()?.streams;
    let child = Child::spawn(move || {
        prepare()?;
        let mut stream = EventStream::open()?;
        let pid = passing::receive_number(&its)?;
        let mut seen = 0;
        while let Some(event) = stream.next_within(Some(Duration::ZERO))? {
            if event.kind == Kind::Signal {
                check_eq!((u64::from(event.pid), event.uid), (pid, ALICE));
                seen += 1;
            }
        }
        check_eq!(seen > 0, sees, "{seen} signals");
        Ok(())
    })?;
    wait_until("the watcher is there", || {
        Ok(lab.stats()?.streams == streams + 1)
    })?;
    Ok((child, ours))
}

pub(super) fn who_sees() -> Outcome {
    let lab = Lab::open()?;
    tune("prefetch_lead_ns", 20_000_000)?;
    let user = |uid| move || Ok(sys::become_user(uid, uid, &[])?);
    let perfmon = || Ok(sys::become_user_with(NOBODY, NOBODY, CAP_PERFMON)?);
    let watchers = [
        watcher(&lab, || Ok(()), true)?,
        watcher(&lab, user(ALICE), true)?,
        watcher(&lab, user(BOB), false)?,
        watcher(&lab, user(NOBODY), false)?,
        watcher(&lab, perfmon, true)?,
    ];
    let alices = Child::spawn(|| {
        user(ALICE)()?;
        let mut program = Program::new()?;
        wait_until("there are signals", || {
            computations(&program, 2, ms(60))?;
            Ok(program.counts()?.signals >= 2)
        })?;
        ensure!(
            !signals(&mut program)?.is_empty(),
            "its own stream has none"
        );
        Ok(())
    })?;
    let pid = alices.pid();
    alices.join()?;
    for (child, socket) in watchers {
        passing::send_number(&socket, pid.into())?;
        child.join()?;
    }
    Ok(())
}

fn compare(name: &str, alone: &Run, signalled: &Run) {
    let count = signalled.computations.len();
    println!(
        "    # {name}: the GPU was idle for {:?}, and for {:?} with the signal, for which {} of \
         {count} batches were loaded; {:?}, and {:?} with it",
        alone.idle(),
        signalled.idle(),
        signalled.signalled,
        alone.took(),
        signalled.took(),
    );
}

/// At most 20 % of the idle time is left with the signal.
fn removes_idle(step: Step) -> Outcome {
    in_child(|| {
        let mut program = with_disk()?;
        let steps = [step; 16];
        in_some_try(|number| {
            let alone = program.in_sequence(&steps)?;
            let signalled = program.with_signal(&steps)?;
            compare(&format!("loop {number}"), &alone, &signalled);
            println!("    # {:?}", program.counts()?);
            Ok(signalled.idle() * 5 <= alone.idle())
        })
    })
}

/// Of two computations one follows upon the other as soon as the data is there.
pub(super) fn removes_idle_time() -> Outcome {
    removes_idle(Step::of(40, 80))
}

/// The CPU works between two computations.
pub(super) fn beside_an_optimizer() -> Outcome {
    removes_idle(Step::of(80, 100).optimizing(6))
}

/// A prediction that is of no use costs nothing.
pub(super) fn random() -> Outcome {
    in_child(|| {
        let seed = Timestamp::now().as_ns();
        println!("    # seed {seed:#x}");
        let mut program = with_disk()?;
        in_some_try(|number| {
            let steps = Step::random(40, seed + u64::from(number), 1..=60);
            let alone = program.in_sequence(&steps)?;
            let signalled = program.with_signal(&steps)?;
            compare(&format!("loop {number}"), &alone, &signalled);
            println!("    # {:?}", program.counts()?);
            // 1 % slower at most.
            Ok(signalled.took() * 100 <= alone.took() * 101)
        })
    })
}

pub(super) fn judged() -> Outcome {
    in_child(|| {
        let mut program = with_disk()?;
        let step = Step::of(30, 60);
        program.in_sequence(&[step; 3])?;
        // It loads when the computation is over, whatever it is told.
        let was = program.counts()?;
        program.in_sequence(&[step; 10])?;
        let late = program.counts()?;
        println!("    # that ignores it: {late:?}");
        ensure!(
            late.late >= was.late + 5 && late.late_ns > was.late_ns,
            "late"
        );
        // It does not load at all.
        computations(&program, 10, ms(60))?;
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
