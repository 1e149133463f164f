// SPDX-License-Identifier: GPL-2.0
//! The counting of phases: to the nanosecond, and nothing is lost when a thread exits.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Phase, Target, Thread, Timestamp, Tracking, Zernel};

use super::{own, own_process, wait_phases, MS};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tid, wait_until};
use crate::harness::Outcome;
use crate::track;

const LONG: Duration = Duration::from_secs(60);

/// All times together are the time since it is recorded, and none ever decreases.
pub(super) fn add_up() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        let recorded = || -> Result<u64> {
            let thread = track::thread(&zernel, tid())?.context("it is not listed")?;
            Ok(thread.recorded_ns())
        };
        let look = || -> Result<Thread> {
            let least = recorded()?;
            let phases = own(&zernel)?;
            let most = recorded()?;
            let sum = phases.phase_ns.sum();
            ensure!(
                (least..=most).contains(&sum),
                "{sum} ns in phases, recorded {least} to {most} ns"
            );
            let present = phases.phase_ns.of(phases.phase);
            ensure!(phases.present_ns <= present, "{phases:?}");
            Ok(phases)
        };
        let mut last = look()?;
        for round in 0..200 {
            let phase = Phase::ALL[round % Phase::ALL.len()];
            match round % 4 {
                0 => zernel.hint(&Target::CurrentThread, phase, LONG)?,
                1 => std::thread::sleep(Duration::from_micros(1_500)),
                2 => zernel.hint(&Target::CurrentThread, phase, Duration::from_micros(300))?,
                _ => zernel.hint(&Target::CurrentThread, phase, Duration::ZERO)?,
            }
            let now = look()?;
            check_eq!(now.id, last.id);
            for phase in Phase::ALL {
                let (was, is) = (last.phase_ns.of(phase), now.phase_ns.of(phase));
                ensure!(is >= was, "{phase}: {was} ns became {is} ns");
            }
            ensure!(
                now.transitions >= last.transitions && now.samples >= last.samples,
                "{last:?} became {now:?}"
            );
            last = now;
        }
        Ok(())
    })
}

/// Every change of the phase is one, and what stays the same is none.
pub(super) fn transitions() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        let fresh = own(&zernel)?;
        check_eq!((fresh.phase, fresh.transitions), (Phase::Unknown, 0));
        // The phase that it is in already.
        zernel.hint(&Target::CurrentThread, Phase::Unknown, LONG)?;
        check_eq!(own(&zernel)?.transitions, 0);
        let mut expected = 0;
        for round in 1..50 {
            let phase = Phase::ALL[round % Phase::ALL.len()];
            for _ in 0..3 {
                let begin = Timestamp::now();
                zernel.hint(&Target::CurrentThread, phase, LONG)?;
                let now = own(&zernel)?;
                if now.transitions > expected {
                    // It begins with the hint.
                    let most = Timestamp::now().since(begin).as_nanos() as u64;
                    ensure!(now.present_ns <= most, "{now:?} within {most} ns");
                    expected += 1;
                }
                check_eq!((now.phase, now.transitions), (phase, expected));
            }
            check_eq!(expected, round as u64, "changes of the phase");
        }
        Ok(())
    })
}

/// The times of threads that have exited stay in the sums of their process.
pub(super) fn exited() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        wait_phases(&zernel, std::process::id(), 1)?;
        let begin = Timestamp::now();
        let before = own_process(&zernel)?.phase_ns;
        let mut least = 0;
        for _ in 0..5 {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    std::thread::spawn(|| -> Result<u64> {
                        let zernel = Zernel::open()?;
                        zernel.hint(&Target::CurrentThread, Phase::Collective, LONG)?;
                        let hinted = Timestamp::now();
                        std::thread::sleep(Duration::from_millis(20));
                        Ok(Timestamp::now().since(hinted).as_nanos() as u64)
                    })
                })
                .collect();
            for thread in threads {
                least += thread.join().expect("a thread that sleeps")?;
            }
        }
        wait_until("the threads have gone", || {
            Ok(own_process(&zernel)?.threads == 1)
        })?;
        let after = own_process(&zernel)?.phase_ns;
        let wall = Timestamp::now().since(begin).as_nanos() as u64;
        let hinted = after.collective - before.collective;
        ensure!(hinted >= least, "{hinted} ns of {least} ns at least");
        // The first thread and four others at a time.
        let all = after.sum() - before.sum();
        ensure!(all <= 5 * wall, "{all} ns in {wall} ns");
        ensure!(all >= least + 100 * MS, "{all} ns, hints alone {least} ns");
        // It stays.
        std::thread::sleep(Duration::from_millis(10));
        let later = own_process(&zernel)?.phase_ns;
        check_eq!(later.collective, after.collective);
        ensure!(later.sum() > after.sum(), "{after:?} became {later:?}");
        Ok(())
    })
}

/// Nor does what a thread did leave the sums when it is tracked no more, and still sleeps, or is
/// tracked again.
pub(super) fn untracked() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let begin = Timestamp::now();
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || -> Result<()> {
            Zernel::open()?.track(&Target::Thread(tid()), Tracking::ML)?;
            tell.send(tid())?;
            // Until the other end is dropped.
            let _ = wait.recv();
            Ok(())
        });
        let other_tid = told.recv()?;
        let target = Target::Thread(other_tid);
        zernel.track(&Target::Thread(tid()), Tracking::ML)?;
        zernel.hint(&Target::Thread(other_tid), Phase::Collective, LONG)?;
        std::thread::sleep(Duration::from_millis(30));
        let before = own_process(&zernel)?.phase_ns;
        ensure!(before.collective >= 20 * MS, "{before:?}");
        let mut last = before;
        for round in 0..4 {
            match round {
                0 | 2 => drop(zernel.untrack(&target)?),
                _ => drop(zernel.track(&target, Tracking::ML)?),
            }
            // The sampler looks meanwhile.
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(2));
                let now = own_process(&zernel)?.phase_ns;
                for phase in Phase::ALL {
                    let (was, is) = (last.of(phase), now.of(phase));
                    ensure!(is >= was, "round {round}, {phase}: {was} ns became {is} ns");
                }
                last = now;
            }
        }
        drop(stop);
        other.join().expect("a thread that sleeps")?;
        wait_until("it has gone", || Ok(own_process(&zernel)?.threads == 1))?;
        let now = own_process(&zernel)?.phase_ns;
        ensure!(now.collective >= last.collective, "{now:?}");
        // Nothing counts twice: there were two threads.
        let wall = Timestamp::now().since(begin).as_nanos() as u64;
        ensure!(now.sum() <= 2 * wall, "{now:?} in {wall} ns");
        Ok(())
    })
}
