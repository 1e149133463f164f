// SPDX-License-Identifier: GPL-2.0
//! As many GPUs, TSGs and assignments as there can be, and what each operation costs then; and as
//! many tracked threads and cgroups.

mod quotas;
mod threads;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Result};
use bytemuck::Zeroable;
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::sys::abi;
use libzernel::{Level, Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::Child;
use crate::common::{load, slice_of, unload_all, wait_until_within, SOON};
use crate::harness::{case, suite, Outcome, Suite, BARE};
use crate::list;

/// The suite.
pub const SUITE: Suite = suite(
    "scale",
    &[
        case(
            "a_hundred_thousand_assignments",
            a_hundred_thousand_assignments,
        ),
        case(
            "a_hundred_thousand_threads",
            threads::a_hundred_thousand_threads,
        ),
        case("as_many_cgroups_as_there_can_be", quotas::of_cgroups),
    ],
)
.surrounded_by(BARE);

/// GPUs.
const GPUS: u32 = 64;
/// Assignments that zernel holds at most.
const MOST: u32 = 100_000;
/// The largest ratio of the cost of an operation among half of all to that among few: trees are up
/// to three times as deep, and less of them is in the cache. Walking through all would cost at
/// least 40 times as much.
const RATIO: u32 = 8;
/// Times that each operation is measured; the shortest counts.
const TRIES: u32 = 60;
/// Contexts that share a page of words, to save memory.
const SHARERS: usize = 8;

/// The number of each kind of object.
#[derive(Clone, Copy)]
struct Size {
    /// When the costs are looked at: among these, and among half of all.
    few: u32,
    /// TSGs of one GPU, which are all that it takes.
    full: u32,
    /// Assignments.
    most: u32,
}

impl Size {
    /// A debug kernel takes many times as long for each.
    fn for_this_kernel() -> Self {
        let debug = std::path::Path::new("/proc/lockdep").exists();
        let (few, full, most) = match (debug, testkit::is_short()) {
            (false, _) => (100, 4096, MOST),
            (true, false) => (100, 4096, 8_192),
            (true, true) => (12, 512, 1_024),
        };
        Self { few, full, most }
    }
}

/// The time of the fastest of many calls.
fn fastest(mut call: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        let began = Instant::now();
        call()?;
        best = best.min(began.elapsed());
    }
    Ok(best)
}

/// A growing crowd of TSGs, each with a class of its own.
struct Crowd {
    zernel: Zernel,
    sim: Sim,
    contexts: Vec<Context>,
    /// The last id listed.
    last: u64,
    /// Ids of all TSGs.
    ids: Vec<u64>,
}

impl Crowd {
    fn spec(gpu: u32) -> ContextSpec<'static> {
        ContextSpec {
            gpu,
            ..ContextSpec::compute("crowd")
        }
    }

    /// Adds TSGs to a GPU and gives each a class.
    fn grow(&mut self, gpu: u32, count: u32) -> Result<()> {
        let first = self.contexts.len();
        for number in 0..count as usize {
            let leader = first + number - number % SHARERS;
            let sharer = (number % SHARERS != 0).then(|| &self.contexts[leader]);
            let spec = ContextSpec {
                share_words: sharer,
                ..Self::spec(gpu)
            };
            let context = self.sim.create_context(&spec)?;
            self.contexts.push(context);
        }
        let known = self.ids.len();
        self.list()?;
        check_eq!(
            self.ids.len() - known,
            count as usize,
            "TSGs that were added"
        );
        for &id in &self.ids[known..] {
            self.zernel.set_class(&tsg(id), Level::BE)?;
        }
        Ok(())
    }

    /// Lists what is new.
    fn list(&mut self) -> Result<()> {
        let mut page = vec![abi::zernel_tsg_info::zeroed(); 64];
        loop {
            let fd = self.zernel.as_fd();
            let (count, next) = list::part(fd, abi::ZERNEL_LIST_TSGS, self.last, &mut page)?;
            for info in &page[..count] {
                ensure!(
                    Some(&info.id) > self.ids.last(),
                    "TSG {} out of order",
                    info.id
                );
                self.ids.push(info.id);
                self.last = info.id;
            }
            if next == 0 {
                return Ok(());
            }
        }
    }

    /// Waits until the workers have nothing to do.
    fn settle(&self) -> Result<()> {
        wait_until_within(10 * SOON, "the workers are done", || {
            for gpu in self.zernel.gpus() {
                if gpu?.pending != 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// The costs of the operations now.
    fn costs(&mut self, size: Size) -> Result<Vec<(&'static str, Duration)>> {
        self.settle()?;
        let middle = tsg(self.ids[self.ids.len() / 2]);
        let zernel = &self.zernel;
        let get = fastest(|| {
            zernel.class(&middle)?;
            Ok(())
        })?;
        let mut number = 0;
        let set = fastest(|| {
            number += 1;
            let level = Level::new(number % 8).unwrap_or(Level::BE);
            zernel.set_class(&middle, level)?;
            Ok(())
        })?;
        let clear = fastest(|| {
            zernel.set_class(&middle, Level::BE)?;
            zernel.clear_class(&middle)?;
            Ok(())
        })?;
        zernel.set_class(&middle, Level::BE)?;
        // As many as there are behind the middle of the few.
        let listed = (size.few as usize / 3).min(32);
        let mut page = vec![abi::zernel_tsg_info::zeroed(); listed];
        let from = self.ids[self.ids.len() / 2];
        let list = fastest(|| {
            let part = list::part(zernel.as_fd(), abi::ZERNEL_LIST_TSGS, from, &mut page)?;
            check_eq!(part.0, listed);
            Ok(())
        })?;
        let (mut attach, mut detach) = (Duration::MAX, Duration::MAX);
        for _ in 0..TRIES {
            let began = Instant::now();
            let context = self.sim.create_context(&Self::spec(GPUS - 1))?;
            attach = attach.min(began.elapsed());
            let began = Instant::now();
            drop(context);
            detach = detach.min(began.elapsed());
        }
        // The TSGs that came and went are behind it.
        self.last = *self.ids.last().unwrap_or(&0);
        Ok(vec![
            ("get", get),
            ("set", set),
            ("set and clear", clear),
            ("list", list),
            ("attach", attach),
            ("detach", detach),
        ])
    }
}

fn tsg(id: u64) -> Target {
    Target::Tsg(libzernel::tsg::Id::new(id))
}

fn errno<T>(result: libzernel::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| error.errno())
}

fn a_hundred_thousand_assignments() -> Outcome {
    let size = Size::for_this_kernel();
    load("zernel", "")?;
    let parameters = format!(
        "gpus={GPUS} max_tsgs={} copy_engines=0 operation_percent=0",
        size.full
    );
    load("zernel_sim", &parameters)?;
    Child::spawn(move || fill(size))?.join_within(20 * SOON)?;
    // Everything was given back when the one file was closed.
    let stats = Zernel::open()?.stats()?;
    check_eq!(
        (stats.gpus, stats.tsgs, stats.classes),
        (GPUS.into(), 0, 0),
        "population"
    );
    check_eq!(stats.tsgs_added, stats.tsgs_removed);
    check_eq!(stats.errors + stats.tsgs_dead, 0, "calls that failed");
    unload_all()
}

/// Makes all that there can be, and leaves it to the end of the process.
fn fill(size: Size) -> Result<()> {
    let Size { few, full, most } = size;
    let (zernel, sim) = (Zernel::open()?, Sim::open()?);
    check_eq!(zernel.info()?.classes_max, MOST);
    check_eq!(zernel.gpus().count(), GPUS as usize, "GPUs");
    let mut crowd = Crowd {
        zernel,
        sim,
        contexts: Vec::new(),
        last: 0,
        ids: Vec::new(),
    };
    let began = Instant::now();
    crowd.grow(0, few)?;
    let before = crowd.costs(size)?;
    // One GPU with all that it can have.
    crowd.grow(0, full - few)?;
    check_eq!(crowd.zernel.stats()?.tsgs, u64::from(full));
    println!("    # {full} TSGs after {:?}", began.elapsed());
    check_eq!(
        errno(crowd.sim.create_context(&Crowd::spec(0))),
        Some(Errno::NOSPC),
        "a TSG more"
    );
    let mut gpu = 1;
    let share = (most - full) / (GPUS - 1);
    while (crowd.ids.len() as u32) < most / 2 {
        crowd.grow(gpu, share)?;
        gpu += 1;
    }
    let after = crowd.costs(size)?;
    for ((what, before), (_, after)) in before.iter().zip(&after) {
        println!(
            "    # {what}: {before:?}, {after:?} among {} TSGs",
            most / 2
        );
    }
    while gpu < GPUS {
        crowd.grow(gpu, share)?;
        gpu += 1;
    }
    let left = most - crowd.ids.len() as u32;
    crowd.grow(GPUS - 1, left)?;
    let stats = crowd.zernel.stats()?;
    check_eq!(
        (stats.gpus, stats.tsgs, stats.classes),
        (GPUS.into(), most.into(), most.into()),
        "population"
    );
    println!("    # {most} assignments after {:?}", began.elapsed());

    if most == MOST {
        none_more(&mut crowd)?;
    }
    crowd.settle()?;
    for number in [0, full - 1, full, most / 2, most - 1] {
        let slice = crowd.contexts[number as usize].stats()?.timeslice_us;
        check_eq!(slice, slice_of(7), "time slice of TSG {number}");
    }
    // All in one listing, each once; the rest of the checks are those of `list`.
    (crowd.last, crowd.ids) = (0, Vec::new());
    crowd.list()?;
    check_eq!(
        crowd.ids.len() as u64,
        crowd.zernel.stats()?.tsgs,
        "TSGs listed"
    );
    std::mem::forget(crowd);
    for ((what, before), (_, after)) in before.into_iter().zip(after) {
        ensure!(
            after < before * RATIO,
            "{what}: {before:?} among {few}, {after:?} among many"
        );
    }
    Ok(())
}

/// With all assignments in use, a new one of any kind is refused; one that is there can be changed.
fn none_more(crowd: &mut Crowd) -> Result<()> {
    let one_more = crowd.sim.create_context(&Crowd::spec(GPUS - 1))?;
    crowd.contexts.push(one_more);
    crowd.list()?;
    let Some(&new) = crowd.ids.last() else {
        bail!("no TSG");
    };
    let old = tsg(crowd.ids[77_777]);
    for target in [
        tsg(new),
        Target::current_process(),
        Target::current_thread(),
    ] {
        let result = crowd.zernel.set_class(&target, Level::BE);
        check_eq!(errno(result), Some(Errno::NOSPC), "{target:?}");
    }
    crowd.zernel.set_class(&old, Level::LC)?;
    crowd.zernel.clear_class(&old)?;
    crowd.zernel.set_class(&tsg(new), Level::BE)?;
    check_eq!(
        errno(crowd.zernel.set_class(&old, Level::BE)),
        Some(Errno::NOSPC),
        "full again"
    );
    // As it was.
    crowd.zernel.clear_class(&tsg(new))?;
    crowd.zernel.set_class(&old, Level::BE)?;
    Ok(())
}
