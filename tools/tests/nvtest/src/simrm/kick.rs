// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run lists that begin anew for a TSG that is to be served at once, without a call for others.

use anyhow::{ensure, Result};
use libzernel::{Level, Target};
use testkit::harness::{case, Outcome, Suite};
use testkit::{check_eq, wait_until};

use super::request::{unseen_channel, Owner, Stage};
use super::suspend::Suspended;
use crate::lab::{agree, faults, set_faults, tune, LOADED};
use crate::rm::abi::control;
use crate::rm::truth::{self, Counts};
use crate::rm::{Spec, Status};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.kick",
    &[
        case("of_a_request", of_a_request),
        case("of_a_risen_level", of_a_risen_level),
        case("without_channels", without_channels),
        case("dead_channel_is_passed_over", dead_channel),
        case("others_are_kept_off_where_it_fails", fails),
        case("a_failure_is_of_one_request", fails_once),
        case("it_is_tried_again_after_a_suspend", tried_again),
    ],
    LOADED,
);

/// A stage whose requests do not keep others off, if the driver can do without.
fn stage(channels: &[u32]) -> Result<Stage> {
    let stage = Stage::new(channels)?;
    tune("no_holder", "kick")?;
    // One that is raised is served at once, a moment later.
    wait_restarts(&stage.lc, 1)?;
    Ok(stage)
}

/// Calls of zernel that take the engine from others, or keep them off it.
fn calls() -> Result<[u64; 2]> {
    let of = truth::kernel_calls;
    Ok([of(control::DISABLE_CHANNELS)?, of(control::PREEMPT)?])
}

fn can_kick(stage: &Stage) -> Result<bool> {
    Ok(stage.lab.gpu(&stage.lc.runtime.bus())?.can.kick)
}

fn wait_restarts(owner: &Owner, count: u32) -> Outcome {
    wait_until(&format!("{count} restarts"), || {
        Ok(owner.truth()?.restarts == count)
    })
}

/// An LC TSG without channels. Nothing more is to be done for its level when this returns.
fn bare(stage: &mut Stage) -> Outcome {
    let bare = Owner::new(&stage.lab, Spec::USUAL, 0, Level::LC)?;
    stage.lab.quiet()?;
    // Later ones are served later.
    let restarts = stage.lc.truth()?.restarts;
    let request = stage.begin()?;
    wait_restarts(&stage.lc, restarts + 1)?;
    stage.slot().cancel(request)?;
    stage.lc = bare;
    Ok(())
}

/// One at the trigger, one when the data is ready; none at another end.
fn of_a_request() -> Outcome {
    let stage = stage(&[1, 3])?;
    let before = calls()?;
    let mut expected = stage.lc.truth()?.restarts;
    for is_ready in [true, false, true] {
        let request = stage.begin()?;
        expected += 1;
        wait_restarts(&stage.lc, expected)?;
        if is_ready {
            stage.slot().ready_call(request)?;
            expected += 1;
            wait_restarts(&stage.lc, expected)?;
            stage.slot().done_call(request)?;
        } else {
            stage.slot().cancel(request)?;
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    check_eq!(stage.lc.truth()?.restarts, expected, "at the ends");
    check_eq!(calls()?, before, "calls for others");
    for other in &stage.others {
        check_eq!(other.truth()?.restarts, 0, "of another TSG");
    }
    agree()
}

/// A class that raises a TSG has it served at once, one that lowers it does not.
fn of_a_risen_level() -> Outcome {
    let stage = stage(&[1])?;
    let other = &stage.others[0];
    let id = stage.lab.tsg(&other.runtime, other.tsg)?.id;
    let mut expected = other.truth()?.restarts;
    for level in [Level::LC, Level::BE, Level::LC] {
        stage.lab.zernel.set_class(&Target::Tsg(id), level)?;
        stage.lab.quiet()?;
        expected += u32::from(level == Level::LC);
        wait_restarts(other, expected)?;
    }
    Ok(())
}

/// A TSG without channels has nothing to run, and costs no call.
fn without_channels() -> Outcome {
    let mut stage = stage(&[1])?;
    bare(&mut stage)?;
    let restarts = || truth::kernel_calls(control::RESTART_RUNLIST);
    let before = restarts()?;
    let request = stage.begin()?;
    stage.slot().ready_call(request)?;
    std::thread::sleep(std::time::Duration::from_millis(100));
    check_eq!(restarts()?, before, "calls");
    ensure!(can_kick(&stage)?, "it counts as a failure");
    let channel = stage.lc.runtime.channel(stage.lc.tsg)?;
    stage.begin()?;
    wait_restarts(&stage.lc, 1)?;
    stage.lc.runtime.free(channel)?;
    Ok(())
}

/// A channel that ended unseen is forgotten, and another one serves.
fn dead_channel() -> Outcome {
    let mut stage = stage(&[1])?;
    bare(&mut stage)?;
    let owner = &stage.lc;
    let memory = unseen_channel(&owner.runtime, owner.tsg)?;
    owner.runtime.channel(owner.tsg)?;
    agree()?;
    owner.runtime.free(memory)?;
    let known = Counts::of_table()?.get("channels")?;
    check_eq!(known, Counts::of_rm()?.get("channels")? + 1, "known ones");
    let calls = truth::kernel_calls(control::RESTART_RUNLIST)?;
    stage.begin()?;
    wait_restarts(&stage.lc, 1)?;
    agree()?;
    let made = truth::kernel_calls(control::RESTART_RUNLIST)? - calls;
    check_eq!(made, 2, "calls");
    Ok(())
}

fn fail(status: Status) -> Outcome {
    set_faults(&format!(
        "control:{:#x} status={:#x} kernel",
        control::RESTART_RUNLIST,
        status.0
    ))
}

/// A driver that refuses it is not asked again: others are kept off, from the next request on.
fn fails() -> Outcome {
    for status in [Status::INSUFFICIENT_PERMISSIONS, Status::NOT_SUPPORTED] {
        let stage = stage(&[1, 2])?;
        ensure!(can_kick(&stage)?, "the GPU of the round before");
        fail(status)?;
        let before = calls()?;
        let request = stage.begin()?;
        wait_until("it fails", || Ok(!can_kick(&stage)?))?;
        check_eq!(calls()?, before, "{status:?}: calls for others");
        check_eq!(faults()?, "");
        stage.end(request)?;
        let restarts = stage.lc.truth()?.restarts;
        stage.goes_on()?;
        check_eq!(stage.lc.truth()?.restarts, restarts, "{status:?}");
        drop(stage);
        // The first TSG of a GPU shows that it is started anew.
        wait_until("the GPU is stopped", || {
            Ok(Counts::of_rm()?.get("started_gpus")? == 0)
        })?;
    }
    Ok(())
}

/// Another failure is of the TSG: the next request may do better.
fn fails_once() -> Outcome {
    let stage = stage(&[1])?;
    for status in [Status::GENERIC, Status::INVALID_ARGUMENT, Status::TIMEOUT] {
        fail(status)?;
        stage.begin()?;
        wait_until("it fails", || Ok(faults()?.is_empty()))?;
        let restarts = stage.lc.truth()?.restarts;
        stage.begin()?;
        wait_restarts(&stage.lc, restarts + 1)?;
        ensure!(can_kick(&stage)?, "{status:?}: not tried again");
    }
    Ok(())
}

/// A refusal may be over after a suspend.
fn tried_again() -> Outcome {
    let stage = stage(&[1])?;
    fail(Status::NOT_SUPPORTED)?;
    stage.begin()?;
    wait_until("it fails", || Ok(!can_kick(&stage)?))?;
    Suspended::now()?.resume();
    wait_until("it is tried again", || can_kick(&stage))?;
    let restarts = stage.lc.truth()?.restarts;
    wait_until("requests begin", || Ok(stage.begin().is_ok()))?;
    wait_until("it is served", || Ok(stage.lc.truth()?.restarts > restarts))
}
