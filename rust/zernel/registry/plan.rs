// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that a worker is to look after, as the registry knows them: for turns, budgets
//! and exclusion.

/// TSGs that take turns.
pub(crate) mod turns {
    use crate::{
        policy::{
            rotation::Weight,
            tunables::turns::Turns, //
        },
        registry::tsg,
    };
    use kernel::prelude::*;

    /// A TSG that takes turns, as the registry knows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Candidate {
        /// Its run list.
        pub(crate) runlist: u32,
        /// The TSG.
        pub(crate) id: tsg::Id,
        /// The provider's number of it.
        pub(crate) handle: u64,
        /// True if it is disabled, as far as known.
        pub(crate) disabled: Option<bool>,
        /// Its share.
        pub(crate) weight: Weight,
    }

    /// The TSGs that take turns, and the way.
    pub(crate) struct Setup {
        /// The tunables.
        pub(crate) turns: Turns,
        /// By the provider's number.
        pub(crate) candidates: KVec<Candidate>,
        /// Tells this from later ones.
        pub(crate) generation: u64,
    }
}

/// TSGs of levels with budgets.
pub(crate) mod budgets {
    use crate::policy::{
        budget::Params,
        level::{
            self,
            Level, //
        },
    };
    use kernel::prelude::*;

    /// A TSG of a level with a budget, as the registry knows it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Candidate {
        /// The provider's number of it.
        pub(crate) handle: u64,
        /// The level in force.
        pub(crate) level: Level,
    }

    /// The watched TSGs, and the reasons.
    pub(crate) struct Setup {
        /// By the provider's number.
        pub(crate) candidates: KVec<Candidate>,
        /// The budget of each level, if it has one.
        pub(crate) budgets: [Option<Params>; level::COUNT],
        /// Tells this from later ones.
        pub(crate) generation: u64,
    }
}

/// TSGs that are to be kept off the GPU.
pub(crate) mod exclusion {
    use crate::{
        policy::units::Us,
        registry::tsg, //
    };
    use kernel::prelude::*;

    /// A TSG that is to be kept off the GPU, or is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Excluded {
        /// The TSG.
        pub(crate) id: tsg::Id,
        /// The provider's number of it.
        pub(crate) handle: u64,
    }

    /// The TSGs to keep off.
    pub(crate) struct Setup {
        /// The TSGs, but for those that are kept off already.
        pub(crate) found: KVec<Excluded>,
        /// The longest time for taking the GPU away from one.
        pub(crate) timeout: Us,
        /// Tells this from later ones.
        pub(crate) generation: u64,
    }
}
