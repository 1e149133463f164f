// SPDX-License-Identifier: GPL-2.0
//! Requests as the registry sees them: their owners, and their ends.

use super::{
    gpu,
    levels::LevelOf,
    tsg,
    Registry, //
};
use crate::{
    error::Failure,
    glue::{
        identity::{
            Uid,
            Viewer, //
        },
        memory::account_nowait,
        work::Worker,
    },
    policy::units::Ns,
    request::{
        boost::Boosts,
        group::Group,
        keys::Key,
        stats::{
            Part,
            Shared, //
        },
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNode,
    sync::Arc, //
};

/// Most pages of slots of a user.
pub(crate) const PAGES_PER_USER: u32 = 256;

impl Registry {
    /// Counts one more page of a user.
    ///
    /// # Errors
    ///
    /// [`Failure::OverQuota`] the user has [`PAGES_PER_USER`] and is bound by that, `ENOMEM`.
    pub(crate) fn charge_page(&mut self, user: Uid, unbound: bool) -> Result<(), Failure> {
        match self.pages.get_mut(&user) {
            Some(count) if *count >= PAGES_PER_USER && !unbound => {
                return Err(Failure::OverQuota);
            }
            Some(count) => *count += 1,
            None => {
                let node = RBTreeNode::new(user, 1, account_nowait())?;
                self.pages.insert(node);
            }
        }
        Ok(())
    }

    /// Counts one page less.
    pub(crate) fn uncharge_page(&mut self, user: Uid) {
        let mut left = 0;
        if let Some(count) = self.pages.get_mut(&user) {
            *count -= 1;
            left = *count;
        }
        if left == 0 {
            self.pages.remove(&user);
        }
    }

    /// The history of a user's key.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn key(&mut self, user: Uid, name: u64) -> Result<Arc<Key>, Failure> {
        Ok(self.keys.get(user, name)?)
    }

    /// The worker that prefers threads of requests.
    ///
    /// # Errors
    ///
    /// `ENODEV` nobody does, as in tests.
    pub(crate) fn boosts(&self) -> Result<Arc<Worker<Boosts>>, Failure> {
        Ok(self.boosts.clone().ok_or(ENODEV)?)
    }

    /// The requests of a TSG, for one that `user` begins. `sees_all`, `may_all`: the user sees, and
    /// may begin some on, other users' TSGs. `stats`: where to count if it is the first one of the
    /// TSG.
    ///
    /// # Errors
    ///
    /// [`Failure::NoTsg`], [`Failure::NotPermitted`], `ENOMEM`.
    pub(crate) fn group(
        &mut self,
        id: tsg::Id,
        user: Uid,
        sees_all: bool,
        may_all: bool,
        stats: Option<Arc<Shared>>,
    ) -> Result<Arc<Group>, Failure> {
        let tsg = self.tsgs.get_mut(&id).ok_or(Failure::NoTsg)?;
        let owns = tsg.owner.uid == user;
        if !owns && !may_all {
            return Err(match sees_all {
                true => Failure::NotPermitted,
                false => Failure::NoTsg,
            });
        }
        if let Some(group) = &tsg.requests {
            return Ok(group.clone());
        }
        let gpu = self.gpus.get(&tsg.gpu).ok_or(Failure::NoTsg)?;
        // A caller without one was told that it is not the first.
        let stats = stats.ok_or(Failure::NoTsg)?;
        let group = Group::new(id, gpu.requests.clone(), stats, tsg.effective.level)?;
        tsg.requests = Some(group.clone());
        Ok(group)
    }

    /// True if a TSG is of this user.
    pub(crate) fn owns(&self, id: tsg::Id, user: Uid) -> bool {
        self.tsgs.get(&id).is_some_and(|tsg| tsg.owner.uid == user)
    }

    /// True if a request that `user` begins would be the first one of a TSG.
    pub(crate) fn is_first(&self, id: tsg::Id, user: Uid, may_all: bool) -> bool {
        let tsg = self.tsgs.get(&id);
        let tsg = tsg.filter(|tsg| tsg.owner.uid == user || may_all);
        tsg.is_some_and(|tsg| tsg.requests.is_none())
    }

    /// The requests of a TSG that `viewer` sees, if it ever had some.
    ///
    /// # Errors
    ///
    /// [`Failure::NoTsg`].
    pub(crate) fn known_group(
        &self,
        id: tsg::Id,
        viewer: &Viewer,
    ) -> Result<Option<Arc<Group>>, Failure> {
        self.tsgs
            .get(&id)
            .filter(|tsg| viewer.sees_all() || tsg.owner.uid == viewer.uid())
            .map(|tsg| tsg.requests.clone())
            .ok_or(Failure::NoTsg)
    }

    /// Counts the starts that the provider of a GPU reported.
    pub(crate) fn count_starts(&mut self, id: gpu::Id) {
        let Some(gpu) = self.gpus.get(&id) else {
            return;
        };
        while let Some(start) = gpu.requests.next_start() {
            if start.switch > Ns::ZERO {
                gpu.requests.count_switch(start.switch);
            }
            let tsg = self.handles.get(&(id, start.handle));
            let tsg = tsg.and_then(|tsg| self.tsgs.get(tsg));
            let group = tsg.and_then(|tsg| tsg.requests.as_ref());
            // Others have no triggers.
            if let (Some(waited), Some(group)) = (start.waited(), group) {
                group.waited(waited);
            }
        }
    }

    /// Counts the starts that the providers of all GPUs reported.
    pub(crate) fn count_all_starts(&mut self) {
        let mut from = gpu::Id(0);
        while let Some((id, _)) = self.gpu_from(from) {
            self.count_starts(id);
            from = gpu::Id(id.0.saturating_add(1));
        }
    }

    /// The statistics that make up a level: on a GPU, or on all of them, those that are gone
    /// included.
    pub(crate) fn each_part(&self, of: LevelOf, mut f: impl FnMut(Part<'_>)) {
        let everywhere = of.gpu.is_none();
        let is_meant = |id: &gpu::Id| everywhere || of.gpu == Some(*id);
        for (_, gpu) in self.gpus.iter().filter(|(id, _)| is_meant(id)) {
            let totals = &gpu.requests.totals;
            match of.level {
                None if everywhere => totals.all().for_each(|shared| f(Part::Live(shared))),
                level => totals
                    .of(level)
                    .into_iter()
                    .for_each(|shared| f(Part::Live(shared))),
            }
        }
        let gone = &self.gone_requests;
        match of.level {
            _ if !everywhere => {}
            None => gone.all().for_each(|kept| f(Part::Gone(kept))),
            level => gone
                .of(level)
                .into_iter()
                .for_each(|kept| f(Part::Gone(kept))),
        }
    }

    /// The TSG with requests that comes after `after`.
    pub(crate) fn next_group(&self, after: Option<tsg::Id>) -> Option<(tsg::Id, Arc<Group>)> {
        let mut after = after;
        loop {
            let first = after.map_or(0, |id| id.0.saturating_add(1));
            let cursor = self.tsgs.cursor_lower_bound(&tsg::Id(first))?;
            let (&id, tsg) = cursor.current();
            if let Some(group) = &tsg.requests {
                return Some((id, group.clone()));
            }
            after = Some(id);
        }
    }

    /// Its provider says that a GPU is suspended.
    pub(crate) fn suspend_gpu(&mut self, id: gpu::Id) {
        if let Some(gpu) = self.gpus.get_mut(&id) {
            gpu.suspended = true;
        }
        self.set_retrying(id, true);
        self.tell_state(id);
    }

    /// A provider answered a call for a GPU. One that was done shows that its driver is awake.
    pub(super) fn answered(&mut self, id: gpu::Id, result: Result) {
        let retrying = match result {
            Ok(()) => false,
            Err(EAGAIN) => true,
            // These tell nothing.
            Err(_) => return,
        };
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        gpu.suspended &= retrying;
        if gpu.retrying != retrying {
            self.set_retrying(id, retrying);
            self.tell_state(id);
        }
    }

    /// Calls for a GPU are retried, which ends the requests on it, or are answered again.
    fn set_retrying(&mut self, id: gpu::Id, retrying: bool) {
        let Some(gpu) = self.gpus.get_mut(&id) else {
            return;
        };
        gpu.retrying = retrying;
        if gpu.requests.set_suspended(retrying) || !retrying {
            return;
        }
        let mut after = None;
        while let Some((handle, tsg)) = self.next_tsg_of(id, after) {
            after = Some(handle);
            if let Some(group) = self.tsgs.get(&tsg).and_then(|tsg| tsg.requests.as_ref()) {
                group.suspend();
            }
        }
    }
}
