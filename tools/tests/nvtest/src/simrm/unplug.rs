// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPUs are taken off the bus, and come back, while programs use them, zernel looks at their
//! registers and their TSGs take turns.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::sim::{Item, Sim};
use libzernel::{Level, Target};
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;
use testkit::{check_eq, wait_until, Repeat};

use super::engine::plan::{Plan, LONG, TICK};
use crate::lab::{agree, buses, same_tsgs, tune, Lab, GPUS, TURNS};
use crate::options;
use crate::rm::truth::{self, Counts};
use crate::rm::{ControlFile, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.unplug",
    &[case("gpus_come_and_go", gpus_come_and_go)],
    TURNS,
);

/// Threads that use GPUs.
const THREADS: usize = 6;
/// GPUs that go, one after the other.
const ROUNDS: u64 = 30;
/// A GPU that goes waits for its users.
const MOST: Duration = Duration::from_millis(40);

/// The GPUs, and what of them can be expected.
struct Race {
    /// Counted up by one when a GPU begins to go, by two when it is away, and by one when it is back:
    /// odd in between.
    epochs: Vec<AtomicU32>,
    used: AtomicU64,
    /// Uses in which a TSG had work as a GPU began to go.
    interrupted: AtomicU64,
    stop: AtomicBool,
}

impl Race {
    fn epochs(&self) -> Vec<u32> {
        let epochs = self.epochs.iter();
        epochs.map(|epoch| epoch.load(SeqCst)).collect()
    }

    /// The epochs, if all GPUs are there.
    fn all_are_there(&self) -> Option<Vec<u32>> {
        let epochs = self.epochs();
        let there = epochs.iter().all(|epoch| epoch % 2 == 0);
        there.then_some(epochs)
    }

    /// The epochs, if a GPU waits for its users in order to go.
    fn one_goes(&self) -> Option<Vec<u32>> {
        let epochs = self.epochs();
        let goes = epochs.iter().any(|epoch| epoch % 4 == 1);
        goes.then_some(epochs)
    }

    /// A thread: uses GPUs until it is told to stop. It may fail only while one goes or is away, as
    /// the driver numbers those that it has. While one goes, it uses one once: with a user at each
    /// moment it would never go.
    fn work(&self, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        let mut last = None;
        while !self.stop.load(SeqCst) {
            let going = self.one_goes();
            if going.is_some() && going == last {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            last = going;
            let before = self.all_are_there();
            let left = before.as_ref().map_or(GPUS - 1, |_| GPUS);
            let gpu = random.below(left.into()) as usize;
            match self.use_one(gpu, &mut random) {
                Ok(()) => self.used.fetch_add(1, SeqCst),
                Err(_) if before.is_none() || self.all_are_there() != before => continue,
                Err(error) => return Err(error.context(format!("GPU {gpu} is there"))),
            };
        }
        Ok(())
    }

    /// A program with a best-effort TSG that has work. It gives way to who takes a GPU.
    fn use_one(&self, gpu: usize, random: &mut Random) -> Result<()> {
        let (sim, before) = (Sim::open()?, self.all_are_there());
        let plan = Plan::new(&sim, Spec::on(gpu), 1 + random.below(3) as usize)?;
        let lab = Lab::open()?;
        let id = lab.tsg(&plan.runtime, plan.tsg)?.id;
        lab.zernel.set_class(&Target::Tsg(id), Level::BE)?;
        plan.submit(0, &[Item::work(TICK), Item::work(LONG)])?;
        let counts = before.is_some();
        let until = std::time::Instant::now() + MOST.mul_f64(random.below(100) as f64 / 100.0);
        while std::time::Instant::now() < until && self.all_are_there() == before {
            match random.below(4) {
                0 => drop(plan.context.stats()?),
                1 => drop(plan.runtime.timeslice(plan.tsg)?),
                2 => plan.runtime.free(plan.runtime.channel(plan.tsg)?)?,
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        if counts && self.all_are_there() != before {
            self.interrupted.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    /// Reads lists, for which zernel looks at GPUs, until it is told to stop.
    fn read(&self) -> Result<()> {
        let lab = Lab::open()?;
        while !self.stop.load(SeqCst) {
            for gpu in lab.zernel.gpus() {
                gpu?;
            }
            lab.tsgs()?;
        }
        Ok(())
    }
}

fn gpus_come_and_go() -> Outcome {
    let seed = options::seed();
    println!("    # --seed {seed}");
    let mut random = Random::new(seed);
    tune("rotation", "fair")?;
    let gpus = buses(&ControlFile::open()?)?;
    check_eq!(gpus.len(), GPUS as usize, "GPUs");
    let race = Race {
        epochs: (0..GPUS).map(|_| AtomicU32::new(0)).collect(),
        used: AtomicU64::new(0),
        interrupted: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let mut rounds = Repeat::new(ROUNDS, "rounds");
    std::thread::scope(|scope| {
        let race = &race;
        let mut threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let seed = random.draw();
                scope.spawn(move || race.work(seed))
            })
            .collect();
        threads.push(scope.spawn(|| race.read()));
        let outcome = rounds.try_for_each(|round| {
            let gpu = random.below(GPUS.into()) as usize;
            std::thread::sleep(Duration::from_millis(random.below(100)));
            if threads.iter().any(|thread| thread.is_finished()) {
                bail!("a thread has ended");
            }
            go_and_come(&race.epochs[gpu], &gpus[gpu].1).with_context(|| format!("round {round}"))
        });
        race.stop.store(true, SeqCst);
        for thread in threads {
            thread.join().expect("a thread that does not panic")?;
        }
        outcome
    })?;
    let used = race.used.load(SeqCst);
    let interrupted = race.interrupted.load(SeqCst);
    println!(
        "    # {}; GPUs were used {used} times, {interrupted} of them as one began to go",
        rounds.report()
    );
    ensure!(interrupted > 0, "no GPU was used as it went");
    wait_until("every GPU has stopped", || {
        Ok(Counts::of_rm()?.get("started_gpus")? == 0)
    })?;
    agree()?;
    let lab = Lab::open()?;
    same_tsgs(&lab.zernel, &gpus)?;
    check_eq!(truth::tsgs()?, [], "TSGs");
    let mut listed = lab
        .zernel
        .gpus()
        .map(|gpu| Ok(gpu?.bus))
        .collect::<Result<Vec<_>>>()?;
    listed.sort_unstable();
    let mut expected: Vec<_> = gpus.iter().map(|(_, bus)| bus.clone()).collect();
    expected.sort_unstable();
    check_eq!(listed, expected, "GPUs of zernel");
    for gpu in 0..GPUS as usize {
        race.use_one(gpu, &mut random)
            .with_context(|| format!("GPU {gpu}, afterwards"))?;
    }
    Ok(())
}

/// Takes a GPU off the bus, which waits until nobody has it open, and finds it again.
fn go_and_come(epoch: &AtomicU32, bus: &str) -> Result<()> {
    let device = PathBuf::from("/sys/bus/pci/devices").join(bus);
    epoch.fetch_add(1, SeqCst);
    fs::write(device.join("remove"), "1").with_context(|| format!("remove {bus}"))?;
    ensure!(!device.exists(), "{bus} is still there");
    epoch.fetch_add(2, SeqCst);
    let lab = Lab::open()?;
    let is_listed = || -> Result<bool> {
        let gpus = lab.zernel.gpus().collect::<libzernel::Result<Vec<_>>>()?;
        Ok(gpus.iter().any(|gpu| gpu.bus == bus))
    };
    wait_until("zernel forgets it", || Ok(!is_listed()?))?;
    fs::write("/sys/module/fakegpu/parameters/rescan", "1").context("look for GPUs")?;
    wait_until("it is back", is_listed)?;
    epoch.fetch_add(1, SeqCst);
    Ok(())
}
