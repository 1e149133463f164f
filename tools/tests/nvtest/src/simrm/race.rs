// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eight threads make, duplicate, control and free at random; whenever they pause, the resource
//! manager, the hook's table, zernel's list and what the threads themselves know must agree.

mod private;
mod shared;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Duration;

use crate::modules::{load, unload_each};
use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Level, Target};
use testkit::child::Child;
use testkit::harness::{case, Outcome, Suite};
use testkit::passing;
use testkit::random::Random;
use testkit::{check_eq, wait_until, Repeat};

use crate::lab::{agree, buses, same_tsgs, tune, Lab, LOADED};
use crate::options;
use crate::rm::truth::{self, Counts};
use crate::rm::{ControlFile, Handle};
use private::Private;
use shared::Shared;
use tree::Kind;

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.race",
    &[
        case("random_operations", random_operations),
        case("provider_comes_and_goes", provider_comes_and_goes),
    ],
    LOADED,
);

/// Threads that race.
const THREADS: usize = 8;
/// The number of pauses of all of them.
const PHASES: u64 = 20;

/// The work beside the threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// In every other phase the process is classed; processes are made and killed.
    ClassesAndVictims,
    /// The provider is unloaded and loaded.
    Reloads,
}

fn random_operations() -> Outcome {
    race(options::operations(), Beside::ClassesAndVictims)
}

fn provider_comes_and_goes() -> Outcome {
    race(options::operations() / 10, Beside::Reloads)
}

struct Race {
    threads: Vec<Mutex<(Private, Random)>>,
    shared: Shared,
    barrier: Barrier,
    running: AtomicUsize,
    /// The provider came and went in this phase, if it is to: no thread ends before.
    reloaded: AtomicBool,
    stop: AtomicBool,
    failure: Mutex<Option<anyhow::Error>>,
    /// Calls of each thread in a phase.
    calls: u64,
}

impl Race {
    fn fail(&self, error: anyhow::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }

    fn failed(&self) -> bool {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.is_some()
    }

    /// A thread: a phase, a pause, and so on until it is told to stop.
    fn work(&self, number: usize) {
        for phase in 0.. {
            self.barrier.wait();
            if self.stop.load(SeqCst) {
                return;
            }
            let done = self.phase(number);
            if let Err(error) = done {
                self.fail(error.context(format!("thread {number} in phase {phase}")));
            }
            self.running.fetch_sub(1, SeqCst);
            self.barrier.wait();
        }
    }

    fn phase(&self, number: usize) -> Result<()> {
        let mut own = self.threads[number]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (private, random) = &mut *own;
        let mut call = 0;
        while call < self.calls || !self.reloaded.load(SeqCst) {
            call += 1;
            if random.one_in(2) {
                private
                    .step()
                    .with_context(|| format!("call {call} on a client of its own"))?;
            } else {
                self.shared.step(random)?;
            }
        }
        Ok(())
    }

    fn each_private(&self, mut look: impl FnMut(&mut Private) -> Result<()>) -> Result<()> {
        for thread in &self.threads {
            let mut own = thread.lock().unwrap_or_else(PoisonError::into_inner);
            look(&mut own.0)?;
        }
        Ok(())
    }
}

fn race(operations: u64, beside: Beside) -> Outcome {
    let seed = options::seed();
    println!("    # {operations} operations of {THREADS} threads: --seed {seed}");
    let mut seeds = Random::new(seed);
    let victims = match beside {
        Beside::ClassesAndVictims => Some(Victims::new(seeds.draw())?),
        Beside::Reloads => None,
    };
    let race = Race {
        threads: (0..THREADS)
            .map(|_| {
                let own = Private::new(seeds.draw())?;
                Ok(Mutex::new((own, Random::new(seeds.draw()))))
            })
            .collect::<Result<_>>()?,
        shared: Shared::new()?,
        barrier: Barrier::new(THREADS + 1),
        running: AtomicUsize::new(0),
        reloaded: AtomicBool::new(true),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
        calls: operations.div_ceil(THREADS as u64 * PHASES),
    };
    let mut phases = Repeat::new(PHASES, "phases");
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let race = &race;
            scope.spawn(move || race.work(number));
        }
        if let Err(error) = lead(&race, &mut phases, beside, victims.as_ref()) {
            race.fail(error);
        }
    });
    let failure = race.failure.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = &*failure {
        bail!("{error:#}");
    }
    let calls = race.calls * THREADS as u64;
    println!("    # {}, of {calls} calls each", phases.report());
    Ok(())
}

/// Starts each phase, and looks when it is over. Always stops the threads in the end.
fn lead(race: &Race, phases: &mut Repeat, beside: Beside, victims: Option<&Victims>) -> Result<()> {
    let mut outcome = Ok(());
    let mut lab = None;
    let gpus = ControlFile::open()
        .map_err(Into::into)
        .and_then(|file| buses(&file));
    for phase in phases {
        let classed = beside == Beside::ClassesAndVictims && phase % 2 == 1;
        outcome = outcome.and_then(|()| {
            let lab = lab.get_or_insert(Lab::open()?);
            prepare(race, lab, classed)
        });
        if outcome.is_err() || race.failed() {
            break;
        }
        race.running.store(THREADS, SeqCst);
        race.reloaded.store(victims.is_some(), SeqCst);
        race.barrier.wait();
        if let Some(victims) = victims {
            outcome = victims.go();
        } else {
            outcome = reload(race);
        }
        race.barrier.wait();
        if let Some(victims) = victims {
            outcome = outcome.and_then(|()| victims.gone());
        }
        if race.failed() {
            continue;
        }
        outcome = outcome.and_then(|()| {
            let lab = lab.get_or_insert(Lab::open()?);
            let gpus = gpus
                .as_ref()
                .map_err(|error| anyhow::anyhow!("{error:#}"))?;
            look(race, lab, gpus).with_context(|| format!("after phase {phase}"))
        });
    }
    race.stop.store(true, SeqCst);
    race.barrier.wait();
    outcome
}

fn prepare(race: &Race, lab: &Lab, classed: bool) -> Result<()> {
    let me = Target::current_process();
    // The settings of TSGs that copy stay their owners'.
    tune("copy_timeslice_us", "0")?;
    let is = lab.zernel.class(&me)?.own.level.is_some();
    if classed && !is {
        lab.zernel.set_class(&me, Level::BE)?;
    } else if !classed && is {
        lab.zernel.clear_class(&me)?;
    }
    lab.quiet()?;
    race.each_private(|private| {
        private.classed = classed;
        Ok(())
    })
}

fn reload(race: &Race) -> Result<()> {
    let mut outcome = Ok(());
    while outcome.is_ok() && race.running.load(SeqCst) > 0 {
        outcome = unload_each(&["zernel_nvidia"]).and_then(|()| load("zernel_nvidia", ""));
        race.reloaded.store(true, SeqCst);
    }
    outcome
}

/// Nothing is under way: everybody must know the same.
fn look(race: &Race, lab: &Lab, gpus: &[(u32, String)]) -> Result<()> {
    lab.quiet()?;
    agree()?;
    same_tsgs(&lab.zernel, gpus)?;
    check_eq!(lab.stats()?.errors, 0, "errors of the provider");
    let mut held: BTreeMap<(Handle, Handle), truth::Tsg> = BTreeMap::new();
    for tsg in truth::tsgs()? {
        for handle in &tsg.handles {
            held.insert(*handle, tsg.clone());
        }
    }
    let counts = Counts::of_rm()?;
    let (files, clients) = race.shared.counts();
    let mut expected = BTreeMap::from([("files", files), ("clients", clients)]);
    race.each_private(|private| {
        *expected.entry("files").or_default() += private.files();
        *expected.entry("clients").or_default() += private.tree.count(Kind::Root);
        same_groups(private, gpus, &mut held)
    })?;
    for (name, count) in expected {
        check_eq!(counts.get(name)?, count, "{name}");
    }
    // An object that no thread has for itself is the shared clients'.
    for (client, object) in held.keys() {
        ensure!(
            race.shared.has(*client),
            "nobody has made {client:?}:{object:?}"
        );
    }
    Ok(())
}

/// Takes a thread's groups out of what the resource manager holds; they must be the same.
fn same_groups(
    private: &Private,
    gpus: &[(u32, String)],
    held: &mut BTreeMap<(Handle, Handle), truth::Tsg>,
) -> Result<()> {
    for group in private.tree.groups.values() {
        let mut found = None;
        for handle in &group.handles {
            let tsg = held.remove(handle);
            let tsg = tsg.with_context(|| format!("{handle:?} is not there: {group:?}"))?;
            found = Some(tsg);
        }
        let found = found.context("a group without handles")?;
        let handles: BTreeSet<_> = found.handles.iter().copied().collect();
        check_eq!(handles, group.handles);
        let slice = if private.classed && group.compute {
            200
        } else {
            group.slice_us
        };
        let gpu = gpus[group.gpu as usize].0;
        check_eq!(
            (found.gpu, found.engine, found.channels, found.slice_us),
            (gpu, group.engine, group.channels, slice),
            "GPU, engine, channels and slice of {group:?}"
        );
    }
    Ok(())
}

/// A process that makes others, which use the driver until they are killed.
struct Victims {
    socket: std::os::fd::OwnedFd,
    _maker: Child,
}

impl Victims {
    /// Made before there are threads, which a process that forks must not have.
    fn new(seed: u64) -> Result<Self> {
        let (socket, its) = passing::pair()?;
        let maker = Child::spawn(move || {
            let mut random = Random::new(seed);
            loop {
                passing::receive_number(&its)?;
                for _ in 0..3 {
                    kill_some(&mut random)?;
                }
                passing::send_number(&its, 1)?;
            }
        })?;
        Ok(Self {
            socket,
            _maker: maker,
        })
    }

    fn go(&self) -> Result<()> {
        passing::send_number(&self.socket, 1)
    }

    /// Waits until all victims of a phase are gone.
    fn gone(&self) -> Result<()> {
        passing::receive_number(&self.socket).context("the victims' maker")?;
        wait_until("the files of the victims are closed", || {
            Ok(Counts::of_rm()?.get("dying_clients")? == 0)
        })
    }
}

fn kill_some(random: &mut Random) -> Result<()> {
    let victims: Vec<_> = (0..2)
        .map(|_| {
            let seed = random.draw();
            Child::spawn(move || {
                let mut private = Private::new(seed)?;
                loop {
                    private.step()?;
                }
            })
        })
        .collect::<Result<_>>()?;
    std::thread::sleep(Duration::from_micros(random.below(100_000)));
    for victim in victims {
        // One that has failed by itself has something to say.
        if victim.wait_ended(Duration::ZERO).is_ok() {
            victim.join().context("a victim")?;
            bail!("a victim ended by itself");
        }
        victim.kill()?;
        victim.end()?;
    }
    Ok(())
}
