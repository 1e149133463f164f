// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the order of deadlines with preemption: whatever tenants state and do, nobody stays
//! held.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::policy::{
    deadline::{
        line::{Claim, Lane, Line, Place},
        preemptive::{Step, HOLDS, MOST},
    },
    level::Level,
    units::Ns,
};

const LANE: Lane = Lane {
    runlist: 0,
    level: Level::LC,
};
const MS: u64 = 1_000_000;
const LEASE: u64 = 40 * MS;

fn claim(deadline: u64) -> Claim {
    Claim {
        deadline: Ns(deadline),
        due: Ns::ZERO,
        switch: Ns::ZERO,
        burst: Ns(MS),
    }
}

/// A request, as its process knows it.
#[derive(Clone, Copy, Debug)]
struct Request {
    tsg: u64,
    user: u32,
    deadline: u64,
    contends: bool,
    /// The end of its lease, once it has the GPU.
    until: Option<u64>,
    held: Option<u64>,
    holds: u8,
}

#[derive(Clone, Debug)]
enum Act {
    Begin {
        tsg: u64,
        within: u64,
        contends: bool,
    },
    End(usize),
    Pass(u64),
    Switch(bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0u64..6, 0u64..60 * MS, prop::bool::weighted(0.9))
            .prop_map(|(tsg, within, contends)| Act::Begin { tsg, within, contends }),
        4 => any::<prop::sample::Index>().prop_map(|at| Act::End(at.index(64))),
        4 => (0u64..20 * MS).prop_map(Act::Pass),
        1 => any::<bool>().prop_map(Act::Switch),
    ]
}

/// A line, and the processes behind it.
struct Machine {
    line: Line,
    now: u64,
    on: bool,
    requests: BTreeMap<usize, (Place, Request)>,
    /// Time for which the first user held others.
    took: u64,
}

impl Machine {
    fn new() -> Self {
        Self {
            line: Line::EMPTY,
            now: MS,
            on: true,
            requests: BTreeMap::new(),
            took: 0,
        }
    }

    fn of(&mut self, place: Place) -> &mut Request {
        &mut self.requests.get_mut(&place.number()).unwrap().1
    }

    fn serve(&mut self) {
        let now = self.now;
        for _ in 0..Line::ROOM + 2 * MOST {
            match self.line.step(LANE, Ns(now), self.on) {
                Step::Rest => return self.check(),
                Step::Go(place) => {
                    let until = now + LEASE;
                    self.line.runs(place, Ns(until), Ns(now));
                    self.of(place).until = Some(until);
                }
                Step::Held(place) => {
                    assert!(self.on, "held with another order");
                    let request = self.of(place);
                    assert!(request.contends && request.held.is_none());
                    request.held = Some(now);
                    request.holds += 1;
                    assert!(request.holds <= HOLDS, "held too often");
                }
                Step::Resumed(place) => {
                    let request = self.of(place);
                    assert!(request.held.take().is_some(), "it was not held");
                }
            }
        }
        panic!("it never rests");
    }

    fn check(&self) {
        let all = || self.requests.values().map(|(_, request)| request);
        let runs = |r: &&Request| r.held.is_none() && r.until.is_some_and(|until| until > self.now);
        let held: Vec<_> = all().filter(|r| r.held.is_some()).collect();
        assert!(held.len() <= MOST);
        for request in &held {
            assert!(self.on, "held with another order");
            let end = request.deadline.min(request.until.unwrap());
            assert!(self.now < end, "held beyond its end");
            let mut first = all().filter(runs);
            assert!(
                first.any(|other| other.deadline <= request.deadline),
                "held for nobody"
            );
        }
        let wishes = self.line.wishes(Ns(self.now));
        for wish in wishes.iter().flatten() {
            assert!(held.iter().any(|request| request.tsg == wish.tsg));
            let mut running = all().filter(runs);
            assert!(!running.any(|r| r.contends && r.tsg == wish.tsg));
        }
        // Nobody waits while the GPU is free.
        let waits = all().any(|r| r.until.is_none());
        assert!(!waits || all().any(|r| runs(&r)), "the GPU is free");
    }

    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        loop {
            let leases = self.requests.values().filter_map(|(_, r)| r.until);
            let lease = leases.filter(|&until| until > self.now).min();
            let (_, due) = self.line.released(Ns(self.now));
            let next = [lease, due.map(|due| due.0)].into_iter().flatten().min();
            let at = next.filter(|&at| at <= end).unwrap_or(end);
            self.now = self.now.max(at);
            self.serve();
            if self.now >= end {
                return;
            }
        }
    }

    fn begin(&mut self, tsg: u64, user: u32, within: u64, contends: bool) -> Option<Place> {
        let deadline = self.now + within;
        let place = self.line.join(LANE, user, claim(deadline))?;
        if contends {
            self.line.contends(place, tsg);
        }
        self.line.waits(place);
        let request = Request {
            tsg,
            user,
            deadline,
            contends,
            until: None,
            held: None,
            holds: 0,
        };
        self.requests.insert(place.number(), (place, request));
        self.serve();
        Some(place)
    }

    fn end(&mut self, at: usize) {
        let known = self.requests.range(at..).next();
        let known = known.or(self.requests.iter().next());
        if let Some(number) = known.map(|(&number, _)| number) {
            let (place, _) = self.requests.remove(&number).unwrap();
            self.line.over(place, None, Ns(self.now));
            self.serve();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Each that is held is so for one with an earlier deadline that has the GPU, to its own deadline and the
    /// end of its lease at most, in this order alone, and so often at most; all is given back at the end.
    #[test]
    fn nobody_stays_held(acts in proptest::collection::vec(act(), 1..200)) {
        let mut machine = Machine::new();
        for act in acts {
            match act {
                Act::Begin { tsg, within, contends } => {
                    machine.begin(tsg, tsg as u32 / 2, within, contends);
                }
                Act::End(at) => machine.end(at),
                Act::Pass(time) => machine.pass(time),
                Act::Switch(on) => {
                    machine.on = on;
                    machine.serve();
                }
            }
        }
        while !machine.requests.is_empty() {
            machine.end(0);
            let held = machine.requests.values().filter(|(_, r)| r.held.is_some()).count();
            prop_assert!(held < machine.requests.len().max(1));
        }
        prop_assert_eq!(machine.line.held_lane(), None);
        prop_assert!(machine.line.wishes(Ns(machine.now)).iter().all(Option::is_none));
    }

    /// A tenant whose deadlines are always earlier holds another one's requests for half of the time, and the
    /// first tenth of a second.
    #[test]
    fn a_hostile_tenant_holds_others_for_half_of_the_time(
        lengths in proptest::collection::vec(1u64..10 * MS, 200..400),
    ) {
        let mut machine = Machine::new();
        let start = machine.now;
        for length in lengths {
            let victim = machine.begin(1, 1, 1_000 * MS, true);
            let Some(victim) = victim else { break };
            let own = machine.begin(2, 2, MS, true);
            machine.pass(length);
            if let Some((_, request)) = machine.requests.get(&victim.number()) {
                machine.took += request.held.map_or(0, |since| machine.now - since);
            }
            if let Some(own) = own {
                prop_assert!(machine.requests[&own.number()].1.user == 2);
                machine.end(own.number());
            }
            machine.end(victim.number());
            let passed = machine.now - start;
            prop_assert!(machine.took <= 110 * MS + passed / 2);
        }
        prop_assert!(machine.took > 0);
    }

    /// Without a part in preemption the order is that without.
    #[test]
    fn without_a_part_it_is_the_order_without(
        steps in proptest::collection::vec((0u64..100, 0u8..4, any::<bool>()), 1..100),
    ) {
        let mut line = Line::EMPTY;
        let mut places = Vec::new();
        for (now, (deadline, what, on)) in steps.into_iter().enumerate() {
            let now = Ns(now as u64);
            match what {
                0 | 1 => {
                    if let Some(place) = line.join(LANE, (deadline % 3) as u32, claim(deadline)) {
                        line.waits(place);
                        places.push(place);
                    }
                }
                2 if !places.is_empty() => {
                    line.leave(places.swap_remove(deadline as usize % places.len()));
                }
                _ => {}
            }
            let next = line.next(LANE, now);
            match line.step(LANE, now, on) {
                Step::Go(place) => {
                    prop_assert_eq!(Some(place), next);
                    line.runs(place, Ns(now.0 + 20), now);
                }
                other => prop_assert_eq!((other, next), (Step::Rest, None)),
            }
        }
    }
}
