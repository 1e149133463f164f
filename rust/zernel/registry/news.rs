// SPDX-License-Identifier: GPL-2.0
//! News for the workers: TSGs that have come, gone, or changed in what matters to turns, budgets and
//! exclusion. Each is told once for any number of changes, in the order of the first of them, and a
//! few at a time.

use super::{
    gpu,
    place::{
        InNews,
        Named, //
    },
    tsg::{
        self,
        Tsg, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
};

/// TSGs that are told of with the registry locked once.
pub(crate) const PIECE: usize = 4;

/// Memory for one TSG.
pub(crate) type Reservation = RBTreeNodeReservation<InNews, Named>;

/// The TSGs that there is news of, on all GPUs.
pub(crate) struct News {
    pub(super) places: RBTree<InNews, Named>,
    last: u64,
}

impl News {
    /// None.
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

    /// There is news of a TSG.
    pub(super) fn add(&mut self, id: tsg::Id, tsg: &mut Tsg) {
        self.last += 1;
        let place = InNews {
            gpu: tsg.gpu,
            number: self.last,
        };
        let handle = tsg.handle;
        tsg.in_news
            .put(&mut self.places, place, Named { id, handle });
    }

    /// A TSG is about to go. A worker that knows of it is told: the node stays for that. So there
    /// are never more of them than TSGs that workers know.
    pub(super) fn remove(&mut self, id: tsg::Id, tsg: &mut Tsg) {
        match tsg.is_told {
            true => self.add(id, tsg),
            false => tsg.in_news.take_out(&mut self.places),
        }
    }

    /// The first of a GPU.
    pub(super) fn first(&self, gpu: gpu::Id) -> Option<(InNews, Named)> {
        let cursor = self.places.cursor_lower_bound(&InNews { gpu, number: 0 })?;
        let (&place, &named) = cursor.current();
        (place.gpu == gpu).then_some((place, named))
    }

    /// Takes out the first of a GPU.
    pub(super) fn pop(&mut self, gpu: gpu::Id) -> Option<(Named, RBTreeNode<InNews, Named>)> {
        let (place, named) = self.first(gpu)?;
        Some((named, self.places.remove_node(&place)?))
    }

    /// Frees the nodes of TSGs that a GPU had.
    pub(super) fn forget(&mut self, gpu: gpu::Id, gone: &mut Gone) -> bool {
        for place in &mut gone.0 {
            *place = self.pop(gpu).map(|(_, node)| node);
        }
        gone.0.iter().any(Option::is_some)
    }

    #[cfg(zernel_kunit)]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// Nodes of TSGs that are gone, to be freed without the lock.
#[derive(Default)]
pub(crate) struct Gone(pub(super) [Option<RBTreeNode<InNews, Named>>; PIECE]);
