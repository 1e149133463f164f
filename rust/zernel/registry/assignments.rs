// SPDX-License-Identifier: GPL-2.0
//! Who gave which class to what, and how much of that each user holds.

use super::tsg;
use crate::{
    glue::{
        cgroup::Cgroup,
        identity::Uid,
        watch::Armed, //
    },
    policy::{
        class::{
            Assignment,
            Source, //
        },
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

/// What an assignment names. Tasks are named by their `struct pid`, which the assignment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// Every process of a cgroup, by its id.
    Cgroup(u64),
    /// A process.
    Process(usize),
    /// A thread.
    Thread(usize),
    /// A TSG.
    Tsg(tsg::Id),
}

impl Target {
    /// Its kind.
    pub(crate) fn source(self) -> Source {
        match self {
            Self::Cgroup(_) => Source::Cgroup,
            Self::Process(_) => Source::Process,
            Self::Thread(_) => Source::Thread,
            Self::Tsg(_) => Source::Tsg,
        }
    }
}

/// What keeps a target's name its own, and tells its end.
pub(crate) enum Keep {
    /// A watched task.
    Task(#[expect(dead_code, reason = "held for its effect")] Armed),
    /// A cgroup.
    Cgroup(Cgroup),
    /// Nothing: ids of TSGs are never used again, and the registry sees them go.
    Tsg,
}

struct Held {
    grant: Grant,
    by: Uid,
    keep: Keep,
}

/// Memory for one assignment.
pub(crate) struct Reservation {
    held: RBTreeNodeReservation<Target, Held>,
    user: RBTreeNodeReservation<Uid, u32>,
}

impl Reservation {
    /// Allocates it.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            held: RBTreeNodeReservation::new(GFP_KERNEL)?,
            user: RBTreeNodeReservation::new(GFP_KERNEL)?,
        })
    }
}

/// All assignments.
pub(crate) struct Assignments {
    held: RBTree<Target, Held>,
    users: RBTree<Uid, u32>,
    count: u32,
    raised: u32,
}

impl Assignments {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            held: RBTree::new(),
            users: RBTree::new(),
            count: 0,
            raised: 0,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MAX
    }

    /// The assignment of a target.
    pub(crate) fn get(&self, target: Target) -> Option<Assignment> {
        self.held.get(&target).map(|held| held.grant.assignment)
    }

    /// How the assignment of a target was made.
    pub(crate) fn grant(&self, target: Target) -> Option<Grant> {
        self.held.get(&target).map(|held| held.grant)
    }

    /// What counts against a new assignment of `by` to `target`.
    pub(crate) fn quota(&self, target: Target, by: Uid, admission: u32) -> Quota {
        let replaced = self.held.get(&target);
        let own = u32::from(replaced.is_some_and(|held| held.by == by));
        let raised = u32::from(replaced.is_some_and(|held| held.grant.raised));
        Quota {
            held: self.users.get(&by).map_or(0, |n| n.saturating_sub(own)),
            most: MAX_PER_USER,
            raised: self.raised.saturating_sub(raised),
            admission,
        }
    }

    /// Stores an assignment; one that is there keeps its [`Keep`].
    pub(crate) fn put(
        &mut self,
        target: Target,
        grant: Grant,
        by: Uid,
        keep: impl FnOnce() -> Result<Keep>,
    ) -> Result {
        let memory = Reservation::new()?;
        let keep = match self.held.get(&target) {
            Some(_) => None,
            None => Some(keep()?),
        };
        match keep {
            None => {
                if let Some(held) = self.held.get_mut(&target) {
                    let (old, was) = (held.by, held.grant.raised);
                    held.grant = grant;
                    held.by = by;
                    self.uncount(old, was);
                }
            }
            Some(keep) => {
                let held = Held { grant, by, keep };
                self.held.insert(memory.held.into_node(target, held));
            }
        }
        self.count += 1;
        self.raised += u32::from(grant.raised);
        match self.users.get_mut(&by) {
            Some(n) => *n += 1,
            None => {
                self.users.insert(memory.user.into_node(by, 1));
            }
        }
        Ok(())
    }

    /// Takes the assignment of a target away.
    pub(crate) fn take(&mut self, target: Target) -> Option<Assignment> {
        let held = self.held.remove(&target)?;
        self.uncount(held.by, held.grant.raised);
        Some(held.grant.assignment)
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
                let dead = matches!(&held.keep, Keep::Cgroup(cgroup) if cgroup.is_dead());
                Some((id, dead))
            }
            _ => None,
        }
    }
}
