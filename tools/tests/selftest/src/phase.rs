// SPDX-License-Identifier: GPL-2.0
//! Phases of machine-learning programs: who has them, how they are told and counted, hints.

mod detection;
mod fair;
mod follow;
mod hints;
pub mod nice;
mod permissions;
mod prefetch;
mod program;
mod races;
mod refusals;
mod times;
mod training;

use anyhow::{Context as _, Result};
use libzernel::{Phase, Process, Thread, Zernel};

use crate::common::{tid, wait_until};
use crate::harness::{case, suite, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "phase",
    &[
        case("who_has_no_phases", refusals::no_phases),
        case("no_such_thread", refusals::no_such_thread),
        case("who_sees", permissions::who_sees),
        case("who_may_hint", permissions::who_may_hint),
        case("plain_is_never_anything", follow::plain_is_never_anything),
        case("another_user", follow::another_user),
        case("one_thread_is_enough", follow::one_thread_is_enough),
        case("children", follow::children),
        case("owners_of_tsgs", follow::owners),
        case("exec", follow::exec),
        case("untrack_forgets", follow::untrack_forgets),
        case("times_add_up", times::add_up),
        case("transitions", times::transitions),
        case("time_of_the_exited_stays", times::exited),
        case("time_of_the_untracked_stays", times::untracked),
        case("hint_wins_and_ends", hints::wins_and_ends),
        case("hint_expires", hints::expires),
        case("hint_is_replaced", hints::replaced),
        case("hint_of_another_thread", hints::of_another_thread),
        case("hint_wins_over_detection", hints::over_detection),
        case("short_lived_threads", races::short_lived),
        case("hints_beside_ends", races::hints_beside_ends),
        case("nice_is_off", nice::off),
        case("nice_of_each_phase", nice::of_each_phase),
        case("nice_within_limits", nice::within_limits),
        case(
            "nice_of_the_administrator",
            nice::privilege::of_the_administrator,
        ),
        case(
            "nice_of_borrowed_rights",
            nice::privilege::of_borrowed_rights,
        ),
        case("nice_set_meanwhile", nice::set_meanwhile),
        case("nice_tuned_at_once", nice::tuned_at_once),
        case("nice_ends_with_tracking", nice::ends_with_tracking),
        case("nice_of_those_who_are_made", nice::of_those_who_are_made),
        case("nice_reset_on_fork", nice::reset_on_fork),
        case("nice_exec", nice::exec),
        case("nice_of_other_policies", nice::of_other_policies),
        case("nice_races", nice::races),
        case("nice_unload", nice::unload),
        case("nice_without_memory", nice::without_memory),
        case("waiting_for_the_gpu", detection::waiting_for_the_gpu),
        case("reading", detection::reading),
        case("short_bursts", detection::short_bursts),
        case("reading_beside_the_gpu", detection::reading_beside_the_gpu),
        case("thresholds_at_once", detection::thresholds),
        case("stability", detection::stability),
        case("collectives", detection::collectives),
        case("training_program", program::trains),
        case("training_program_refusals", program::says_why_not),
    ],
);

/// Cases that depend on the time of samples: on a machine whose clock waits for it alone.
pub const TIMED: Suite = suite(
    "timed",
    &[
        case("training_loop", training::fixed),
        case("random_training_loop", training::random),
        case("sampled_beside_many", fair::beside_many),
        case("training_loop_that_spins", training::spinning),
        case("costs_of_waits", crate::gpuwait::costs),
        case("no_signal_without_history", prefetch::without_history),
        case("who_sees_the_signal", prefetch::who_sees),
        case("signal_comes_ahead_of_the_end", prefetch::ahead_of_the_end),
        case("signal_that_is_not_heeded", prefetch::unheeded),
        case("signal_with_a_fixed_lead", prefetch::fixed_lead),
        case("signal_removes_idle_time", prefetch::removes_idle_time),
        case("signal_of_random_steps", prefetch::random),
        case("signals_are_judged", prefetch::judged),
        case("signal_beside_an_optimizer", prefetch::beside_an_optimizer),
    ],
);

const MS: u64 = 1_000_000;

/// The phases of a thread, if it is listed.
fn phases_of(zernel: &Zernel, tid: u32) -> Result<Option<Thread>> {
    for phases in zernel.phases() {
        let phases = phases?;
        if phases.tid == tid {
            return Ok(Some(phases));
        }
    }
    Ok(None)
}

/// The phases of the calling thread, which has some.
fn own(zernel: &Zernel) -> Result<Thread> {
    phases_of(zernel, tid())?.context("the calling thread has no phases")
}

/// The phases of the threads of a process.
fn phases_in(zernel: &Zernel, pid: u32) -> Result<Vec<Thread>> {
    let mut found = Vec::new();
    for phases in zernel.phases() {
        let phases = phases?;
        if phases.pid == pid {
            found.push(phases);
        }
    }
    Ok(found)
}

/// A process, if it is listed.
fn process(zernel: &Zernel, pid: u32) -> Result<Option<Process>> {
    for process in zernel.processes() {
        let process = process?;
        if process.pid == pid {
            return Ok(Some(process));
        }
    }
    Ok(None)
}

/// The calling process, which is listed.
fn own_process(zernel: &Zernel) -> Result<Process> {
    process(zernel, std::process::id())?.context("the calling process is not listed")
}

/// Waits until so many threads of a process have phases.
fn wait_phases(zernel: &Zernel, pid: u32, count: usize) -> Result<Vec<Thread>> {
    let mut phases = Vec::new();
    wait_until(&format!("{count} threads of {pid} have phases"), || {
        phases = phases_in(zernel, pid)?;
        Ok(phases.len() == count)
    })
    .with_context(|| format!("phases: {phases:?}"))?;
    Ok(phases)
}

/// Time in `phase` from one look to another, and time in all, in ns.
fn passed(before: &Thread, after: &Thread, phase: Phase) -> (u64, u64) {
    (
        after.phase_ns.of(phase) - before.phase_ns.of(phase),
        after.phase_ns.sum() - before.phase_ns.sum(),
    )
}
