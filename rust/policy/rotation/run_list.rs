// SPDX-License-Identifier: GPL-2.0
//! The best-effort TSGs of a run list, in a container of the caller's.

use super::entity::Entity;

/// The TSGs of one run list that take turns.
///
/// [`super::turn::Turn::join`] comes before a TSG is added, [`super::turn::Turn::leave`] after it is
/// removed.
pub(crate) trait RunList {
    /// The name of a TSG.
    type Id: Copy + Eq;

    /// The TSG of this name, if it is in the set.
    fn get(&self, id: Self::Id) -> Option<&Entity>;

    /// The same, to be changed.
    fn get_mut(&mut self, id: Self::Id) -> Option<&mut Entity>;

    /// Visits every TSG of the set, in any order.
    fn each(&self, visit: impl FnMut(Self::Id, &Entity));
}
