// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Items of work of a channel.

use super::{
    arena::{
        index,
        Index,
        Node, //
    },
    measures::{
        Ns,
        Permille,
        Ps, //
    }, //
};

index!(
    /// Names an [`Item`].
    ItemIx
);

/// Where work may lose the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// Between any two instructions.
    Instruction,
    /// Only at multiples of this much progress.
    Block(Ns),
}

/// Comparison of a semaphore word with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `word == value`
    Equal,
    /// `(word - value) as i32 >= 0`, as the acquire of an NVIDIA semaphore.
    AtLeast,
    /// `word != value`
    NotEqual,
}

/// A semaphore word and its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expect {
    /// Number of the word.
    pub(crate) word: u16,
    /// Value to compare with.
    pub(crate) value: u32,
    /// The comparison.
    pub(crate) condition: Condition,
    /// A doorbell is rung when the word changes: it is seldom looked at otherwise.
    pub(crate) rung: bool,
}

impl Expect {
    /// True if a word that holds `now` is as expected.
    pub(crate) const fn met(&self, now: u32) -> bool {
        match self.condition {
            Condition::Equal => now == self.value,
            Condition::AtLeast => (now.wrapping_sub(self.value) as i32) >= 0,
            Condition::NotEqual => now != self.value,
        }
    }
}

/// The work of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Computes or copies.
    Run {
        /// Time that it takes alone.
        alone: Ns,
        /// Share of the engine that it can use.
        demand: Permille,
        /// Where it may be interrupted.
        granularity: Granularity,
    },
    /// Keeps the channel from being runnable until a word is as expected.
    Wait(Expect),
    /// Stores a value in a word.
    Release {
        /// Number of the word.
        word: u16,
        /// Value to store.
        value: u32,
    },
    /// Spins on the engine until a word is as expected, or this long after it first ran.
    Hold {
        /// The value that ends it.
        expect: Expect,
        /// Bound, counted from when it first ran.
        bound: Ns,
        /// Share of the engine that the spinning uses.
        demand: Permille,
    },
    /// Completes when everything before it has.
    Fence,
}

impl Work {
    /// Longest work or bound: one hour.
    pub(crate) const MAX: Ns = Ns(3_600_000_000_000);

    /// True if the values make sense: durations above zero and at most [`Work::MAX`], demand of 1
    /// to 1000 ‰, a block no longer than the work.
    pub(crate) fn is_valid(&self) -> bool {
        let duration_ok = |d: Ns| d > Ns::ZERO && d <= Self::MAX;
        let demand_ok = |d: Permille| d > Permille(0) && d <= Permille::FULL;
        match *self {
            Self::Run {
                alone,
                demand,
                granularity,
            } => {
                duration_ok(alone)
                    && demand_ok(demand)
                    && match granularity {
                        Granularity::Instruction => true,
                        Granularity::Block(block) => block > Ns::ZERO && block <= alone,
                    }
            }
            Self::Hold { bound, demand, .. } => duration_ok(bound) && demand_ok(demand),
            Self::Wait(_) | Self::Release { .. } | Self::Fence => true,
        }
    }

    /// True if it waits for a word whose change is told by a doorbell.
    pub(crate) const fn is_rung(&self) -> bool {
        match self {
            Self::Wait(expect) | Self::Hold { expect, .. } => expect.rung,
            Self::Run { .. } | Self::Release { .. } | Self::Fence => false,
        }
    }

    /// Share of the engine that it uses while it runs.
    pub(crate) const fn demand(&self) -> Permille {
        match *self {
            Self::Run { demand, .. } | Self::Hold { demand, .. } => demand,
            Self::Wait(_) | Self::Release { .. } | Self::Fence => Permille(0),
        }
    }
}

/// An order as submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The work to do.
    pub(crate) work: Work,
    /// True if the completion is to be reported to the owner.
    pub(crate) notify: bool,
    /// Of the owner; comes back with the completion.
    pub(crate) tag: u64,
}

/// An order in a channel.
pub(crate) struct Item {
    /// The order that was submitted.
    pub(crate) order: Order,
    /// Number in the channel, from 1.
    pub(crate) seq: u64,
    /// When it was submitted.
    pub(crate) queued: Ns,
    /// When it first ran; [`Ns::NEVER`] before that.
    pub(crate) started: Ns,
    /// The rest of [`Work::Run`].
    pub(crate) left: Ps,
    /// The item after it in the channel, or in the free list.
    pub(crate) next: ItemIx,
}

impl Node for Item {
    type Ix = ItemIx;

    fn blank() -> Self {
        Self::new(
            Order {
                work: Work::Fence,
                notify: false,
                tag: 0,
            },
            0,
            Ns::ZERO,
        )
    }

    fn next_free(&mut self) -> &mut ItemIx {
        &mut self.next
    }
}

impl Item {
    /// An item that has not run.
    pub(crate) fn new(order: Order, seq: u64, now: Ns) -> Self {
        let left = match order.work {
            Work::Run { alone, .. } => Ps::of(alone),
            _ => Ps::ZERO,
        };
        Self {
            order,
            seq,
            queued: now,
            started: Ns::NEVER,
            left,
            next: ItemIx::NIL,
        }
    }

    /// The rest of the work when block granularity next reaches the end of a block; all of it if it
    /// stands at one.
    pub(crate) fn left_at_boundary(&self) -> Ps {
        match self.order.work {
            Work::Run {
                alone,
                granularity: Granularity::Block(block),
                ..
            } => {
                let all = Ps::of(alone);
                let done = all.less(self.left);
                all.less(done.next_multiple(Ps::of(block)))
            }
            _ => self.left,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_work))]
mod tests {
    use super::*;

    fn expect(condition: Condition, value: u32) -> Expect {
        Expect {
            word: 0,
            value,
            condition,
            rung: false,
        }
    }

    fn run(alone: u64, demand: u32, granularity: Granularity) -> Work {
        Work::Run {
            alone: Ns(alone),
            demand: Permille(demand),
            granularity,
        }
    }

    #[test]
    fn conditions_compare_as_told_and_at_least_is_cyclic() {
        assert!(expect(Condition::Equal, 3).met(3));
        assert!(!expect(Condition::Equal, 3).met(4));
        assert!(expect(Condition::NotEqual, 3).met(4));
        assert!(!expect(Condition::NotEqual, 3).met(3));
        assert!(expect(Condition::AtLeast, 3).met(3));
        assert!(expect(Condition::AtLeast, 3).met(4));
        assert!(!expect(Condition::AtLeast, 3).met(2));
        assert!(expect(Condition::AtLeast, u32::MAX).met(1));
        assert!(!expect(Condition::AtLeast, 1).met(u32::MAX));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert!(run(1, 1, Granularity::Instruction).is_valid());
        assert!(!run(0, 1, Granularity::Instruction).is_valid());
        assert!(!run(1, 0, Granularity::Instruction).is_valid());
        assert!(!run(1, 1_001, Granularity::Instruction).is_valid());
        assert!(!run(Work::MAX.0 + 1, 1, Granularity::Instruction).is_valid());
        assert!(run(10, 1_000, Granularity::Block(Ns(10))).is_valid());
        assert!(!run(10, 1_000, Granularity::Block(Ns(11))).is_valid());
        assert!(!run(10, 1_000, Granularity::Block(Ns(0))).is_valid());
    }

    #[test]
    fn blocks_end_at_multiples_and_at_the_end_of_the_work() {
        let order = |work| Order {
            work,
            notify: false,
            tag: 0,
        };
        let mut item = Item::new(order(run(25, 1_000, Granularity::Block(Ns(10)))), 1, Ns(0));
        assert_eq!(item.left_at_boundary(), Ps::of(Ns(25)));
        item.left = Ps::of(Ns(24));
        assert_eq!(item.left_at_boundary(), Ps::of(Ns(15)));
        item.left = Ps::of(Ns(15));
        assert_eq!(item.left_at_boundary(), Ps::of(Ns(15)));
        item.left = Ps::of(Ns(4));
        assert_eq!(item.left_at_boundary(), Ps::ZERO);
    }
}
