// SPDX-License-Identifier: GPL-2.0
//! News for the workers: TSGs that have come, gone, or changed in what matters to turns, budgets and
//! exclusion. Each is told once for any number of changes, in the order of the first of them, and a
//! few at a time.

use super::{
    gpu,
    place::{
        InNews,
        Named,
        Told, //
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
pub(crate) type Reservation = RBTreeNodeReservation<InNews, Told>;

/// The TSGs that there is news of, on all GPUs.
pub(crate) struct News {
    pub(super) places: RBTree<InNews, Told>,
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
        let told = Told {
            tsg: Named {
                id,
                handle: tsg.handle,
            },
            ended: None,
        };
        tsg.in_news.put(&mut self.places, place, told);
    }

    /// A TSG is about to go. A worker that knows of it is told: the node stays for that. So there
    /// are never more of them than TSGs that workers know.
    pub(super) fn remove(&mut self, id: tsg::Id, tsg: &mut Tsg) {
        if !tsg.is_told {
            tsg.in_news.take_out(&mut self.places);
            return;
        }
        self.add(id, tsg);
        let place = tsg.in_news.key();
        if let Some(told) = place.and_then(|place| self.places.get_mut(&place)) {
            told.ended = Some(tsg.meter.done.ran);
        }
    }

    /// The first of a GPU.
    pub(super) fn first(&self, gpu: gpu::Id) -> Option<(InNews, Told)> {
        let cursor = self.places.cursor_lower_bound(&InNews { gpu, number: 0 })?;
        let (&place, &told) = cursor.current();
        (place.gpu == gpu).then_some((place, told))
    }

    /// Takes out the first of a GPU.
    pub(super) fn pop(&mut self, gpu: gpu::Id) -> Option<(Told, RBTreeNode<InNews, Told>)> {
        let (place, told) = self.first(gpu)?;
        Some((told, self.places.remove_node(&place)?))
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
pub(crate) struct Gone(pub(super) [Option<RBTreeNode<InNews, Told>>; PIECE]);
