// SPDX-License-Identifier: GPL-2.0
//! The TSGs of a GPU that take turns, in numbered slots that they keep, and by the provider's number.

use super::activity::{
    key,
    Key, //
};
use crate::{
    policy::{
        rotation::{
            entity::{
                Entity,
                Sample, //
            },
            run_list::RunList, //
        },
        units::Ns, //
    },
    registry::{
        plan::turns::Candidate,
        tsg, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// A TSG that takes turns.
struct Member {
    id: tsg::Id,
    handle: u64,
    runlist: u32,
    entity: Entity,
}

/// The TSGs of a GPU that take turns.
///
/// # Invariants
///
/// `free` has room for every slot; `index` has the slot of each TSG.
pub(crate) struct Members {
    slots: KVec<Option<KBox<Member>>>,
    free: KVec<usize>,
    index: RBTree<Key, usize>,
    /// From one look at them to the next, where nobody tells of their activity.
    resolution: Ns,
}

impl Members {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            slots: KVec::new(),
            free: KVec::new(),
            index: RBTree::new(),
            resolution: Ns::ZERO,
        }
    }

    /// Looks tell of their activity, from one of which it is so long to the next.
    pub(crate) fn set_resolution(&mut self, interval: Ns) {
        self.resolution = interval;
        for member in self.slots.iter_mut().flatten() {
            member.entity.set_resolution(interval);
        }
    }

    /// Adds one, and returns its slot.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&mut self, candidate: &Candidate) -> Result<usize> {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut entity = Entity::new(candidate.weight);
        entity.set_resolution(self.resolution);
        let member = Member {
            id: candidate.id,
            handle: candidate.handle,
            runlist: candidate.runlist,
            entity,
        };
        let member = KBox::new(member, GFP_KERNEL)?;
        if self.free.is_empty() {
            // INVARIANT: There is room for one more.
            self.free.reserve(self.slots.len() + 1, GFP_KERNEL)?;
            self.slots.push(None, GFP_KERNEL)?;
            // There is room.
            let _ = self.free.push_within_capacity(self.slots.len() - 1);
        }
        let slot = self.free.pop().ok_or(ENOMEM)?;
        // INVARIANT: Both at once.
        self.index
            .insert(node.into_node(key(candidate.handle), slot));
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(member);
        }
        Ok(slot)
    }

    /// Removes one.
    pub(crate) fn remove(&mut self, slot: usize) {
        let Some(member) = self.slots.get_mut(slot).and_then(Option::take) else {
            return;
        };
        // INVARIANT: Both at once.
        self.index.remove(&key(member.handle));
        // There is room, by the invariant.
        let _ = self.free.push_within_capacity(slot);
    }

    /// The slots by the provider's numbers.
    pub(crate) fn index(&self) -> &RBTree<Key, usize> {
        &self.index
    }

    /// The slot of a TSG, and its run list.
    pub(crate) fn find(&self, handle: u64) -> Option<(usize, u32)> {
        let slot = *self.index.get(&key(handle))?;
        Some((slot, self.member(slot)?.runlist))
    }

    /// The provider's number of a TSG, and its run list.
    pub(crate) fn named(&self, slot: usize) -> Option<(u64, u32)> {
        self.member(slot)
            .map(|member| (member.handle, member.runlist))
    }

    /// The TSG in a slot.
    pub(crate) fn id(&self, slot: usize) -> Option<tsg::Id> {
        self.member(slot).map(|member| member.id)
    }

    /// True if a TSG runs in slices, because a call for it failed.
    pub(crate) fn is_in_slices(&self, slot: usize) -> bool {
        self.get(slot).is_some_and(Entity::is_in_slices)
    }

    /// True if a TSG is disabled until its turn, and has something to run.
    pub(crate) fn waits(&self, slot: usize) -> bool {
        self.get(slot).is_some_and(Entity::waits)
    }

    /// Has a TSG learn from a sample that was taken at `now`.
    pub(crate) fn learn(&mut self, slot: usize, sample: Sample, now: Ns) {
        if let Some(entity) = self.get_mut(slot) {
            entity.learn(sample, now);
        }
    }

    fn member(&self, slot: usize) -> Option<&Member> {
        self.slots.get(slot)?.as_deref()
    }
}

impl RunList for Members {
    fn get(&self, slot: usize) -> Option<&Entity> {
        self.member(slot).map(|member| &member.entity)
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut Entity> {
        let member = self.slots.get_mut(slot)?.as_deref_mut()?;
        Some(&mut member.entity)
    }
}
