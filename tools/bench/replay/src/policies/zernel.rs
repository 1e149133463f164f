// SPDX-License-Identifier: MIT OR Apache-2.0
//! zernel: the decisions of `rust/policy/`, called as `zernel.ko` calls them.
//!
//! A request's words are stored by the process where it can (ready and done need no system call),
//! so that zernel learns of them at the next event of the slot.

mod budget;
pub(crate) mod estimate;
mod holds;
mod keys;
mod options;
mod order;
mod rotation;
mod sharing;
mod slack;
mod slices;

use std::time::Duration;

use zernel_workload::Role;

use self::budget::Budget;
use self::holds::Holds;
use self::keys::Keys;
pub(crate) use self::options::Options;
use self::order::{Late, Order};
use self::rotation::Rotation;
use self::slack::Slack;
use self::slices::Slices;
use super::slices::set_classes;
use super::{retire, submit, Policy, Stream};
use crate::model::measures::Us;
use crate::model::tsg::Interleave;
use crate::policy::class::Effective;
use crate::policy::deadline::line::Place;
use crate::policy::deadline::Order as Kept;
use crate::policy::level::{self, Level};
use crate::policy::predict::features::Features;
use crate::policy::predict::fixed::Fixed;
use crate::policy::predict::sharing::Begins;
use crate::policy::predict::trigger::Trigger;
use crate::policy::predict::{Choice, Costs, Kind};
use crate::policy::request::succession::Succession;
use crate::policy::request::trial::Look;
use crate::policy::request::words::Number;
use crate::policy::request::words::Observed;
use crate::policy::request::{self, Actions, Plan};
use crate::policy::slices::Policy as SlicePolicy;
use crate::policy::switch_cost::{Costs as SwitchCosts, Phase};
use crate::policy::tunables::{settings::Conditions, Tunables};
use crate::policy::units::{Ns, Permille};
use crate::world::{nanos, Event, Operation, World};

/// The word of a request on itself.
#[derive(Clone, Copy)]
struct Asked {
    key: u64,
    features: Features,
    /// The costs of errors of its prediction.
    costs: Costs,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            key: 0,
            features: Features::NONE,
            costs: Costs::default(),
        }
    }
}

/// The state of a latency-critical client.
struct Lane {
    requests: Succession,
    /// The request that it is at, and the one before.
    asked: (Asked, Asked),
    seen: Observed,
    /// Alarms set before the last one are stale.
    alarm: u32,
    /// When its request began.
    began: u64,
    /// The GPU had other latency-critical work when the request was triggered.
    waits_for_lc: bool,
    /// Its place in the order of deadlines.
    place: Option<(Place, Number)>,
    /// Its level.
    level: Level,
    /// The longest latency that is no violation.
    slo: Option<Ns>,
}

/// The policy.
pub(crate) struct Zernel {
    options: Options,
    choice: Choice,
    lease: Ns,
    switch: SwitchCosts,
    lanes: Vec<Lane>,
    keys: Keys,
    order: Order,
    holds: Holds,
    rotation: Option<Rotation>,
    budget: Option<Budget>,
    tunables: Tunables,
    slices: Option<Slices>,
    begins: Begins,
    slack: Option<Slack>,
    /// Latency-critical requests between begin and done.
    requests: u32,
}

/// A call about a request.
type Call = fn(&mut Succession, Number, Ns, &Observed) -> Result<Actions, request::Error>;

/// Tokens of timers: those of clients are `client << 32 | alarm`.
const ROTATION: u64 = 1 << 62;
const BUDGET: u64 = 1 << 63;
const SLICES: u64 = 1 << 61;
const SLACK: u64 = 1 << 60;
const HOLDS: u64 = 1 << 59;

impl Zernel {
    /// With these options.
    pub(super) fn new(options: Options) -> Self {
        let tunables = slices::tunables(&options);
        let choice = Choice {
            kind: options.kind,
            costs: Costs {
                early: options.early,
                late: options.late,
            },
            fixed: Fixed::default(),
            margin: options.margin,
        };
        Self {
            options,
            choice,
            lease: tunables.requests().lease().into(),
            switch: SwitchCosts::new(Permille(options.covered)),
            lanes: Vec::new(),
            keys: Keys::default(),
            order: Order::new(),
            holds: Holds::default(),
            rotation: None,
            budget: None,
            tunables,
            slices: None,
            begins: Begins::default(),
            slack: None,
            requests: 0,
        }
    }

    /// Time slice that the TSGs of a level have.
    fn slice_of(&self, level: Level) -> Us {
        self.slice_where(level, level::Set::NONE)
    }

    /// The same while these levels have no budget left.
    fn slice_where(&self, level: Level, throttled: level::Set) -> Us {
        let class = Effective::of(level);
        let on = Conditions {
            turns: self.options.rotate,
            throttled,
            ..Conditions::NONE
        };
        let settings = self.tunables.settings(class, on);
        Us(settings.map_or(level.default_timeslice().0, |s| s.timeslice.0))
    }

    /// The state of the GPU.
    fn phase(&self) -> Phase {
        match &self.rotation {
            Some(rotation) if rotation.is_handing_over() => Phase::HandingOver,
            _ => Phase::Settled,
        }
    }

    /// The words of a client now.
    fn observe(&mut self, world: &World, client: usize) -> Observed {
        let one = &world.clients[client];
        let lane = &mut self.lanes[client];
        if one.holder && world.runs(one.group) {
            lane.seen.held = one.begun;
        }
        lane.seen
    }

    /// Carries out the actions of a slot.
    fn act(&mut self, world: &mut World, client: usize, actions: Actions) {
        let lane = &mut self.lanes[client];
        if let Some(number) = actions.release {
            lane.seen.release = number.get();
            world.release(client, number.get());
        }
        if actions.trigger.is_some() {
            self.lanes[client].waits_for_lc = self.is_lc_busy(world, client);
        }
        let lane = &mut self.lanes[client];
        if let Some(number) = actions.trigger {
            lane.seen.trigger = number.get();
            world.trigger(client, number.get());
        }
        lane.alarm = lane.alarm.wrapping_add(1);
        if let Some(at) = actions.alarm {
            let token = (client as u64) << 32 | u64::from(lane.alarm);
            world.at(at.0, Event::Timer(token));
        }
        if let Some(trial) = actions.sample.filter(|_| !lane.waits_for_lc) {
            if let Some(seen) = trial.outcome(None) {
                self.switch.learn(trial.phase, seen);
            }
        }
        if let Some(record) = actions.over {
            self.catch_up(client);
            if let Some(took) = record.preparation() {
                let asked = self.lanes[client].asked.0;
                self.keys
                    .learn(client, &asked, took, &self.options, self.choice);
            }
        }
    }

    /// Learns from the request before, as its outcome was left for later.
    fn catch_up(&mut self, client: usize) {
        let lane = &mut self.lanes[client];
        let took = lane
            .requests
            .catch_up()
            .and_then(|record| record.preparation());
        if let Some(took) = took {
            self.keys
                .learn(client, &lane.asked.1, took, &self.options, self.choice);
        }
    }

    /// Deadlines as told; the levels that follow, where they do.
    fn set_deadlines(&mut self, world: &mut World) {
        let Options {
            deadlines,
            by_level,
            ..
        } = self.options;
        let lc = world.clients.iter().enumerate();
        let lc: Vec<usize> = lc
            .filter(|(_, one)| one.spec.role == Role::Lc)
            .map(|(client, _)| client)
            .collect();
        for (rank, client) in lc.into_iter().enumerate() {
            let lane = &mut self.lanes[client];
            lane.slo = deadlines.of(rank).map(Ns);
            if by_level {
                // Those of two levels have one interleave.
                let number = u32::try_from(2 * deadlines.place(rank)).unwrap_or(u32::MAX);
                lane.level = Level::new(number.min(Level::DEFAULT.number())).unwrap_or(Level::LC);
                let (level, group) = (lane.level, world.clients[client].group);
                world.set_timeslice(group, self.slice_of(level));
                let interleave = Interleave::new(level.interleave().number());
                world.set_interleave(group, interleave.unwrap_or(Interleave::Low));
            }
        }
    }

    /// The process tells of its request by a call.
    fn tell(&mut self, world: &mut World, client: usize, call: Call) {
        let seen = self.observe(world, client);
        let now = Ns(world.now);
        let number = Number::new(world.clients[client].begun);
        let lane = &mut self.lanes[client];
        if let Some(Ok(actions)) = number.map(|n| call(&mut lane.requests, n, now, &seen)) {
            self.act(world, client, actions);
            self.settle(world, client);
        }
    }

    /// The number of latency-critical requests has changed.
    fn set_busy(&mut self, world: &mut World) {
        let busy = self.requests > 0;
        if let Some(rotation) = &mut self.rotation {
            rotation.set_lc(world, busy);
        }
        if let Some(budget) = &mut self.budget {
            budget.look(world, busy);
        }
    }
}

impl Policy for Zernel {
    fn name(&self) -> String {
        let Options {
            kind,
            estimator,
            early,
            late,
            rotate,
            rule,
            ..
        } = self.options;
        let mut name = "zernel".to_owned();
        if kind != Kind::Quantile {
            name += &format!(" {}{}", kind.name(), estimator.suffix());
        }
        if (early, late) != (Options::DEFAULT.early, Options::DEFAULT.late) {
            name += &format!(" {early}:{late}");
        }
        if let Some(shared) = self.options.shared_early {
            name += &format!(" shared {shared}:{late}");
        }
        name += match rule.trigger {
            Trigger::Predicted => "",
            Trigger::AtBegin => " at begin",
            Trigger::AtReady => " at ready",
        };
        if rule.min_prep > Ns::ZERO {
            name += &format!(" from {} µs", rule.min_prep.0 / 1_000);
        }
        if rule.order != Kept::Fifo {
            name += &format!(" {}", rule.order.name());
        }
        if self.options.admit {
            name += " admit";
        }
        if self.options.by_level {
            name += " by level";
        }
        if self.options.budget != Options::DEFAULT.budget {
            name += &format!(" budget {} ms", f64::from(self.options.budget.0) / 1e3);
        }
        if !rotate {
            name += " unrotated";
        }
        if self.options.slices != SlicePolicy::Table {
            name += &format!(" {}", self.options.slices.name());
        }
        name
    }

    fn start(&mut self, world: &mut World) {
        self.lanes = world
            .clients
            .iter()
            .map(|_| Lane {
                requests: Succession::new(),
                asked: (Asked::default(), Asked::default()),
                seen: Observed::default(),
                alarm: 0,
                began: 0,
                waits_for_lc: false,
                place: None,
                level: Level::LC,
                slo: None,
            })
            .collect();
        set_classes(world);
        let be: Vec<usize> = world.of_role(Role::Be).collect();
        let slice = self.options.be_slice.unwrap_or(self.slice_of(Level::BE));
        let lc_slice = self.slice_of(Level::LC);
        for group in world.of_role(Role::Lc).collect::<Vec<_>>() {
            world.set_timeslice(group, lc_slice);
        }
        self.set_deadlines(world);
        for &group in &be {
            world.set_timeslice(group, slice);
        }
        if self.options.rotate && be.len() > 1 {
            let Options {
                discipline,
                quantum,
                ..
            } = self.options;
            self.rotation = Some(Rotation::new(world, &be, discipline, quantum));
        }
        let mut spent = level::Set::NONE;
        spent.put(Level::LC, true);
        let throttled = self.slice_where(Level::LC, spent);
        self.budget = Budget::new(world, self.options.budget, (lc_slice, throttled));
        if let Some(terms) = self.tunables.slack() {
            let slice = |client: usize| self.slice_of(self.lanes[client].level);
            self.slack = Some(Slack::new(world, terms, slice));
        }
        if let (Some(terms), false) = (self.tunables.feedback(), self.options.rotate) {
            let period = self.tunables.slices().period();
            self.slices = Some(Slices::new(terms, period.into(), be, slice));
        }
    }

    fn begin(&mut self, world: &mut World, client: usize) -> Stream {
        if world.clients[client].spec.role == Role::Be {
            return Stream::Plain;
        }
        let now = Ns(world.now);
        let seen = self.observe(world, client);
        let phase = self.phase();
        let cost = self.switch.estimate(phase);
        self.catch_up(client);
        let request = &world.clients[client].request;
        let late = Duration::from_nanos(world.now - request.tick);
        let left = request.traced.left(late, Duration::from_nanos(1));
        let left = left.map(|left| Ns(nanos(left)));
        let mut asked = Asked {
            key: request.traced.key.unwrap_or(0),
            ..Asked::default()
        };
        for (to, from) in asked.features.given.iter_mut().zip(world.features(client)) {
            *to = from;
        }
        if self.keys.predict(client, &asked, self.choice).is_none() {
            let actions = self.lanes[client].requests.retire(now, &seen);
            self.act(world, client, actions);
        }
        asked.costs = self.weigh(world, client);
        let choice = Choice {
            costs: asked.costs,
            ..self.choice
        };
        let lane = &mut self.lanes[client];
        let predicted = self.keys.predict(client, &asked, choice);
        // As early as alone: a switch takes as long.
        let lead = self.options.rule.lead(self.choice, predicted, cost);
        let plan = Plan {
            trigger_at: now.saturating_add(lead),
            lease: self.lease,
            predicted: predicted.unwrap_or(Ns::ZERO),
            cost,
            slo: left.or(lane.slo),
            holder: true,
            look: Look::AtDue,
            phase,
            gate: false,
            ordered: self.options.rule.order != Kept::Fifo,
        };
        let seat = match self.options.admit {
            true => match self.admit(world, client, &asked, &plan) {
                Ok(seat) => seat,
                Err(Late) => return Stream::Refused,
            },
            false => None,
        };
        let lane = &mut self.lanes[client];
        lane.began = world.now;
        let mut actions = Actions::default();
        let number = lane.requests.next(&seen);
        lane.requests.begin(number, now, &seen, &plan, &mut actions);
        debug_assert_eq!(number.get(), world.clients[client].begun);
        self.act(world, client, actions);
        if plan.ordered {
            let level = self.lanes[client].level;
            self.take_turn(world, client, (level, &asked), seat);
        }
        let lane = &mut self.lanes[client];
        lane.asked = (asked, lane.asked.0);
        if let Some(slack) = &mut self.slack {
            slack.began(world);
        }
        self.requests += 1;
        self.set_busy(world);
        Stream::Holder
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        if world.clients[client].spec.role == Role::Be {
            let woke = submit(world, client);
            if let (true, Some(rotation)) = (woke, &mut self.rotation) {
                rotation.observe(world, world.clients[client].group);
            }
            return;
        }
        submit(world, client);
        if self.options.rule.order != Kept::Fifo {
            // By a call, so that the trigger waits for its turn.
            self.tell(world, client, Succession::ready);
            return;
        }
        // Stores of the process, which zernel is not told of.
        let number = world.clients[client].begun;
        let seen = &mut self.lanes[client].seen;
        seen.ready_ns = Ns(world.now);
        if seen.release != number {
            seen.release = number;
            world.release(client, number);
        }
        if seen.trigger != number {
            seen.trigger = number;
            world.trigger(client, number);
        }
    }

    fn done(&mut self, world: &mut World, client: usize) {
        let slept = retire(world, client);
        let one = &world.clients[client];
        if one.spec.role == Role::Lc {
            let seen = &mut self.lanes[client].seen;
            seen.done_ns = Ns(world.now);
            seen.done = one.begun;
            if self.options.rule.order != Kept::Fifo {
                self.tell(world, client, Succession::done);
            }
            if let Some(slices) = &mut self.slices {
                slices.done(world, world.now - self.lanes[client].began);
            }
            if let Some(slack) = &mut self.slack {
                slack.done(world.clients[client].group);
            }
            self.requests -= 1;
            self.set_busy(world);
        } else if let (true, Some(rotation)) = (slept, &mut self.rotation) {
            rotation.observe(world, one.group);
        }
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        if token & BUDGET != 0 {
            let busy = self.requests > 0;
            if let Some(budget) = &mut self.budget {
                budget.timer(world, token, busy);
            }
        } else if token & SLICES != 0 {
            if let Some(slices) = &mut self.slices {
                slices.timer(world);
            }
        } else if token & SLACK != 0 {
            self.look_at_slacks(world);
        } else if token & HOLDS != 0 {
            self.look_at_holds(world, token);
        } else if token & ROTATION != 0 {
            if let Some(rotation) = &mut self.rotation {
                rotation.timer(world, token);
            }
        } else {
            let (client, alarm) = super::gpreempt::whose(token);
            if self.lanes[client].alarm == alarm {
                let seen = self.observe(world, client);
                let actions = self.lanes[client].requests.poll(Ns(world.now), &seen);
                self.act(world, client, actions);
                if actions.trigger.is_none() {
                    self.catch_up(client);
                }
                self.settle(world, client);
            }
        }
    }

    fn operated(&mut self, world: &mut World, operation: Operation) {
        self.goes_on(world, operation);
    }
}
