// SPDX-License-Identifier: GPL-2.0
//! The targets of assignments, by their names.

use crate::{
    ids::TsgId,
    policy::class::Source, //
};

/// The target of an assignment. Tasks are named by their `struct pid`, which the assignment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Every process of a cgroup, by its id.
    Cgroup(u64),
    /// A process.
    Process(usize),
    /// A thread.
    Thread(usize),
    /// A TSG.
    Tsg(TsgId),
}

impl Target {
    /// Its kind.
    pub(crate) fn source(self) -> Source {
        match self {
            Self::Cgroup(_) => Source::Cgroup,
            Self::Process(_) => Source::Process,
            Self::Thread(_) => Source::Thread,
            Self::Tsg(_) => Source::Tsg,
        }
    }
}
