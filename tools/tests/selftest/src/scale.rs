// SPDX-License-Identifier: MIT OR Apache-2.0
//! As many GPUs, TSGs and assignments as there can be, and the cost of each operation then; and as
//! many tracked threads and cgroups.

mod threads;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use bytemuck::Zeroable;
use libzernel::sim::{Context, ContextSpec, Sim};
use libzernel::sys::abi;
use libzernel::{Level, Target, Tracking, Zernel};
use rustix::io::Errno;
use testkit::harness::Skip;

use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, load, told_slice_of, tune, unload_all, wait_set, wait_until, SOON};
use crate::group::Group;
use crate::harness::{case, suite, Outcome, Suite, BARE};
use crate::list;

/// The suite.
pub const SUITE: Suite = suite(
    "scale",
    &[
        case("a_hundred_thousand_assignments", assignments),
        case("a_hundred_thousand_threads", threads::most),
        case("as_many_cgroups_as_there_can_be", cgroups),
    ],
)
.surrounded_by(BARE);

/// GPUs.
const GPUS: u32 = 64;
/// Assignments that zernel holds at most.
const MOST: usize = 100_000;
/// TSGs of one GPU, which are all that it takes.
const FULL: usize = 4_096;
/// Costs are looked at among these, and among half of all.
const FEW: usize = 100;
/// Tracked cgroups that zernel holds at most.
const CGROUPS: usize = 4_096;
/// The largest ratio of the cost of an operation among half of all to that among few: trees are up
/// to three times as deep, and less of them is in the cache. Walking through all would cost at
/// least 40 times as much.
const RATIO: u32 = 8;
/// Times that each operation is measured; the shortest counts.
const TRIES: u32 = 60;
/// Contexts that share a page of words, to save memory.
const SHARERS: usize = 8;

/// A debug kernel takes many times as long for each.
///
/// Errors: [`Skip`] there.
fn skip_on_debug() -> Outcome {
    match std::path::Path::new("/proc/lockdep").exists() {
        true => Err(Skip("as many would take a debug kernel minutes").into()),
        false => Ok(()),
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
    fn grow(&mut self, gpu: u32, count: usize) -> Result<()> {
        let (first, known) = (self.contexts.len(), self.ids.len());
        for number in 0..count {
            let leader = first + number - number % SHARERS;
            let spec = ContextSpec {
                share_words: (number % SHARERS != 0).then(|| &self.contexts[leader]),
                ..Self::spec(gpu)
            };
            let context = self.sim.create_context(&spec)?;
            self.contexts.push(context);
        }
        self.list()?;
        check_eq!(self.ids.len() - known, count, "TSGs that were added");
        for &id in &self.ids[known..] {
            self.zernel.set_class(&tsg(id), Level::BE)?;
        }
        Ok(())
    }

    /// Lists those behind the last known.
    fn list(&mut self) -> Result<()> {
        let mut page = vec![abi::zernel_tsg_info::zeroed(); 64];
        loop {
            let fd = self.zernel.as_fd();
            let last = self.ids.last().copied().unwrap_or(0);
            let (count, next) = list::part(fd, abi::ZERNEL_LIST_TSGS, last, &mut page)?;
            self.ids.extend(page[..count].iter().map(|info| info.id));
            if next == 0 {
                let in_order = self.ids.is_sorted_by(|one, next| one < next);
                ensure!(in_order, "TSGs out of order");
                return Ok(());
            }
        }
    }

    /// The costs of the operations now.
    fn costs(&self) -> Result<[(&'static str, Duration); 4]> {
        wait_set(&self.zernel)?;
        let id = self.ids[self.ids.len() / 2];
        let (zernel, middle) = (&self.zernel, tsg(id));
        let get = fastest(|| Ok(zernel.class(&middle).map(drop)?))?;
        let change = fastest(|| {
            zernel.clear_class(&middle)?;
            Ok(zernel.set_class(&middle, Level::BE)?)
        })?;
        // Fewer than there are behind the middle of the few.
        let mut page = [abi::zernel_tsg_info::zeroed(); 4];
        let list = fastest(|| {
            let part = list::part(zernel.as_fd(), abi::ZERNEL_LIST_TSGS, id, &mut page)?;
            check_eq!(part.0, page.len());
            Ok(())
        })?;
        let spec = Self::spec(GPUS - 1);
        let attach = fastest(|| {
            self.sim.create_context(&spec)?;
            Ok(())
        })?;
        Ok([
            ("get", get),
            ("clear and set", change),
            ("list", list),
            ("attach and detach", attach),
        ])
    }
}

fn tsg(id: u64) -> Target {
    Target::Tsg(libzernel::tsg::Id::new(id))
}

fn assignments() -> Outcome {
    skip_on_debug()?;
    load("zernel", "")?;
    // Thousands that take turns on one GPU are taken in one by one, each with a look at all.
    tune("rotation", "none")?;
    let parameters = format!("gpus={GPUS} max_tsgs={FULL} copy_engines=0 operation_percent=0");
    load("zernel_sim", &parameters)?;
    Child::spawn(fill)?.join_within(20 * SOON)?;
    // Everything was given back when the one file was closed.
    let stats = Zernel::open()?.stats()?;
    let population = (stats.gpus, stats.tsgs, stats.classes);
    check_eq!(population, (GPUS.into(), 0, 0));
    check_eq!(stats.tsgs_added, stats.tsgs_removed);
    check_eq!(stats.errors + stats.tsgs_dead, 0, "calls that failed");
    unload_all()
}

/// Makes all that there can be, and leaves it to the end of the process.
fn fill() -> Result<()> {
    let mut crowd = Crowd {
        zernel: Zernel::open()?,
        sim: Sim::open()?,
        contexts: Vec::new(),
        ids: Vec::new(),
    };
    check_eq!(crowd.zernel.info()?.classes_max as usize, MOST);
    check_eq!(crowd.zernel.gpus().count(), GPUS as usize, "GPUs");
    crowd.grow(0, FEW)?;
    let before = crowd.costs()?;
    // One GPU with all that it can have.
    crowd.grow(0, FULL - FEW)?;
    let more = errno(crowd.sim.create_context(&Crowd::spec(0)));
    check_eq!(more, Some(Errno::NOSPC), "a TSG more");
    let share = (MOST - FULL) / (GPUS as usize - 1);
    let mut after = None;
    for gpu in 1..GPUS {
        if after.is_none() && crowd.ids.len() >= MOST / 2 {
            after = Some(crowd.costs()?);
        }
        crowd.grow(gpu, share)?;
    }
    crowd.grow(GPUS - 1, MOST - crowd.ids.len())?;
    let stats = crowd.zernel.stats()?;
    let population = (stats.gpus, stats.tsgs, stats.classes);
    check_eq!(population, (GPUS.into(), MOST as u64, MOST as u64));
    none_more(&mut crowd)?;
    wait_set(&crowd.zernel)?;
    for number in [0, FULL - 1, FULL, MOST / 2, MOST - 1] {
        let slice = crowd.contexts[number].stats()?.timeslice_us;
        check_eq!(slice, told_slice_of(7), "time slice of TSG {number}");
    }
    // All in one listing, each once; the rest of the checks are those of `list`.
    crowd.ids.clear();
    crowd.list()?;
    let listed = crowd.ids.len() as u64;
    check_eq!(listed, crowd.zernel.stats()?.tsgs, "TSGs listed");
    std::mem::forget(crowd);
    let after = after.context("no half of them")?;
    for ((what, before), (_, after)) in before.into_iter().zip(after) {
        println!("    # {what}: {before:?} among {FEW}, {after:?} among many");
        ensure!(after < before * RATIO, "{what}: {after:?}");
    }
    Ok(())
}

/// With all assignments in use, a new one of any kind is refused; one that is there can be changed.
fn none_more(crowd: &mut Crowd) -> Result<()> {
    crowd
        .contexts
        .push(crowd.sim.create_context(&Crowd::spec(GPUS - 1))?);
    crowd.list()?;
    let (old, new) = (tsg(crowd.ids[77_777]), tsg(crowd.ids[MOST]));
    let set = |target: &Target| errno(crowd.zernel.set_class(target, Level::BE));
    for target in [&new, &Target::CurrentProcess, &Target::CurrentThread] {
        check_eq!(set(target), Some(Errno::NOSPC), "{target:?}");
    }
    crowd.zernel.set_class(&old, Level::LC)?;
    crowd.zernel.clear_class(&old)?;
    check_eq!([set(&new), set(&old)], [None, Some(Errno::NOSPC)]);
    // As it was.
    crowd.zernel.clear_class(&new)?;
    check_eq!(set(&old), None);
    Ok(())
}

fn cgroups() -> Outcome {
    skip_on_debug()?;
    load("zernel", "")?;
    let zernel = Zernel::open()?;
    let parent = Group::new("many")?;
    let groups: Vec<_> = (0..CGROUPS)
        .map(|number| parent.below(&number.to_string()))
        .collect::<Result<_>>()?;
    for group in &groups {
        zernel.track(&group.target()?, Tracking::PLAIN)?;
    }
    let one_more = parent.below("more")?;
    let target = one_more.target()?;
    let track = || errno(zernel.track(&target, Tracking::PLAIN));
    check_eq!(track(), Some(Errno::NOSPC));
    check_eq!(zernel.cgroups().count(), CGROUPS, "cgroups");
    // One that is tracked can be tracked again.
    zernel.track(&groups[0].target()?, Tracking::ML)?;
    zernel.untrack(&groups[1].target()?)?;
    check_eq!(track(), None);
    // Those that are removed are not tracked any more.
    drop((groups, one_more));
    wait_until("no cgroup is tracked", || Ok(zernel.cgroups().count() == 0))?;
    drop(zernel);
    unload_all()
}
