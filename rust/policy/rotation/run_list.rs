// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The best-effort TSGs of a run list, in a container of the caller's.

use super::entity::Entity;

/// The TSGs of one run list that take turns.
///
/// [`super::turn::Turn::join`] comes after a TSG is added, [`super::turn::Turn::leave`] before it is
/// removed. Meanwhile its id stays the same, and nobody else has it. Nobody but the
/// [`Turn`](super::turn::Turn) changes the state and the accounts of its TSGs.
pub(crate) trait RunList {
    /// The TSG of this id, if it is in the set.
    fn get(&self, id: usize) -> Option<&Entity>;

    /// The same, to be changed.
    fn get_mut(&mut self, id: usize) -> Option<&mut Entity>;
}
