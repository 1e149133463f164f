// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulation: clients, the GPU and a policy, from event to event. Nothing happens in between,
//! so that idle time costs nothing.

use std::time::Duration;

use anyhow::Result;
use zernel_workload::{Role, Workload};

use crate::machine::{Ended, Kind};
use crate::outcome::{Engine, Outcome, Served};
use crate::policies::{Policy, Stream};
use crate::world::{nanos, Event, Setting, Stage, World};

/// Runs a workload under a policy.
pub(crate) fn run(
    workload: &Workload,
    setting: Setting,
    policy: Box<dyn Policy>,
) -> Result<Outcome> {
    policy.accepts(workload)?;
    let setting = policy.setting(setting);
    let world = World::new(workload, setting, policy.launch(), policy.lc_only())?;
    let end = nanos(workload.duration());
    let served = world
        .clients
        .iter()
        .map(|client| Served::new(client.number, client.spec.role))
        .collect();
    let mut run = Run {
        world,
        policy,
        end,
        served,
        held: 0,
        expired: 0,
        events: 0,
        at_end: None,
    };
    run.go();
    Ok(run.outcome(workload))
}

struct Run {
    world: World,
    policy: Box<dyn Policy>,
    end: u64,
    served: Vec<Served>,
    /// Time that holders have held the GPU for.
    held: u64,
    /// Holders that ended by their bound.
    expired: u64,
    events: u64,
    at_end: Option<(Engine, Vec<u64>)>,
}

impl Run {
    fn go(&mut self) {
        self.policy.start(&mut self.world);
        for client in 0..self.world.clients.len() {
            self.next(client);
        }
        self.world.at(self.end, Event::End);
        let mut ended = Vec::new();
        while let Some(event) = self.world.step() {
            self.events += 1;
            if let Some(event) = event {
                self.handle(event);
            }
            self.world.take_ended(&mut ended);
            while !ended.is_empty() {
                for one in std::mem::take(&mut ended) {
                    self.ended(one);
                }
                self.world.take_ended(&mut ended);
            }
            if self.is_over() {
                return;
            }
        }
    }

    /// Policies have timers for ever.
    fn is_over(&self) -> bool {
        let finished = |client: &crate::world::Client| client.stage == Stage::Finished;
        self.at_end.is_some() && self.world.clients.iter().all(finished)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Word(group, word, value) => self.world.stored(group, word, value),
            Event::Operation => {
                if let Some(operation) = self.world.operated() {
                    self.policy.operated(&mut self.world, operation);
                }
            }
            Event::Tick(client) => self.start(client),
            Event::Prepared(client) => self.prepared(client),
            Event::Refused(client) => self.next(client),
            Event::Timer(token) => self.policy.timer(&mut self.world, token),
            Event::End => {
                let [busy_ns, switch_ns, idle_ns, switches] = self.world.engine();
                let engine = Engine {
                    busy_ns,
                    switch_ns,
                    idle_ns,
                    held_ns: self.held,
                    switches,
                };
                let groups = 0..self.world.groups.len();
                let busy = groups.map(|group| self.world.busy(group)).collect();
                self.at_end = Some((engine, busy));
            }
        }
    }

    /// The client is free: its next request, now or when it arrives.
    fn next(&mut self, client: usize) {
        let now = self.world.now;
        let one = &mut self.world.clients[client];
        let requests = &mut self.served[client].requests;
        if now >= self.end {
            requests.miss(one.schedule.awaited(Duration::from_nanos(self.end)));
            one.stage = Stage::Finished;
            return;
        }
        let next = one.schedule.next(Duration::from_nanos(now));
        let tick = nanos(next.tick);
        if tick >= self.end {
            one.stage = Stage::Finished;
            return;
        }
        requests.dropped += next.dropped;
        requests.miss(next.overtaken);
        if one.pieces.is_empty() || one.spec.varies() {
            let seed = self.world.setting.seed.wrapping_add(one.number as u64);
            one.pieces = one.spec.pieces(&next.draw(seed));
        }
        one.stage = Stage::Waiting;
        one.request.tick = tick;
        one.request.number = next.number;
        one.request.traced = next.traced;
        if tick > now {
            self.world.at(tick, Event::Tick(client));
        } else {
            self.start(client);
        }
    }

    /// Its request begins.
    fn start(&mut self, client: usize) {
        let now = self.world.now;
        let seed = self.world.setting.seed;
        let one = &mut self.world.clients[client];
        let seed = seed.wrapping_add(one.number as u64);
        let request = &mut one.request;
        let prepare = &one.spec.prepare_us;
        let prepare = nanos(prepare.sample(seed, request.number, Duration::from_nanos(now)));
        request.start = now;
        request.prepare = prepare;
        request.kernels_done = 0;
        request.held = 0;
        one.stage = Stage::Preparing;
        one.begun = one.begun.wrapping_add(1);
        one.holder = false;
        match self.policy.begin(&mut self.world, client) {
            Stream::Plain => {}
            Stream::Holder => self.world.hold(client),
            Stream::Refused => {
                let one = &mut self.world.clients[client];
                one.begun = one.begun.wrapping_sub(1);
                one.stage = Stage::Waiting;
                self.served[client].refused += 1;
                // Its preparation, for another GPU, takes as long.
                self.world.at(now + prepare.max(1), Event::Refused(client));
                return;
            }
        }
        if prepare == 0 {
            self.prepared(client);
        } else {
            self.world.at(now + prepare, Event::Prepared(client));
        }
    }

    fn prepared(&mut self, client: usize) {
        self.world.clients[client].stage = Stage::CopyIn;
        self.world.copy(client, Kind::CopyIn);
    }

    fn ended(&mut self, one: Ended) {
        let Ended { client, kind, .. } = one;
        match kind {
            Kind::CopyIn => {
                self.world.clients[client].stage = Stage::Inferring;
                self.policy.ready(&mut self.world, client);
            }
            Kind::Wait => {}
            Kind::Hold => {
                let held = one.end - one.start;
                self.world.clients[client].request.held += held;
                if one.end <= self.end {
                    self.held += held;
                }
                self.expired += u64::from(one.expired);
            }
            Kind::Kernel => self.world.clients[client].request.kernels_done += 1,
            Kind::LastKernel => {
                self.world.clients[client].stage = Stage::CopyOut;
                self.policy.done(&mut self.world, client);
                self.world.copy(client, Kind::CopyOut);
            }
            Kind::CopyOut => {
                let request = self.world.clients[client].request;
                self.served[client].push(&request, one.end, self.end);
                self.next(client);
            }
        }
    }

    fn outcome(self, workload: &Workload) -> Outcome {
        let (engine, busy) = self.at_end.unwrap_or_default();
        let share = |role| {
            let sum: u64 = self.world.of_role(role).map(|group| busy[group]).sum();
            sum as f64 / self.end as f64
        };
        Outcome {
            workload: workload.name.clone(),
            policy: self.policy.name(),
            gpu: self.world.setting.preset.name,
            deployment: self.world.setting.deployment,
            seconds: workload.seconds,
            engine,
            lc_share: share(Role::Lc),
            be_share: share(Role::Be),
            busy_ns: busy,
            expired: self.expired,
            events: self.events,
            served: self.served,
        }
    }
}
