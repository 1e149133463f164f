// SPDX-License-Identifier: MIT OR Apache-2.0
//! Phases of machine-learning programs: who has them, how they are told and counted, hints.

mod detection;
mod hints;
pub mod nice;
mod timed;
pub mod who;

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::{Phase, Process, Target, Thread, Tracking, Zernel};

use crate::child::in_child;
use crate::common::{tid, wait_until};
use crate::harness::{case, suite, Outcome, Suite};
use crate::request;

/// The suite.
pub const SUITE: Suite = suite(
    "phase",
    &[
        case("who_has_none", who::who_has_none),
        case("who_sees", who::who_sees),
        case("who_may_hint", who::who_may_hint),
        case("another_user", who::another_user),
        case("one_thread_is_enough", who::one_thread_is_enough),
        case("children", who::children),
        case("owners_of_tsgs", who::owners),
        case("exec", who::exec),
        case("times_add_up", hints::add_up),
        case("time_of_those_who_go_stays", hints::stay),
        case("hint_wins_and_ends", hints::wins_and_ends),
        case("everything_at_once", hints::everything_at_once),
        case("nice_of_each_phase", nice::of_each_phase),
        case("nice_of_borrowed_rights", nice::of_borrowed_rights),
        case("nice_set_meanwhile", nice::set_meanwhile),
        case("nice_tuned_at_once", nice::tuned_at_once),
        case("nice_ends_with_tracking", nice::ends_with_tracking),
        case("nice_of_those_who_are_made", nice::of_those_who_are_made),
        case("nice_of_other_policies", nice::of_other_policies),
        case("nice_unload", nice::unload),
        case("nice_without_memory", nice::without_memory),
        case("waiting_for_the_gpu", detection::waiting_for_the_gpu),
        case("tuned_at_once", detection::tuned_at_once),
        case("collectives", detection::collectives),
        case("training_program", timed::program),
    ],
);

/// Cases that depend on the time of samples: on a machine whose clock waits for it alone.
pub const TIMED: Suite = suite(
    "timed",
    &[
        case("sums_of_many_threads", timed::sums_of_many),
        case("sampled_beside_many", timed::beside_many),
        case("sampled_beside_many_programs", timed::beside_many_programs),
        case("sampled_beside_a_storm", timed::beside_a_storm),
        case("timers_at_one_instant", request::timers_at_one_instant),
        case(
            "readers_do_not_delay_a_trigger",
            request::readers_do_not_delay,
        ),
        case("gate_takes_as_long_as_ready", request::gate_takes_as_long),
        case("training_loop_that_spins", timed::spinning),
        case("signal_comes_ahead_of_the_end", timed::ahead_of_the_end),
        case("signals_are_judged", timed::judged),
        case("signal_beside_an_optimizer", timed::beside_an_optimizer),
    ],
);

const MS: u64 = 1_000_000;

/// Longer than any case takes.
pub const LONG: Duration = Duration::from_secs(60);

fn me() -> u32 {
    std::process::id()
}

/// Tracks the calling process as a machine-learning program.
fn track_self() -> Result<Zernel> {
    let zernel = Zernel::open()?;
    zernel.track(&Target::current_process(), Tracking::ML)?;
    Ok(zernel)
}

/// Runs `run` in a machine-learning program of its own.
fn in_program(run: impl FnOnce(&Zernel) -> Outcome) -> Outcome {
    in_child(|| run(&track_self()?))
}

/// Gives a hint for the calling thread.
fn hint(zernel: &Zernel, phase: Phase, duration: Duration) -> Outcome {
    Ok(zernel.hint(&Target::CurrentThread, phase, duration)?)
}

/// A thread that comes back to user space all the time, until this is dropped.
struct Helper {
    tid: u32,
    _stop: mpsc::Sender<()>,
}

impl Helper {
    fn new() -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _ = tell.send(tid());
            let pause = Duration::from_millis(2);
            while wait.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {}
        });
        Ok(Self {
            tid: told.recv()?,
            _stop: stop,
        })
    }
}

/// The phases of a thread, if it is listed.
pub fn phases_of(zernel: &Zernel, tid: u32) -> Result<Option<Thread>> {
    let mut phases = zernel.phases();
    let found = phases.find(|found| found.as_ref().map_or(true, |found| found.tid == tid));
    Ok(found.transpose()?)
}

/// The phases of the calling thread, which has some.
fn own(zernel: &Zernel) -> Result<Thread> {
    phases_of(zernel, tid())?.context("the calling thread has no phases")
}

/// Waits until the calling thread is in a phase.
fn wait_phase(zernel: &Zernel, phase: Phase) -> Outcome {
    wait_until(&format!("samples tell of {phase}"), || {
        Ok(own(zernel)?.phase == phase)
    })
}

/// The phases of the threads of a process.
fn phases_in(zernel: &Zernel, pid: u32) -> Result<Vec<Thread>> {
    let mut phases = zernel.phases().collect::<libzernel::Result<Vec<_>>>()?;
    phases.retain(|phases| phases.pid == pid);
    Ok(phases)
}

/// A process, if it is listed.
pub fn process(zernel: &Zernel, pid: u32) -> Result<Option<Process>> {
    let mut processes = zernel.processes();
    let found = processes.find(|found| found.as_ref().map_or(true, |found| found.pid == pid));
    Ok(found.transpose()?)
}

/// The calling process, which is listed.
fn own_process(zernel: &Zernel) -> Result<Process> {
    process(zernel, me())?.context("the calling process is not listed")
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
