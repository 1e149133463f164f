// SPDX-License-Identifier: GPL-2.0
//! The assignments, and the number that each user has.

pub(crate) use super::target::Target;
use super::view::{
    ForAssignment,
    Made, //
};
use crate::{
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Uid, //
        },
        watch::Armed, //
    },
    policy::{
        class::Assignment,
        permit::{
            Grant,
            Quota, //
        },
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
};

/// Most assignments at a time.
pub(crate) const MAX: u32 = 100_000;

/// Most assignments of a user without `CAP_SYS_NICE`.
pub(crate) const MAX_PER_USER: u32 = 4096;

/// Keeps the name of a target its own, and tells its end.
pub(crate) enum Keep {
    /// A watched task.
    Task(Armed),
    /// A cgroup, and the owner of its directory.
    Cgroup(Cgroup, Uid),
    /// Nothing: ids of TSGs are never used again, and the registry sees them go.
    Tsg,
}

impl Keep {
    /// True if the target is gone.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Task(armed) => !armed.is_alive(),
            Self::Cgroup(cgroup, _) => cgroup.is_dead(),
            Self::Tsg => false,
        }
    }
}

/// An assignment, and all that is known of it.
pub(crate) struct Held {
    grant: Grant,
    by: Uid,
    made_at: u64,
    keep: Keep,
    tsgs: u32,
}

impl Held {
    /// The attributes.
    pub(crate) fn assignment(&self) -> &Assignment {
        &self.grant.assignment
    }

    /// The user that made it or changed it last.
    pub(crate) fn by(&self) -> Uid {
        self.by
    }

    /// When that was, in ns of `CLOCK_MONOTONIC`.
    pub(crate) fn made_at(&self) -> u64 {
        self.made_at
    }

    /// TSGs with their level from it.
    pub(crate) fn tsgs(&self) -> u32 {
        self.tsgs
    }

    /// The thread or process that is its target.
    pub(crate) fn task(&self) -> Option<&Pid> {
        match &self.keep {
            Keep::Task(armed) => Some(armed.pid()),
            Keep::Cgroup(..) | Keep::Tsg => None,
        }
    }

    /// As others see it.
    pub(crate) fn made(&self) -> Made {
        Made {
            assignment: self.grant.assignment,
            by: self.by,
            cgroup_owner: self.cgroup_owner(),
        }
    }

    /// The owner of the cgroup that is its target, as it was when the class was set last.
    pub(crate) fn cgroup_owner(&self) -> Option<Uid> {
        match &self.keep {
            Keep::Cgroup(_, owner) => Some(*owner),
            Keep::Task(_) | Keep::Tsg => None,
        }
    }
}

/// Memory for one assignment.
pub(crate) struct Reservation {
    held: RBTreeNodeReservation<Target, Held>,
    id: RBTreeNodeReservation<u64, Target>,
    user: RBTreeNodeReservation<Uid, u32>,
    shown: ForAssignment,
}

impl Reservation {
    /// The part for a user that has no assignment yet.
    pub(crate) fn into_user(self) -> RBTreeNodeReservation<Uid, u32> {
        self.user
    }

    /// As much as one can need.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            held: RBTreeNodeReservation::new(GFP_KERNEL)?,
            id: RBTreeNodeReservation::new(GFP_KERNEL)?,
            user: RBTreeNodeReservation::new(GFP_KERNEL)?,
            shown: ForAssignment::new()?,
        })
    }
}

/// All assignments.
///
/// # Invariants
///
/// `ids` has the id and the target of each.
pub(crate) struct Assignments {
    held: RBTree<Target, Held>,
    ids: RBTree<u64, Target>,
    users: RBTree<Uid, u32>,
    count: u32,
    raised: u32,
    changes: u64,
}

impl Assignments {
    /// None.
    pub(crate) fn new() -> Self {
        // INVARIANT: There are none.
        Self {
            held: RBTree::new(),
            ids: RBTree::new(),
            users: RBTree::new(),
            count: 0,
            raised: 0,
            changes: 0,
        }
    }

    /// Their number.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Assignments that have come and gone.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// True if there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MAX
    }

    /// The assignment of a target.
    pub(crate) fn get(&self, target: Target) -> Option<Assignment> {
        self.held.get(&target).map(|held| held.grant.assignment)
    }

    /// All that is known of it.
    pub(crate) fn held(&self, target: Target) -> Option<&Held> {
        self.held.get(&target)
    }

    /// The assignment with an id.
    #[cfg(zernel_kunit)]
    pub(crate) fn by_id(&self, id: u64) -> Option<(Target, &Held)> {
        let target = *self.ids.get(&id)?;
        Some((target, self.held.get(&target)?))
    }

    /// The first assignment with an id of at least `from`.
    pub(crate) fn from(&self, from: u64) -> Option<(u64, Target, &Held)> {
        let cursor = self.ids.cursor_lower_bound(&from)?;
        let (&id, &target) = cursor.current();
        Some((id, target, self.held.get(&target)?))
    }

    /// The grant that made the assignment of a target.
    pub(crate) fn grant(&self, target: Target) -> Option<Grant> {
        self.held.get(&target).map(|held| held.grant)
    }

    /// Everything that counts against a change of the assignment of `target` by `by`.
    pub(crate) fn quota(&self, target: Target, by: Uid) -> Quota {
        let changed = self.held.get(&target);
        let own = u32::from(changed.is_some_and(|held| held.by == by));
        let raised = u32::from(changed.is_some_and(|held| held.grant.raised));
        Quota {
            held: self.users.get(&by).map_or(0, |n| n.saturating_sub(own)),
            most: MAX_PER_USER,
            raised: self.raised.saturating_sub(raised),
        }
    }

    /// True if a change by `by` takes memory.
    pub(crate) fn takes_memory(&self, target: Target, by: Uid) -> bool {
        self.held.get(&target).is_none() || self.users.get(&by).is_none()
    }

    /// Changes an assignment that is there, which keeps its id. `user`: memory, if it
    /// [takes](Self::takes_memory) that.
    pub(crate) fn change(
        &mut self,
        target: Target,
        grant: Grant,
        by: Uid,
        now_ns: u64,
        user: Option<RBTreeNodeReservation<Uid, u32>>,
    ) {
        let Some(held) = self.held.get_mut(&target) else {
            return;
        };
        let (old, was) = (held.by, held.grant.raised);
        held.grant = grant;
        held.by = by;
        held.made_at = now_ns;
        self.uncount(old, was);
        self.recount(by, grant.raised, user);
    }

    /// Stores an assignment with a new id. Returns the memory for showing it.
    pub(crate) fn put(
        &mut self,
        target: Target,
        (grant, by, now_ns): (Grant, Uid, u64),
        keep: Keep,
        memory: Reservation,
    ) -> ForAssignment {
        let held = Held {
            grant,
            by,
            made_at: now_ns,
            keep,
            tsgs: 0,
        };
        self.held.insert(memory.held.into_node(target, held));
        // INVARIANT: Both are inserted together.
        self.ids
            .insert(memory.id.into_node(grant.assignment.id, target));
        self.changes += 1;
        self.recount(by, grant.raised, Some(memory.user));
        memory.shown
    }

    fn recount(&mut self, by: Uid, raised: bool, user: Option<RBTreeNodeReservation<Uid, u32>>) {
        self.count += 1;
        self.raised += u32::from(raised);
        match (self.users.get_mut(&by), user) {
            (Some(n), _) => *n += 1,
            (None, Some(user)) => {
                self.users.insert(user.into_node(by, 1));
            }
            (None, None) => {}
        }
    }

    /// The directory of a cgroup that has an assignment belongs to `owner`.
    pub(crate) fn set_cgroup_owner(&mut self, target: Target, owner: Uid) {
        if let Some(held) = self.held.get_mut(&target) {
            if let Keep::Cgroup(_, old) = &mut held.keep {
                *old = owner;
            }
        }
    }

    /// The assignment with an id decides the level of one more TSG, or of one less.
    pub(crate) fn count_tsg(&mut self, id: u64, is_more: bool) {
        let target = self.ids.get(&id).copied();
        if let Some(held) = target.and_then(|target| self.held.get_mut(&target)) {
            held.tsgs = match is_more {
                true => held.tsgs.saturating_add(1),
                false => held.tsgs.saturating_sub(1),
            };
        }
    }

    /// Takes the assignment of a target away. The [`Keep`] is to be dropped without locks: others
    /// may have any number of watchers on the same wait queue.
    pub(crate) fn take(&mut self, target: Target) -> Option<(Assignment, Keep)> {
        let held = self.held.remove(&target)?;
        // INVARIANT: Both are removed together.
        self.ids.remove(&held.grant.assignment.id);
        self.changes += 1;
        self.uncount(held.by, held.grant.raised);
        Some((held.grant.assignment, held.keep))
    }

    fn uncount(&mut self, by: Uid, raised: bool) {
        self.count -= 1;
        self.raised -= u32::from(raised);
        let mut left = 0;
        if let Some(n) = self.users.get_mut(&by) {
            *n -= 1;
            left = *n;
        }
        if left == 0 {
            self.users.remove(&by);
        }
    }

    /// The first assigned cgroup with an id of at least `from`, and whether it was removed.
    pub(crate) fn cgroup_from(&self, from: u64) -> Option<(u64, bool)> {
        let cursor = self.held.cursor_lower_bound(&Target::Cgroup(from))?;
        match cursor.current() {
            (&Target::Cgroup(id), held) => {
                let dead = matches!(&held.keep, Keep::Cgroup(cgroup, _) if cgroup.is_dead());
                Some((id, dead))
            }
            _ => None,
        }
    }
}
