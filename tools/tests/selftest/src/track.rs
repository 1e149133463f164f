// SPDX-License-Identifier: GPL-2.0
//! Tracked threads: what is recorded of them, who is followed, who may, and how it ends.

mod calls;
mod cgroups;
mod crowds;
mod ends;
mod follow;
pub mod limited;
mod lists;
mod memory;
mod permissions;
mod program;
mod races;
mod refusals;
mod times;

use anyhow::{Context as _, Result};
use libzernel::thread::Does;
use libzernel::{Thread, Zernel};

use crate::child::Child;
use crate::common::wait_until;
use crate::harness::{case, suite, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "track",
    &[
        case("sleeps_have_their_causes", times::causes),
        case("every_call_has_its_cause", calls::every_call_has_its_cause),
        case("waits_for_a_disk", calls::waits_for_a_disk),
        case("bursts_and_queues", times::bursts),
        case("times_add_up", times::add_up),
        case("whole_process", follow::whole_process),
        case("threads_of_its_threads", follow::later_threads),
        case("children", follow::children),
        case("exec", follow::exec),
        case("exec_of_another_thread", follow::exec_of_another_thread),
        case("again", follow::again),
        case("one_that_sleeps", ends::sleeper),
        case("exit_and_kill", ends::exit_and_kill),
        case("unload_is_refused", ends::unload),
        case("cgroup_moves", cgroups::moves),
        case("cgroup_born_inside", cgroups::born_inside),
        case("cgroup_born_outside", cgroups::born_outside),
        case("cgroup_nested", cgroups::nested),
        case("cgroup_and_named", cgroups::named_besides),
        case("cgroup_removed", cgroups::removed),
        case("cgroup_refused", cgroups::refused),
        case("cgroup_unload", cgroups::unload),
        case("cgroup_unload_beside_moves", cgroups::unload_beside_moves),
        case("cgroup_who_may", crowds::who_may),
        case("cgroup_quota", crowds::quota),
        case("cgroup_storm", crowds::storm),
        case("cgroup_fork_bomb", crowds::fork_bomb),
        case("cgroup_sums_are_exact", crowds::sums_are_exact),
        case("no_such_task", refusals::no_such_task),
        case("what_is_not_tracked", refusals::not_tracked),
        case("lists_and_filters", lists::filters),
        case("who_may", permissions::who_may),
        case("who_sees", permissions::who_sees),
        case("quota", permissions::quota),
        case("program_tracks", program::tracks),
        case("program_probes", program::probes),
        case("program_says_what_is_wrong", program::says_what_is_wrong),
        case("short_lived_threads", races::short_lived),
        case("on_and_off_beside_forks", races::on_and_off),
        case("stop_and_trace", races::stop_and_trace),
        case("exec_storm", races::exec_storm),
        case("no_memory", memory::each_step),
        case("no_memory_in_a_second_cgroup", memory::each_step_of_a_move),
        case("no_memory_from_there_on", memory::none_from_there_on),
        case("no_memory_for_those_who_come", memory::of_members),
        case("no_memory_for_both_cgroups", memory::of_both_cgroups),
        case("no_memory_for_those_who_are_made", memory::of_followers),
        case("limited_delays_itself_alone", limited::delays_itself_alone),
        case("limited_waits_for_memory", limited::waits_for_memory),
    ],
);

const MS: u64 = 1_000_000;

/// A process of a user that comes back to user space all the time.
fn idle(uid: u32) -> Result<Child> {
    Child::idle(|| Ok(sys::become_user(uid, uid, &[])?))
}

/// The tracked threads of a process.
pub fn threads_of(zernel: &Zernel, pid: u32) -> Result<Vec<Thread>> {
    let mut found = Vec::new();
    for thread in zernel.threads() {
        let thread = thread?;
        if thread.pid == pid {
            found.push(thread);
        }
    }
    Ok(found)
}

/// A tracked thread.
pub fn thread(zernel: &Zernel, tid: u32) -> Result<Option<Thread>> {
    for thread in zernel.threads() {
        let thread = thread?;
        if thread.tid == tid {
            return Ok(Some(thread));
        }
    }
    Ok(None)
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
