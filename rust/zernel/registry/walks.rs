// SPDX-License-Identifier: GPL-2.0
//! Walks through the TSGs that follow a change, some with the registry locked at a time.

use super::{
    after::{
        After,
        OnGpu,
        Suspended,
        Walk, //
    },
    target::Target,
    tsg,
    Registry, //
};

impl Registry {
    /// Brings some more TSGs in line. Returns false if none are left.
    pub(super) fn go_on(&mut self, after: &mut After) -> bool {
        let Some((place, walk, suspended)) = after.next_walk() else {
            return false;
        };
        *place = self.piece(walk, suspended);
        true
    }

    /// Brings every TSG in line that a target names.
    pub(super) fn refresh_target(&mut self, target: Target) {
        match (Walk::of(target), target) {
            (Some(walk), _) => self.walk(walk),
            (None, Target::Tsg(id)) => self.refresh(id),
            (None, _) => {}
        }
    }

    /// The first TSG of a target with an id of at least `from`.
    pub(super) fn member_id(&self, target: Target, from: tsg::Id) -> Option<tsg::Id> {
        let cursor = self.members.cursor_lower_bound(&(target, from))?;
        let (&(owner, id), ()) = cursor.current();
        (owner == target).then_some(id)
    }

    /// The first TSG with an id of at least `from`.
    pub(super) fn tsg_id(&self, from: tsg::Id) -> Option<tsg::Id> {
        self.tsgs.from(from)
    }

    /// The first TSG in a cgroup, in the order of these and then of ids.
    fn cgroup_member_from(&self, cgroup: u64, from: tsg::Id) -> Option<(u64, tsg::Id)> {
        let first = (Target::Cgroup(cgroup), from);
        match self.members.cursor_lower_bound(&first)?.current().0 {
            &(Target::Cgroup(cgroup), id) => Some((cgroup, id)),
            _ => None,
        }
    }

    /// Brings the first TSG of a walk in line; the others follow.
    pub(super) fn walk(&mut self, walk: Walk) {
        let mut suspended = self.after.suspended().take();
        let mut left = self.piece(walk, &mut suspended);
        *self.after.suspended() = suspended;
        if let Some(place) = self.after.free_walk() {
            *place = left.take();
        }
        // There is a place for each walk that a change leaves.
        debug_assert!(left.is_none());
    }

    /// Brings one TSG in line: its cgroups may be nested deeply, and it makes an event. Returns what is
    /// left of the walk.
    fn piece(&mut self, walk: Walk, suspended: &mut Suspended) -> Option<Walk> {
        Some(match walk {
            Walk::Members(target, from) => {
                let id = self.member_id(target, from)?;
                self.refresh(id);
                Walk::Members(target, id.after())
            }
            Walk::Cgroup { top, at, from } => self.cgroup_piece(top, at, from)?,
            Walk::All { from, loose } => {
                let id = self.tsg_id(from)?;
                match loose {
                    true => self.doubt(id, |tsg| tsg.loose && tsg.is_held()),
                    false => self.refresh(id),
                }
                Walk::All {
                    from: id.after(),
                    loose,
                }
            }
            Walk::Sleep(from) => {
                let id = self.tsg_id(from)?;
                *suspended = self.tsg(id).and_then(|tsg| tsg.requests.clone());
                Walk::Sleep(id.after())
            }
            Walk::Gpu(gpu, after, what) => {
                let (handle, id) = self.next_tsg_of(gpu, after)?;
                self.follow_gpu(id, what, suspended);
                Walk::Gpu(gpu, Some(handle), what)
            }
        })
    }

    /// One TSG, or the way to the next cgroup.
    fn cgroup_piece(&mut self, top: u64, at: u64, from: tsg::Id) -> Option<Walk> {
        let (cgroup, id) = self.cgroup_member_from(at, from)?;
        if !self.groups.is_within(cgroup, top) {
            // Past all of its TSGs.
            return Some(Walk::Cgroup {
                top,
                at: cgroup.checked_add(1)?,
                from: tsg::Id::FIRST,
            });
        }
        self.refresh(id);
        Some(Walk::Cgroup {
            top,
            at: cgroup,
            from: id.after(),
        })
    }

    /// A TSG follows a change of its GPU.
    fn follow_gpu(&mut self, id: tsg::Id, what: OnGpu, suspended: &mut Suspended) {
        match what {
            OnGpu::Doubt => self.doubt_anew(id),
            OnGpu::Align => self.refresh(id),
            OnGpu::Restore => self.restore(id),
            OnGpu::Suspend => *suspended = self.tsg(id).and_then(|tsg| tsg.requests.clone()),
        }
    }

    /// Does all that is left, for tests without a lock.
    #[cfg(zernel_kunit)]
    pub(crate) fn settle(&mut self) {
        let mut after = core::mem::take(&mut self.after);
        after.finish();
        while self.go_on(&mut after) {
            after.finish();
        }
        self.show();
    }
}
