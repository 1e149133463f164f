// SPDX-License-Identifier: GPL-2.0
//! Tracking of threads, processes and cgroups: begin, end.

use super::{
    client::Client,
    target::{
        self,
        Target, //
    },
};
use crate::{
    error::Failure,
    glue::{
        cgroup::Cgroup,
        identity::{
            self,
            Pid,
            Scope,
            Uid, //
        },
        thread::Thread,
        uapi, //
    },
    policy::permit::Caller,
    tracking::{
        self,
        follow,
        group::Terms,
        Payer, //
    },
};
use kernel::prelude::*;

/// Kinds of target.
const TARGETS: &[u32] = &[
    uapi::ZERNEL_TARGET_CGROUP,
    uapi::ZERNEL_TARGET_PROCESS,
    uapi::ZERNEL_TARGET_THREAD,
];

/// Changes how a target is tracked.
pub(super) fn track(_: &Client, asked: &mut uapi::zernel_track) -> Result {
    let wish = Wish::of(asked)?;
    asked.threads = match Target::read(&asked.target, TARGETS)? {
        Target::Cgroup(cgroup, owner) => wish.apply_to_cgroup(cgroup, owner)?,
        Target::Process(pid) => wish.apply_to(pid, Scope::Process)?,
        Target::Thread(pid) => wish.apply_to(pid, Scope::Thread)?,
        _ => return Err(EINVAL),
    };
    Ok(())
}

/// The content of a call.
#[derive(Clone, Copy)]
enum Wish {
    /// To be tracked, in these ways.
    Begin { children: bool, ml: bool },
    /// To be tracked no more.
    End,
}

impl Wish {
    /// # Errors
    ///
    /// `EINVAL`.
    fn of(asked: &uapi::zernel_track) -> Result<Self> {
        const CHILDREN: u32 = uapi::ZERNEL_TRACK_CHILDREN;
        const ALL: u32 = uapi::ZERNEL_TRACK_THREADS | CHILDREN | uapi::ZERNEL_TRACK_ML;
        let children = asked.set & CHILDREN != 0;
        match (asked.set, asked.clear) {
            (0, uapi::ZERNEL_TRACK_THREADS) => Ok(Self::End),
            (0, _) => Err(EINVAL),
            (set, 0) if set & !ALL == 0 => {
                // Neither a thread nor a cgroup has children of its own.
                if children && asked.target.kind != uapi::ZERNEL_TARGET_PROCESS {
                    return Err(EINVAL);
                }
                let ml = set & uapi::ZERNEL_TRACK_ML != 0;
                Ok(Self::Begin { children, ml })
            }
            _ => Err(EINVAL),
        }
    }

    /// Returns the number of threads that are tracked with the cgroup.
    fn apply_to_cgroup(self, cgroup: Cgroup, owner: Uid) -> Result<u32> {
        let uid = identity::caller_uid();
        let caller = permitted(uid, owner == uid)?;
        // Processes of others may be in a cgroup of one's own.
        let privileged = is_privileged(caller);
        match self {
            Self::Begin { ml, .. } => {
                let terms = Terms {
                    uid,
                    privileged,
                    ml,
                };
                follow::track_cgroup(cgroup, terms).map_err(Failure::errno)
            }
            Self::End => follow::untrack_cgroup(&cgroup, privileged)
                .map(|()| 0)
                .map_err(Failure::errno),
        }
    }

    /// Returns the number of threads of the target that are tracked then.
    fn apply_to(self, pid: Pid, scope: Scope) -> Result<u32> {
        let owner = pid.is_callers(scope);
        let caller = permitted(identity::caller_uid(), owner)?;
        let thread = Thread::of(&pid).filter(Thread::is_program).ok_or(ESRCH)?;
        let (process, target) = match scope {
            Scope::Process => {
                let children = matches!(self, Self::Begin { children: true, .. });
                (pid, tracking::Target::Process { children })
            }
            Scope::Thread => {
                let target = tracking::Target::Thread(thread.clone());
                (thread.process()?, target)
            }
        };
        let of = process.clone();
        let of_process = match self {
            // One's own is one's own to end.
            Self::Begin { ml, .. } => tracking::track(process, target, !owner, ml, Payer::Caller),
            Self::End => tracking::untrack(&process, &target, is_privileged(caller)),
        };
        let of_process = of_process.map_err(Failure::errno)?;
        match scope {
            Scope::Process => Ok(of_process),
            Scope::Thread => tracking::with(|t| t.is_tracked(&of, &thread).into()),
        }
    }
}

/// The caller, if it is the target's owner or a manager.
///
/// # Errors
///
/// `EPERM`.
fn permitted(uid: Uid, owner: bool) -> Result<Caller> {
    let caller = target::asker(uid, owner).caller;
    if !owner && !is_privileged(caller) {
        return Err(EPERM);
    }
    Ok(caller)
}

/// True if the caller is a manager.
pub(super) fn is_privileged(caller: Caller) -> bool {
    caller.capable || caller.member
}
