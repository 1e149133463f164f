// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests in the order of deadlines: their slots, their line and the tunables that a begin reads, put
//! together as `zernel.ko` does.
//!
//! A state is: the real [`Succession`] of each client's slot with its words, the real [`Line`], what calls
//! and timers have still to do after they let go of the lock of a slot, and the time in ticks. One step
//! is one of:
//! - a process begins a request, calls ready, done or cancel, stores them, or dies;
//! - a timer fires, due or stale;
//! - a call or a timer goes on: it has the line follow its slot, or takes a place for its request;
//! - a tunable changes;
//! - a tick passes. None does before all that is due has happened.
//!
//! In the last tick every process dies.

mod client;
mod kernel;
mod properties;

use std::fmt;

use stateright::{Model, Property};

use self::client::Client;
use crate::policy::{
    deadline::line::{Lane, Line},
    level::Level,
    predict::trigger::Rule,
    request::record::Cause,
    units::Ns,
};

/// So long that an order looks at the one that has the GPU in each of them.
const TICK: u64 = 20_000;
/// The longest time that others wait for a request, in ticks.
const LEASE: u8 = 2;

fn at(tick: u8) -> Ns {
    Ns(u64::from(tick) * TICK)
}

/// The requests of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Those that it begins.
    pub(super) requests: u8,
    /// Ticks from begin to deadline; it has the choice.
    pub(super) deadlines: &'static [u8],
    /// Ticks from begin to the predicted end of the preparation, likewise.
    pub(super) leads: &'static [u8],
    /// It also tells by stores. The trigger that it stores itself takes no turn.
    pub(super) stores: bool,
    /// Its level.
    pub(super) level: Level,
}

impl Habits {
    /// One latency-critical request, with these deadlines, that tells by calls.
    pub(super) const fn of(deadlines: &'static [u8]) -> Self {
        Self {
            requests: 1,
            deadlines,
            leads: &[0],
            stores: false,
            level: Level::LC,
        }
    }

    fn lane(&self) -> Lane {
        Lane {
            runlist: 0,
            level: self.level,
        }
    }
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Those that wait go in the order in which they came.
    FirstCome,
    /// A turn is given though another request has the GPU.
    TwoAtATime,
    /// The lease of a request does not end for those that wait.
    NoLease,
    /// The line does not follow calls.
    Forgets,
    /// Nothing wakes a request at its own deadline.
    NoDeadline,
    /// A request that is over keeps its place.
    KeepsPlace,
    /// With another order, those that wait in the old one are forgotten.
    DropsLine,
}

/// The clients, and what there is to change.
pub(super) struct Scene {
    pub(super) clients: Vec<Habits>,
    /// The last tick in which a request begins.
    pub(super) last_begin: u8,
    /// Ticks until all die.
    pub(super) ticks: u8,
    /// Those that die before that, in any state.
    pub(super) deaths: usize,
    /// The rules that are tuned; the first one is in force at first.
    pub(super) rules: &'static [Rule],
    /// Changes of the rule.
    pub(super) tunings: u8,
    pub(super) fault: Option<Fault>,
}

/// The real line, as a part of a state. Not told in a path: it has a place for everybody.
#[derive(Clone, PartialEq, Hash)]
struct Places(Line);

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct World {
    now: u8,
    rule: usize,
    tuned: u8,
    clients: Vec<Client>,
    wrong: Option<&'static str>,
    // Last, as it takes longest to compare.
    line: Places,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Begin {
        client: usize,
        deadline: u8,
        lead: u8,
    },
    Tell(usize, Word),
    /// The timer of a slot.
    Timer(usize),
    /// A call or a timer has the line follow.
    Settle(usize),
    /// A begin takes a place.
    Join(usize),
    Tune(usize),
    Die(usize),
    Tick,
}

/// A word of a process on its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Ready,
    Done,
    Cancel,
    StoreReady,
    StoreDone,
}

impl Model for Scene {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            rule: 0,
            tuned: 0,
            clients: self.clients.iter().map(|_| Client::new()).collect(),
            wrong: None,
            line: Places(Line::EMPTY),
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        let is_over = world.now >= self.ticks;
        let died = world.clients.iter().filter(|one| !one.is_open).count();
        for (client, (one, habits)) in world.clients.iter().zip(&self.clients).enumerate() {
            if one.settles {
                steps.push(Step::Settle(client));
            }
            if one.joins.is_some_and(|join| join.is_settled) {
                steps.push(Step::Join(client));
            }
            if !one.is_open {
                continue;
            }
            steps.push(Step::Timer(client));
            if is_over || died < self.deaths {
                steps.push(Step::Die(client));
            }
            if is_over {
                continue;
            }
            if one.begun < habits.requests && world.now <= self.last_begin {
                for &deadline in habits.deadlines {
                    steps.extend(habits.leads.iter().map(|&lead| Step::Begin {
                        client,
                        deadline,
                        lead,
                    }));
                }
            }
            if one.is_active() {
                let calls = [Word::Ready, Word::Done, Word::Cancel];
                steps.extend(calls.map(|word| Step::Tell(client, word)));
                if habits.stores {
                    let stores = [Word::StoreReady, Word::StoreDone];
                    steps.extend(stores.map(|word| Step::Tell(client, word)));
                }
            }
        }
        if is_over {
            return;
        }
        if world.tuned < self.tunings {
            let others = (0..self.rules.len()).filter(|&rule| rule != world.rule);
            steps.extend(others.map(Step::Tune));
        }
        if !world.clients.iter().any(|one| one.is_due(world.now)) {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Begin {
                client,
                deadline,
                lead,
            } => self.begin(&mut next, client, deadline, lead),
            Step::Tell(client, word) => self.tell(&mut next, client, word),
            Step::Timer(client) => self.timer(&mut next, client),
            Step::Settle(client) => self.settle(&mut next, client),
            Step::Join(client) => self.join(&mut next, client),
            Step::Tune(rule) => self.tune(&mut next, rule),
            Step::Die(client) => self.end(&mut next, client, Cause::Closed),
            Step::Tick => next.now += 1,
        }
        next.look_around(self);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
