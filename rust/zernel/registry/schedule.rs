// SPDX-License-Identifier: GPL-2.0
//! The compute TSGs of each GPU that are to be scheduled, by their level: those to exclude for a
//! request are found without a look at the others.

use super::{
    place::{
        InSchedule,
        Named, //
    },
    tsg::{
        self,
        Tsg, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// Memory for one TSG.
pub(crate) type Reservation = RBTreeNodeReservation<InSchedule, Named>;

/// The TSGs that are to be scheduled.
pub(crate) struct Schedule(pub(super) RBTree<InSchedule, Named>);

impl Schedule {
    /// None.
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Memory for one TSG.
    pub(crate) fn reserve() -> Result<Reservation> {
        RBTreeNodeReservation::new(GFP_KERNEL)
    }

    /// Puts a TSG in, or takes it out, after a change of it.
    pub(super) fn update(&mut self, id: tsg::Id, tsg: &mut Tsg) {
        let is_in = tsg.traits.compute && !tsg.disable;
        let key = is_in.then_some(InSchedule {
            gpu: tsg.gpu,
            level: tsg.effective.rank().number(),
            may_keep: tsg.effective.may_keep,
            tsg: id,
        });
        if tsg.in_schedule.key() == key {
            return;
        }
        tsg.in_schedule.take_out(&mut self.0);
        if let Some(key) = key {
            let handle = tsg.handle;
            tsg.in_schedule.put(&mut self.0, key, Named { id, handle });
        }
    }

    /// Takes a TSG out that is about to go.
    pub(super) fn remove(&mut self, tsg: &mut Tsg) {
        tsg.in_schedule.take_out(&mut self.0);
    }

    #[cfg(zernel_kunit)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
