// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that a worker is to look after, as the registry knows them: for turns, budgets
//! and exclusion.

use super::{
    gpu,
    tsg, //
};
use crate::policy::{
    budget::Params,
    level::{
        self,
        Level, //
    },
    tunables::turns::Turns,
    units::Ns, //
};

/// The part that a TSG has in turns and budgets now; none if it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The TSG.
    pub(crate) id: tsg::Id,
    /// The provider's number of it.
    pub(crate) handle: u64,
    /// It takes turns.
    pub(crate) turns: Option<turns::Candidate>,
    /// The number of its user.
    pub(crate) user: u32,
    /// Its level has a budget.
    pub(crate) budget: Option<Level>,
    /// It may keep the engine, if its level does.
    pub(crate) may_keep: bool,
    /// It is gone; GPU time that it had had, by the last report of its provider.
    pub(crate) ended: Option<Ns>,
}

/// The tunables of turns and budgets.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// The way of turns.
    pub(crate) turns: Turns,
    /// The budget of each level, if it has one.
    pub(crate) budgets: [Option<Params>; level::COUNT],
}

/// TSGs of a GPU that follow a change of the levels with a spent budget, or of their slices, and the
/// place that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle {
    /// The GPU.
    pub(crate) gpu: gpu::Id,
    /// The levels that changed.
    pub(crate) levels: level::Set,
    /// TSGs behind this handle are next.
    pub(crate) after: Option<u64>,
}

/// TSGs that take turns.
pub(crate) mod turns {
    use crate::{
        policy::rotation::Weight,
        registry::tsg, //
    };

    /// A TSG that takes turns, as the registry knows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Candidate {
        /// Its run list.
        pub(crate) runlist: u32,
        /// The TSG.
        pub(crate) id: tsg::Id,
        /// The provider's number of it.
        pub(crate) handle: u64,
        /// True if it is disabled, as far as known, and not for an exclusion.
        pub(crate) disabled: Option<bool>,
        /// Its share.
        pub(crate) weight: Weight,
    }
}

/// TSGs that are to be kept off the GPU.
pub(crate) mod exclusion {
    use crate::{
        policy::units::Us,
        registry::place::{
            InSchedule,
            Named, //
        },
    };

    /// TSGs that are found with the registry locked once.
    pub(crate) const PIECE: usize = 8;

    /// Some of the TSGs to keep off.
    pub(crate) struct Found {
        /// The TSGs.
        pub(crate) tsgs: [Option<Named>; PIECE],
        /// The last one of them; those behind it are next.
        pub(crate) last: Option<InSchedule>,
        /// The longest time for taking the GPU away from one.
        pub(crate) timeout: Us,
    }

    impl Found {
        /// None yet; `last`: those behind it are next.
        pub(crate) fn behind(last: Option<InSchedule>) -> Self {
            Self {
                tsgs: [None; PIECE],
                last,
                timeout: Us(0),
            }
        }
    }
}
