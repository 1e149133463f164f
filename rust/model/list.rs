// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Intrusive lists of arena nodes: every operation takes the same time for any length.

use super::arena::{
    Arena,
    Index,
    Node,
    Pool, //
};

/// Neighbours of a node in one list.
pub(crate) struct Links<I> {
    prev: I,
    next: I,
    listed: bool,
}

impl<I: Index> Links<I> {
    /// Of a node that is in no list.
    pub(crate) const fn new() -> Self {
        Self {
            prev: I::NIL,
            next: I::NIL,
            listed: false,
        }
    }
}

/// A node that can be in one list of kind `K`.
pub(crate) trait Linked<const K: u8>: Node {
    /// Its neighbours.
    fn links(&mut self) -> &mut Links<Self::Ix>;
}

/// A list of kind `K`, first in first out.
///
/// # Invariants
///
/// A node is in at most one list of a kind.
pub(crate) struct List<const K: u8, I> {
    head: I,
    tail: I,
    len: u32,
}

impl<const K: u8, I: Index> List<K, I> {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self {
            head: I::NIL,
            tail: I::NIL,
            len: 0,
        }
    }

    /// Nodes in the list.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// True if nothing is in the list.
    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_nil()
    }

    /// Appends a node. One that is in a list already stays where it is.
    pub(crate) fn push<T, P>(&mut self, arena: &mut Arena<T, P>, ix: I)
    where
        T: Linked<K, Ix = I>,
        P: Pool<T>,
    {
        let tail = self.tail;
        let links = arena.get_mut(ix).links();
        if links.listed {
            return;
        }
        *links = Links {
            prev: tail,
            next: I::NIL,
            listed: true,
        };
        if tail.is_nil() {
            self.head = ix;
        } else {
            arena.get_mut(tail).links().next = ix;
        }
        self.tail = ix;
        self.len = self.len.saturating_add(1);
    }

    /// Takes a node out, wherever it stands. Nothing happens if it is in no list.
    pub(crate) fn remove<T, P>(&mut self, arena: &mut Arena<T, P>, ix: I)
    where
        T: Linked<K, Ix = I>,
        P: Pool<T>,
    {
        let links = arena.get_mut(ix).links();
        if !links.listed {
            return;
        }
        let (prev, next) = (links.prev, links.next);
        *links = Links::new();
        if prev.is_nil() {
            self.head = next;
        } else {
            arena.get_mut(prev).links().next = next;
        }
        if next.is_nil() {
            self.tail = prev;
        } else {
            arena.get_mut(next).links().prev = prev;
        }
        self.len = self.len.saturating_sub(1);
    }

    /// Appends all nodes of `other`, in their order.
    pub(crate) fn append<T, P>(&mut self, arena: &mut Arena<T, P>, other: &mut Self)
    where
        T: Linked<K, Ix = I>,
        P: Pool<T>,
    {
        let other = core::mem::replace(other, Self::new());
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        arena.get_mut(self.tail).links().next = other.head;
        arena.get_mut(other.head).links().prev = self.tail;
        self.tail = other.tail;
        self.len = self.len.saturating_add(other.len);
    }

    /// Takes the first node out.
    pub(crate) fn pop<T, P>(&mut self, arena: &mut Arena<T, P>) -> Option<I>
    where
        T: Linked<K, Ix = I>,
        P: Pool<T>,
    {
        if self.head.is_nil() {
            return None;
        }
        let ix = self.head;
        self.remove(arena, ix);
        Some(ix)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_list))]
mod tests {
    use super::*;
    use crate::model::arena::index;

    index!(
        /// Of a test node.
        Ix
    );

    struct Item {
        links: Links<Ix>,
        free: Ix,
    }

    impl Node for Item {
        type Ix = Ix;
        fn blank() -> Self {
            Self {
                links: Links::new(),
                free: Ix::NIL,
            }
        }
        fn next_free(&mut self) -> &mut Ix {
            &mut self.free
        }
    }

    impl Linked<0> for Item {
        fn links(&mut self) -> &mut Links<Ix> {
            &mut self.links
        }
    }

    impl<const N: usize> Pool<Item> for [Item; N] {
        fn at(&self, at: u32) -> Option<&Item> {
            self.get(at as usize)
        }
        fn at_mut(&mut self, at: u32) -> Option<&mut Item> {
            self.get_mut(at as usize)
        }
        fn size(&self) -> u32 {
            N as u32
        }
    }

    fn arena() -> Arena<Item, [Item; 4]> {
        Arena::new([Item::blank(), Item::blank(), Item::blank(), Item::blank()])
    }

    #[test]
    fn nodes_come_out_in_order_and_from_the_middle() {
        let mut arena = arena();
        let mut list = List::<0, Ix>::new();
        for at in 0..4 {
            list.push(&mut arena, Ix::new(at));
        }
        list.push(&mut arena, Ix::new(0));
        assert_eq!(list.len(), 4);
        list.remove(&mut arena, Ix::new(2));
        list.remove(&mut arena, Ix::new(2));
        assert_eq!(list.pop(&mut arena), Some(Ix::new(0)));
        list.remove(&mut arena, Ix::new(3));
        assert_eq!(list.pop(&mut arena), Some(Ix::new(1)));
        assert_eq!(list.pop(&mut arena), None);
        assert!(list.is_empty());
    }

    #[test]
    fn lists_are_joined_in_order() {
        let mut arena = arena();
        let (mut first, mut second) = (List::<0, Ix>::new(), List::<0, Ix>::new());
        first.append(&mut arena, &mut second);
        assert!(first.is_empty());
        second.push(&mut arena, Ix::new(2));
        second.push(&mut arena, Ix::new(0));
        first.append(&mut arena, &mut second);
        assert!(second.is_empty());
        second.push(&mut arena, Ix::new(3));
        second.push(&mut arena, Ix::new(1));
        first.append(&mut arena, &mut second);
        assert_eq!(first.len(), 4);
        // Across the seam, from both sides.
        first.remove(&mut arena, Ix::new(0));
        first.remove(&mut arena, Ix::new(3));
        assert_eq!(first.pop(&mut arena), Some(Ix::new(2)));
        assert_eq!(first.pop(&mut arena), Some(Ix::new(1)));
        assert_eq!(first.pop(&mut arena), None);
    }

    #[test]
    fn arena_gives_every_node_once_and_again_after_put() {
        let mut arena = arena();
        for at in 0..4 {
            assert_eq!(arena.take(), Some(Ix::new(at)));
        }
        assert_eq!(arena.take(), None);
        assert_eq!(arena.room(), 0);
        *arena.get_mut(Ix::new(1)).next_free() = Ix::new(3);
        arena.put_chain(Ix::new(1), Ix::new(3), 2);
        assert_eq!(arena.room(), 2);
        assert_eq!(arena.take(), Some(Ix::new(1)));
        assert_eq!(arena.take(), Some(Ix::new(3)));
        assert_eq!(arena.take(), None);
        arena.put(Ix::new(0));
        assert_eq!(arena.used(), 3);
    }
}
