// SPDX-License-Identifier: MIT OR Apache-2.0
//! One request after the other, as a server without preemption has it.

use std::collections::VecDeque;

use zernel_workload::Role;

use super::{retire, submit, Policy};
use crate::world::World;

/// Latency-critical requests go first; none that runs is interrupted.
#[derive(Debug, Default)]
pub(super) struct Sequential {
    running: bool,
    lc: VecDeque<usize>,
    be: VecDeque<usize>,
}

impl Sequential {
    fn next(&mut self, world: &mut World) {
        if self.running {
            return;
        }
        if let Some(client) = self.lc.pop_front().or_else(|| self.be.pop_front()) {
            self.running = true;
            submit(world, client);
        }
    }
}

impl Policy for Sequential {
    fn name(&self) -> String {
        "sequential".to_owned()
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        match world.clients[client].spec.role {
            Role::Lc => self.lc.push_back(client),
            Role::Be => self.be.push_back(client),
        }
        self.next(world);
    }

    fn done(&mut self, world: &mut World, client: usize) {
        retire(world, client);
        self.running = false;
        self.next(world);
    }
}
