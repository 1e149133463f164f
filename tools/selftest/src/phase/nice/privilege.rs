// SPDX-License-Identifier: GPL-2.0
//! Nice values below what a thread may have by itself: by whose privilege.

use libzernel::{Phase, Target, Tracking, Zernel};
use testkit::passing;

use super::{become_alice, nice, nice_of, set_nice, track_self, LONG};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::tune;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::track::wait_recorded;

/// What an administrator tracks has it whatever its limit; the user cannot climb from there.
pub fn by_privilege() -> Outcome {
    tune("phase_nice", 1)?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        become_alice()?;
        passing::send_number(&theirs, 0)?;
        passing::receive_number(&theirs)?;
        let zernel = Zernel::open()?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        zernel.hint(0, Phase::DataLoading, LONG)?;
        check_eq!(nice()?, -5);
        check_eq!(set_nice(-6).is_err(), true, "lower than that");
        for _ in 0..4 {
            // Everybody may do that.
            set_nice(nice()? + 1)?;
            zernel.hint(0, Phase::GpuCompute, LONG)?;
            check_eq!(nice()?, 5);
            zernel.hint(0, Phase::OptimizerStep, LONG)?;
            check_eq!(nice()?, -5);
            // Nor by those that it makes.
            set_nice(-4)?;
            in_child(|| {
                check_eq!(nice()?, 0);
                Ok(())
            })?;
        }
        passing::send_number(&theirs, 0)?;
        passing::receive_number(&theirs)?;
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    let zernel = Zernel::open()?;
    let target = Target::Process(child.pid());
    zernel.track(&target, Tracking::ML)?;
    passing::send_number(&ours, 0)?;
    passing::receive_number(&ours)?;
    check_eq!(nice_of(child.pid())?, -4);
    zernel.untrack(&target)?;
    check_eq!(nice_of(child.pid())?, 0);
    passing::send_number(&ours, 0)?;
    child.join()
}

/// What a program may that has taken the rights of another user is not what the phases may that its
/// own user tells.
pub fn of_borrowed_rights() -> Outcome {
    tune("phase_nice", 1)?;
    in_child(|| {
        let zernel = track_self()?;
        wait_recorded(&zernel, std::process::id(), 1)?;
        sys::set_users(ALICE, 0, 0)?;
        zernel.hint(0, Phase::DataLoading, LONG)?;
        check_eq!(nice()?, 0);
        zernel.hint(0, Phase::GpuCompute, LONG)?;
        check_eq!(nice()?, 5);
        sys::set_users(0, 0, 0)?;
        zernel.hint(0, Phase::DataLoading, LONG)?;
        check_eq!(nice()?, -5);
        Ok(())
    })
}
