// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency-critical TSGs beside each other: their requests, and their work on the GPU.

use zernel_workload::Role;

use super::Zernel;
use crate::world::World;

/// The latency-critical TSGs whose requests take turns.
#[derive(Default)]
pub(super) struct Sharers {
    /// The one with the last request.
    last: Option<usize>,
    /// When a request of one followed that of another.
    followed: Option<u64>,
}

impl Sharers {
    /// TSGs without a request for so long share nothing: 1 s.
    const APART: u64 = 1_000_000_000;

    /// A request of this group begins. True if there are others.
    pub(super) fn begin(&mut self, group: usize, now: u64) -> bool {
        let before = self.last.replace(group);
        if before.is_some_and(|before| before != group) {
            self.followed = Some(now);
        }
        self.followed.is_some_and(|at| now - at < Self::APART)
    }
}

impl Zernel {
    /// True if latency-critical TSGs but that of this client have something to run: its holder waits
    /// for them, which says nothing of a switch.
    pub(super) fn is_lc_busy(&self, world: &World, client: usize) -> bool {
        let group = world.clients[client].group;
        let mut others = world.clients.iter().zip(&self.lanes);
        others.any(|(one, lane)| {
            let triggered = lane.seen.trigger == one.begun && lane.seen.done != one.begun;
            triggered && one.spec.role == Role::Lc && one.group != group
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_share_until_one_is_alone_for_a_second() {
        let mut sharers = Sharers::default();
        assert!(!sharers.begin(3, 0));
        assert!(!sharers.begin(3, 5_000_000_000));
        assert!(sharers.begin(4, 6_000_000_000));
        assert!(sharers.begin(4, 6_999_999_999));
        assert!(!sharers.begin(4, 7_000_000_000));
        assert!(sharers.begin(3, 9_000_000_000));
    }
}
