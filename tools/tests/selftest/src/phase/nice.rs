// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nice values of phases: the value in each, its limits, and the return of the thread's own.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Phase, Target, Timestamp, Tracking, Zernel};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process, setrlimit, Pid, Resource, Rlimit};
use testkit::faults::Faults;

use super::{
    hint, in_program, me, own, own_process, phases_in, phases_of, process, track_self, wait_phase,
    wait_phases, Helper, LONG,
};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{load_all, tid, try_unload, tune, unload_all, wait_until};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::track::wait_recorded;

/// The addition of each phase by default.
const DELTAS: [(Phase, i32); 5] = [
    (Phase::DataLoading, -5),
    (Phase::GpuCompute, 5),
    (Phase::Collective, -5),
    (Phase::OptimizerStep, -5),
    (Phase::Unknown, 0),
];

fn pid_of(tid: u32) -> Option<Pid> {
    i32::try_from(tid).ok().and_then(Pid::from_raw)
}

/// The nice value of a thread.
pub fn nice_of(tid: u32) -> Result<i32> {
    Ok(getpriority_process(pid_of(tid))?)
}

/// That of the calling thread.
pub fn nice() -> Result<i32> {
    nice_of(tid())
}

pub(super) fn set_nice(nice: i32) -> Outcome {
    Ok(setpriority_process(pid_of(tid()), nice)?)
}

/// In every phase, twice around, a thread has its own value, `lower` in those that ask for less, or
/// `higher`.
fn check_phases(zernel: &Zernel, tid: u32, base: i32, lower: i32, higher: i32) -> Outcome {
    for (phase, delta) in DELTAS.into_iter().chain(DELTAS) {
        zernel.hint(&Target::Thread(tid), phase, LONG)?;
        let expected = match delta {
            ..0 => lower,
            0 => base,
            1.. => higher,
        };
        let thread = phases_of(zernel, tid)?.context("it is not listed")?;
        let seen = (thread.phase, nice_of(tid)?, thread.nice);
        check_eq!(seen, (phase, expected, expected - base), "from {base}");
    }
    Ok(())
}

/// Programs of root, who may have any value, and of a user within its limit.
pub(super) fn of_each_phase() -> Outcome {
    // Nobody asked for it.
    in_program(|zernel| check_phases(zernel, tid(), 0, 0, 0))?;
    tune("phase_nice", 1)?;
    for (user, limit, base, lower, higher) in [
        (0, 0, 0, -5, 5),
        (0, 0, 7, 2, 12),
        (0, 0, -3, -8, 2),
        (0, 0, 17, 12, 19),
        (0, 0, -18, -20, -13),
        (ALICE, 0, 0, 0, 5),
        (ALICE, 20, 0, 0, 5),
        (ALICE, 23, 0, -3, 5),
        (ALICE, 25, 0, -5, 5),
        (ALICE, 40, 0, -5, 5),
        (ALICE, 20, 3, 0, 8),
        // Where root has put it.
        (ALICE, 20, -4, -4, 1),
    ] {
        // The lowest that it may have is 20 less the limit.
        let begin = || -> Outcome {
            let (current, maximum) = (Some(limit), Some(limit));
            setrlimit(Resource::Nice, Rlimit { current, maximum })?;
            set_nice(base)?;
            Ok(sys::become_user(user, user, &[])?)
        };
        let check = |zernel: &Zernel, tid: u32| {
            check_phases(zernel, tid, base, lower, higher)
                .with_context(|| format!("user {user} with {limit}"))
        };
        in_child(|| {
            begin()?;
            let zernel = track_self()?;
            check(&zernel, tid())?;
            // The hint is over, and samples tell otherwise.
            hint(&zernel, Phase::GpuCompute, Duration::from_millis(20))?;
            wait_phase(&zernel, Phase::Unknown)?;
            check_eq!(nice()?, base);
            hint(&zernel, Phase::OptimizerStep, LONG)?;
            zernel.untrack(&Target::current_process())?;
            check_eq!(nice()?, base);
            Ok(())
        })?;
        // The privilege of an administrator who tracks it and gives hints does not help.
        let (zernel, child) = (Zernel::open()?, Child::idle(begin)?);
        zernel.track(&Target::Process(child.pid()), Tracking::ML)?;
        wait_recorded(&zernel, child.pid(), 1)?;
        check(&zernel, child.pid())?;
        zernel.hint(&Target::Thread(child.pid()), Phase::GpuCompute, LONG)?;
        zernel.untrack(&Target::Process(child.pid()))?;
        check_eq!(nice_of(child.pid())?, base);
    }
    Ok(())
}

/// The rights of a program that has taken those of another user do not go over to phases that its
/// own user tells.
pub(super) fn of_borrowed_rights() -> Outcome {
    tune("phase_nice", 1)?;
    in_program(|zernel| {
        wait_recorded(zernel, me(), 1)?;
        sys::set_users(ALICE, 0, 0)?;
        check_phases(zernel, tid(), 0, 0, 5)?;
        sys::set_users(0, 0, 0)?;
        check_phases(zernel, tid(), 0, -5, 5)
    })
}

/// A value that somebody else sets is the thread's own from then on.
pub(super) fn set_meanwhile() -> Outcome {
    tune("phase_nice", 1)?;
    in_program(|zernel| {
        let nice_in = |phase| -> Result<i32> {
            hint(zernel, phase, LONG)?;
            nice()
        };
        for (set, phase, expected) in [
            (10, Phase::OptimizerStep, 5),
            (3, Phase::GpuCompute, 8),
            (-12, Phase::DataLoading, -17),
            (0, Phase::GpuCompute, 5),
        ] {
            nice_in(Phase::Collective)?;
            set_nice(set)?;
            // It stays until the phase changes.
            check_eq!((nice()?, own(zernel)?.nice), (set, 0));
            check_eq!(nice_in(Phase::Unknown)?, set);
            check_eq!(nice_in(phase)?, expected);
            set_nice(set)?;
            tune("phase_nice", 0)?;
            check_eq!(nice()?, set);
            tune("phase_nice", 1)?;
        }
        // The same value cannot be told from zernel's own.
        nice_in(Phase::Unknown)?;
        set_nice(11)?;
        check_eq!(nice_in(Phase::GpuCompute)?, 16);
        set_nice(16)?;
        check_eq!(nice_in(Phase::Unknown)?, 11);
        nice_in(Phase::GpuCompute)?;
        set_nice(9)?;
        zernel.untrack(&Target::current_process())?;
        check_eq!(nice()?, 9);
        Ok(())
    })
}

/// A change reaches threads that rest, and is complete when the tunable is written.
pub(super) fn tuned_at_once() -> Outcome {
    const STEPS: [(&str, i32, [i32; 4]); 8] = [
        ("phase_nice", 1, [-5, 5, -5, -5]),
        ("nice_data_loading", -20, [-20, 5, -5, -5]),
        ("nice_gpu_compute", 19, [-20, 19, -5, -5]),
        ("nice_collective", 1, [-20, 19, 1, -5]),
        ("nice_optimizer_step", 0, [-20, 19, 1, 0]),
        ("phase_nice", 0, [0; 4]),
        ("nice_data_loading", -5, [0; 4]),
        ("phase_nice", 1, [-5, 19, 1, 0]),
    ];
    in_program(|zernel| {
        let helpers = (0..4).map(|_| Helper::new()).collect::<Result<Vec<_>>>()?;
        wait_recorded(zernel, me(), 5)?;
        for (helper, (phase, _)) in helpers.iter().zip(DELTAS) {
            zernel.hint(&Target::Thread(helper.tid), phase, LONG)?;
        }
        for (name, value, expected) in STEPS {
            tune(name, value)?;
            for (helper, expected) in helpers.iter().zip(expected) {
                check_eq!(nice_of(helper.tid)?, expected, "{name} is {value}");
            }
        }
        Ok(())
    })
}

/// The phase ends with tracking, and with it its nice value: a thread that is tracked anew begins
/// anew, also before it has let its record go.
pub(super) fn ends_with_tracking() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = &Zernel::open()?;
        let (helper, target) = (Helper::new()?, Target::current_process());
        let both = || anyhow::Ok((nice()?, nice_of(helper.tid)?));
        let mut last = (0, 0);
        for round in 0..10 {
            let begin = Timestamp::now();
            zernel.track(&target, Tracking::ML)?;
            check_eq!(both()?, (0, 0), "round {round}");
            wait_recorded(zernel, me(), 2)?;
            hint(zernel, Phase::GpuCompute, LONG)?;
            zernel.hint(&Target::Thread(helper.tid), Phase::DataLoading, LONG)?;
            check_eq!(both()?, (5, -5), "round {round}");
            let (mine, whole) = (own(zernel)?, own_process(zernel)?);
            let most = Timestamp::now().since(begin).as_nanos() as u64;
            ensure!(mine.id > last.0 && mine.hinted, "{mine:?}");
            let (times, transitions) = (mine.phase_ns, mine.transitions);
            ensure!(transitions == 1 && times.sum() <= most, "{mine:?}");
            if round % 2 == 0 {
                ensure!(whole.id > last.1, "an old id: {whole:?}");
                ensure!(whole.phase_ns.sum() <= 2 * most, "{whole:?} in {most} ns");
            }
            last = (mine.id, whole.id);
            check_eq!(zernel.untrack(&target)?, 0);
            check_eq!(both()?, (0, 0), "round {round}");
            check_eq!(phases_in(zernel, me())?, []);
            if round % 2 == 1 {
                wait_until("it is not listed", || Ok(process(zernel, me())?.is_none()))?;
            }
        }
        zernel.track(&Target::current_thread(), Tracking::ML)?;
        wait_recorded(zernel, me(), 1)?;
        hint(zernel, Phase::GpuCompute, LONG)?;
        check_eq!(nice()?, 5);
        zernel.untrack(&Target::current_thread())?;
        check_eq!(nice()?, 0);
        Ok(())
    })
}

/// Threads and processes begin with what their maker has by itself and hands down, tracked or not.
pub(super) fn of_those_who_are_made() -> Outcome {
    const USUAL: libc::c_int = libc::SCHED_OTHER;
    const RESET: libc::c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    tune("phase_nice", 1)?;
    let made_thread = || std::thread::spawn(nice).join().expect("a thread");
    for (tracking, policy, base, expected) in [
        (Tracking::ML, USUAL, 0, 0),
        (Tracking::ML_CHILDREN, USUAL, 4, 4),
        (Tracking::ML, RESET, -3, 0),
        (Tracking::ML, RESET, 4, 4),
    ] {
        in_child(|| {
            sys::set_policy(0, policy)?;
            set_nice(base)?;
            let zernel = Zernel::open()?;
            zernel.track(&Target::current_process(), tracking)?;
            for (phase, delta) in DELTAS {
                hint(&zernel, phase, LONG)?;
                check_eq!(nice()?, base + delta);
                check_eq!(made_thread()?, expected, "a thread");
                in_child(|| {
                    check_eq!(nice()?, expected, "a process, {phase} from {base}");
                    check_eq!(made_thread()?, expected, "a thread of that");
                    Ok(())
                })?;
                check_eq!(nice()?, base + delta, "the maker");
                // A value that the user sets is inherited, as ever.
                set_nice(11)?;
                in_child(|| {
                    check_eq!(nice()?, 11, "after the maker was set");
                    Ok(())
                })?;
                hint(&zernel, Phase::Unknown, LONG)?;
                check_eq!(nice()?, 11);
                set_nice(base)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Nice values are of the fair scheduler.
pub(super) fn of_other_policies() -> Outcome {
    tune("phase_nice", 1)?;
    in_program(|zernel| {
        let helper = Helper::new()?;
        wait_recorded(zernel, me(), 2)?;
        let hint = |phase| -> Result<i32> {
            zernel.hint(&Target::Thread(helper.tid), phase, LONG)?;
            nice_of(helper.tid)
        };
        for policy in [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_IDLE] {
            sys::set_policy(helper.tid, policy)?;
            for (phase, _) in DELTAS {
                check_eq!(hint(phase)?, 0, "{phase} with {policy}");
            }
            sys::set_policy(helper.tid, libc::SCHED_BATCH)?;
            check_eq!(hint(Phase::GpuCompute)?, 5);
            // It has its own back with the next phase, and when it is a fair one again.
            sys::set_policy(helper.tid, policy)?;
            check_eq!(hint(Phase::DataLoading)?, 0, "since it has {policy}");
            sys::set_policy(helper.tid, libc::SCHED_OTHER)?;
            check_eq!(nice_of(helper.tid)?, 0, "after {policy}");
            check_eq!(hint(Phase::Collective)?, -5);
            check_eq!(hint(Phase::Unknown)?, 0);
        }
        Ok(())
    })
}

/// A thread whose nice value is another keeps the module; without one it goes.
pub(super) fn unload() -> Outcome {
    tune("phase_nice", 1)?;
    let child = Child::idle(|| hint(&track_self()?, Phase::GpuCompute, LONG))?;
    check_eq!(nice_of(child.pid())?, 5);
    try_unload("zernel_sim").ok();
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "in use");
    check_eq!(nice_of(child.pid())?, 5);
    Zernel::open()?.untrack(&Target::Process(child.pid()))?;
    check_eq!(nice_of(child.pid())?, 0);
    wait_until("nobody uses it", || Ok(unload_all().is_ok()))?;
    check_eq!(nice_of(child.pid())?, 0);
    drop(child);
    load_all()
}

/// Without memory nothing changes at first, and what is to be comes with the next samples.
pub(super) fn without_memory() -> Outcome {
    let faults = Faults::of_module("zernel")?;
    let thread = faults.one_by_one()?;
    let count = thread.each(|n| {
        let (result, failed) = thread.nth(n, || tune("phase_nice", 1))?;
        ensure!(result.is_ok() || failed, "{result:?} of itself");
        Ok(failed)
    })?;
    println!("    # {count} steps of turning it on that can fail");
    tune("phase_nice", 1)?;
    let zernel = track_self()?;
    wait_phases(&zernel, me(), 1)?;
    let count = thread.each(|n| {
        let (result, failed) = thread.nth(n, || hint(&zernel, Phase::GpuCompute, LONG))?;
        ensure!(result.is_ok() || failed, "{result:?} of itself");
        if result.is_ok() {
            wait_until("it has what its phase asks for", || Ok(nice()? == 5))?;
        }
        let back = || hint(&zernel, Phase::Unknown, LONG);
        thread.nth(n, back)?.0.or_else(|_| back())?;
        check_eq!(nice()?, 0, "the way back needs no memory");
        Ok(failed)
    })?;
    println!("    # {count} steps of a hint that can fail");
    ensure!(count > 0, "nothing can fail");
    check_eq!(own(&zernel)?.nice, 0);
    zernel.untrack(&Target::current_process())?;
    Ok(())
}
