// SPDX-License-Identifier: MIT OR Apache-2.0
//! The possible: a policy that knows arrivals, preparations and bursts, and tells the GPU at no cost
//! which TSG is to run. It pays every switch.
//!
//! One TSG is enabled at a time. A latency-critical one has the GPU from the switch before its data
//! is there, which ends as it arrives, to the end of its burst; where best-effort work loses the GPU
//! at the end of a block alone, the switch begins as much earlier. Best-effort ones take turns, each
//! to the end of its burst; where less is left to the next latency-critical request than a switch
//! there and one back, nothing runs.
//!
//! # A bound of
//!
//! - the latency of one latency-critical client: it never waits for the GPU, nor for a word;
//! - the GPU time of best-effort work beside that: a request takes two switches where best-effort
//!   work has the GPU before it and after it, and a burst of best-effort work one.
//!
//! Of several latency-critical clients that are ready the one with the shortest burst goes first,
//! and none is interrupted: for them another order can have a lower percentile, though not a lower
//! mean. The copy engines are as they are: a copy that waits for another one's end is not foreseen.

use std::collections::VecDeque;
use std::time::Duration;

use zernel_workload::Role;

use super::{retire, submit, Policy, Stream};
use crate::world::{nanos, Event, Stage, World};

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// The TSG that is enabled.
    on: Option<usize>,
    /// The TSG whose context is on the GPU.
    loaded: Option<usize>,
    /// Last request of each client that holds the GPU or has it.
    triggered: Vec<u32>,
    /// Best-effort TSGs with work, in the order of their turns.
    turns: VecDeque<usize>,
    /// Timers set before the last one are stale.
    timer: u64,
}

impl Bound {
    /// Decides anew.
    fn plan(&mut self, world: &mut World) {
        if self.on.is_some_and(|on| self.keeps(world, on)) {
            return;
        }
        if let Some(group) = shortest_ready(world) {
            return self.give(world, group);
        }
        let next = next_ready(world);
        if let Some((at, client)) = next {
            let one = &world.clients[client];
            let group = one.group;
            let due = at <= world.now + self.cost(world, group);
            match one.stage {
                Stage::Preparing | Stage::CopyIn if due => {
                    self.give(world, group);
                    return self.trigger(world, client);
                }
                // It has no holder yet, but a block has to end before it has.
                _ if due && self.on.is_some_and(|on| longest_block(world, on) > 0) => {
                    return self.take(world);
                }
                _ => {}
            }
        }
        let round = 2 * world.setting.preset.switch_cost().0;
        let until = next.map_or(u64::MAX, |(at, _)| at.saturating_sub(round));
        let fits = |&group: &usize| {
            let start = world.now + self.cost(world, group);
            start.saturating_add(longest_block(world, group)) < until
        };
        match self.turns.front().copied().filter(fits) {
            Some(group) => self.give(world, group),
            None => self.take(world),
        }
        if let Some((at, client)) = next {
            let lead = self.cost(world, world.clients[client].group);
            self.timer += 1;
            // One that has not begun when it is due is looked at when it begins.
            let at = at.saturating_sub(lead);
            if at > world.now {
                world.at(at, Event::Timer(self.timer));
            }
        }
    }

    /// True if a latency-critical TSG is at its burst, or its data is about to be there.
    fn keeps(&self, world: &World, group: usize) -> bool {
        let one = &world.groups[group];
        let awaits = |&client: &usize| {
            let one = &world.clients[client];
            let before = matches!(one.stage, Stage::Preparing | Stage::CopyIn);
            before && self.triggered[client] == one.begun
        };
        one.role == Role::Lc && (one.active > 0 || one.clients.iter().any(awaits))
    }

    /// Time until a TSG that is enabled now runs, at the most.
    fn cost(&self, world: &World, group: usize) -> u64 {
        let each = world.setting.preset.switch_cost().0;
        let rest = self.on.map_or(0, |on| longest_block(world, on));
        match self.loaded {
            Some(loaded) if loaded == group => 0,
            Some(_) => 2 * each + rest,
            None => each,
        }
    }

    fn give(&mut self, world: &mut World, group: usize) {
        if self.on != Some(group) {
            self.take(world);
            world.set_enabled(group, true);
            self.on = Some(group);
            self.loaded = Some(group);
        }
    }

    fn take(&mut self, world: &mut World) {
        if let Some(on) = self.on.take() {
            world.set_enabled(on, false);
        }
    }

    fn trigger(&mut self, world: &mut World, client: usize) {
        let number = world.clients[client].begun;
        self.triggered[client] = number;
        world.trigger_at_once(client, number);
    }
}

/// The longest block of the work that a TSG has.
fn longest_block(world: &World, group: usize) -> u64 {
    let clients = world.groups[group].clients.iter();
    let clients = clients.map(|&one| &world.clients[one]);
    let running = clients.filter(|one| one.stage == Stage::Inferring);
    let pieces = running.flat_map(|one| &one.pieces);
    let blocks = pieces.filter_map(|piece| piece.block.map(nanos));
    blocks.max().unwrap_or(0)
}

/// The latency-critical TSG that is ready and has the shortest burst.
fn shortest_ready(world: &World) -> Option<usize> {
    let ready = world.of_role(Role::Lc);
    let ready = ready.filter(|&group| world.groups[group].active > 0);
    ready.min_by_key(|&group| {
        let clients = world.groups[group].clients.iter();
        let clients = clients.map(|&one| &world.clients[one]);
        let running = clients.filter(|one| one.stage == Stage::Inferring);
        running.map(|one| (one.service(), one.request.tick)).min()
    })
}

/// The client whose data will be on the GPU next, and when.
fn next_ready(world: &World) -> Option<(u64, usize)> {
    let clients = world.clients.iter().enumerate();
    let lc = clients.filter(|(_, one)| one.spec.role == Role::Lc);
    let times = lc.filter_map(|(client, one)| {
        let sized = one.request.traced.size;
        let ahead = |start: u64, number| {
            let seed = world.setting.seed.wrapping_add(one.number as u64);
            let prepare = &one.spec.prepare_us;
            let prepare = prepare.sample(seed, number, Duration::from_nanos(start));
            start + nanos(prepare + one.spec.copy_in(sized))
        };
        let at = match one.stage {
            Stage::Preparing | Stage::CopyIn => one.ready_at(),
            Stage::Waiting => ahead(one.request.tick, one.request.number),
            Stage::CopyOut => {
                let free = world.now + nanos(one.spec.copy_out(sized));
                let tick = one.schedule.upcoming().map_or(free, nanos);
                if tick == u64::MAX {
                    return None;
                }
                ahead(tick.max(free), one.request.number + 1)
            }
            Stage::Inferring | Stage::Finished => return None,
        };
        Some((at.max(world.now), client))
    });
    times.min()
}

impl Policy for Bound {
    fn name(&self) -> String {
        "bound".to_owned()
    }

    fn start(&mut self, world: &mut World) {
        self.triggered = vec![0; world.clients.len()];
        for group in 0..world.groups.len() {
            world.set_enabled(group, false);
        }
    }

    fn begin(&mut self, world: &mut World, client: usize) -> Stream {
        match world.clients[client].spec.role {
            Role::Be => Stream::Plain,
            Role::Lc => {
                self.plan(world);
                Stream::Holder
            }
        }
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        let woke = submit(world, client);
        let one = &world.clients[client];
        let (role, group, number) = (one.spec.role, one.group, one.begun);
        match role {
            Role::Lc => {
                world.release_at_once(client, number);
                self.trigger(world, client);
            }
            Role::Be if woke => self.turns.push_back(group),
            Role::Be => {}
        }
        self.plan(world);
    }

    fn done(&mut self, world: &mut World, client: usize) {
        let slept = retire(world, client);
        let group = world.clients[client].group;
        if slept {
            self.turns.retain(|&one| one != group);
        }
        self.plan(world);
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        if token == self.timer {
            self.plan(world);
        }
    }
}
