// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where a TSG stands among the others of its run list: plain data, which it carries itself.

/// Where a TSG stands among others.
///
/// Those that have reached their `start` come first, by `end`; then the others, by `start`. Both
/// wrap: of two the one that is less than half of all numbers behind the other is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// From when on it may be next.
    pub(super) start: u64,
    /// Of those that may, the one with the earliest.
    pub(super) end: u64,
    /// Place in the queue: decides between equals.
    pub(super) place: u64,
    /// The round in which it has credit.
    pub(super) ready: u64,
}

/// Where a TSG stands; the smallest is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// It had its share, or is out of credit.
    pub(super) later: bool,
    /// Virtual time, relative to the order's own; or rounds until it has credit.
    pub(super) key: i64,
    /// Place in the queue.
    pub(super) place: u64,
}

/// True if `a` is earlier.
pub(super) fn is_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// The best of a subtree: its `end` and its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Best {
    pub(super) end: u64,
    pub(super) place: u64,
}

impl Best {
    /// True if this is the better one.
    pub(super) fn is_before(self, other: Self) -> bool {
        match self.end == other.end {
            true => self.place < other.place,
            false => is_before(self.end, other.end),
        }
    }
}

/// The part of a TSG that belongs to its tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
    pub(super) height: u8,
    /// The best of those from here on down.
    pub(super) best: Best,
    /// The least round of those in which one has credit.
    pub(super) ready: u64,
}

/// The state of a TSG, as far as turns go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Set {
    /// Something to run, and disabled.
    Waiting,
    /// Something to run, and enabled.
    Holding,
    /// Nothing to run, and disabled.
    Idle,
    /// Nothing to run, and enabled.
    Open,
    /// Left aside, and to be enabled once more.
    Aside,
    /// Left aside, and enabled.
    InSlices,
}

impl Set {
    /// Number of them.
    pub(super) const COUNT: usize = 6;

    /// True if its TSGs contend for the GPU.
    pub(super) fn contends(self) -> bool {
        matches!(self, Self::Waiting | Self::Holding)
    }
}

/// The standing of a TSG in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) set: Set,
    pub(super) key: Key,
    pub(super) weight: u64,
    pub(super) vruntime: u64,
}

/// The TSGs that contend, together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Of their weights.
    pub(super) weights: u64,
    /// Of their virtual run times, each times its weight; wraps.
    pub(super) vruntimes: u64,
    /// The least round in which one of them has credit.
    pub(super) ready: Option<u64>,
}

impl Sums {
    /// One more contends.
    pub(super) fn add(&mut self, one: &Standing) {
        self.weights = self.weights.wrapping_add(one.weight);
        let weighted = one.vruntime.wrapping_mul(one.weight);
        self.vruntimes = self.vruntimes.wrapping_add(weighted);
    }

    /// One contends no more.
    pub(super) fn subtract(&mut self, one: &Standing) {
        self.weights = self.weights.wrapping_sub(one.weight);
        let weighted = one.vruntime.wrapping_mul(one.weight);
        self.vruntimes = self.vruntimes.wrapping_sub(weighted);
    }
}
