// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost model: the time that kernels and copies take on the software GPU.

use std::time::Duration;

use crate::knobs::knobs;

/// Threads of a multiprocessor.
pub(crate) const THREADS: u64 = 2_048;
/// Blocks of a multiprocessor.
pub(crate) const BLOCKS: u64 = 32;
/// Begin of a kernel or a copy.
const BEGIN_NS: u64 = 2_000;
/// Bytes per second between host and device: PCIe 4.0 with 16 lanes.
const LINK: u64 = 25_000_000_000;
/// Multiply-accumulates of a multiprocessor in a microsecond.
const ROUNDS: u64 = 64 * 1_500;

/// The figures of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Costs {
    /// Multiprocessors.
    pub(crate) sms: u32,
    /// Bytes per second of its memory.
    pub(crate) bandwidth: u64,
}

/// The size of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Blocks of the grid.
    pub(crate) blocks: u64,
    /// Threads of a block.
    pub(crate) threads: u64,
}

fn ns(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// Nanoseconds in which so many bytes pass.
fn passing(bytes: u64, per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl Costs {
    /// Blocks that run at once.
    fn at_once(&self, threads: u64) -> u64 {
        let each = (THREADS / threads.max(1)).clamp(1, BLOCKS);
        each * u64::from(self.sms.max(1))
    }

    /// The share of the GPU that a launch uses, in permille.
    pub(crate) fn demand(&self, size: Size) -> u32 {
        let share = size
            .blocks
            .saturating_mul(1_000)
            .div_ceil(self.at_once(size.threads));
        share.clamp(1, 1_000) as u32
    }

    /// A kernel that is not known: so many waves of blocks.
    pub(crate) fn unknown(&self, size: Size) -> Duration {
        let waves = size.blocks.div_ceil(self.at_once(size.threads)).max(1);
        ns(waves.saturating_mul(knobs().kernel_ns))
    }

    /// A kernel that moves so many bytes of the memory of the device.
    pub(crate) fn streaming(&self, bytes: u64) -> Duration {
        ns(BEGIN_NS.saturating_add(passing(bytes, self.bandwidth)))
    }

    /// A kernel that multiplies and adds so often.
    pub(crate) fn arithmetic(&self, rounds: u64) -> Duration {
        let each = rounds / (ROUNDS * u64::from(self.sms.max(1)));
        ns(BEGIN_NS.saturating_add(each.saturating_mul(1_000)))
    }

    /// A copy between host and device.
    pub(crate) fn link(&self, bytes: u64) -> Duration {
        ns(BEGIN_NS.saturating_add(passing(bytes, LINK)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        sms: 100,
        bandwidth: 1_000_000_000_000,
    };

    fn size(blocks: u64, threads: u64) -> Size {
        Size { blocks, threads }
    }

    #[test]
    fn demand_is_the_share_of_blocks_that_run_at_once() {
        assert_eq!(COSTS.demand(size(1, 1024)), 5);
        assert_eq!(COSTS.demand(size(100, 1024)), 500);
        assert_eq!(COSTS.demand(size(100_000, 1024)), 1_000);
        assert_eq!(COSTS.demand(size(1, 1)), 1);
        assert_eq!(COSTS.demand(size(u64::MAX, 1)), 1_000);
    }

    #[test]
    fn times_grow_with_the_work() {
        assert_eq!(COSTS.unknown(size(1, 32)), ns(2_000));
        assert_eq!(COSTS.unknown(size(201, 1024)), ns(4_000));
        assert_eq!(COSTS.streaming(1_000_000), ns(3_000));
        assert_eq!(COSTS.link(25_000), ns(3_000));
        assert_eq!(COSTS.arithmetic(ROUNDS * 100), ns(3_000));
        assert_eq!(COSTS.link(u64::MAX), ns(BEGIN_NS + passing(u64::MAX, LINK)));
    }
}
