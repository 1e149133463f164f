// SPDX-License-Identifier: GPL-2.0
//! The threads and processes that calls name, and who asks.

use crate::{
    glue::identity::{
        self,
        Pid,
        Scope,
        Uid, //
    },
    policy::permit::Caller,
    registry::{
        self,
        class::Asker, //
    },
};
use kernel::prelude::*;

/// The thread or process of a number, 0 for the caller's, or of a pidfd.
///
/// # Errors
///
/// `EBADF` it is not a pidfd, `ESRCH` there is none.
pub(super) fn task(id: u64, is_pidfd: bool, scope: Scope) -> Result<Pid> {
    let pid = if is_pidfd {
        Pid::from_fd(id)?
    } else if id == 0 {
        Pid::current(scope)?
    } else {
        Pid::find(id)?
    };
    if !pid.is_alive(scope) {
        return Err(ESRCH);
    }
    Ok(pid)
}

/// What the kernel says about the caller, to whom the target belongs or not.
pub(super) fn asker(uid: Uid, owner: bool) -> Result<Asker> {
    let gid = registry::with(|r| r.tunables().lc_gid())?;
    Ok(Asker {
        uid,
        caller: Caller {
            owner,
            capable: identity::caller_is_capable(),
            member: gid.is_some_and(identity::caller_is_in_group),
        },
        perfmon: identity::caller_sees_all(),
    })
}
