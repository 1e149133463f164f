// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs that have phases: machine-learning programs, those that follow them, and no others;
//! and the users who see them and give hints.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::{Phase, Target, Timestamp, Tracking, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::nice::{nice_of, set_nice};
use super::{
    hint, me, own_process, phases_in, phases_of, process, track_self, wait_phases, Helper, LONG, MS,
};
use crate::abi::unchanged;
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tid, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::list::PERFMON;
use crate::permit::{owner_process, ALICE, BOB, GROUP, NICE};
use crate::sys;
use crate::track::{wait_count, wait_recorded};

/// Threads that are not tracked, not as ones of a machine-learning program, or not any more.
pub(super) fn who_has_none() -> Outcome {
    let lab = Lab::open()?;
    let (zernel, me) = (&lab.zernel, Target::current_process());
    let child = Child::idle(|| Ok(()))?;
    let refused = |what: &str| -> Outcome {
        for target in [Target::CurrentThread, Target::Thread(child.pid())] {
            for duration in [LONG, Duration::ZERO] {
                let answer = unchanged(zernel, || {
                    Ok(errno(zernel.hint(&target, Phase::Unknown, duration)))
                })?;
                check_eq!(answer, Some(Errno::NODATA), "{what}: {target:?}");
            }
        }
        check_eq!(zernel.phases().count(), 0, "{what}");
        Ok(())
    };
    refused("not tracked")?;
    zernel.track(&me, Tracking::PLAIN)?;
    refused("tracked without phases")?;
    // Also one that computes.
    let (context, _) = lab.compute()?;
    for _ in 0..10 {
        let submitted = context.submit(0, &[Item::work(Duration::from_millis(40))])?;
        context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
        crate::gpuwait::spin(Duration::from_millis(3));
        let mine = own_process(zernel)?;
        let all = mine.phase_ns.sum();
        check_eq!((mine.ml, mine.phase_ns.unknown), (false, all), "{mine:?}");
    }
    zernel.track(&me, Tracking::ML)?;
    hint(zernel, Phase::Unknown, LONG)?;
    zernel.untrack(&me)?;
    refused("not tracked any more")?;
    zernel.track(&me, Tracking::PLAIN)?;
    refused("tracked again, without phases")
}

/// Samples are taken of a program whose user has become another one, while others come and go.
pub(super) fn another_user() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| {
        let zernel = track_self()?;
        wait_until("there is a sample", || {
            Ok(phases_of(&zernel, tid())?.is_some_and(|own| own.samples > 0))
        })?;
        Ok(sys::become_user(ALICE, ALICE, &[])?)
    })?;
    let look = || phases_of(&zernel, child.pid())?.context("it is not listed");
    wait_until("it is alice's", || Ok(look()?.uid == ALICE))?;
    for _ in 0..3 {
        let other = Child::idle(|| Ok(()))?;
        zernel.track(&Target::Process(other.pid()), Tracking::ML)?;
        wait_phases(&zernel, other.pid(), 1)?;
        let before = look()?.samples;
        wait_until("there are more", || Ok(look()?.samples > before + 5))?;
    }
    Ok(())
}

/// A program is one of machine learning when one of its threads is said to be; nothing takes that
/// away while it is tracked.
pub(super) fn one_thread_is_enough() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let helper = Helper::new()?;
        let expect = |expected: (bool, bool, u32)| -> Outcome {
            let mine = own_process(&zernel)?;
            check_eq!((mine.ml, mine.whole, mine.threads), expected);
            Ok(())
        };
        zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
        check_eq!(phases_in(&zernel, me())?, []);
        expect((false, false, 1))?;
        zernel.track(&Target::current_thread(), Tracking::ML)?;
        let alone = wait_phases(&zernel, me(), 1)?;
        check_eq!(alone[0].tid, tid());
        expect((true, false, 1))?;
        for tracking in [Tracking::PLAIN, Tracking::ML, Tracking::PLAIN] {
            zernel.track(&Target::current_process(), tracking)?;
            let both = wait_phases(&zernel, me(), 2)?;
            check_eq!(both[0].id, alone[0].id, "the same record");
        }
        expect((true, true, 2))?;
        drop(helper);
        wait_phases(&zernel, me(), 1)?;
        Ok(())
    })
}

/// With the tunable on, the owner of a new compute TSG is a machine-learning program.
pub(super) fn owners() -> Outcome {
    let zernel = Zernel::open()?;
    let before = owner_process(0)?;
    tune("track_owners", 1)?;
    let child = owner_process(0)?;
    wait_phases(&zernel, child.pid(), 1)?;
    let found = process(&zernel, child.pid())?.context("it is not listed")?;
    let seen = (found.ml, found.whole, found.privileged, found.children);
    check_eq!(seen, (true, true, true, false));
    check_eq!(process(&zernel, before.pid())?, None);
    drop(child);
    wait_count(&zernel, 0)
}

pub(super) fn children() -> Outcome {
    for (tracking, count, phases) in [
        (Tracking::ML_CHILDREN, 3, 3),
        (Tracking::ML, 1, 1),
        (Tracking::CHILDREN, 3, 0),
    ] {
        in_child(|| {
            let zernel = Zernel::open()?;
            zernel.track(&Target::current_process(), tracking)?;
            wait_recorded(&zernel, me(), 1)?;
            let child = Child::session(|| {
                let _grandchild = Child::idle(|| Ok(()))?;
                loop {
                    std::thread::sleep(Duration::from_millis(5));
                }
            })?;
            if tracking.children {
                wait_recorded(&zernel, child.pid(), 1)?;
            } else {
                std::thread::sleep(Duration::from_millis(50));
            }
            wait_count(&zernel, count)?;
            wait_until(&format!("{phases} have phases: {tracking:?}"), || {
                Ok(zernel.phases().count() == phases)
            })?;
            let found = zernel.processes().collect::<libzernel::Result<Vec<_>>>()?;
            check_eq!(found.len() as u64, count, "{tracking:?}");
            for found in found {
                let seen = (found.ml, found.children, found.whole, found.threads);
                check_eq!(seen, (tracking.ml, tracking.children, true, 1), "{found:?}");
            }
            if phases == 3 {
                // It is said of the parent alone that it is tracked no more.
                zernel.untrack(&Target::current_process())?;
                check_eq!(phases_in(&zernel, child.pid())?.len(), 1);
                let found = process(&zernel, child.pid())?.context("it is not listed")?;
                check_eq!(found.ml, true, "{found:?}");
            }
            Ok(())
        })?;
        wait_count(&Zernel::open()?, 0)?;
    }
    Ok(())
}

/// Phases, their times and nice values go on when the program is another one.
pub(super) fn exec() -> Outcome {
    tune("phase_nice", 1)?;
    let zernel = Zernel::open()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(|| {
        set_nice(2)?;
        let zernel = track_self()?;
        hint(&zernel, Phase::GpuCompute, LONG)?;
        passing::receive_number(&its)?;
        Ok(sys::exec_sleep()?)
    })?;
    let pid = child.pid();
    let look = || phases_of(&zernel, pid)?.context("it is not listed");
    wait_until("it is in a phase", || {
        Ok(phases_of(&zernel, pid)?.is_some_and(|thread| thread.phase_ns.gpu_compute > MS))
    })?;
    let (before, was) = (look()?, process(&zernel, pid)?.context("not listed")?);
    check_eq!((before.hinted, nice_of(pid)?), (true, 7));
    passing::send_number(&ours, 1)?;
    wait_until("it is another program", || Ok(look()?.comm == "sleep"))?;
    let after = look()?;
    check_eq!(after.id, before.id, "the same record");
    for phase in Phase::ALL {
        let (was, is) = (before.phase_ns.of(phase), after.phase_ns.of(phase));
        ensure!(is >= was, "{phase}: {was} ns became {is} ns");
    }
    let is = process(&zernel, pid)?.context("not listed")?;
    check_eq!((is.id, is.ml, is.comm.as_str()), (was.id, true, "sleep"));
    check_eq!(nice_of(pid)?, 7);
    zernel.hint(&Target::Thread(pid), Phase::DataLoading, LONG)?;
    check_eq!(nice_of(pid)?, -3);
    zernel.untrack(&Target::Process(pid))?;
    check_eq!(nice_of(pid)?, 2);
    Ok(())
}

/// A change of a process before its action.
pub type Become<'a> = &'a dyn Fn() -> Result<()>;

/// The user that targets belong to.
pub fn alice() -> Result<()> {
    Ok(sys::become_user(ALICE, ALICE, &[])?)
}

/// Another user.
pub fn bob() -> Result<()> {
    Ok(sys::become_user(BOB, BOB, &[])?)
}

/// Another user, who sees everything.
pub fn perfmon() -> Result<()> {
    Ok(sys::become_user_with(BOB, BOB, PERFMON)?)
}

/// Another user, who may raise.
pub fn nice() -> Result<()> {
    Ok(sys::become_user_with(BOB, BOB, NICE)?)
}

/// A user without anything.
pub fn stranger() -> Result<()> {
    Ok(sys::become_user(1002, 1002, &[])?)
}

/// A program of Alice's that is set-user-ID: not hers to watch.
pub fn raised() -> Result<()> {
    Ok(sys::set_users(ALICE, 0, 0)?)
}

/// A tracked process that comes back to user space all the time, after it has become somebody.
fn program_of(zernel: &Zernel, by: fn() -> Result<()>, tracking: Tracking) -> Result<Child> {
    let child = Child::idle(by)?;
    zernel.track(&Target::Process(child.pid()), tracking)?;
    wait_recorded(zernel, child.pid(), 1)?;
    Ok(child)
}

pub(super) fn who_sees() -> Outcome {
    let zernel = Zernel::open()?;
    // The third is not a machine-learning program: a process without phases.
    let programs = [
        program_of(&zernel, alice, Tracking::ML)?,
        program_of(&zernel, bob, Tracking::ML)?,
        program_of(&zernel, alice, Tracking::PLAIN)?,
        program_of(&zernel, raised, Tracking::ML)?,
    ];
    let [a, b, p, r] = programs.each_ref().map(Child::pid);
    let root = || Ok(());
    for (by, phases, processes) in [
        (&root as Become<'_>, &[a, b, r][..], &[a, b, p, r][..]),
        (&alice, &[a], &[a, p]),
        (&bob, &[b], &[b]),
        (&stranger, &[], &[]),
        (&perfmon, &[a, b, r], &[a, b, p, r]),
    ] {
        in_child(|| {
            by()?;
            let zernel = Zernel::open()?;
            let mut pids = Vec::new();
            for process in zernel.processes() {
                let process = process?;
                check_eq!(process.ml, process.pid != p, "{process:?}");
                check_eq!(process.privileged || process.pid == r, true, "{process:?}");
                let seen = (process.whole, process.children, process.threads);
                check_eq!(seen, (true, false, 1), "{process:?}");
                pids.push(process.pid);
            }
            check_eq!(pids, processes);
            let threads = zernel.phases().collect::<libzernel::Result<Vec<_>>>()?;
            let pids: Vec<_> = threads.iter().map(|thread| thread.pid).collect();
            check_eq!(pids, phases);
            Ok(())
        })?;
    }
    Ok(())
}

pub(super) fn who_may_hint() -> Outcome {
    let zernel = Zernel::open()?;
    tune("lc_gid", GROUP)?;
    let program = program_of(&zernel, alice, Tracking::ML)?;
    let denied = zernel.stats()?.denied;
    let member = || Ok(sys::become_user(BOB, BOB, &[GROUP])?);
    let (phase, eperm) = (Phase::OptimizerStep, Some(Errno::PERM));
    for (by, duration, expected, hinted) in [
        (&bob as Become<'_>, LONG, eperm, false),
        // To see it is not enough.
        (&perfmon, LONG, eperm, false),
        (&alice, LONG, None, true),
        (&bob, Duration::ZERO, eperm, true),
        (&alice, Duration::ZERO, None, false),
        (&nice, LONG, None, true),
        (&nice, Duration::ZERO, None, false),
        (&member, LONG, None, true),
        (&member, Duration::ZERO, None, false),
    ] {
        in_child(|| {
            by()?;
            let answer = Zernel::open()?.hint(&Target::Thread(program.pid()), phase, duration);
            check_eq!(errno(answer), expected);
            Ok(())
        })?;
        let thread = phases_of(&zernel, program.pid())?.context("alice's is not listed")?;
        check_eq!(thread.hinted, hinted);
        ensure!(!hinted || thread.phase == phase, "{thread:?}");
    }
    check_eq!(zernel.stats()?.denied, denied + 3);
    Ok(())
}
