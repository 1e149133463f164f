// SPDX-License-Identifier: GPL-2.0
//! The best-effort TSGs of a run list, wherever the caller keeps them.

use super::entity::Entity;

/// A set of TSGs: those of one run list that take turns.
///
/// Whoever is in it was given to [`super::turn::Turn::join`] first, and whoever leaves it is named
/// to [`super::turn::Turn::leave`].
pub(crate) trait Group {
    /// The name of a TSG.
    type Id: Copy + Eq;

    /// The TSG of this name, if it is in the set.
    fn get(&self, id: Self::Id) -> Option<&Entity>;

    /// The same, to be changed.
    fn get_mut(&mut self, id: Self::Id) -> Option<&mut Entity>;

    /// Visits every TSG of the set, in any order.
    fn each(&self, visit: impl FnMut(Self::Id, &Entity));
}
