// SPDX-License-Identifier: GPL-2.0
//! Nice values below what a thread may have by itself: nobody's privilege helps.

use libzernel::{Phase, Target, Tracking, Zernel};

use super::{become_alice, limit, nice, nice_of, track_self, LONG};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::tune;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::track::wait_recorded;

/// A program that an administrator tracks has the values that its own limit allows.
pub fn of_the_administrator() -> Outcome {
    tune("phase_nice", 1)?;
    for (rlimit, lowest) in [(0, 0), (23, -3)] {
        let child = Child::idle(|| {
            limit(rlimit)?;
            become_alice()
        })?;
        let zernel = Zernel::open()?;
        let target = Target::Process(child.pid());
        zernel.track(&target, Tracking::ML)?;
        wait_recorded(&zernel, child.pid(), 1)?;
        for (phase, value) in [
            (Phase::DataLoading, lowest),
            (Phase::GpuCompute, 5),
            (Phase::OptimizerStep, lowest),
        ] {
            zernel.hint(&Target::Thread(child.pid()), phase, LONG)?;
            check_eq!(nice_of(child.pid())?, value, "{phase:?} with {rlimit}");
        }
        zernel.untrack(&target)?;
        check_eq!(nice_of(child.pid())?, 0);
    }
    Ok(())
}

/// The rights of a program that has taken those of another user do not go over to phases that its
/// own user tells.
pub fn of_borrowed_rights() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = track_self()?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        sys::set_users(ALICE, 0, 0)?;
        zernel.hint(&Target::CurrentThread, Phase::DataLoading, LONG)?;
        check_eq!(nice()?, 0);
        zernel.hint(&Target::CurrentThread, Phase::GpuCompute, LONG)?;
        check_eq!(nice()?, 5);
        sys::set_users(0, 0, 0)?;
        zernel.hint(&Target::CurrentThread, Phase::DataLoading, LONG)?;
        check_eq!(nice()?, -5);
        Ok(())
    })
}
