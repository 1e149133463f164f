// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Storage: pools of nodes handed in by the owner, and the free lists over them.

/// Number of a node in its pool.
pub(crate) trait Index: Copy + PartialEq {
    /// No node.
    const NIL: Self;
    /// The index with number `raw`.
    fn new(raw: u32) -> Self;
    /// The number; `u32::MAX` for [`Index::NIL`].
    fn raw(self) -> u32;
    /// True if this names no node.
    fn is_nil(self) -> bool {
        self == Self::NIL
    }
}

/// Defines an [`Index`] type.
macro_rules! index {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(u32);

        impl $crate::model::arena::Index for $name {
            const NIL: Self = Self(u32::MAX);
            fn new(raw: u32) -> Self {
                Self(raw)
            }
            fn raw(self) -> u32 {
                self.0
            }
        }
    };
}
pub(crate) use index;

/// Fixed places for nodes. The size may grow, never shrink; nodes never move to another number.
pub(crate) trait Pool<T> {
    /// The node with number `at`.
    fn at(&self, at: u32) -> Option<&T>;
    /// The node with number `at`, to change it.
    fn at_mut(&mut self, at: u32) -> Option<&mut T>;
    /// Number of nodes.
    fn size(&self) -> u32;
}

/// A value that can live in an [`Arena`].
pub(crate) trait Node {
    /// The name of the node.
    type Ix: Index;
    /// A node that means nothing.
    fn blank() -> Self;
    /// Link used by the free list while the node is free.
    fn next_free(&mut self) -> &mut Self::Ix;
}

/// A pool with a free list.
///
/// Access never fails: an index that names no node, which would be an error in the model, reaches
/// a spare node instead. A wrong simulation is better than a dead kernel; with debug assertions
/// it is caught.
pub(crate) struct Arena<T: Node, P: Pool<T>> {
    pool: P,
    spare: T,
    free: T::Ix,
    fresh: u32,
    used: u32,
}

impl<T: Node, P: Pool<T>> Arena<T, P> {
    /// An arena of free nodes.
    pub(crate) fn new(pool: P) -> Self {
        Self {
            pool,
            spare: T::blank(),
            free: T::Ix::NIL,
            fresh: 0,
            used: 0,
        }
    }

    /// The pool, to let it grow.
    pub(crate) fn pool_mut(&mut self) -> &mut P {
        &mut self.pool
    }

    /// Nodes that can still be taken.
    pub(crate) fn room(&self) -> u32 {
        self.pool.size().saturating_sub(self.used)
    }

    /// Nodes in the pool.
    pub(crate) fn size(&self) -> u32 {
        self.pool.size()
    }

    /// Nodes taken.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// The node, to read it.
    pub(crate) fn get(&self, ix: T::Ix) -> &T {
        match self.pool.at(ix.raw()) {
            Some(node) => node,
            None => {
                debug_assert!(false);
                &self.spare
            }
        }
    }

    /// The node, to change it.
    pub(crate) fn get_mut(&mut self, ix: T::Ix) -> &mut T {
        match self.pool.at_mut(ix.raw()) {
            Some(node) => node,
            None => {
                debug_assert!(false);
                &mut self.spare
            }
        }
    }

    /// Takes a free node; its contents are stale.
    pub(crate) fn take(&mut self) -> Option<T::Ix> {
        let ix = if !self.free.is_nil() {
            let ix = self.free;
            let next = *self.get_mut(ix).next_free();
            self.free = next;
            ix
        } else if self.fresh < self.pool.size() {
            let ix = T::Ix::new(self.fresh);
            self.fresh = self.fresh.saturating_add(1);
            ix
        } else {
            return None;
        };
        self.used = self.used.saturating_add(1);
        Some(ix)
    }

    /// Gives back `count` nodes that are linked through [`Node::next_free`] from `first` to
    /// `last`. Takes the same time for any number.
    pub(crate) fn put_chain(&mut self, first: T::Ix, last: T::Ix, count: u32) {
        if first.is_nil() || last.is_nil() {
            return;
        }
        let free = self.free;
        *self.get_mut(last).next_free() = free;
        self.free = first;
        self.used = self.used.saturating_sub(count);
    }

    /// Gives back one node.
    pub(crate) fn put(&mut self, ix: T::Ix) {
        self.put_chain(ix, ix, 1);
    }
}
