// SPDX-License-Identifier: GPL-2.0
//! The targets of calls, and the caller.

use crate::{
    glue::{
        cgroup::Cgroup,
        errno,
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
    registry::{
        class::Asker,
        gpu,
        tsg, //
    },
    tuned, //
};
use kernel::prelude::*;

/// The target of a call. The call finds out whether a TSG, GPU or level exists.
pub(super) enum Target {
    /// Nothing, or everything.
    None,
    /// A cgroup, and the owner of its directory.
    Cgroup(Cgroup, Uid),
    /// A process.
    Process(Pid),
    /// A thread.
    Thread(Pid),
    /// A TSG.
    Tsg(tsg::Id),
    /// A GPU.
    Gpu(gpu::Id),
    /// A level of a GPU, by the id of its entry.
    Level(u64),
}

impl Target {
    /// The target that a structure names, of one of the kinds (`ZERNEL_TARGET_*`) in `takes`.
    ///
    /// # Errors
    ///
    /// `EINVAL` another kind, or a flag that the kind does not take; `EBADF` not a descriptor of
    /// that kind; `ESRCH` no such thread or process, or one of the kernel's own, or the cgroup was
    /// removed; `ELOOP` it is farther down than [`LEVELS`](crate::glue::cgroup::LEVELS).
    pub(super) fn read(raw: &uapi::zernel_target, takes: &[u32]) -> Result<Self> {
        if !takes.contains(&raw.kind) {
            return Err(EINVAL);
        }
        match raw.kind {
            uapi::ZERNEL_TARGET_PROCESS => Self::pid(raw, Scope::Process).map(Self::Process),
            uapi::ZERNEL_TARGET_THREAD => Self::pid(raw, Scope::Thread).map(Self::Thread),
            uapi::ZERNEL_TARGET_CGROUP if raw.flags == uapi::ZERNEL_TARGET_FD => {
                let (cgroup, owner) = Cgroup::from_fd(raw.id)?;
                if cgroup.is_too_deep() {
                    return Err(errno::too_deep());
                }
                Ok(Self::Cgroup(cgroup, owner))
            }
            _ if raw.flags != 0 => Err(EINVAL),
            uapi::ZERNEL_TARGET_NONE if raw.id == 0 => Ok(Self::None),
            uapi::ZERNEL_TARGET_TSG => Ok(Self::Tsg(tsg::Id(raw.id))),
            uapi::ZERNEL_TARGET_GPU => Ok(Self::Gpu(gpu::Id(raw.id))),
            uapi::ZERNEL_TARGET_LEVEL => Ok(Self::Level(raw.id)),
            _ => Err(EINVAL),
        }
    }

    /// The thread or process of a number or a pidfd, or the caller's.
    fn pid(raw: &uapi::zernel_target, scope: Scope) -> Result<Pid> {
        let pid = match (raw.flags, raw.id) {
            (uapi::ZERNEL_TARGET_SELF, 0) => Pid::current(scope)?,
            (uapi::ZERNEL_TARGET_FD, fd) => Pid::from_pidfd(fd, scope)?,
            (0, 0) => return Err(ESRCH),
            (0, number) => Pid::find(number)?,
            _ => return Err(EINVAL),
        };
        let is_program = || Thread::of(&pid).is_none_or(|thread| thread.is_program());
        if !pid.is_alive(scope) || !is_program() {
            return Err(ESRCH);
        }
        Ok(pid)
    }
}

/// The rights of the caller, as owner of the target or not.
pub(super) fn asker(uid: Uid, owner: bool) -> Asker {
    let gid = tuned::lc_gid();
    Asker {
        uid,
        caller: Caller {
            owner,
            capable: identity::caller_is_capable(),
            member: gid.is_some_and(identity::caller_is_in_group),
        },
        perfmon: identity::caller_sees_all(),
    }
}
