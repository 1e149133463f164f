// SPDX-License-Identifier: MIT OR Apache-2.0
//! Items of work, and their completions.

use std::time::Duration;

use bytemuck::Zeroable;

use crate::sys::abi;
use crate::time::saturating_ns;
use crate::Timestamp;

/// The whole of an engine.
const FULL_DEMAND: u32 = 1000;

/// A condition on a semaphore word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It is equal.
    Equal,
    /// It is equal or later, cyclic.
    AtLeast,
    /// It differs.
    NotEqual,
}

impl Condition {
    fn to_abi(self) -> u32 {
        match self {
            Self::Equal => abi::ZERNEL_SIM_COND_EQ,
            Self::AtLeast => abi::ZERNEL_SIM_COND_GE,
            Self::NotEqual => abi::ZERNEL_SIM_COND_NE,
        }
    }
}

/// One item of a channel.
#[derive(Debug, Clone, Copy, bytemuck::NoUninit)]
#[repr(transparent)]
pub struct Item(abi::zernel_sim_item);

impl Item {
    /// Runs for `duration` when alone; may lose the engine between any two instructions.
    pub fn work(duration: Duration) -> Self {
        Self(abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_WORK,
            duration_ns: saturating_ns(duration),
            demand_permille: FULL_DEMAND,
            granularity: abi::ZERNEL_SIM_GRANULARITY_INSTRUCTION,
            ..abi::zernel_sim_item::zeroed()
        })
    }

    /// Keeps the channel from running until `word` meets the condition.
    pub fn wait(word: u32, condition: Condition, value: u32) -> Self {
        Self(abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_WAIT,
            word,
            value,
            condition: condition.to_abi(),
            ..abi::zernel_sim_item::zeroed()
        })
    }

    /// Stores `value` in `word` when everything before it has finished.
    pub fn release(word: u32, value: u32) -> Self {
        Self(abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_RELEASE,
            word,
            value,
            ..abi::zernel_sim_item::zeroed()
        })
    }

    /// Spins until `word` meets the condition, `bound` at the longest after it first ran.
    pub fn hold(word: u32, condition: Condition, value: u32, bound: Duration) -> Self {
        Self(abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_HOLD,
            duration_ns: saturating_ns(bound),
            demand_permille: FULL_DEMAND,
            word,
            value,
            condition: condition.to_abi(),
            ..abi::zernel_sim_item::zeroed()
        })
    }

    /// Completes when everything before it has.
    pub fn fence() -> Self {
        Self(abi::zernel_sim_item {
            kind: abi::ZERNEL_SIM_ITEM_FENCE,
            ..abi::zernel_sim_item::zeroed()
        })
    }

    /// Uses only this share of the engine; for work and holds.
    #[must_use]
    pub fn demand_permille(mut self, permille: u32) -> Self {
        self.0.demand_permille = permille;
        self
    }

    /// Gives the engine away only at multiples of `block` of its progress; for work.
    #[must_use]
    pub fn block_granularity(mut self, block: Duration) -> Self {
        self.0.granularity = abi::ZERNEL_SIM_GRANULARITY_BLOCK;
        self.0.block_ns = saturating_ns(block);
        self
    }

    /// Reports its completion.
    #[must_use]
    pub fn notify(mut self) -> Self {
        self.0.flags |= abi::ZERNEL_SIM_ITEM_NOTIFY;
        self
    }

    /// The doorbell is rung when its word has changed, so that the software GPU looks at it each
    /// millisecond only; for waits and holds.
    #[must_use]
    pub fn rung(mut self) -> Self {
        self.0.flags |= abi::ZERNEL_SIM_ITEM_RUNG;
        self
    }

    /// A number that its completion returns.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.0.tag = tag;
        self
    }

    pub(super) fn raw_slice(items: &[Self]) -> &[abi::zernel_sim_item] {
        bytemuck::must_cast_slice(items)
    }
}

/// The end of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// As it should.
    Done,
    /// A hold ended by its bound.
    HoldExpired,
    /// A status that this crate does not know.
    Unknown(u32),
}

/// A completed item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Context, within its file.
    pub context: u32,
    /// Channel.
    pub channel: u32,
    /// Sequence number in its channel.
    pub seq: u64,
    /// The tag of the item.
    pub tag: u64,
    /// When it was submitted.
    pub queued: Timestamp,
    /// When it first ran.
    pub start: Timestamp,
    /// When it completed.
    pub end: Timestamp,
    /// Its end.
    pub status: Status,
}

impl From<&abi::zernel_sim_completion> for Completion {
    fn from(raw: &abi::zernel_sim_completion) -> Self {
        Self {
            context: raw.context,
            channel: raw.channel,
            seq: raw.seq,
            tag: raw.tag,
            queued: Timestamp::from_ns(raw.queued_ns),
            start: Timestamp::from_ns(raw.start_ns),
            end: Timestamp::from_ns(raw.end_ns),
            status: match raw.status {
                abi::ZERNEL_SIM_STATUS_OK => Status::Done,
                abi::ZERNEL_SIM_STATUS_HOLD_EXPIRED => Status::HoldExpired,
                other => Status::Unknown(other),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_leave_the_fields_that_they_do_not_use_zero() {
        let fence = Item::fence().0;
        assert_eq!(fence.kind, abi::ZERNEL_SIM_ITEM_FENCE);
        assert_eq!(bytemuck::bytes_of(&fence)[4..], [0; size_of::<Item>() - 4]);

        let release = Item::release(3, 4).0;
        assert_eq!((release.word, release.value), (3, 4));
        assert_eq!((release.duration_ns, release.demand_permille), (0, 0));

        let wait = Item::wait(1, Condition::NotEqual, 2).0;
        assert_eq!((wait.condition, wait.demand_permille), (2, 0));
        let rung = Item::wait(1, Condition::NotEqual, 2).notify().rung().0;
        assert_eq!((wait.flags, rung.flags), (0, 3));
    }

    #[test]
    fn work_takes_the_whole_engine_unless_told_otherwise() {
        let work = Item::work(Duration::from_micros(5)).0;
        assert_eq!((work.duration_ns, work.demand_permille), (5_000, 1000));
        assert_eq!((work.granularity, work.block_ns), (0, 0));
        let work = Item::work(Duration::from_micros(5))
            .demand_permille(250)
            .block_granularity(Duration::from_micros(1))
            .notify()
            .tag(7)
            .0;
        assert_eq!((work.demand_permille, work.block_ns), (250, 1_000));
        assert_eq!((work.granularity, work.flags, work.tag), (1, 1, 7));
    }

    #[test]
    fn slices_are_the_same_memory() {
        let items = [Item::fence(), Item::release(1, 2)];
        let raw = Item::raw_slice(&items);
        assert_eq!(raw.len(), 2);
        assert_eq!(raw[1].kind, abi::ZERNEL_SIM_ITEM_RELEASE);
    }
}
