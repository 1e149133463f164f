// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the order of deadlines: slots and their line, as `zernel.ko` puts them together,
//! with processes that do anything.

use proptest::prelude::*;

use crate::policy::{
    deadline::{
        line::{Claim, Lane, Line, Place},
        HORIZON,
    },
    level::Level,
    request::{
        order::Standing,
        words::{Number, Observed},
        Actions, Plan, Slot, State,
    },
    units::Ns,
};

/// Turns at a time, and the time to the next; as in `rust/zernel/request/order.rs`, which has more of them.
const TURNS: usize = 2;
const PAUSE: Ns = Ns(5_000);
const LANES: [Lane; 2] = [
    Lane {
        runlist: 0,
        level: Level::LC,
    },
    Lane {
        runlist: 0,
        level: Level::DEFAULT,
    },
];
const LEASE: Ns = Ns(300);

/// A process with one slot.
struct Client {
    slot: Slot,
    words: Observed,
    lane: Lane,
    place: Option<(Place, Number)>,
    alarm: Option<Ns>,
    due: Ns,
    /// Its trigger was stored by its turn, or at its deadline.
    by_turn: bool,
}

/// A GPU, and its processes.
struct Machine {
    now: Ns,
    line: Line,
    clients: Vec<Client>,
    /// Those that have a place, by number.
    owners: Vec<Option<usize>>,
}

/// A step of a process, or of time.
#[derive(Clone, Debug)]
enum Step {
    Begin {
        lead: u64,
        slo: Option<u64>,
        ordered: bool,
    },
    Ready,
    /// By stores, and with or without the trigger.
    StoreReady(bool),
    Done,
    StoreDone,
    Cancel,
    Poll,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let slo = prop_oneof![
        1 => Just(None),
        4 => (0u64..2_000).prop_map(Some),
        1 => any::<u64>().prop_map(Some),
    ];
    prop_oneof![
        4 => (0u64..200, slo, prop::bool::weighted(0.9))
            .prop_map(|(lead, slo, ordered)| Step::Begin { lead, slo, ordered }),
        3 => Just(Step::Ready),
        1 => any::<bool>().prop_map(Step::StoreReady),
        2 => Just(Step::Done),
        1 => Just(Step::StoreDone),
        1 => Just(Step::Cancel),
        1 => Just(Step::Poll),
        6 => (0u64..400).prop_map(Step::Pass),
    ]
}

impl Machine {
    fn new(clients: usize) -> Self {
        let client = |at: usize| Client {
            slot: Slot::new(),
            words: Observed::default(),
            lane: LANES[usize::from(at.is_multiple_of(4))],
            place: None,
            alarm: None,
            due: Ns::ZERO,
            by_turn: false,
        };
        Self {
            now: Ns(1_000),
            line: Line::EMPTY,
            clients: (0..clients).map(client).collect(),
            owners: vec![None; Line::ROOM],
        }
    }

    /// Carries out what a slot wants, as `slot.rs` does.
    fn act(&mut self, at: usize, actions: &Actions) {
        let client = &mut self.clients[at];
        if let Some(number) = actions.release {
            client.words.release = number.get();
        }
        if let Some(number) = actions.trigger {
            client.words.trigger = number.get();
        }
        client.alarm = actions.alarm;
    }

    /// Follows an event of a slot, as `order.rs` does.
    fn settle(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some((place, number)) = client.place else {
            return;
        };
        let standing = client.slot.standing();
        let lane = if client.slot.ordered() == Some(number) {
            self.note(place, standing)
        } else {
            client.place = None;
            self.owners[place.number()] = None;
            self.line.leave(place)
        };
        self.serve(lane.unwrap());
    }

    fn note(&mut self, place: Place, standing: Standing) -> Option<Lane> {
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => self.line.runs(place, until, self.now),
        }
    }

    fn serve(&mut self, lane: Lane) {
        for _ in 0..TURNS {
            let Some(next) = self.line.next(lane, self.now) else {
                break;
            };
            let at = self.owners[next.number()].unwrap();
            self.check_turn(at);
            let client = &mut self.clients[at];
            let number = client.place.unwrap().1;
            client.by_turn = true;
            let actions = client.slot.grant(number, self.now, &client.words);
            self.act(at, &actions);
            let client = &self.clients[at];
            let standing = match client.slot.ordered() == Some(number) {
                true => client.slot.standing(),
                false => Standing::Apart,
            };
            assert_ne!(standing, Standing::Waits, "a turn was not taken");
            self.note(next, standing);
        }
        let Some(first) = self.line.first(lane) else {
            return;
        };
        let until = self.line.busy_until(lane, self.now);
        let until = until.unwrap_or(self.now.saturating_add(PAUSE));
        let at = self.owners[first.number()].unwrap();
        let actions = self.clients[at].slot.wait_until(until);
        self.act(at, &actions);
        while let Some(runner) = self.line.unwatched(lane) {
            self.line.is_watched(runner);
            let at = self.owners[runner.number()].unwrap();
            let actions = self.clients[at].slot.watch(self.now);
            self.act(at, &actions);
        }
    }

    /// No deadline inversion: nobody of the lane with a place and an earlier deadline waits, and nobody
    /// has the GPU within its lease.
    fn check_turn(&self, at: usize) {
        let own = &self.clients[at];
        for (other, client) in self.clients.iter().enumerate() {
            if other == at || client.lane != own.lane || client.place.is_none() {
                continue;
            }
            match client.slot.standing() {
                Standing::Waits => {
                    assert!(
                        own.slot.deadline() <= client.slot.deadline(),
                        "an inversion"
                    );
                }
                Standing::Runs(until) => assert!(until <= self.now, "two have the GPU"),
                Standing::Apart => {}
            }
        }
    }

    fn happen(&mut self, at: usize, step: &Step) {
        let now = self.now;
        let client = &mut self.clients[at];
        let words = client.words;
        let number = client.slot.active();
        let known = number.unwrap_or(Number::ONE);
        let actions = match *step {
            Step::Begin { lead, slo, ordered } => {
                client.due = now.saturating_add(Ns(lead));
                client.by_turn = false;
                let plan = Plan {
                    trigger_at: client.due,
                    lease: LEASE,
                    slo: slo.map(Ns),
                    holder: true,
                    ordered,
                    ..Plan::default()
                };
                Some(client.slot.begin(now, &words, plan).1)
            }
            Step::Ready => client.slot.ready(known, now, &words).ok(),
            Step::StoreReady(triggers) => {
                client.words.release = number.map_or(words.release, Number::get);
                client.words.ready_ns = now;
                if triggers {
                    client.words.trigger = number.map_or(words.trigger, Number::get);
                }
                None
            }
            Step::Done => client.slot.done(known, now, &words).ok(),
            Step::StoreDone => {
                client.words.done = number.map_or(words.done, Number::get);
                client.words.done_ns = now;
                None
            }
            Step::Cancel => client.slot.cancel(known, now, &words).ok(),
            Step::Poll => Some(client.slot.poll(now, &words)),
            Step::Pass(_) => None,
        };
        if let Some(actions) = actions {
            self.act(at, &actions);
            self.settle(at);
        }
        if let Step::Begin { .. } = step {
            self.join(at);
        }
    }

    fn join(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(number) = client.slot.ordered() else {
            return;
        };
        let user = u32::from(at > 2);
        let (due, switch) = client.slot.due();
        let claim = Claim {
            deadline: client.slot.deadline(),
            due,
            switch,
            burst: Ns::ZERO,
        };
        let place = self.line.join(client.lane, user, claim);
        client.place = place.map(|place| (place, number));
        match place {
            Some(place) => {
                self.owners[place.number()] = Some(at);
                self.settle(at);
            }
            None => {
                let actions = client.slot.grant(number, self.now, &client.words);
                self.act(at, &actions);
            }
        }
    }

    /// Lets time pass, with each timer at its time.
    fn pass(&mut self, time: u64) {
        let end = self.now.saturating_add(Ns(time));
        for _ in 0..10_000 {
            let next = self.clients.iter().enumerate();
            let next = next.filter_map(|(at, client)| Some((client.alarm?, at)));
            let Some((when, at)) = next.filter(|(when, _)| *when <= end).min() else {
                self.now = end;
                return;
            };
            self.now = self.now.max(when);
            self.happen(at, &Step::Poll);
            self.check();
        }
        panic!("timers never rest");
    }

    /// In each state.
    fn check(&self) {
        for client in &self.clients {
            let waits = matches!(client.slot.state(), State::Waiting { .. });
            if waits {
                // For no longer than to its deadline, whatever others do.
                assert!(self.now <= client.slot.deadline().max(client.due));
                assert!(client.slot.deadline().0 <= client.due.0 + HORIZON.0);
                assert!(client.alarm.is_some_and(|at| at <= client.slot.deadline()));
                assert!(client.place.is_some(), "it waits without a place");
                // Nor longer than the lease of those that have the GPU.
                let busy = self.clients.iter().any(|other| {
                    other.lane == client.lane
                        && other.place.is_some()
                        && matches!(other.slot.standing(), Standing::Runs(until) if until >= self.now)
                });
                assert!(busy, "it waits for nobody");
            }
            if client.slot.state() == State::Idle {
                let over = client.slot.active().is_none();
                assert!(over && (client.place.is_none() || client.alarm.is_none()));
            }
        }
        let places = self.owners.iter().flatten().count();
        assert!(places <= Line::ROOM);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever processes do, the earliest deadline goes first, one at a time, and nobody waits for
    /// longer than a lease for one that is stuck, nor beyond its own deadline.
    #[test]
    fn deadlines_are_kept_in_order(
        clients in 1usize..8,
        steps in proptest::collection::vec((0usize..8, step()), 1..300),
    ) {
        let mut machine = Machine::new(clients);
        for (at, step) in steps {
            match step {
                Step::Pass(time) => machine.pass(time),
                step => machine.happen(at % clients, &step),
            }
            machine.check();
        }
        // Whatever is left ends by itself, and both words are there.
        machine.pass(2 * HORIZON.0);
        for client in &machine.clients {
            let stuck = matches!(
                client.slot.state(),
                State::Armed | State::Waiting { .. } | State::Taken { .. }
            );
            prop_assert!(!stuck, "{:?}", client.slot.state());
        }
    }

    /// A crowd that takes all places of its user keeps nobody else out of the order.
    #[test]
    fn a_crowd_has_its_part(crowd in 1usize..80, slo in 0u64..1_000) {
        let mut machine = Machine::new(crowd + 3);
        let begin = |slo| Step::Begin { lead: 0, slo: Some(slo), ordered: true };
        for at in 3..crowd + 3 {
            machine.happen(at, &begin(slo));
            machine.check();
        }
        machine.happen(1, &begin(5_000));
        prop_assert!(machine.clients[1].place.is_some());
        let deadline = machine.clients[1].slot.deadline();
        machine.pass(deadline.0);
        prop_assert!(machine.clients[1].slot.active().is_none());
    }
}
