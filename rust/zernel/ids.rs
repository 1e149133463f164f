// SPDX-License-Identifier: GPL-2.0
//! Ids of GPUs and TSGs: never used again, not even after a reload.

use crate::policy::level;

/// Id of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GpuId(pub(crate) u64);

/// Id of a TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TsgId(pub(crate) u64);

impl TsgId {
    /// Before every id.
    pub(crate) const FIRST: Self = Self(0);

    /// The next possible id.
    pub(crate) fn after(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Ids that the levels on a GPU take: one each, and one for TSGs without a class.
pub(crate) const LEVEL_IDS: u64 = level::COUNT as u64 + 1;
