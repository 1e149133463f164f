// SPDX-License-Identifier: GPL-2.0
//! Hints of programs on the phase of a thread.

use super::{
    client::Client,
    target::{
        self,
        Target, //
    },
    track, //
};
use crate::{
    error::Failure,
    glue::{
        errno,
        identity::{
            self,
            Scope, //
        },
        memory::with_memory,
        scheduler_hooks,
        thread::Thread,
        uapi, //
    },
    policy::{
        phase::{
            task::Task,
            Phase, //
        },
        units::Ns, //
    },
    tracking, //
};
use kernel::prelude::*;

/// Takes a hint.
pub(super) fn hint(_: &Client, hint: &mut uapi::zernel_hint) -> Result {
    let phase = usize::try_from(hint.value).ok();
    let phase = phase.and_then(|number| Phase::ALL.get(number).copied());
    let duration = Ns(hint.duration_ns);
    let (uapi::ZERNEL_HINT_PHASE, 0, Some(phase)) = (hint.kind, hint.flags, phase) else {
        return Err(EINVAL);
    };
    if duration > Task::LONGEST_HINT {
        return Err(EINVAL);
    }
    if !scheduler_hooks::IS_SUPPORTED {
        return Err(errno::unsupported());
    }
    let Target::Thread(pid) = Target::read(&hint.target, &[uapi::ZERNEL_TARGET_THREAD])? else {
        return Err(EINVAL);
    };
    let owner = pid.is_callers(Scope::Thread);
    let caller = target::asker(identity::caller_uid(), owner).caller;
    if !owner && !track::is_privileged(caller) {
        return Err(EPERM);
    }
    let thread = Thread::of(&pid).filter(Thread::is_program).ok_or(ESRCH)?;
    let process = thread.process()?;
    let hint = || tracking::with(|t| t.hint(&process, &thread, (phase, duration)))?;
    with_memory(hint).map_err(Failure::errno)
}

// The numbers are the same.
kernel::prelude::static_assert!(
    Phase::Unknown.number() == uapi::ZERNEL_PHASE_UNKNOWN as usize
        && Phase::DataLoading.number() == uapi::ZERNEL_PHASE_DATA_LOADING as usize
        && Phase::GpuCompute.number() == uapi::ZERNEL_PHASE_GPU_COMPUTE as usize
        && Phase::Collective.number() == uapi::ZERNEL_PHASE_COLLECTIVE as usize
        && Phase::OptimizerStep.number() == uapi::ZERNEL_PHASE_OPTIMIZER_STEP as usize
        && Task::LONGEST_HINT.0 == uapi::ZERNEL_HINT_MAX_NS
);
