// SPDX-License-Identifier: GPL-2.0
//! A TSG that is about to be added, and everything that it takes: made without the registry's lock.

use super::{
    gpu,
    groups,
    news::{
        self,
        News, //
    },
    queue::{
        self,
        Queue, //
    },
    schedule::{
        self,
        Schedule, //
    },
    shares::{
        self,
        Shares, //
    },
    target::Target,
    tsg::{
        self,
        Tsg, //
    },
    view::{
        ForTsg,
        Shown, //
    }, //
};
use crate::glue::{
    cgroup::Cgroup,
    identity::Uid, //
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNodeReservation,
    sync::Arc, //
};

/// Memory for one TSG.
pub(super) struct Memory {
    pub(super) tsg: RBTreeNodeReservation<tsg::Id, Tsg>,
    pub(super) handle: RBTreeNodeReservation<(gpu::Id, u64), tsg::Id>,
    pub(super) user: RBTreeNodeReservation<(Uid, tsg::Id), ()>,
    pub(super) members: [RBTreeNodeReservation<(Target, tsg::Id), ()>; 3],
    pub(super) share: shares::Reservation,
    pub(super) place: queue::Reservation,
    pub(super) in_news: news::Reservation,
    pub(super) in_schedule: schedule::Reservation,
    pub(super) shown: Arc<Shown>,
    pub(super) in_view: ForTsg,
}

impl Memory {
    fn new(owner: &tsg::Owner) -> Result<Self> {
        let member = || RBTreeNodeReservation::new(GFP_KERNEL);
        Ok(Self {
            tsg: RBTreeNodeReservation::new(GFP_KERNEL)?,
            handle: RBTreeNodeReservation::new(GFP_KERNEL)?,
            user: RBTreeNodeReservation::new(GFP_KERNEL)?,
            members: [member()?, member()?, member()?],
            share: Shares::reserve()?,
            place: Queue::reserve()?,
            in_news: News::reserve()?,
            in_schedule: Schedule::reserve()?,
            shown: Arc::new(Shown::new(owner), GFP_KERNEL_ACCOUNT)?,
            in_view: ForTsg::new()?,
        })
    }
}

/// A TSG that is about to be added, and everything that it takes.
pub(crate) struct Arrival {
    pub(super) description: Option<tsg::Description>,
    /// The cgroups of its process.
    pub(super) chain: KVec<u64>,
    pub(super) nodes: groups::Reservation,
    pub(super) memory: Option<Memory>,
}

impl Arrival {
    /// Of a TSG.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(description: tsg::Description) -> Result<Self> {
        let mut arrival = Self {
            memory: Some(Memory::new(&description.owner)?),
            description: Some(description),
            chain: KVec::new(),
            nodes: groups::Reservation::new(&[])?,
        };
        arrival.look_up()?;
        Ok(arrival)
    }

    /// Looks up the cgroups of its process once more.
    pub(super) fn look_up(&mut self) -> Result {
        let process = self.description.as_ref().map(|new| &new.owner.process);
        self.chain = match process.and_then(Cgroup::of) {
            Some(cgroup) => cgroup.ancestry()?,
            None => KVec::new(),
        };
        self.nodes = groups::Reservation::new(&self.chain)?;
        Ok(())
    }
}
