// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A channel: a queue of items. It works on the first one.

pub(crate) use super::index::ChannelIx;
use super::{
    arena::{
        Arena,
        Index,
        Node,
        Pool, //
    },
    index::TsgIx,
    list::{
        Linked,
        Links, //
    },
    measures::{
        Ns,
        Ps, //
    },
    work::{
        Item,
        ItemIx,
        Order, //
    }, //
};

/// List of the channels that wait for a semaphore word, or spin on one.
pub(crate) const WATCHERS: u8 = 0;
/// List of the channels whose first item has not been looked at.
pub(crate) const PENDING: u8 = 1;
/// List of those that wait for a word, or spin on one, whose change is told by a doorbell.
pub(crate) const RUNG: u8 = 2;

/// The state of a channel that follows from its first item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// Nothing to do, or not looked at yet.
    None,
    /// Waits for a semaphore word.
    Blocked,
    /// Needs the engine.
    Ready,
}

/// A channel of a TSG.
pub(crate) struct Channel {
    /// The TSG that it belongs to.
    pub(crate) tsg: TsgIx,
    /// Number within the TSG.
    pub(crate) number: u32,
    /// The next channel of the TSG, or of the free list.
    pub(crate) next: ChannelIx,
    first: ItemIx,
    last: ItemIx,
    queued: u32,
    submitted: u64,
    /// Highest completed sequence number; 0 before the first.
    pub(crate) completed: u64,
    /// When that one completed.
    pub(crate) completed_at: Ns,
    /// State of the first item.
    pub(crate) head: Head,
    /// True if the first item runs on the engine now.
    pub(crate) active: bool,
    /// While its TSG leaves the engine: the rest of the first item at its stopping point.
    pub(crate) stop: Ps,
    /// The next doorbell is lost, if it is rung while the TSG is disabled.
    pub(crate) deaf: bool,
    /// It has items that it was not told of.
    pub(crate) unseen: bool,
    watchers: Links<ChannelIx>,
    rung: Links<ChannelIx>,
    pending: Links<ChannelIx>,
}

impl Node for Channel {
    type Ix = ChannelIx;

    fn blank() -> Self {
        Self::new(TsgIx::NIL, 0)
    }

    fn next_free(&mut self) -> &mut ChannelIx {
        &mut self.next
    }
}

impl Linked<WATCHERS> for Channel {
    fn links(&mut self) -> &mut Links<ChannelIx> {
        &mut self.watchers
    }
}

impl Linked<RUNG> for Channel {
    fn links(&mut self) -> &mut Links<ChannelIx> {
        &mut self.rung
    }
}

impl Linked<PENDING> for Channel {
    fn links(&mut self) -> &mut Links<ChannelIx> {
        &mut self.pending
    }
}

impl Channel {
    /// An empty channel.
    pub(crate) fn new(tsg: TsgIx, number: u32) -> Self {
        Self {
            tsg,
            number,
            next: ChannelIx::NIL,
            first: ItemIx::NIL,
            last: ItemIx::NIL,
            queued: 0,
            submitted: 0,
            completed: 0,
            completed_at: Ns::ZERO,
            head: Head::None,
            active: false,
            stop: Ps::ZERO,
            deaf: false,
            unseen: false,
            watchers: Links::new(),
            rung: Links::new(),
            pending: Links::new(),
        }
    }

    /// The first item.
    pub(crate) fn first(&self) -> Option<ItemIx> {
        (!self.first.is_nil()).then_some(self.first)
    }

    /// Items that have not completed.
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    /// Sequence number of the last item submitted; 0 before the first.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Appends an item. Returns whether there was a place for it.
    pub(crate) fn push<P: Pool<Item>>(
        &mut self,
        items: &mut Arena<Item, P>,
        order: Order,
        now: Ns,
    ) -> bool {
        let Some(ix) = items.take() else {
            return false;
        };
        self.submitted = self.submitted.saturating_add(1);
        *items.get_mut(ix) = Item::new(order, self.submitted, now);
        if self.last.is_nil() {
            self.first = ix;
        } else {
            items.get_mut(self.last).next = ix;
        }
        self.last = ix;
        self.queued = self.queued.saturating_add(1);
        true
    }

    /// Completes the first item at `now`: takes it out and returns its place, which the caller
    /// gives back.
    pub(crate) fn pop<P: Pool<Item>>(&mut self, items: &Arena<Item, P>, now: Ns) -> Option<ItemIx> {
        let ix = self.first()?;
        let item = items.get(ix);
        self.completed = item.seq;
        self.completed_at = now;
        self.first = item.next;
        if self.first.is_nil() {
            self.last = ItemIx::NIL;
        }
        self.queued = self.queued.saturating_sub(1);
        self.head = Head::None;
        Some(ix)
    }

    /// Drops all items, in one step. Returns how many.
    pub(crate) fn clear<P: Pool<Item>>(&mut self, items: &mut Arena<Item, P>) -> u32 {
        let count = self.queued;
        items.put_chain(self.first, self.last, count);
        self.first = ItemIx::NIL;
        self.last = ItemIx::NIL;
        self.queued = 0;
        self.head = Head::None;
        count
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_channel))]
mod tests {
    use super::*;
    use crate::model::work::Work;

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

    const FENCE: Order = Order {
        work: Work::Fence,
        notify: false,
        tag: 9,
    };

    #[test]
    fn items_complete_in_order_and_numbers_rise() {
        let mut items = Arena::new([Item::blank(), Item::blank()]);
        let mut channel = Channel::new(TsgIx::NIL, 0);
        assert!(channel.push(&mut items, FENCE, Ns(1)));
        assert!(channel.push(&mut items, FENCE, Ns(2)));
        assert!(!channel.push(&mut items, FENCE, Ns(3)));
        assert_eq!(channel.submitted(), 2);
        for seq in 1..=2 {
            let Some(ix) = channel.pop(&items, Ns(5)) else {
                assert!(false);
                return;
            };
            items.put(ix);
            assert_eq!(channel.completed, seq);
        }
        assert_eq!(channel.pop(&items, Ns(6)), None);
        assert_eq!(channel.completed_at, Ns(5));
        assert!(channel.push(&mut items, FENCE, Ns(7)));
        assert_eq!(channel.submitted(), 3);
    }

    #[test]
    fn clearing_gives_every_place_back() {
        let mut items = Arena::new([Item::blank(), Item::blank()]);
        let mut channel = Channel::new(TsgIx::NIL, 0);
        assert_eq!(channel.clear(&mut items), 0);
        assert!(channel.push(&mut items, FENCE, Ns(1)));
        assert!(channel.push(&mut items, FENCE, Ns(1)));
        assert_eq!(channel.clear(&mut items), 2);
        assert_eq!(items.room(), 2);
        assert_eq!(channel.first(), None);
    }
}
