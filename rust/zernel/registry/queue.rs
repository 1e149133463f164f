// SPDX-License-Identifier: GPL-2.0
//! The queues of the workers: the TSGs that wait for a change, in order, each once.

pub(crate) use super::place::{
    Place,
    Reservation, //
};
use super::{
    gpu,
    tsg::{
        self,
        Tsg, //
    },
};
use crate::glue::time::now_ns;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// The queues of all GPUs.
pub(crate) struct Queue {
    places: RBTree<Place, tsg::Id>,
    last: u64,
}

impl Queue {
    /// Without anything in it.
    pub(crate) fn new() -> Self {
        Self {
            places: RBTree::new(),
            last: 0,
        }
    }

    /// Memory for one TSG.
    pub(crate) fn reserve() -> Result<Reservation> {
        RBTreeNodeReservation::new(GFP_KERNEL)
    }

    /// Puts a TSG at the end, or behind the others for as long as it is to be left alone. Returns
    /// false if it is in the queue already, where it stays.
    pub(crate) fn push(&mut self, id: tsg::Id, tsg: &mut Tsg) -> bool {
        self.last += 1;
        let place = Place {
            gpu: tsg.gpu,
            due: now_ns().max(tsg.rests_until),
            number: self.last,
        };
        self.insert(place, id, tsg)
    }

    /// Puts a TSG back to the place it was taken from, unless it is in the queue again.
    pub(crate) fn put_back(&mut self, place: Place, id: tsg::Id, tsg: &mut Tsg) -> bool {
        self.insert(place, id, tsg)
    }

    fn insert(&mut self, place: Place, id: tsg::Id, tsg: &mut Tsg) -> bool {
        let Some(reservation) = tsg.spare.take() else {
            return false;
        };
        // INVARIANT: (of `Tsg`) The spare node is in use now.
        self.places.insert(reservation.into_node(place, id));
        tsg.queued = Some(place);
        true
    }

    /// The first TSG of a GPU.
    pub(crate) fn first(&self, gpu: gpu::Id) -> Option<(Place, tsg::Id)> {
        let start = Place {
            gpu,
            due: 0,
            number: 0,
        };
        let cursor = self.places.cursor_lower_bound(&start)?;
        let (&place, &id) = cursor.current();
        (place.gpu == gpu).then_some((place, id))
    }

    /// Takes a TSG out. Returns false if it is not in the queue.
    pub(crate) fn remove(&mut self, tsg: &mut Tsg) -> bool {
        let Some(place) = tsg.queued.take() else {
            return false;
        };
        // INVARIANT: (of `Tsg`) The node is at hand again.
        tsg.spare = self
            .places
            .remove_node(&place)
            .map(|n| n.into_reservation());
        true
    }
}
