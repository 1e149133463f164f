// SPDX-License-Identifier: GPL-2.0
//! The queues of the workers: the TSGs that wait for a change, each once. Users have turns, so that
//! nobody waits for all TSGs of another; those of one user go in order.

pub(crate) use super::place::{
    Place,
    Reservation,
    Stage, //
};
use super::{
    gpu,
    tsg::{
        self,
        Tsg, //
    },
};
use crate::glue::{
    identity::Uid,
    time::now_ns, //
};
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

    /// Puts a TSG behind those of its user, or among those that rest for as long as it is to be left
    /// alone. Returns false if it is in the queue already, where it stays.
    pub(crate) fn push(&mut self, id: tsg::Id, tsg: &mut Tsg) -> bool {
        let stage = match tsg.rests_until > now_ns() {
            true => Stage::Rests(tsg.rests_until),
            false => Stage::Ready(tsg.owner.uid),
        };
        self.line_up(stage, id, tsg)
    }

    /// Puts a TSG where it belongs now, in the queue or not. Returns false if it was in it.
    pub(crate) fn push_anew(&mut self, id: tsg::Id, tsg: &mut Tsg) -> bool {
        let was_queued = self.remove(tsg);
        self.push(id, tsg);
        !was_queued
    }

    /// Makes the first TSG that rests ready, if it does so until `now` at most. Returns whether it
    /// did.
    pub(super) fn wake(&mut self, gpu: gpu::Id, now: u64, tsgs: &mut tsg::Tsgs) -> bool {
        let first = self.first_at(gpu, Stage::Rests(0));
        let Some((place, id)) = first.filter(|(place, _)| place.stage <= Stage::Rests(now)) else {
            return false;
        };
        let Some(tsg) = tsgs.get_mut(&id).filter(|tsg| tsg.queued == Some(place)) else {
            return false;
        };
        self.remove(tsg);
        self.line_up(Stage::Ready(tsg.owner.uid), id, tsg)
    }

    fn line_up(&mut self, stage: Stage, id: tsg::Id, tsg: &mut Tsg) -> bool {
        self.last += 1;
        let place = Place {
            gpu: tsg.gpu,
            stage,
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

    /// The first TSG of the user whose turn comes after that of `served`.
    pub(crate) fn next(&self, gpu: gpu::Id, served: Uid) -> Option<(Place, tsg::Id)> {
        let from = |uid| {
            let found = self.first_at(gpu, Stage::Ready(uid))?;
            matches!(found.0.stage, Stage::Ready(_)).then_some(found)
        };
        from(served.after()).or_else(|| from(Uid::ROOT))
    }

    /// The end of the shortest rest, in ns of `CLOCK_MONOTONIC`.
    pub(crate) fn next_due(&self, gpu: gpu::Id) -> Option<u64> {
        match self.first_at(gpu, Stage::Rests(0))?.0.stage {
            Stage::Rests(until) => Some(until),
            Stage::Ready(_) => None,
        }
    }

    /// The first TSG of a GPU at this stage or a later one.
    fn first_at(&self, gpu: gpu::Id, stage: Stage) -> Option<(Place, tsg::Id)> {
        let start = Place {
            gpu,
            stage,
            number: 0,
        };
        let cursor = self.places.cursor_lower_bound(&start)?;
        let (&place, &id) = cursor.current();
        (place.gpu == gpu).then_some((place, id))
    }

    /// True if nothing is queued for a GPU.
    #[cfg(zernel_kunit)]
    pub(crate) fn is_empty(&self, gpu: gpu::Id) -> bool {
        self.first_at(gpu, Stage::Ready(Uid(0))).is_none()
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
