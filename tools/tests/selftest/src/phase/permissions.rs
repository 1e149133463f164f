// SPDX-License-Identifier: GPL-2.0
//! The visibility of phases, and permission to give hints.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::{Phase, Target, Tracking, Zernel};
use rustix::io::Errno;

use super::{phases_of, wait_phases};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, tune, Lab};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB, GROUP, NICE};
use crate::sys;
use crate::track::wait_recorded;

const CAP_PERFMON: u32 = 38;
const NOBODY: u32 = 1002;

/// A change of a process before its action.
type Become<'a> = &'a dyn Fn() -> Result<()>;

/// A tracked process that comes back to user space all the time, after it has become somebody.
fn program_of(lab: &Lab, by: impl Fn() -> Result<()>, tracking: Tracking) -> Result<Child> {
    let child = Child::idle(by)?;
    lab.zernel.track(&Target::Process(child.pid()), tracking)?;
    wait_recorded(&lab.zernel, child.pid(), 1)?;
    Ok(child)
}

fn alice() -> Result<()> {
    Ok(sys::become_user(ALICE, ALICE, &[])?)
}

fn bob() -> Result<()> {
    Ok(sys::become_user(BOB, BOB, &[])?)
}

pub(super) fn who_sees() -> Outcome {
    let lab = Lab::open()?;
    let alices = program_of(&lab, alice, Tracking::ML)?;
    let bobs = program_of(&lab, bob, Tracking::ML)?;
    // Not a machine-learning program: a process without phases.
    let plain = program_of(&lab, alice, Tracking::PLAIN)?;
    // Set-user-ID: not hers to watch.
    let raised = program_of(&lab, || Ok(sys::set_users(ALICE, 0, 0)?), Tracking::ML)?;
    let (a, b, p, r) = (alices.pid(), bobs.pid(), plain.pid(), raised.pid());
    wait_phases(&lab.zernel, r, 1)?;
    let seen = |by: Become<'_>, phases: &[u32], processes: &[u32]| {
        in_child(|| {
            by()?;
            let zernel = Zernel::open()?;
            let mut pids = Vec::new();
            for thread in zernel.phases() {
                let thread = thread?;
                check_eq!(thread.tid, thread.pid);
                pids.push(thread.pid);
            }
            check_eq!(pids, phases);
            pids.clear();
            for process in zernel.processes() {
                let process = process?;
                check_eq!(process.ml, process.pid != p, "{process:?}");
                check_eq!(process.privileged || process.pid == r, true, "{process:?}");
                check_eq!((process.whole, process.children), (true, false));
                check_eq!(process.threads, 1, "{process:?}");
                pids.push(process.pid);
            }
            check_eq!(pids, processes);
            Ok(())
        })
    };
    seen(&|| Ok(()), &[a, b, r], &[a, b, p, r])?;
    seen(&alice, &[a], &[a, p])?;
    seen(&bob, &[b], &[b])?;
    seen(&|| Ok(sys::become_user(NOBODY, NOBODY, &[])?), &[], &[])?;
    let perfmon = || Ok(sys::become_user_with(NOBODY, NOBODY, CAP_PERFMON)?);
    seen(&perfmon, &[a, b, r], &[a, b, p, r])
}

pub(super) fn who_may_hint() -> Outcome {
    let lab = Lab::open()?;
    tune("lc_gid", GROUP)?;
    let alices = program_of(&lab, alice, Tracking::ML)?;
    let long = Duration::from_secs(60);
    let hint = |by: Become<'_>, phase: Phase, duration: Duration, expected: Option<Errno>| {
        in_child(|| {
            by()?;
            let answer = Zernel::open()?.hint(&Target::Thread(alices.pid()), phase, duration);
            check_eq!(errno(answer), expected);
            Ok(())
        })
    };
    let hinted = || -> Result<Option<Phase>> {
        let thread = phases_of(&lab.zernel, alices.pid())?.context("alice's is not listed")?;
        Ok(thread.hinted.then_some(thread.phase))
    };
    let eperm = Some(Errno::PERM);
    let denied = lab.stats()?.denied;
    hint(&bob, Phase::GpuCompute, long, eperm)?;
    // To see it is not enough.
    let perfmon = || Ok(sys::become_user_with(BOB, BOB, CAP_PERFMON)?);
    hint(&perfmon, Phase::GpuCompute, long, eperm)?;
    check_eq!(hinted()?, None);
    check_eq!(lab.stats()?.denied, denied + 2);
    let nice = || Ok(sys::become_user_with(BOB, BOB, NICE)?);
    let member = || Ok(sys::become_user(BOB, BOB, &[GROUP])?);
    for by in [&alice as Become<'_>, &nice, &member] {
        hint(by, Phase::OptimizerStep, long, None)?;
        check_eq!(hinted()?, Some(Phase::OptimizerStep));
        hint(&bob, Phase::GpuCompute, Duration::ZERO, eperm)?;
        check_eq!(hinted()?, Some(Phase::OptimizerStep));
        hint(by, Phase::Unknown, Duration::ZERO, None)?;
        check_eq!(hinted()?, None);
    }
    Ok(())
}
