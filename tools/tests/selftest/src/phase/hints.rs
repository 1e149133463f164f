// SPDX-License-Identifier: GPL-2.0
//! Hints: they win over what is detected, for as long as they hold.

use std::sync::mpsc;
use std::time::Duration;

use anyhow::{ensure, Context as _};
use libzernel::sim::Item;
use libzernel::{Phase, Target, Timestamp, Tracking, Zernel};

use super::{own, passed, phases_of, MS};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tid, wait_until, Lab};
use crate::harness::Outcome;
use crate::track::wait_recorded;

const LONG: Duration = Duration::from_secs(60);

pub(super) fn wins_and_ends() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        check_eq!(own(&zernel)?.hinted, false);
        // To end what was not given is no error.
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, Duration::ZERO)?;
        let before = own(&zernel)?;
        check_eq!((before.phase, before.hinted), (Phase::Unknown, false));
        for phase in Phase::ALL {
            zernel.hint(&Target::CurrentThread, phase, LONG)?;
            let before = own(&zernel)?;
            check_eq!((before.phase, before.hinted), (phase, true));
            std::thread::sleep(Duration::from_millis(20));
            let after = own(&zernel)?;
            check_eq!((after.phase, after.hinted), (phase, true));
            let (there, all) = passed(&before, &after, phase);
            check_eq!(there, all, "time in {phase}");
            ensure!(there >= 20 * MS, "{there} ns in {phase}");
            zernel.hint(&Target::CurrentThread, Phase::Unknown, Duration::ZERO)?;
            check_eq!(own(&zernel)?.hinted, false);
            // It sleeps and has never used the GPU: nothing else.
            wait_until("samples tell of another phase", || {
                Ok(own(&zernel)?.phase == Phase::Unknown)
            })?;
        }
        Ok(())
    })
}

pub(super) fn expires() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        for ms in [1, 20, 300] {
            let duration = Duration::from_millis(ms);
            let first = own(&zernel)?.phase_ns.collective;
            let begin = Timestamp::now();
            zernel.hint(&Target::CurrentThread, Phase::Collective, duration)?;
            loop {
                let look = Timestamp::now();
                let thread = own(&zernel)?;
                if !thread.hinted {
                    ensure!(
                        Timestamp::now().since(begin) >= duration,
                        "it ended before {duration:?}"
                    );
                    break;
                }
                check_eq!(thread.phase, Phase::Collective);
                let over = look.since(begin);
                ensure!(over < LONG, "a hint for {duration:?} still holds");
                std::thread::sleep(Duration::from_millis(1));
            }
            wait_until("samples tell of another phase", || {
                Ok(own(&zernel)?.phase == Phase::Unknown)
            })?;
            let spent = own(&zernel)?.phase_ns.collective - first;
            ensure!(spent >= ms * MS, "{spent} ns of {duration:?}");
        }
        Ok(())
    })
}

/// The next hint takes the place of the one before, with its own duration.
pub(super) fn replaced() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        zernel.hint(
            &Target::CurrentThread,
            Phase::GpuCompute,
            Duration::from_millis(10),
        )?;
        zernel.hint(&Target::CurrentThread, Phase::OptimizerStep, LONG)?;
        std::thread::sleep(Duration::from_millis(30));
        let now = own(&zernel)?;
        check_eq!((now.phase, now.hinted), (Phase::OptimizerStep, true));
        // A shorter one.
        zernel.hint(
            &Target::CurrentThread,
            Phase::DataLoading,
            Duration::from_millis(10),
        )?;
        wait_until("the shorter one is over", || Ok(!own(&zernel)?.hinted))?;
        wait_until("samples tell of another phase", || {
            Ok(own(&zernel)?.phase == Phase::Unknown)
        })
    })
}

/// A hint is for one thread.
pub(super) fn of_another_thread() -> Outcome {
    in_child(|| {
        let zernel = Zernel::open()?;
        let (tell, told) = mpsc::channel();
        let (stop, wait) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(tid()).expect("somebody listens");
            while wait.recv_timeout(Duration::from_millis(2))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {}
        });
        let other_tid = told.recv()?;
        zernel.track(&Target::current_process(), Tracking::ML)?;
        wait_recorded(&zernel, std::process::id(), 2)?;
        zernel.hint(&Target::Thread(other_tid), Phase::DataLoading, LONG)?;
        zernel.hint(&Target::Thread(tid()), Phase::OptimizerStep, LONG)?;
        for (thread, phase) in [
            (other_tid, Phase::DataLoading),
            (tid(), Phase::OptimizerStep),
        ] {
            let found = phases_of(&zernel, thread)?.context("it is not listed")?;
            check_eq!((found.phase, found.hinted), (phase, true));
        }
        zernel.hint(&Target::Thread(other_tid), Phase::Unknown, Duration::ZERO)?;
        check_eq!(own(&zernel)?.hinted, true);
        drop(stop);
        other.join().expect("a thread that sleeps");
        Ok(())
    })
}

/// While a hint holds, whatever is seen tells nothing.
pub(super) fn over_detection() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        lab.zernel.track(&Target::current_process(), Tracking::ML)?;
        let (context, _) = lab.compute()?;
        let compute = || -> Outcome {
            let submitted = context.submit(0, &[Item::work(Duration::from_millis(200))])?;
            context.wait(0, submitted.last_seq, Timestamp::NEVER)?;
            Ok(())
        };
        for phase in [Phase::DataLoading, Phase::Unknown] {
            lab.zernel.hint(&Target::CurrentThread, phase, LONG)?;
            let before = own(&lab.zernel)?;
            compute()?;
            let after = own(&lab.zernel)?;
            let (there, all) = passed(&before, &after, phase);
            check_eq!(there, all, "time in {phase} while the GPU computes");
            check_eq!(after.transitions, before.transitions);
            // The same work without a hint is told.
            lab.zernel
                .hint(&Target::CurrentThread, phase, Duration::ZERO)?;
            wait_until("it is told", || {
                let before = own(&lab.zernel)?;
                compute()?;
                let (there, _) = passed(&before, &own(&lab.zernel)?, Phase::GpuCompute);
                Ok(there > 0)
            })?;
        }
        Ok(())
    })
}
