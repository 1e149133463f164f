// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latency-critical TSGs beside each other: the costs of their predictions, and their work on the GPU.

use zernel_workload::Role;

use super::Zernel;
use crate::policy::level::Level;
use crate::policy::predict::Costs;
use crate::policy::units::Ns;
use crate::world::World;

impl Zernel {
    /// The costs by which the request is predicted that this client begins: others if it shares the GPU,
    /// as `Group::weigh` of the kernel has it.
    pub(super) fn weigh(&mut self, world: &World, client: usize) -> Costs {
        let costs = self.choice.costs;
        let Some(early) = self.options.shared_early else {
            return costs;
        };
        // 0 is none.
        let tsg = world.clients[client].group as u64 + 1;
        let counts = self.lanes[client].level.is_above(Level::DEFAULT);
        match counts && self.begins.begin(tsg, Ns(world.now)) {
            true => costs.with_early(early),
            false => costs,
        }
    }

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
