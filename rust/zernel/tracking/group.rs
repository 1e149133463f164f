// SPDX-License-Identifier: GPL-2.0
//! A tracked cgroup, and the membership of a process.

use crate::{
    glue::{
        cgroup::Known,
        identity::Uid, //
    },
    policy::phase::running::Running, //
};
use kernel::sync::Arc;

/// The terms on which a cgroup is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The user that tracks it.
    pub(crate) uid: Uid,
    /// By privilege: processes of all users, and it takes that to end it.
    pub(crate) privileged: bool,
    /// Its processes are machine-learning programs.
    pub(crate) ml: bool,
}

/// A tracked cgroup.
pub(super) struct Group {
    pub(super) cgroup: Arc<Known>,
    /// Never used again, unlike its id, which comes again when it is tracked again.
    pub(super) serial: u64,
    pub(super) terms: Terms,
    /// Processes that are in it.
    pub(super) processes: u32,
    /// Tracked threads of theirs.
    pub(super) threads: u32,
    /// For how long their threads, and those that were in it, were in each phase.
    pub(super) sums: Running,
    /// Calls that are about to track it.
    pub(super) opened: u32,
    /// Times that a call has tracked it.
    pub(super) changes: u64,
}

/// That a process is in a tracked cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    pub(super) cgroup: u64,
    pub(super) serial: u64,
}
