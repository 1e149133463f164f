// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracked threads: what is recorded of them, who is followed, who may, and how it ends.

mod calls;
mod cgroups;
mod follow;
pub mod limited;
mod permissions;
mod program;
mod races;

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Thread, Zernel};

use crate::child::Child;
use crate::common::{tid, wait_until};
use crate::harness::{case, suite, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "track",
    &[
        case("every_call_has_its_cause", calls::every_call_has_its_cause),
        case("waits_for_a_disk", calls::waits_for_a_disk),
        case("bursts_and_queues", calls::bursts),
        case("times_add_up", calls::add_up),
        case("threads_of_its_threads", follow::later_threads),
        case("exec", follow::exec),
        case("again", follow::again),
        case("one_that_sleeps", follow::sleeper),
        case("unload_is_refused", follow::unload),
        case("cgroup_born", cgroups::born),
        case("cgroup_nested", cgroups::nested),
        case("cgroup_and_named", cgroups::named_besides),
        case("cgroup_removed", cgroups::removed),
        case("cgroup_unload_beside_moves", cgroups::unload),
        case("cgroup_members_by_owner", permissions::of_cgroups),
        case("cgroup_quota", permissions::quota_of_cgroups),
        case("cgroup_storm", races::storm),
        case("cgroup_fork_bomb", races::fork_bomb),
        case("cgroup_sums_are_exact", races::sums_are_exact),
        case("what_is_not_tracked", follow::not_tracked),
        case("lists_and_filters", cgroups::filters),
        case("who_may", permissions::who_may),
        case("program_tracks", program::tracks),
        case("program_probes", program::probes),
        case("program_says_what_is_wrong", program::says_what_is_wrong),
        case("short_lived_threads", races::short_lived),
        case("on_and_off_beside_forks", races::on_and_off),
        case("stop_and_trace", races::stop_and_trace),
        case("exec_storm", races::exec_storm),
        case("no_memory", limited::each_step),
        case("no_memory_from_there_on", limited::none_from_there_on),
        case("no_memory_for_those_who_come", limited::of_members),
        case("no_memory_for_those_who_are_made", limited::of_followers),
        case("limited_delays_itself_alone", limited::delays_itself_alone),
        case("limited_waits_for_memory", limited::waits_for_memory),
    ],
);

const MS: u64 = 1_000_000;

/// Comes back to user space all the time, until it is killed.
pub fn rest() -> ! {
    loop {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process of so many threads, which are there and rest.
fn busy(threads: usize) -> Result<Child> {
    let child = Child::session(|| {
        for _ in 1..threads {
            std::thread::spawn(|| rest());
        }
        rest()
    })?;
    wait_until("its threads are there", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid()))?;
        Ok(tasks.count() == threads)
    })?;
    Ok(child)
}

/// The first entry of a list of which `is_it` is true.
fn find<T>(
    mut list: impl Iterator<Item = libzernel::Result<T>>,
    is_it: impl Fn(&T) -> bool,
) -> Result<Option<T>> {
    let found = list.find(|entry| entry.as_ref().map_or(true, &is_it));
    Ok(found.transpose()?)
}

/// The tracked threads of a process.
pub fn threads_of(zernel: &Zernel, pid: u32) -> Result<Vec<Thread>> {
    let mut all = zernel.threads().collect::<libzernel::Result<Vec<_>>>()?;
    all.retain(|thread| thread.pid == pid);
    Ok(all)
}

/// A tracked thread.
pub fn thread(zernel: &Zernel, tid: u32) -> Result<Option<Thread>> {
    find(zernel.threads(), |thread| thread.tid == tid)
}

/// The calling thread, which is tracked.
pub fn own(zernel: &Zernel) -> Result<Thread> {
    thread(zernel, tid())?.context("the calling thread is not listed")
}

/// Waits until so many threads of a process are recorded.
pub fn wait_recorded(zernel: &Zernel, pid: u32, count: usize) -> Result<Vec<Thread>> {
    let mut threads = Vec::new();
    wait_until(&format!("{count} threads of {pid} are recorded"), || {
        threads = threads_of(zernel, pid)?;
        threads.retain(|thread| thread.does != Does::Arrive);
        Ok(threads.len() == count)
    })
    .with_context(|| format!("recorded: {threads:?}"))?;
    Ok(threads)
}

/// Waits until so many threads are tracked in all.
pub fn wait_count(zernel: &Zernel, count: u64) -> Result<()> {
    let mut last = 0;
    wait_until(&format!("{count} threads are tracked"), || {
        last = zernel.stats()?.threads;
        Ok(last == count)
    })
    .with_context(|| format!("tracked: {last}"))
}
