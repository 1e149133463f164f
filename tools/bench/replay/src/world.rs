// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a simulation, and the actions of a policy on it.

mod parts;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use anyhow::{anyhow, ensure, Result};
use zernel_workload::{Deployment, Role, Schedule, Workload};

pub(crate) use self::parts::{Client, Event, Group, Launch, Operation, Request, Setting, Stage};
use crate::machine::{
    gpu, order, release_word, trigger_word, Ended, Kind, Log, Model, Words, COMPUTE,
};
use crate::model::error::Error as ModelError;
use crate::model::gpu::{NewTsg, MAX_CHANNELS};
use crate::model::measures::{Ns, Permille, Us};
use crate::model::tsg::{Context, Handle, Interleave};
use crate::model::work::{Condition, Expect, Granularity, Order, Work};

/// Longest time that a holder keeps the GPU by itself.
pub(crate) const HOLD_BOUND: Ns = Ns(20_000_000);

/// Share of the GPU that a holder uses: one of about a hundred SMs.
const HOLD_DEMAND: Permille = Permille(10);

/// Most events that the model handles before the simulation looks for ended items.
const BUDGET: u32 = 1 << 20;

/// Everything but the policy.
pub(crate) struct World {
    /// Constants.
    pub(crate) setting: Setting,
    /// The way in which inferences are launched.
    pub(crate) launch: Launch,
    /// The clients.
    pub(crate) clients: Vec<Client>,
    /// The TSGs.
    pub(crate) groups: Vec<Group>,
    /// Now, in nanoseconds since the start of the run.
    pub(crate) now: u64,
    gpu: Model,
    log: Log,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pushed: u64,
    operations: VecDeque<Operation>,
    serial: u64,
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A refusal of the model here would be an error of this program.
fn sound<T>(result: Result<T, ModelError>) -> T {
    result.unwrap_or_else(|error| panic!("the model refuses what it should take: {error:?}"))
}

impl World {
    /// The clients of `workload`, or the latency-critical ones alone, on a GPU.
    pub(crate) fn new(
        workload: &Workload,
        setting: Setting,
        launch: Launch,
        lc_only: bool,
    ) -> Result<Self> {
        let phases = workload.phases();
        let specs: Vec<_> = workload
            .clients
            .iter()
            .zip(phases)
            .enumerate()
            .filter(|(_, (spec, _))| !lc_only || spec.role == Role::Lc)
            .collect();
        ensure!(
            !specs.is_empty(),
            "workload {} has no latency-critical client to run alone; give one `role: lc`",
            workload.name
        );
        let mut groups: Vec<Group> = Vec::new();
        let mut clients = Vec::new();
        for (at, (number, (spec, phase))) in specs.into_iter().enumerate() {
            let known = match setting.deployment {
                Deployment::PerClient => None,
                Deployment::Published => groups.iter().position(|one| one.role == spec.role),
            };
            let group = known.unwrap_or(groups.len());
            if known.is_none() {
                groups.push(Group {
                    role: spec.role,
                    weight: 0,
                    clients: Vec::new(),
                    active: 0,
                    compute: Handle::NONE,
                    copy: Handle::NONE,
                    words: Words::new(),
                    busy_before: 0,
                });
            }
            let channel = groups[group].clients.len() as u32;
            ensure!(
                channel < MAX_CHANNELS,
                "more than {MAX_CHANNELS} clients of a role cannot share a TSG; use --deployment \
                 per-client"
            );
            groups[group].clients.push(at);
            groups[group].weight += spec.weight;
            let seed = setting.seed.wrapping_add(number as u64);
            clients.push(Client {
                spec: spec.clone(),
                number,
                group,
                channel,
                stage: Stage::Waiting,
                request: Request::default(),
                pieces: Vec::new(),
                begun: 0,
                holder: false,
                schedule: Schedule::new(&spec.arrival, phase, seed)?,
            });
        }
        ensure!(
            groups.len() * 2 < Handle::TSGS as usize,
            "{} processes are more than a GPU takes; leave some clients out",
            groups.len()
        );
        let mut world = Self {
            setting,
            launch,
            now: 0,
            gpu: gpu(setting.preset, groups.len() * 2, clients.len() * 2),
            log: Log::default(),
            queue: BinaryHeap::new(),
            pushed: 0,
            operations: VecDeque::new(),
            serial: 0,
            clients,
            groups,
        };
        for group in 0..world.groups.len() {
            world.groups[group].compute = world.make(group, COMPUTE)?;
            let engine = sound(world.gpu.least_used(true));
            world.groups[group].copy = world.make(group, engine)?;
        }
        Ok(world)
    }

    fn make(&mut self, group: usize, engine: u32) -> Result<Handle> {
        self.serial += 1;
        let owner = &self.groups[group];
        let new = NewTsg {
            serial: self.serial,
            context: owner.words.clone(),
            engine,
            nr_channels: owner.clients.len() as u32,
            sharer: None,
        };
        self.gpu
            .create(Ns(self.now), new, &mut self.log)
            .map_err(|(error, _)| anyhow!("the GPU has no room for a TSG: {error:?}"))
    }

    /// The features that a client tells of its request.
    pub(crate) fn features(&self, client: usize) -> Vec<i64> {
        let one = &self.clients[client];
        let seed = self.setting.seed.wrapping_add(one.number as u64);
        one.spec.prepare_us.features(seed, one.request.number)
    }

    /// Adds an event.
    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.pushed += 1;
        self.queue
            .push(Reverse((time.max(self.now), self.pushed, event)));
    }

    /// Lets time go on to the next event, or to `None` for one on the GPU. Returns whether there
    /// was anything left.
    pub(crate) fn step(&mut self) -> Option<Option<Event>> {
        let model = self.gpu.next_event().map_or(u64::MAX, |time| time.0);
        let queued = self.queue.peek().map_or(u64::MAX, |Reverse(head)| head.0);
        if model == u64::MAX && queued == u64::MAX {
            return None;
        }
        self.now = model.min(queued);
        // Its accounts are those of now in any case.
        self.gpu.advance(Ns(self.now), BUDGET, &mut self.log);
        if model <= queued {
            return Some(None);
        }
        self.queue.pop().map(|Reverse((_, _, event))| Some(event))
    }

    /// The items that have ended on the GPU since the last call.
    pub(crate) fn take_ended(&mut self, into: &mut Vec<Ended>) {
        self.log.take(into);
    }

    fn submit(&mut self, tsg: Handle, channel: u32, orders: &[Order]) {
        sound(
            self.gpu
                .submit(Ns(self.now), tsg, channel, orders, &mut self.log),
        );
    }

    /// A client copies to the GPU, or back.
    pub(crate) fn copy(&mut self, client: usize, kind: Kind) {
        let one = &self.clients[client];
        let time = match kind {
            Kind::CopyIn => one.spec.copy_in(one.request.traced.size),
            _ => one.spec.copy_out(one.request.traced.size),
        };
        let work = Work::Run {
            alone: Ns(nanos(time)),
            demand: Permille::FULL,
            granularity: Granularity::Instruction,
        };
        let (tsg, channel) = (self.groups[one.group].copy, one.channel);
        self.submit(tsg, channel, &[order(client, kind, work)]);
    }

    /// Puts the wait for the trigger and the holder into a client's stream.
    pub(crate) fn hold(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.holder = true;
        let expect = |word| Expect {
            word,
            value: one.begun,
            condition: Condition::AtLeast,
            rung: false,
        };
        let orders = [
            order(
                client,
                Kind::Wait,
                Work::Wait(expect(trigger_word(one.channel))),
            ),
            order(
                client,
                Kind::Hold,
                Work::Hold {
                    expect: expect(release_word(one.channel)),
                    bound: HOLD_BOUND,
                    demand: HOLD_DEMAND,
                },
            ),
        ];
        let (tsg, channel) = (self.groups[one.group].compute, one.channel);
        self.submit(tsg, channel, &orders);
    }

    /// Submits the kernels of a client's request that are not done.
    pub(crate) fn launch(&mut self, client: usize) {
        let one = &self.clients[client];
        let blocks = self.launch == Launch::Blocks && one.spec.role == Role::Be;
        let mut parts = Vec::new();
        for piece in &one.pieces {
            let (all, count) = (nanos(piece.time), piece.count);
            let each = all / u64::from(count);
            let block = piece.block.map(nanos);
            let block = match blocks {
                true => Some(block.unwrap_or(each)),
                false => block,
            };
            let granularity = match block {
                None => Granularity::Instruction,
                Some(block) => Granularity::Block(Ns(block.min(each))),
            };
            let demand = Permille(piece.share_permille);
            let part = |alone| Work::Run {
                alone: Ns(alone),
                demand,
                granularity,
            };
            // A block does not go on beyond its kernel.
            if self.launch == Launch::Kernels || piece.block.is_some() {
                let rest = all - each * u64::from(count - 1);
                parts.extend((1..count).map(|_| part(each)));
                parts.push(part(rest));
            } else {
                parts.push(part(all));
            }
        }
        let last = parts.len().saturating_sub(1);
        let done = match self.launch {
            Launch::Kernels => one.request.kernels_done as usize,
            Launch::Whole | Launch::Blocks => 0,
        };
        let orders: Vec<Order> = (0..)
            .zip(parts)
            .skip(done)
            .map(|(at, work)| match at == last {
                false => order(client, Kind::Kernel, work),
                true => order(client, Kind::LastKernel, work),
            })
            .collect();
        let (tsg, channel) = (self.groups[one.group].compute, one.channel);
        self.submit(tsg, channel, &orders);
    }

    /// Kills the kernels of a TSG. They start again, and their progress is lost.
    pub(crate) fn reset(&mut self, group: usize) {
        let (old, now) = (self.groups[group].compute, Ns(self.now));
        let stats = sound(self.gpu.tsg_stats(old));
        self.groups[group].busy_before += stats.times.busy.0;
        sound(self.gpu.destroy(now, old, &mut self.log));
        self.groups[group].compute = self
            .make(group, COMPUTE)
            .expect("the place of the one before is free");
        self.set_timeslice(group, stats.timeslice);
        self.set_interleave(group, stats.interleave);
        for client in self.groups[group].clients.clone() {
            if self.clients[client].stage == Stage::Inferring {
                self.launch(client);
            }
        }
    }

    /// Stores a number to the word that a client's stream waits for.
    pub(crate) fn trigger(&mut self, client: usize, number: u32) {
        let (group, channel) = self.place(client);
        self.store(group, trigger_word(channel), number);
    }

    /// Stores a number to the word that ends a client's holder.
    pub(crate) fn release(&mut self, client: usize, number: u32) {
        let (group, channel) = self.place(client);
        self.store(group, release_word(channel), number);
    }

    /// Stores a number to the word that a client's stream waits for, as if the GPU saw it at once.
    pub(crate) fn trigger_at_once(&mut self, client: usize, number: u32) {
        let (group, channel) = self.place(client);
        self.stored(group, trigger_word(channel), number);
    }

    /// The same of the word that ends its holder.
    pub(crate) fn release_at_once(&mut self, client: usize, number: u32) {
        let (group, channel) = self.place(client);
        self.stored(group, release_word(channel), number);
    }

    fn place(&self, client: usize) -> (usize, u32) {
        let one = &self.clients[client];
        (one.group, one.channel)
    }

    fn store(&mut self, group: usize, word: u16, value: u32) {
        let time = self.now + self.setting.flag.0;
        self.at(time, Event::Word(group, word, value));
    }

    /// A store has reached the GPU.
    pub(crate) fn stored(&mut self, group: usize, word: u16, value: u32) {
        let group = &self.groups[group];
        group.words.store(word, value);
        let tsg = group.compute;
        sound(self.gpu.doorbell(Ns(self.now), tsg, &mut self.log));
    }

    /// Sets a time slice, which costs nothing: before the run.
    pub(crate) fn set_timeslice(&mut self, group: usize, slice: Us) {
        let tsg = self.groups[group].compute;
        sound(
            self.gpu
                .set_timeslice(Ns(self.now), tsg, slice, &mut self.log),
        );
    }

    /// Sets an interleave level, which costs nothing: before the run.
    pub(crate) fn set_interleave(&mut self, group: usize, interleave: Interleave) {
        let tsg = self.groups[group].compute;
        sound(
            self.gpu
                .set_interleave(Ns(self.now), tsg, interleave, &mut self.log),
        );
    }

    /// Lets a TSG run or not, at no cost: before the run.
    pub(crate) fn set_enabled(&mut self, group: usize, enabled: bool) {
        let tsg = self.groups[group].compute;
        sound(
            self.gpu
                .set_enabled(Ns(self.now), tsg, enabled, &mut self.log),
        );
    }

    /// Takes the engine away from a TSG if another could run, at no cost.
    pub(crate) fn preempt(&mut self, group: usize) {
        let tsg = self.groups[group].compute;
        sound(self.gpu.preempt(Ns(self.now), tsg, &mut self.log));
    }

    /// Asks the driver for something; it takes its time, one after the other.
    pub(crate) fn operate(&mut self, operation: Operation) {
        self.operations.push_back(operation);
        if self.operations.len() == 1 {
            self.begin_operation();
        }
    }

    fn begin_operation(&mut self) {
        let Some(operation) = self.operations.front() else {
            return;
        };
        let costs = &self.setting.costs;
        let cost = match operation {
            Operation::Slice(..) | Operation::Interleave(..) => costs.slice,
            Operation::Enable(..) => costs.enable,
        };
        self.at(self.now + cost.0, Event::Operation);
    }

    /// The first of the operations is done: does it, and begins the next one.
    pub(crate) fn operated(&mut self) -> Option<Operation> {
        let operation = self.operations.pop_front()?;
        match operation {
            Operation::Slice(group, slice) => self.set_timeslice(group, slice),
            Operation::Interleave(group, interleave) => self.set_interleave(group, interleave),
            Operation::Enable(group, enabled) => self.set_enabled(group, enabled),
        }
        self.begin_operation();
        Some(operation)
    }

    /// True if a TSG has the compute engine.
    pub(crate) fn runs(&self, group: usize) -> bool {
        sound(self.gpu.tsg_stats(self.groups[group].compute)).on_engine
    }

    /// Time that a TSG had the compute engine for.
    pub(crate) fn busy(&self, group: usize) -> u64 {
        let group = &self.groups[group];
        let stats = sound(self.gpu.tsg_stats(group.compute));
        group.busy_before + stats.times.busy.0
    }

    /// The time of the compute engine: busy, switching and idle, and contexts restored.
    pub(crate) fn engine(&self) -> [u64; 4] {
        let stats = sound(self.gpu.engine_stats(COMPUTE));
        let times = stats.times;
        [times.busy.0, times.switch.0, times.idle.0, stats.switches]
    }

    /// The groups of a role.
    pub(crate) fn of_role(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        let groups = self.groups.iter().enumerate();
        groups
            .filter(move |(_, group)| group.role == role)
            .map(|(at, _)| at)
    }
}
