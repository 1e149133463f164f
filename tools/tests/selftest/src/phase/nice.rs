// SPDX-License-Identifier: GPL-2.0
//! Nice values of phases: what a thread has in each, within which limits, and that it gets its own
//! back whatever happens.

pub mod privilege;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Phase, Target, Tracking, Zernel};
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process, setrlimit, Pid, Resource, Rlimit};
use testkit::faults::Faults;
use testkit::{passing, Repeat};

use super::{own, phases_of, wait_phases};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{load_all, tid, try_unload, tune, unload_all, wait_until};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::track::wait_recorded;

const LONG: Duration = Duration::from_secs(60);

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

fn set_nice(nice: i32) -> Result<()> {
    Ok(setpriority_process(pid_of(tid()), nice)?)
}

/// Tracks the calling process, whose threads have a phase as soon as they are told.
fn track_self() -> Result<Zernel> {
    let zernel = Zernel::open()?;
    zernel.track(&Target::current_process(), Tracking::ML)?;
    Ok(zernel)
}

/// The caller may have a nice value of 20 less this.
fn limit(rlimit: u64) -> Result<()> {
    let limit = Rlimit {
        current: Some(rlimit),
        maximum: Some(rlimit),
    };
    Ok(setrlimit(Resource::Nice, limit)?)
}

fn become_alice() -> Result<()> {
    Ok(sys::become_user(ALICE, ALICE, &[])?)
}

/// A thread that does what it is told, until this is dropped.
pub struct Helper {
    pub tid: u32,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Helper {
    /// One that comes back to user space all the time.
    pub fn new() -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(tid()).expect("somebody listens");
            while wait.recv_timeout(Duration::from_millis(2))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {}
        });
        Ok(Self {
            tid: told.recv()?,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Nobody asked for it.
pub(super) fn off() -> Outcome {
    in_child(|| {
        let zernel = track_self()?;
        for (phase, _) in DELTAS {
            zernel.hint(&Target::CurrentThread, phase, LONG)?;
            check_eq!((nice()?, own(&zernel)?.nice), (0, 0), "{phase}");
        }
        Ok(())
    })
}

/// With the right to have any nice value, as root has.
pub(super) fn of_each_phase() -> Outcome {
    tune("phase_nice", 1)?;
    for base in [0, 7, -3, 17, -18] {
        in_child(|| {
            set_nice(base)?;
            let zernel = track_self()?;
            check_eq!(nice()?, base);
            for (phase, delta) in DELTAS.into_iter().chain(DELTAS) {
                zernel.hint(&Target::CurrentThread, phase, LONG)?;
                let expected = (base + delta).clamp(-20, 19);
                check_eq!(nice()?, expected, "{phase} from {base}");
                let thread = own(&zernel)?;
                check_eq!((thread.phase, thread.nice), (phase, expected - base));
            }
            // When the hint is over and samples tell otherwise.
            zernel.hint(
                &Target::CurrentThread,
                Phase::GpuCompute,
                Duration::from_millis(20),
            )?;
            wait_until("samples tell of another phase", || {
                Ok(own(&zernel)?.phase == Phase::Unknown)
            })?;
            check_eq!(nice()?, base);
            Ok(())
        })?;
    }
    Ok(())
}

/// A program of a user, tracked by that user.
pub(super) fn within_limits() -> Outcome {
    tune("phase_nice", 1)?;
    for (rlimit, base, lower) in [
        (0, 0, 0),
        (20, 0, 0),
        (23, 0, -3),
        (25, 0, -5),
        (40, 0, -5),
        (20, 3, 0),
        // Where root has put it.
        (20, -4, -4),
    ] {
        in_child(|| {
            limit(rlimit)?;
            set_nice(base)?;
            become_alice()?;
            let zernel = track_self()?;
            for (phase, delta) in DELTAS {
                zernel.hint(&Target::CurrentThread, phase, LONG)?;
                let expected = if delta < 0 { lower } else { base + delta };
                check_eq!(nice()?, expected, "{phase} from {base} with {rlimit}");
                check_eq!(own(&zernel)?.nice, expected - base);
            }
            zernel.untrack(&Target::current_process())?;
            check_eq!(nice()?, base);
            Ok(())
        })?;
    }
    Ok(())
}

/// A value that somebody else sets is the thread's own from then on.
pub(super) fn set_meanwhile() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = track_self()?;
        for (set, phase, expected) in [
            (10, Phase::OptimizerStep, 5),
            (3, Phase::GpuCompute, 8),
            (-12, Phase::DataLoading, -17),
            (0, Phase::GpuCompute, 5),
        ] {
            zernel.hint(&Target::CurrentThread, Phase::Collective, LONG)?;
            set_nice(set)?;
            // It stays until the phase changes.
            check_eq!((nice()?, own(&zernel)?.nice), (set, 0));
            zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)?;
            check_eq!(nice()?, set);
            zernel.hint(&Target::CurrentThread, Phase::Collective, LONG)?;
            zernel.hint(&Target::CurrentThread, phase, LONG)?;
            check_eq!(nice()?, expected);
            set_nice(set)?;
            tune("phase_nice", 0)?;
            check_eq!(nice()?, set);
            tune("phase_nice", 1)?;
        }
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        set_nice(11)?;
        zernel.untrack(&Target::current_process())?;
        check_eq!(nice()?, 11);
        // The same value cannot be told from zernel's own.
        zernel.track(&Target::current_process(), Tracking::ML)?;
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        check_eq!(nice()?, 16);
        set_nice(16)?;
        zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)?;
        check_eq!(nice()?, 11);
        Ok(())
    })
}

/// A change reaches threads that rest, and is complete when the tunable is written.
pub(super) fn tuned_at_once() -> Outcome {
    in_child(|| {
        let zernel = track_self()?;
        let helpers: Vec<_> = (0..4).map(|_| Helper::new()).collect::<Result<_>>()?;
        wait_recorded(&zernel, std::process::id(), 5)?;
        for (helper, (phase, _)) in helpers.iter().zip(DELTAS) {
            zernel.hint(&Target::Thread(helper.tid), phase, LONG)?;
        }
        let expect = |expected: [i32; 4]| -> Outcome {
            for (helper, expected) in helpers.iter().zip(expected) {
                check_eq!(nice_of(helper.tid)?, expected);
            }
            Ok(())
        };
        expect([0; 4])?;
        for _ in 0..3 {
            tune("phase_nice", 1)?;
            expect([-5, 5, -5, -5])?;
            tune("nice_data_loading", -20)?;
            tune("nice_gpu_compute", 19)?;
            expect([-20, 19, -5, -5])?;
            tune("nice_collective", 1)?;
            tune("nice_optimizer_step", 0)?;
            expect([-20, 19, 1, 0])?;
            tune("phase_nice", 0)?;
            expect([0; 4])?;
            tune("nice_data_loading", -5)?;
            tune("nice_gpu_compute", 5)?;
            tune("nice_collective", -5)?;
            tune("nice_optimizer_step", -5)?;
            expect([0; 4])?;
        }
        Ok(())
    })
}

pub(super) fn ends_with_tracking() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = track_self()?;
        let helper = Helper::new()?;
        for round in 0..10 {
            wait_recorded(&zernel, std::process::id(), 2)?;
            zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
            zernel.hint(&Target::Thread(helper.tid), Phase::DataLoading, LONG)?;
            check_eq!((nice()?, nice_of(helper.tid)?), (5, -5), "round {round}");
            zernel.untrack(&Target::current_process())?;
            check_eq!((nice()?, nice_of(helper.tid)?), (0, 0), "round {round}");
            // It is tracked again before it has let its record go: without a phase.
            zernel.track(&Target::current_process(), Tracking::ML)?;
            check_eq!((nice()?, nice_of(helper.tid)?), (0, 0), "round {round}");
        }
        zernel.untrack(&Target::current_process())?;
        zernel.track(&Target::current_thread(), Tracking::ML)?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        check_eq!(nice()?, 5);
        zernel.untrack(&Target::current_thread())?;
        check_eq!(nice()?, 0);
        Ok(())
    })
}

/// Threads and processes begin with what their maker has by itself, tracked or not.
pub(super) fn of_those_who_are_made() -> Outcome {
    tune("phase_nice", 1)?;
    for (tracking, base) in [(Tracking::ML, 0), (Tracking::ML_CHILDREN, 4)] {
        in_child(|| {
            set_nice(base)?;
            let zernel = Zernel::open()?;
            zernel.track(&Target::current_process(), tracking)?;
            for (phase, delta) in [(Phase::GpuCompute, 5), (Phase::DataLoading, -5)] {
                zernel.hint(&Target::CurrentThread, phase, LONG)?;
                check_eq!(nice()?, base + delta);
                let thread = std::thread::spawn(nice).join().expect("a thread");
                check_eq!(thread?, base, "a thread");
                let nested = || std::thread::spawn(nice).join().expect("a thread");
                let thread = std::thread::spawn(nested).join().expect("a thread");
                check_eq!(thread?, base, "a thread of a thread");
                in_child(|| {
                    check_eq!(nice()?, base, "a process");
                    in_child(|| {
                        check_eq!(nice()?, base, "a process of that");
                        Ok(())
                    })
                })?;
                check_eq!(nice()?, base + delta, "the maker");
                // A value that the user sets is inherited, as ever.
                set_nice(11)?;
                in_child(|| {
                    check_eq!(nice()?, 11, "after the maker was set");
                    Ok(())
                })?;
                zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)?;
                check_eq!(nice()?, 11);
                set_nice(base)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A value that a thread does not hand down stays with it.
pub(super) fn reset_on_fork() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        sys::set_policy(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK)?;
        for base in [-3, 0, 4] {
            set_nice(base)?;
            let zernel = track_self()?;
            for (phase, delta) in [
                (Phase::GpuCompute, 5),
                (Phase::DataLoading, -5),
                (Phase::Unknown, 0),
            ] {
                zernel.hint(&Target::CurrentThread, phase, LONG)?;
                check_eq!(nice()?, base + delta);
                in_child(|| {
                    check_eq!(nice()?, base.max(0), "{phase} from {base}");
                    Ok(())
                })?;
            }
        }
        Ok(())
    })
}

pub(super) fn exec() -> Outcome {
    tune("phase_nice", 1)?;
    let zernel = Zernel::open()?;
    let go = eventfd(0, EventfdFlags::CLOEXEC)?;
    let child = Child::spawn(|| {
        set_nice(2)?;
        let zernel = track_self()?;
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        rustix::io::read(&go, &mut [0; 8])?;
        sys::exec_sleep()?;
        Ok(())
    })?;
    wait_until("it is in a phase", || {
        let thread = phases_of(&zernel, child.pid())?;
        Ok(thread.is_some_and(|thread| thread.hinted))
    })?;
    check_eq!(nice_of(child.pid())?, 7);
    rustix::io::write(go.as_fd(), &1u64.to_ne_bytes())?;
    wait_until("it is another program", || {
        let thread = phases_of(&zernel, child.pid())?;
        Ok(thread.is_some_and(|thread| thread.comm == "sleep"))
    })?;
    check_eq!(nice_of(child.pid())?, 7);
    zernel.hint(&Target::Thread(child.pid()), Phase::DataLoading, LONG)?;
    check_eq!(nice_of(child.pid())?, -3);
    zernel.untrack(&Target::Process(child.pid()))?;
    check_eq!(nice_of(child.pid())?, 2);
    drop(child);
    Ok(())
}

/// Nice values are of the fair scheduler.
pub(super) fn of_other_policies() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = track_self()?;
        let helper = Helper::new()?;
        wait_recorded(&zernel, std::process::id(), 2)?;
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

/// Hints, threads and processes that come and go, and the tunable, all at once.
pub(super) fn races() -> Outcome {
    const HINTED: usize = 3;
    static STOP: AtomicBool = AtomicBool::new(false);
    static WRONG: AtomicU32 = AtomicU32::new(0);
    static TIDS: [AtomicU32; HINTED] = [const { AtomicU32::new(0) }; HINTED];
    let check = || match nice() {
        Ok(0) => {}
        _ => {
            WRONG.fetch_add(1, Relaxed);
        }
    };
    let mut repeat = Repeat::new(60, "times the tunable on and off");
    in_child(|| {
        let zernel = track_self()?;
        // Each is hinted by another thread while it makes threads and processes.
        let makers: Vec<_> = (0..HINTED)
            .map(|number| {
                std::thread::spawn(move || -> Outcome {
                    TIDS[number].store(tid(), Relaxed);
                    while !STOP.load(Relaxed) {
                        if number == 0 {
                            in_child(|| {
                                check_eq!(nice()?, 0, "a process");
                                Ok(())
                            })?;
                        } else {
                            std::thread::spawn(check).join().expect("a thread");
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let hinter = std::thread::spawn(|| -> Outcome {
            let zernel = Zernel::open()?;
            let mut turn = 0;
            while !STOP.load(Relaxed) {
                let thread = TIDS[turn % HINTED].load(Relaxed);
                turn += 1;
                if thread != 0 {
                    let phase = Phase::ALL[turn % Phase::ALL.len()];
                    // Before it is recorded it has none.
                    let _ = zernel.hint(&Target::Thread(thread), phase, Duration::from_millis(1));
                }
            }
            Ok(())
        });
        // One that sets its own all the time, within what is its base in the end.
        let setter = std::thread::spawn(|| -> Outcome {
            let zernel = Zernel::open()?;
            while !STOP.load(Relaxed) {
                let _ = zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG);
                for value in [0, 3, 6] {
                    set_nice(value)?;
                }
            }
            wait_until("a phase that asks for nothing", || {
                Ok(zernel
                    .hint(&Target::CurrentThread, Phase::Unknown, LONG)
                    .is_ok())
            })?;
            set_nice(6)?;
            zernel.hint(&Target::CurrentThread, Phase::OptimizerStep, LONG)?;
            zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)?;
            check_eq!(nice()?, 6, "what it has set");
            Ok(())
        });
        while repeat.next().is_some() {
            tune("phase_nice", repeat.done() % 2)?;
            if repeat.done() % 16 == 0 {
                zernel.untrack(&Target::current_process())?;
                zernel.track(&Target::current_process(), Tracking::ML)?;
            }
        }
        println!("    # {}", repeat.report());
        STOP.store(true, Relaxed);
        for maker in makers {
            maker.join().expect("one that makes threads")?;
        }
        hinter.join().expect("one that gives hints")?;
        tune("phase_nice", 1)?;
        setter.join().expect("one that sets")?;
        check_eq!(WRONG.load(Relaxed), 0, "threads with another nice value");
        check_eq!(nice()?, 0);
        Ok(())
    })
}

/// A thread whose nice value is another keeps the module; without one it goes.
pub(super) fn unload() -> Outcome {
    tune("phase_nice", 1)?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        {
            let zernel = track_self()?;
            zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        }
        loop {
            let last = passing::receive_number(&theirs)? == 0;
            in_child(|| {
                check_eq!(nice()?, 0);
                Ok(())
            })?;
            passing::send_number(&theirs, nice()? as u64)?;
            if last {
                return Ok(());
            }
        }
    })?;
    let nice_there = |more: u64| -> Result<u64> {
        passing::send_number(&ours, more)?;
        passing::receive_number(&ours)
    };
    check_eq!(nice_there(1)?, 5);
    try_unload("zernel_sim").ok();
    check_eq!(try_unload("zernel"), Err(Errno::AGAIN), "in use");
    check_eq!(nice_there(1)?, 5);
    Zernel::open()?.untrack(&Target::Process(child.pid()))?;
    check_eq!(nice_there(1)?, 0);
    wait_until("nobody uses it", || Ok(unload_all().is_ok()))?;
    check_eq!(nice_there(0)?, 0);
    child.join()?;
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
    wait_phases(&zernel, std::process::id(), 1)?;
    let count = thread.each(|n| {
        let hint = || zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG);
        let (result, failed) = thread.nth(n, hint)?;
        ensure!(result.is_ok() || failed, "{result:?} of itself");
        if result.is_ok() {
            wait_until("it has what its phase asks for", || Ok(nice()? == 5))?;
        }
        let (back, _) = thread.nth(n, || {
            zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)
        })?;
        back.or_else(|_| zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG))?;
        check_eq!(nice()?, 0, "the way back needs no memory");
        Ok(failed)
    })?;
    println!("    # {count} steps of a hint that can fail");
    ensure!(count > 0, "nothing can fail");
    let before = phases_of(&zernel, tid())?.context("not listed")?;
    check_eq!(before.nice, 0);
    zernel.untrack(&Target::current_process())?;
    Ok(())
}
