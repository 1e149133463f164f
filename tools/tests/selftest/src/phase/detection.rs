// SPDX-License-Identifier: MIT OR Apache-2.0
//! The phase of a thread with one activity, and the immediate effect of tunables on it.

use std::fs::{remove_file, File};
use std::os::fd::AsFd as _;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Phase, Timestamp, Zernel};
use zernel_train::Program;

use super::{hint, in_program, me, own, own_process, passed, track_self, wait_phase, LONG};
use crate::block::disk;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tune, wait_until};
use crate::harness::Outcome;
use crate::sys::Mapped;

/// The time of one activity of a thread.
const WHILE: Duration = Duration::from_millis(400);

/// The time of a request of the disk.
const LATENCY: Duration = Duration::from_millis(5);

/// For so long it is done again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The least share of the right phase for one activity: it takes some samples until it is told.
const MOST: u64 = 700;

/// Does something for a while; in how much of the time, per mille, that was told as `phase`.
fn share(zernel: &Zernel, phase: Phase, mut work: impl FnMut() -> Outcome) -> Result<u64> {
    let before = own(zernel)?;
    work()?;
    let (there, all) = passed(&before, &own(zernel)?, phase);
    ensure!(all > 0, "no time has passed");
    Ok(there * 1_000 / all)
}

/// Fails unless what is done is told as `phase`; on a slow machine, where samples are few, in one of
/// many times.
fn told(zernel: &Zernel, phase: Phase, least: u64, mut work: impl FnMut() -> Outcome) -> Outcome {
    let (mut seen, begin) = (Vec::new(), Instant::now());
    while seen.len() < 10 || begin.elapsed() < PATIENCE {
        let share = share(zernel, phase, &mut work)?;
        seen.push(share);
        if share >= least {
            println!("    # {phase}: {share} per mille");
            return Ok(());
        }
    }
    let now = own(zernel)?;
    bail!("{phase}: {seen:?} per mille of the time, expected {least}; now {now:?}");
}

pub(super) fn waiting_for_the_gpu() -> Outcome {
    in_program(|zernel| {
        let program = Program::new()?;
        let compute = || program.compute(WHILE).map(drop);
        check_eq!(own_process(zernel)?.synced_ns, None);
        told(zernel, Phase::GpuCompute, MOST, compute)?;
        let begin = Timestamp::now();
        program.compute(Duration::from_millis(20))?;
        // They are told at different times.
        wait_until("the end of the work is seen, and a look at the GPU", || {
            let seen = own_process(zernel)?;
            let since = |at: Option<Timestamp>| at.is_some_and(|at| at >= begin);
            Ok(since(seen.synced_ns) && since(seen.sample_at_ns))
        })?;
        let mine = own_process(zernel)?;
        ensure!(mine.sample_gpu_ns <= mine.sample_ns, "{mine:?}");
        // The software GPU is on no node.
        let gpu = zernel.gpus().next().context("no GPU")??;
        check_eq!((mine.gpu, mine.numa_node), (Some(gpu.id), None));
        // While a hint holds, detection tells nothing.
        for phase in [Phase::DataLoading, Phase::Unknown] {
            hint(zernel, phase, LONG)?;
            let transitions = own(zernel)?.transitions;
            check_eq!(share(zernel, phase, compute)?, 1_000, "{phase}");
            check_eq!(own(zernel)?.transitions, transitions);
        }
        hint(zernel, Phase::Unknown, Duration::ZERO)?;
        told(zernel, Phase::GpuCompute, MOST, compute)
    })
}

/// A thousand samples that tell of another phase, thresholds that nothing passes, and the tunables
/// from before again.
pub(super) fn tuned_at_once() -> Outcome {
    in_child(|| {
        // Before tracking begins: its making takes reading.
        let disk = disk(LATENCY)?;
        let zernel = &track_self()?;
        let mut program = Program::new()?.reading(disk);
        // It takes ten seconds.
        tune("phase_tick_us", 10_000)?;
        tune("phase_stability_count", 1_000)?;
        program.compute(WHILE)?;
        let mine = own(zernel)?;
        check_eq!((mine.phase, mine.transitions), (Phase::Unknown, 0));
        tune("phase_tick_us", 1_000)?;
        tune("phase_stability_count", 1)?;
        let compute = || program.compute(WHILE).map(drop);
        told(zernel, Phase::GpuCompute, MOST, compute)?;
        ensure!(own(zernel)?.samples > mine.samples, "no more samples");
        tune("gpu_active_threshold", 100)?;
        tune("io_wait_threshold", 100)?;
        wait_phase(zernel, Phase::Unknown)?;
        let before = own(zernel)?;
        program.compute(WHILE)?;
        // A look that lasts tells for longer.
        wait_until("the GPU is seen to be idle", || {
            Ok(own_process(zernel)?.gpu_permille() == 0)
        })?;
        program.load(WHILE)?;
        let after = own(zernel)?;
        for phase in [Phase::GpuCompute, Phase::DataLoading] {
            check_eq!(passed(&before, &after, phase).0, 0, "ns of {phase}");
        }
        tune("gpu_active_threshold", 80)?;
        told(zernel, Phase::GpuCompute, MOST, || {
            program.compute(WHILE).map(drop)
        })?;
        tune("io_wait_threshold", 30)?;
        told(zernel, Phase::DataLoading, MOST, || program.load(WHILE))
    })
}

/// A thread that waits for others while NCCL is active takes part in a collective, if that is to be
/// told.
pub(super) fn collectives() -> Outcome {
    in_program(|zernel| {
        let wait = |most: Duration| {
            let (lock, never) = (Mutex::new(()), Condvar::new());
            let begin = Instant::now();
            while begin.elapsed() < WHILE {
                let guard = lock.lock().expect("a lock of one's own");
                drop(never.wait_timeout(guard, most).expect("the same"));
            }
            Ok(())
        };
        let (short, long) = (Duration::from_micros(200), WHILE / 4);
        let untold = || -> Outcome {
            check_eq!(share(zernel, Phase::Collective, || wait(short))?, 0);
            Ok(())
        };
        tune("collective_detection", 1)?;
        tune("collective_libraries", "nccl- oneccl_")?;
        untold()?;
        let path = format!("/dev/shm/oneccl_{}", me());
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        file.set_len(4096)?;
        let area = Mapped::of(file.as_fd())?;
        let told = [short, long].map(|most| told(zernel, Phase::Collective, MOST, || wait(most)));
        remove_file(&path)?;
        check_eq!(own_process(zernel)?.collective, true);
        told.into_iter().collect::<Outcome>()?;
        tune("collective_detection", 0)?;
        tune("collective_libraries", "nccl-")?;
        wait_until("it is told no more", || {
            wait(short)?;
            Ok(own(zernel)?.phase != Phase::Collective)
        })?;
        untold()?;
        drop(area);
        Ok(())
    })
}
