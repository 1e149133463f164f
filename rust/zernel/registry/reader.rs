// SPDX-License-Identifier: GPL-2.0
//! A worker reads the news of its GPU.

use super::{
    gpu,
    news::{
        Gone,
        PIECE, //
    },
    place::{
        InNews,
        Named,
        Told, //
    },
    plan::{
        Change,
        Terms, //
    },
    tsg,
    Registry, //
};
use crate::policy::level::Level;
use kernel::rbtree::RBTreeNode;

/// A worker's place in the news of its GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader {
    /// The generation of the GPU that it has taken over.
    generation: u64,
    /// It goes through all TSGs, and has come to this handle; `None`: to the end.
    all_behind: Option<Option<u64>>,
}

/// A piece of news.
#[derive(Default)]
pub(crate) struct Piece {
    /// The TSGs.
    pub(crate) changes: [Option<Change>; PIECE],
    /// The tunables, where they have changed.
    pub(crate) terms: Option<Terms>,
    /// There is more.
    pub(crate) more: bool,
    /// Freed with this.
    gone: Gone,
}

impl Registry {
    /// A worker that could not take over the news of a TSG comes back for it.
    pub(crate) fn add_news(&mut self, id: tsg::Id) {
        if let Some(tsg) = self.tsgs.get_mut(&id) {
            self.news.add(id, tsg);
        }
    }

    /// Reads the next news of a GPU. TSGs that take no turns any more are scheduled again,
    /// and so are those that take turns now and that their owner has stopped.
    ///
    /// A change of the tunables is news of all TSGs: the reader goes through them.
    pub(crate) fn read_news(&mut self, id: gpu::Id, reader: &mut Reader, piece: &mut Piece) {
        let Some(gpu) = self.gpus.get(&id).filter(|gpu| !gpu.closing) else {
            return;
        };
        if gpu.generation != reader.generation {
            *reader = Reader {
                generation: gpu.generation,
                all_behind: Some(None),
            };
            let turns = *self.tunables.turns();
            piece.terms = Some(Terms {
                turns: if gpu.has_turns() { turns } else { turns.off() },
                budgets: Level::ALL.map(|level| self.tunables.budget(level)),
            });
        }
        for (change, gone) in piece.changes.iter_mut().zip(&mut piece.gone.0) {
            let Some(told) = self
                .next_of_all(id, reader)
                .or_else(|| self.next_news(id, gone))
            else {
                break;
            };
            *change = Some(self.change_of(told));
        }
        piece.more = reader.all_behind.is_some() || self.news.first(id).is_some();
    }

    /// The next one of all TSGs, if the reader goes through them.
    fn next_of_all(&mut self, gpu: gpu::Id, reader: &mut Reader) -> Option<Told> {
        let found = self.next_tsg_of(gpu, reader.all_behind?);
        reader.all_behind = found.map(|(handle, _)| Some(handle));
        let (handle, id) = found?;
        let tsg = self.tsgs.get_mut(&id)?;
        tsg.in_news.take_out(&mut self.news.places);
        Some(Told {
            tsg: Named { id, handle },
            ended: None,
        })
    }

    fn next_news(
        &mut self,
        gpu: gpu::Id,
        gone: &mut Option<RBTreeNode<InNews, Told>>,
    ) -> Option<Told> {
        let (told, node) = self.news.pop(gpu)?;
        match self.tsgs.get_mut(&told.tsg.id) {
            Some(tsg) => tsg.in_news.take_back(node),
            None => *gone = Some(node),
        }
        Some(told)
    }

    /// The part of a TSG now.
    fn change_of(&mut self, told: Told) -> Change {
        let named = told.tsg;
        self.enable_other(named.id);
        self.take_over(named.id);
        if let Some(tsg) = self.tsgs.get_mut(&named.id) {
            tsg.is_told = true;
        }
        let tsg = self.tsg(named.id);
        Change {
            id: named.id,
            handle: named.handle,
            user: tsg.map_or(0, |tsg| tsg.owner.uid.0),
            may_keep: tsg.is_some_and(|tsg| tsg.effective.may_keep),
            turns: self.candidate(named.handle, named.id),
            budget: self.watched(named.id),
            ended: told.ended,
        }
    }
}

/// Frees the news of a GPU that is gone.
pub(crate) fn forget(gpu: gpu::Id) {
    loop {
        let mut gone = Gone::default();
        if !super::with(|r| r.news.forget(gpu, &mut gone)).unwrap_or(false) {
            return;
        }
    }
}
