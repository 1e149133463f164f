// SPDX-License-Identifier: MIT OR Apache-2.0
//! The possible: a policy that knows arrivals, preparations and bursts, and tells the GPU at no cost
//! which TSG is to run. It pays every switch.
//!
//! One TSG is enabled at a time. A latency-critical one has the GPU from the switch before its data
//! is there, which ends as it arrives, to the end of its burst; where best-effort work loses the GPU
//! at the end of a block alone, the switch begins as much earlier, by the longest block of that work.
//! There is nothing to switch to before a request begins: where its preparation and its copy are shorter
//! than a switch, best-effort work runs until then, and the request waits for the rest of the switch.
//! Best-effort ones take turns, each to the end of its burst; where less is left to the next
//! latency-critical request than a switch there and one back, nothing runs.
//!
//! # A bound of
//!
//! - the latency of every request of one latency-critical client beside work without blocks, where
//!   preparation and copy take as long as a switch or longer: it waits for neither the GPU nor a word;
//! - the GPU time of best-effort work beside that: a request takes two switches where best-effort
//!   work has the GPU before it and after it, and a burst of best-effort work one.
//!
//! It is none of
//!
//! - several latency-critical clients: the one that is ready and has the shortest burst goes first, and
//!   none is interrupted. The shortest rest first, with interruption, has a lower mean (Schrage 1968),
//!   another order a lower percentile;
//! - best-effort time at a percentile: a policy that gives up one request of a hundred has its p99 from
//!   the others, and their GPU time;
//! - best-effort time beside blocks: the switch begins the longest block ahead, and the block that runs
//!   can end sooner.
//!
//! The copy engines are as they are: a copy that waits for another one's end is not foreseen. Weights of
//! best-effort clients are not looked at.

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
        if let Some((at, _, client)) = next {
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
        let fits = |&group: &usize| {
            let start = world.now + self.cost(world, group);
            let block = longest_block(world, group);
            let until = next.map_or(u64::MAX, |(at, begin, _)| match block {
                // Nothing can be switched to before the request begins.
                0 => at.saturating_sub(round).max(begin),
                _ => at.saturating_sub(round),
            });
            start.saturating_add(block) < until
        };
        match self.turns.front().copied().filter(fits) {
            Some(group) => self.give(world, group),
            None => self.take(world),
        }
        if let Some((at, begin, client)) = next {
            let lead = self.cost(world, world.clients[client].group);
            self.timer += 1;
            let at = match self.on.map_or(0, |on| longest_block(world, on)) {
                0 => at.saturating_sub(lead).max(begin),
                _ => at.saturating_sub(lead),
            };
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

/// The client whose data will be on the GPU next; when, and when its request begins.
fn next_ready(world: &World) -> Option<(u64, u64, usize)> {
    let clients = world.clients.iter().enumerate();
    let lc = clients.filter(|(_, one)| one.spec.role == Role::Lc);
    let times = lc.filter_map(|(client, one)| {
        let sized = one.request.traced.size;
        let ahead = |start: u64, number| {
            let seed = world.setting.seed.wrapping_add(one.number as u64);
            let prepare = &one.spec.prepare_us;
            let prepare = prepare.sample(seed, number, Duration::from_nanos(start));
            (start + nanos(prepare + one.spec.copy_in(sized)), start)
        };
        let (at, begin) = match one.stage {
            Stage::Preparing | Stage::CopyIn => (one.ready_at(), one.request.start),
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
        Some((at.max(world.now), begin, client))
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
