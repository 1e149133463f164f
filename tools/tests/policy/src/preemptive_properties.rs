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

/// So much credit has a user that held nobody for long, in ns.
const FULL: i64 = 100 * MS as i64;
/// No debt is greater.
const LEAST: i64 = -10_000 * MS as i64;

/// A request, as its process knows it.
#[derive(Clone, Copy, Debug)]
struct Request {
    tsg: u64,
    user: u32,
    deadline: u64,
    /// Requests that began before it.
    number: usize,
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
        itself: bool,
    },
    /// A process stores the trigger of one that waits.
    Store(usize),
    End(usize),
    Pass(u64),
    Switch(bool),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0u64..6, 0u64..60 * MS, prop::bool::weighted(0.9), prop::bool::weighted(0.3))
            .prop_map(|(tsg, within, contends, itself)| Act::Begin { tsg, within, contends, itself }),
        1 => any::<prop::sample::Index>().prop_map(|at| Act::Store(at.index(64))),
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
    begun: usize,
    /// The credit of each user, in halves of a nanosecond, by the formula of the documentation.
    credits: BTreeMap<u32, i64>,
    /// Time for which requests of the first user were held.
    took: u64,
}

impl Machine {
    fn new() -> Self {
        Self {
            line: Line::EMPTY,
            now: MS,
            on: true,
            requests: BTreeMap::new(),
            begun: 0,
            credits: BTreeMap::new(),
            took: 0,
        }
    }

    fn of(&mut self, place: Place) -> &mut Request {
        &mut self.requests.get_mut(&place.number()).unwrap().1
    }

    /// The user of the request with the earliest deadline that has the GPU.
    fn payer(&self) -> Option<u32> {
        let all = self.requests.values().map(|(_, request)| request);
        let running = all.filter(|r| r.held.is_none() && r.until.is_some_and(|end| end > self.now));
        let first = running.min_by_key(|r| (r.deadline, r.number));
        first.map(|request| request.user)
    }

    /// Time goes on, and nothing happens meanwhile.
    fn pass_to(&mut self, at: u64) {
        let passed = (at - self.now) as i64;
        let payer = self.payer();
        for (_, request) in self.requests.values().filter(|(_, r)| r.held.is_some()) {
            let by = payer.expect("held for nobody");
            if request.user != by {
                *self.credits.entry(by).or_insert(2 * FULL) -= 2 * passed;
            }
            if request.user == 1 {
                self.took += passed as u64;
            }
        }
        for left in self.credits.values_mut() {
            *left = (*left + passed).clamp(2 * LEAST, 2 * FULL);
        }
        self.now = at;
    }

    /// A request goes without a turn.
    fn goes_itself(&mut self, place: Place) {
        let until = self.now + LEASE;
        self.line.runs(place, Ns(until), Ns(self.now));
        self.of(place).until = Some(until);
    }

    fn serve(&mut self) {
        let now = self.now;
        for _ in 0..2 * Line::ROOM {
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
                Step::Charged => {}
            }
        }
        panic!("it never rests");
    }

    fn check(&mut self) {
        for user in 0..3 {
            let expected = self.credits.get(&user).copied().unwrap_or(2 * FULL);
            let left = self.line.credit(user, Ns(self.now));
            // All of it, but for the part that keeps the place.
            assert!(
                (expected / 2 - left).abs() <= 1,
                "user {user}: {left}, and not {expected} / 2"
            );
        }
        let all = || self.requests.values().map(|(_, request)| request);
        if let Some(payer) = self.payer() {
            let is_held = all().any(|r| r.held.is_some() && r.user != payer);
            let left = self.credits.get(&payer).copied().unwrap_or(2 * FULL);
            assert!(!is_held || left >= 0, "held without credit: {left}");
        }
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
            let all = self.requests.values().map(|(_, request)| request);
            // The end of a lease, or the deadline of one that waits.
            let ends = all.map(|r| r.until.unwrap_or(r.deadline));
            let own = ends.filter(|&at| at > self.now).min();
            let (_, due) = self.line.released(Ns(self.now));
            let next = [own, due.map(|due| due.0)].into_iter().flatten().min();
            let at = next.filter(|&at| at <= end).unwrap_or(end);
            assert!(at > self.now || at == end, "time stands still");
            self.pass_to(self.now.max(at));
            let all = self.requests.values();
            let late = all.filter(|(_, r)| r.until.is_none() && r.deadline <= self.now);
            let late: Vec<_> = late.map(|(place, _)| *place).collect();
            for place in late {
                self.goes_itself(place);
            }
            self.serve();
            if self.now >= end {
                return;
            }
        }
    }

    fn begin(&mut self, tsg: u64, user: u32, within: u64, contends: bool) -> Option<Place> {
        self.begin_as(tsg, user, within, contends, false)
    }

    /// `itself`: it goes without a turn.
    fn begin_as(
        &mut self,
        tsg: u64,
        user: u32,
        within: u64,
        contends: bool,
        itself: bool,
    ) -> Option<Place> {
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
            number: self.begun,
            contends,
            until: None,
            held: None,
            holds: 0,
        };
        self.begun += 1;
        self.requests.insert(place.number(), (place, request));
        if itself {
            self.goes_itself(place);
        }
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
                Act::Begin { tsg, within, contends, itself } => {
                    machine.begin_as(tsg, tsg as u32 / 2, within, contends, itself);
                }
                Act::Store(at) => {
                    let waiting = machine.requests.values().filter(|(_, r)| r.until.is_none());
                    let place = waiting.map(|(place, _)| *place).nth(at % 8);
                    if let Some(place) = place {
                        machine.goes_itself(place);
                        machine.serve();
                    }
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
            if let Some(own) = own {
                prop_assert!(machine.requests[&own.number()].1.user == 2);
                machine.end(own.number());
            }
            machine.end(victim.number());
            let passed = machine.now - start;
            prop_assert!(machine.took <= 100 * MS + passed / 2);
        }
        prop_assert!(machine.took > 0);
    }

    /// One that follows an honest taker with requests that go by themselves does so, too; and pays for all of
    /// that, and the other one for nothing.
    #[test]
    fn requests_that_go_by_themselves_hold_others_for_half_of_the_time(
        first in 1u64..50 * MS,
        chain in proptest::collection::vec((1u64..20 * MS, 0u64..3 * MS), 50..100),
    ) {
        let mut machine = Machine::new();
        let start = machine.now;
        machine.begin(1, 1, 9_000 * MS, true).unwrap();
        let honest = machine.begin(2, 2, 2_000 * MS, true).unwrap();
        machine.pass(first);
        let mut last = honest;
        for (length, within) in chain {
            let next = machine.begin_as(3, 0, within, true, true).unwrap();
            machine.end(last.number());
            machine.pass(length);
            last = next;
            let passed = machine.now - start;
            prop_assert!(machine.took <= first + 100 * MS + passed / 2);
        }
        let now = Ns(machine.now);
        prop_assert!(machine.line.credit(2, now) >= FULL - first as i64);
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
