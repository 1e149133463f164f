// SPDX-License-Identifier: GPL-2.0
//! The phase of a thread with one activity, and the immediate effect of tunables on it.

use std::fs::{remove_file, File};
use std::os::fd::AsFd as _;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::{Context, Item};
use libzernel::{Phase, Target, Timestamp, Tracking};

use super::{own, own_process, passed};
use crate::block::disk;
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sys::Mapped;

/// The time of one activity of a thread.
const WHILE: Duration = Duration::from_millis(400);

/// The time of a request of the disk.
const LATENCY: Duration = Duration::from_millis(5);

/// The least share of the right phase for one activity: it takes some samples until it is told.
const MOST: u64 = 700;

/// A machine-learning program, and what it has.
struct Program {
    lab: Lab,
    context: Context,
}

impl Program {
    fn new() -> Result<Self> {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::current_process(), Tracking::ML)?;
        let (context, _) = lab.compute()?;
        Ok(Self { lab, context })
    }

    /// Waits for work of the GPU that takes so long.
    fn compute(&self, duration: Duration) -> Result<()> {
        let submitted = self.context.submit(0, &[Item::work(duration)])?;
        self.context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        Ok(())
    }

    /// Does something for a while; in how much of the time, per mille, that was told as `phase`.
    fn share(&self, phase: Phase, mut work: impl FnMut() -> Result<()>) -> Result<u64> {
        let before = own(&self.lab.zernel)?;
        work()?;
        let (there, all) = passed(&before, &own(&self.lab.zernel)?, phase);
        ensure!(all > 0, "no time has passed");
        Ok(there * 1_000 / all)
    }

    /// Fails unless what is done is told as `phase`; on a slow machine, in one of some times.
    fn told(&self, phase: Phase, least: u64, mut work: impl FnMut() -> Result<()>) -> Outcome {
        let mut seen = Vec::new();
        for _ in 0..10 {
            let share = self.share(phase, &mut work)?;
            seen.push(share);
            if share >= least {
                println!("    # {phase}: {share} per mille");
                return Ok(());
            }
        }
        let now = own(&self.lab.zernel)?;
        bail!("{phase}: {seen:?} per mille of the time, expected {least}; now {now:?}");
    }
}

pub(super) fn waiting_for_the_gpu() -> Outcome {
    in_child(|| {
        let program = Program::new()?;
        check_eq!(own_process(&program.lab.zernel)?.synced_ns, None);
        program.told(Phase::GpuCompute, MOST, || program.compute(WHILE))?;
        let begin = Timestamp::now();
        program.compute(Duration::from_millis(20))?;
        wait_until("the end of the work is seen", || {
            let mine = own_process(&program.lab.zernel)?;
            Ok(mine.synced_ns.is_some_and(|at| at >= begin))
        })?;
        let mine = own_process(&program.lab.zernel)?;
        ensure!(mine.sample_gpu_ns <= mine.sample_ns, "{mine:?}");
        ensure!(mine.sample_at_ns.is_some_and(|at| at >= begin), "{mine:?}");
        // The software GPU is on no node.
        let gpus = program
            .lab
            .zernel
            .gpus()
            .collect::<libzernel::Result<Vec<_>>>()?;
        check_eq!((mine.gpu, mine.numa_node), (Some(gpus[0].id), None));
        Ok(())
    })
}

pub(super) fn reading() -> Outcome {
    in_child(|| {
        let mut disk = disk(LATENCY)?;
        let program = Program::new()?;
        program.told(Phase::DataLoading, MOST, || disk.read_for(WHILE))
    })
}

/// A burst after the GPU was waited for is an optimizer's while it is short, and nothing when it is
/// not.
pub(super) fn short_bursts() -> Outcome {
    in_child(|| {
        let program = Program::new()?;
        let spin = |duration: Duration| -> Result<()> {
            let begin = Instant::now();
            while begin.elapsed() < duration {
                std::hint::spin_loop();
            }
            Ok(())
        };
        // Nothing was waited for yet.
        check_eq!(program.share(Phase::OptimizerStep, || spin(WHILE))?, 0);
        program.compute(Duration::from_millis(50))?;
        tune("optimizer_burst_max_ns", 1_000_000_000)?;
        program.told(Phase::OptimizerStep, 500, || {
            std::thread::sleep(Duration::from_millis(1));
            spin(Duration::from_millis(300))
        })?;
        // Longer than any optimizer.
        tune("optimizer_burst_max_ns", 5_000_000)?;
        program.told(Phase::Unknown, MOST, || spin(WHILE))
    })
}

/// A limit: the load of the GPU is known of the process, so a thread that reads while it computes
/// is taken for one that waits for it.
pub(super) fn reading_beside_the_gpu() -> Outcome {
    in_child(|| {
        let mut disk = disk(LATENCY)?;
        let program = Program::new()?;
        program.told(Phase::GpuCompute, MOST, || {
            let work = Item::work(WHILE + Duration::from_millis(200));
            let submitted = program.context.submit(0, &[work])?;
            disk.read_for(WHILE)?;
            program
                .context
                .wait(0, submitted.last_seq, Timestamp::NEVER)?;
            Ok(())
        })
    })
}

/// Thresholds that nothing passes, and those from before again.
pub(super) fn thresholds() -> Outcome {
    in_child(|| {
        let mut disk = disk(LATENCY)?;
        let program = Program::new()?;
        tune("gpu_active_threshold", 100)?;
        tune("io_wait_threshold", 100)?;
        program.compute(WHILE)?;
        // A look that lasts tells for longer.
        wait_until("the GPU is seen to be idle", || {
            Ok(own_process(&program.lab.zernel)?.gpu_permille() == 0)
        })?;
        disk.read_for(WHILE)?;
        let times = own(&program.lab.zernel)?.phase_ns;
        check_eq!((times.gpu_compute, times.data_loading), (0, 0));
        tune("gpu_active_threshold", 80)?;
        program.told(Phase::GpuCompute, MOST, || program.compute(WHILE))?;
        tune("io_wait_threshold", 30)?;
        program.told(Phase::DataLoading, MOST, || disk.read_for(WHILE))
    })
}

/// A phase holds until so many samples tell of another one.
pub(super) fn stability() -> Outcome {
    in_child(|| {
        let program = Program::new()?;
        // A thousand samples take ten seconds.
        tune("phase_tick_us", 10_000)?;
        tune("phase_stability_count", 1_000)?;
        program.compute(WHILE)?;
        let mine = own(&program.lab.zernel)?;
        check_eq!((mine.phase, mine.transitions), (Phase::Unknown, 0));
        tune("phase_tick_us", 1_000)?;
        tune("phase_stability_count", 1)?;
        program.told(Phase::GpuCompute, MOST, || program.compute(WHILE))?;
        let later = own(&program.lab.zernel).context("after it was told")?;
        ensure!(later.samples > mine.samples, "{later:?}");
        Ok(())
    })
}

/// A thread that waits for others while NCCL is active takes part in a collective, if that is to be
/// told.
pub(super) fn collectives() -> Outcome {
    in_child(|| {
        let program = Program::new()?;
        let path = format!("/dev/shm/oneccl_{}", std::process::id());
        let waits = |most: Duration| {
            let (lock, never) = (Mutex::new(()), Condvar::new());
            let begin = Instant::now();
            while begin.elapsed() < WHILE {
                let guard = lock.lock().expect("a lock of one's own");
                drop(never.wait_timeout(guard, most).expect("the same"));
            }
            Ok(())
        };
        let (short, long) = (Duration::from_micros(200), WHILE / 4);
        tune("collective_detection", 1)?;
        tune("collective_libraries", "nccl- oneccl_")?;
        check_eq!(program.share(Phase::Collective, || waits(short))?, 0);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        file.set_len(4096)?;
        let area = Mapped::of(file.as_fd())?;
        let told = [short, long].map(|most| program.told(Phase::Collective, MOST, || waits(most)));
        remove_file(&path)?;
        let is_seen = own_process(&program.lab.zernel)?.collective;
        check_eq!(is_seen, true, "a library of collectives");
        for told in told {
            told?;
        }
        tune("collective_detection", 0)?;
        tune("collective_libraries", "nccl-")?;
        wait_until("it is told no more", || {
            waits(short)?;
            Ok(own(&program.lab.zernel)?.phase != Phase::Collective)
        })?;
        check_eq!(program.share(Phase::Collective, || waits(short))?, 0);
        drop(area);
        Ok(())
    })
}
