// SPDX-License-Identifier: GPL-2.0
//! Processes of TSGs move from cgroup to cgroup.

use crate::{
    glue::{
        cgroup::Cgroup,
        identity::{
            Pid,
            Scope, //
        },
    },
    registry::{
        self,
        assignments::Target,
        groups,
        tsg,
        Registry, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation, //
};

impl Registry {
    /// The first TSG from `from` on, with its process if that has moved to another cgroup.
    fn moved_from(&self, from: tsg::Id) -> Option<(tsg::Id, Option<Pid>)> {
        let id = self.tsg_id(from)?;
        let tsg = self.tsgs.get(&id)?;
        let process = &tsg.owner.process;
        let is_elsewhere = Cgroup::of(process).is_some_and(|own| own.counted_id() != tsg.cgroup);
        // A process that is about to be reaped keeps the cgroup that it had.
        let has_moved = is_elsewhere && process.is_alive(Scope::Process);
        Some((id, has_moved.then(|| process.clone())))
    }

    /// The process of a TSG is in the cgroup `chain[0]` now.
    fn move_to(
        &mut self,
        id: tsg::Id,
        chain: &[u64],
        nodes: &mut groups::Reservation,
        member: RBTreeNodeReservation<(Target, tsg::Id), ()>,
    ) {
        let new = chain.first().copied().unwrap_or(0);
        let Some(tsg) = self.tsgs.get_mut(&id).filter(|tsg| tsg.cgroup != new) else {
            return;
        };
        let old = core::mem::replace(&mut tsg.cgroup, new);
        self.view.begin_move(&mut self.writer);
        self.groups
            .hold(chain, nodes, (&*self.view, &mut self.writer));
        self.members
            .insert(member.into_node((Target::Cgroup(new), id), ()));
        if old != 0 {
            self.members.remove(&(Target::Cgroup(old), id));
            self.groups.release(old, (&*self.view, &mut self.writer));
        }
        if let Some(tsg) = self.tsgs.get(&id) {
            tsg.show(&self.writer);
        }
        self.view.end_move(&mut self.writer);
        self.reclass(id);
    }
}

/// Looks whether the process of the first TSG from `from` on has moved to another cgroup. Called by
/// one thread at a time.
///
/// Returns where to go on, or `None` at the end.
///
/// # Errors
///
/// `ENODEV` the module is on its way out, `ENOMEM`.
pub(crate) fn follow_cgroup(from: tsg::Id) -> Result<Option<tsg::Id>> {
    let Some((id, moved)) = registry::with(|r| r.moved_from(from))? else {
        return Ok(None);
    };
    // A move in between has kicked the cgroup sync once more.
    if let Some(cgroup) = moved.as_ref().and_then(Cgroup::of) {
        let chain = cgroup.ancestry()?;
        let mut nodes = groups::Reservation::new(&chain)?;
        let member = RBTreeNodeReservation::new(GFP_KERNEL)?;
        registry::with(|r| r.move_to(id, &chain, &mut nodes, member))?;
    }
    Ok(Some(id.after()))
}
