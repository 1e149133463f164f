// SPDX-License-Identifier: GPL-2.0
//! The programs that have phases: machine-learning programs, those that follow them, and no others.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::sim::Item;
use libzernel::{Phase, Target, Timestamp, Tracking, Zernel};
use rustix::event::{eventfd, EventfdFlags};

use super::{own, own_process, phases_in, phases_of, process, wait_phases};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{tid, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::track::{wait_count, wait_recorded};

fn me() -> u32 {
    std::process::id()
}

fn sleeping() -> Result<()> {
    loop {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Samples are taken of a program whose user has become another one, whoever comes and goes.
pub(super) fn another_user() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        wait_until("there is a sample", || {
            Ok(phases_of(&zernel, tid())?.is_some_and(|own| own.samples > 0))
        })?;
        sys::become_user(ALICE, ALICE, &[])?;
        sleeping()
    })?;
    let samples = || -> Result<Option<u64>> {
        let own = phases_of(&zernel, child.pid())?;
        Ok(own.filter(|own| own.uid == ALICE).map(|own| own.samples))
    };
    wait_until("it is alice's", || Ok(samples()?.is_some()))?;
    for _ in 0..3 {
        let other = Child::spawn(sleeping)?;
        zernel.track(&Target::Process(other.pid()), Tracking::ML)?;
        wait_phases(&zernel, other.pid(), 1)?;
        let before = samples()?.context("it is alice's")?;
        wait_until("there are more samples", || {
            Ok(samples()?.is_some_and(|now| now > before + 5))
        })?;
    }
    Ok(())
}

/// Whatever a process does that is no machine-learning program, beside one that is.
pub(super) fn plain_is_never_anything() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        let program = Child::spawn(sleeping)?;
        let target = Target::Process(program.pid());
        lab.zernel.track(&target, Tracking::ML)?;
        wait_phases(&lab.zernel, program.pid(), 1)?;
        lab.zernel
            .track(&Target::current_process(), Tracking::CHILDREN)?;
        let (context, _) = lab.compute()?;
        for _ in 0..10 {
            let submitted = context.submit(0, &[Item::work(Duration::from_millis(40))])?;
            context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(3) {
                std::hint::spin_loop();
            }
            check_eq!(phases_in(&lab.zernel, me())?, []);
            let mine = own_process(&lab.zernel)?;
            ensure!(!mine.ml && mine.children, "{mine:?}");
            let told = mine.phase_ns.sum() - mine.phase_ns.unknown;
            check_eq!(told, 0, "{mine:?}");
        }
        check_eq!(phases_in(&lab.zernel, program.pid())?.len(), 1);
        Ok(())
    })
}

/// A program is one of machine learning when one of its threads is said to be; nothing takes that
/// away while it is tracked.
pub(super) fn one_thread_is_enough() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let (stop, wait) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            while wait.recv_timeout(Duration::from_millis(5))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {}
        });
        zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
        check_eq!(phases_in(&zernel, me())?, []);
        check_eq!(own_process(&zernel)?.ml, false);
        zernel.track(&Target::current_thread(), Tracking::ML)?;
        let alone = wait_phases(&zernel, me(), 1)?;
        check_eq!(alone[0].tid, tid());
        let mine = own_process(&zernel)?;
        check_eq!((mine.ml, mine.whole, mine.threads), (true, false, 1));
        for tracking in [Tracking::PLAIN, Tracking::ML, Tracking::PLAIN] {
            zernel.track(&Target::current_process(), tracking)?;
            let both = wait_phases(&zernel, me(), 2)?;
            check_eq!(both[0].id, alone[0].id, "the same record");
        }
        let mine = own_process(&zernel)?;
        check_eq!((mine.ml, mine.whole, mine.threads), (true, true, 2));
        drop(stop);
        other.join().expect("a thread that sleeps");
        wait_phases(&zernel, me(), 1)?;
        Ok(())
    })
}

/// With the tunable on, whoever gets a compute TSG is a machine-learning program.
pub(super) fn owners() -> Outcome {
    let zernel = Zernel::open()?;
    let owner = || {
        let lab = Lab::open()?;
        let context = lab.compute()?;
        sleeping()?;
        drop(context);
        Ok(())
    };
    let wait_tsg = |pid: u32| {
        wait_until("it has a TSG", || {
            let mut tsgs = zernel.tsgs();
            Ok(tsgs.any(|tsg| tsg.is_ok_and(|tsg| tsg.pid == pid)))
        })
    };
    let before = Child::spawn(owner)?;
    wait_tsg(before.pid())?;
    tune("track_owners", 1)?;
    let child = Child::spawn(owner)?;
    wait_until("the owner is tracked", || {
        Ok(process(&zernel, child.pid())?.is_some())
    })?;
    let found = process(&zernel, child.pid())?.context("it is not any more")?;
    ensure!(
        found.ml && found.whole && found.privileged && !found.children,
        "{found:?}"
    );
    check_eq!(process(&zernel, before.pid())?, None);
    drop(child);
    wait_count(&zernel, 0)
}

pub(super) fn children() -> Outcome {
    let plain = Tracking::CHILDREN;
    for tracking in [Tracking::ML_CHILDREN, Tracking::ML, plain] {
        in_child(|| {
            let zernel = Zernel::open()?;
            zernel.track(&Target::current_process(), tracking)?;
            wait_recorded(&zernel, me(), 1)?;
            let child = Child::session(|| {
                let grandchild = Child::spawn(sleeping)?;
                sleeping()?;
                drop(grandchild);
                Ok(())
            })?;
            if tracking.children {
                wait_count(&zernel, 3)?;
                wait_recorded(&zernel, child.pid(), 1)?;
            } else {
                std::thread::sleep(Duration::from_millis(50));
            }
            let expected = match (tracking.ml, tracking.children) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 3,
            };
            wait_until(
                &format!("{expected} threads have phases: {tracking:?}"),
                || Ok(zernel.phases().count() == expected),
            )?;
            for found in zernel.processes() {
                let found = found?;
                check_eq!(
                    (found.ml, found.children, found.whole, found.threads),
                    (tracking.ml, tracking.children, true, 1),
                    "{found:?}"
                );
            }
            let count = if tracking.children { 3 } else { 1 };
            check_eq!(zernel.processes().count(), count, "{tracking:?}");
            if tracking.ml && tracking.children {
                // It is said of the parent alone that it is tracked no more.
                zernel.untrack(&Target::current_process())?;
                check_eq!(phases_in(&zernel, child.pid())?.len(), 1);
                let found = process(&zernel, child.pid())?.context("the child is not listed")?;
                ensure!(found.ml, "{found:?}");
            }
            drop(child);
            Ok(())
        })?;
        wait_count(&Zernel::open()?, 0)?;
    }
    Ok(())
}

/// Phases and their times go on when the program is another one.
pub(super) fn exec() -> Outcome {
    let zernel = Zernel::open()?;
    let go = eventfd(0, EventfdFlags::CLOEXEC)?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        zernel.hint(
            &Target::CurrentThread,
            Phase::Collective,
            Duration::from_millis(10),
        )?;
        std::thread::sleep(Duration::from_millis(30));
        rustix::io::read(&go, &mut [0; 8])?;
        sys::exec_sleep()?;
        Ok(())
    })?;
    wait_until("it has been in a phase", || {
        let thread = phases_of(&zernel, child.pid())?;
        Ok(thread.is_some_and(|t| !t.hinted && t.phase_ns.collective >= 10_000_000))
    })?;
    let before = phases_of(&zernel, child.pid())?.context("not listed")?;
    let was = process(&zernel, child.pid())?.context("not listed")?;
    rustix::io::write(&go, &1u64.to_ne_bytes())?;
    wait_until("it is another program", || {
        let thread = phases_of(&zernel, child.pid())?;
        Ok(thread.is_some_and(|thread| thread.comm == "sleep"))
    })?;
    let after = phases_of(&zernel, child.pid())?.context("not listed")?;
    check_eq!(after.id, before.id, "the same record");
    for phase in Phase::ALL {
        let (was, is) = (before.phase_ns.of(phase), after.phase_ns.of(phase));
        ensure!(is >= was, "{phase}: {was} ns became {is} ns");
    }
    let is = process(&zernel, child.pid())?.context("not listed")?;
    check_eq!((is.id, is.ml, is.comm.as_str()), (was.id, true, "sleep"));
    drop(child);
    Ok(())
}

/// A thread that is tracked anew begins anew.
pub(super) fn untrack_forgets() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let target = Target::current_process();
        let mut last = (0, 0);
        for _ in 0..10 {
            let begin = Timestamp::now();
            zernel.track(&target, Tracking::ML)?;
            zernel.hint(
                &Target::CurrentThread,
                Phase::OptimizerStep,
                Duration::from_secs(60),
            )?;
            std::thread::sleep(Duration::from_millis(20));
            let (mine, whole) = (own(&zernel)?, own_process(&zernel)?);
            let most = Timestamp::now().since(begin).as_nanos() as u64;
            ensure!(
                mine.id > last.0 && whole.id > last.1,
                "an old id: {mine:?} {whole:?}"
            );
            ensure!(mine.hinted && mine.transitions == 1, "{mine:?}");
            for (what, times) in [("thread", mine.phase_ns), ("process", whole.phase_ns)] {
                ensure!(times.sum() <= most, "{what}: {times:?} in {most} ns");
                ensure!(times.optimizer_step > 0, "{what}: {times:?}");
            }
            last = (mine.id, whole.id);
            check_eq!(zernel.untrack(&target)?, 0);
            check_eq!(phases_in(&zernel, me())?, []);
            wait_until("the process is not listed", || {
                Ok(process(&zernel, me())?.is_none())
            })?;
        }
        Ok(())
    })
}
