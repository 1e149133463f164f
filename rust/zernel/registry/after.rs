// SPDX-License-Identifier: GPL-2.0
//! Work that a change leaves behind: in pieces, each with the registry locked for a short time, and
//! without the lock where it may sleep.
//!
//! `registry::with` does it before it returns. The change itself is one write that
//! everybody sees at once; its TSGs follow, and are pending until then.

use super::{
    assignments::{
        Keep,
        Target, //
    },
    gpu,
    tsg::{
        self,
        Tsg, //
    }, //
};
use crate::{
    glue::{
        identity::Pid,
        work::Kick, //
    },
    request::group::Group,
    tracking::owners::Owners, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNode,
    sync::Arc, //
};

/// A TSG that was removed, with all that it held.
pub(super) struct Gone(#[expect(dead_code, reason = "it is dropped")] RBTreeNode<tsg::Id, Tsg>);

impl Gone {
    pub(super) fn new(node: RBTreeNode<tsg::Id, Tsg>) -> Self {
        Self(node)
    }
}

/// The change that TSGs of a GPU follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnGpu {
    /// Its driver may hold any settings.
    Doubt,
    /// There are turns and budgets on it, or not any more.
    Align,
    /// Its provider leaves.
    Restore,
    /// No request goes on.
    Suspend,
}

/// TSGs that are to follow a change, and the place that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Those of a process or thread.
    Members(Target, tsg::Id),
    /// Those in cgroup `top` or below, from this cgroup on.
    Cgroup { top: u64, at: u64, from: tsg::Id },
    /// All of them; `loose`: those that their owners changed, else all are brought in line.
    All { from: tsg::Id, loose: bool },
    /// The requests of all of them end.
    Sleep(tsg::Id),
    /// Those of a GPU behind this handle.
    Gpu(gpu::Id, Option<u64>, OnGpu),
}

impl Walk {
    /// Those that a target names, but for a TSG.
    pub(super) fn of(target: Target) -> Option<Self> {
        match target {
            Target::Tsg(_) => None,
            Target::Process(_) | Target::Thread(_) => Some(Self::Members(target, tsg::Id::FIRST)),
            Target::Cgroup(top) => Some(Self::Cgroup {
                top,
                at: 0,
                from: tsg::Id::FIRST,
            }),
        }
    }

    /// All of them.
    pub(super) fn all(loose: bool) -> Self {
        Self::All {
            from: tsg::Id::FIRST,
            loose,
        }
    }
}

/// The requests of a TSG, which are to end.
pub(super) type Suspended = Option<Arc<Group>>;

/// Work that is left. Each kind comes at most once in what is done with the registry locked once,
/// but for walks: those are queued.
#[derive(Default)]
pub(crate) struct After {
    walks: [Option<Walk>; 3],
    keep: Option<Keep>,
    gone: Option<Gone>,
    ended: Option<Arc<Group>>,
    suspended: Suspended,
    owner: Option<(Pid, Arc<Owners>, Kick)>,
    unresponsive: Option<gpu::Id>,
}

impl After {
    /// True if nothing is left.
    fn is_empty(&self) -> bool {
        self.walks.iter().all(Option::is_none)
            && self.keep.is_none()
            && self.gone.is_none()
            && self.suspended.is_none()
            && self.owner.is_none()
            && self.unresponsive.is_none()
    }

    /// An assignment is over.
    pub(super) fn drop_keep(&mut self, keep: Keep) {
        if !matches!(keep, Keep::Tsg) {
            // There is one at a time.
            debug_assert!(self.keep.is_none());
            self.keep = Some(keep);
        }
    }

    /// A TSG is gone.
    pub(super) fn drop_tsg(&mut self, gone: Gone, group: Option<Arc<Group>>) {
        (self.gone, self.ended) = (Some(gone), group);
    }

    /// A process is to be tracked.
    pub(super) fn track(&mut self, owner: Pid, owners: Arc<Owners>, reaper: Kick) {
        self.owner = Some((owner, owners, reaper));
    }

    /// A GPU does not respond any more, which is to be told.
    pub(super) fn warn(&mut self, gpu: gpu::Id) {
        self.unresponsive = Some(gpu);
    }

    /// Takes all that is left. Cheap where nothing is.
    pub(super) fn take(&mut self) -> Option<Self> {
        (!self.is_empty()).then(|| core::mem::take(self))
    }

    /// Does what needs no lock, or may sleep.
    pub(super) fn finish(&mut self) {
        if let Some(group) = self.ended.take() {
            group.end();
        }
        (self.gone, self.keep) = (None, None);
        if let Some(group) = self.suspended.take() {
            group.suspend();
        }
        if let Some((owner, owners, reaper)) = self.owner.take() {
            owners.add(owner, &reaper);
        }
        if let Some(gpu) = self.unresponsive.take() {
            pr_warn!(
                "GPU {} does not respond; no calls until its driver reports it back\n",
                gpu.0
            );
        }
    }

    /// A place for a walk, if one is free.
    pub(super) fn free_walk(&mut self) -> Option<&mut Option<Walk>> {
        self.walks.iter_mut().find(|walk| walk.is_none())
    }

    /// Takes the next walk, and the place for requests that are to end.
    pub(super) fn next_walk(&mut self) -> Option<(&mut Option<Walk>, Walk, &mut Suspended)> {
        let place = self.walks.iter_mut().find(|walk| walk.is_some())?;
        let walk = (*place)?;
        Some((place, walk, &mut self.suspended))
    }

    /// The place for requests that are to end.
    pub(super) fn suspended(&mut self) -> &mut Suspended {
        &mut self.suspended
    }
}
