// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the order of deadlines with preemption: whatever tenants state and do, nobody stays
//! held.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::policy::{
    deadline::{
        line::{Claim, Lane, Line, Place},
        preemptive::{Step, HOLDS, MOST},
    },
    level::Level,
    request::{
        order::Standing,
        words::{Number, Observed},
        Actions, Plan, Slot,
    },
    units::Ns,
};

const LANE: Lane = Lane {
    runlist: 0,
    level: Level::LC,
};
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const LEASE: u64 = 40 * MS;
/// Requests that are watched in one hold of the order's lock.
const TURNS: usize = 4;
/// The rest follows so long after.
const PAUSE: u64 = 5 * US;

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

/// A request, its slot, and the process behind it.
#[derive(Clone, Copy, Debug)]
struct Request {
    place: Place,
    tsg: u64,
    user: u32,
    deadline: u64,
    /// Requests that began before it.
    number: usize,
    contends: bool,
    slot: Slot,
    words: Observed,
    /// When the timer of its slot fires.
    alarm: Option<Ns>,
    /// When its process has stored that it is done.
    stored: Option<u64>,
    is_held: bool,
    holds: u8,
    /// When it went on last.
    resumed: u64,
}

impl Request {
    /// The end of its lease, if it was triggered.
    fn until(&self) -> Option<u64> {
        match self.slot.standing() {
            Standing::Runs(until) => Some(until.0),
            _ => None,
        }
    }

    fn waits(&self) -> bool {
        self.slot.standing() == Standing::Waits
    }

    /// It has the GPU, as far as zernel knows.
    fn runs(&self, now: u64) -> bool {
        !self.is_held && self.until().is_some_and(|until| until > now)
    }

    /// The longest time from a store of its process to a look at it, where that begins then.
    fn look(&self, from: u64) -> u64 {
        let since = self.until().unwrap_or_default() - LEASE;
        (20 * US).max(from.saturating_sub(since) / 8) + 1
    }
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
    /// A process stores that one which has the GPU, or is held, is done.
    StoreDone(usize),
    End(usize),
    Pass(u64),
    Switch(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        5 => (0u64..6, 0u64..60 * MS, prop::bool::weighted(0.9), prop::bool::weighted(0.3))
            .prop_map(|(tsg, within, contends, itself)| Act::Begin { tsg, within, contends, itself }),
        1 => at().prop_map(|at| Act::Store(at.index(64))),
        3 => at().prop_map(|at| Act::StoreDone(at.index(64))),
        2 => at().prop_map(|at| Act::End(at.index(64))),
        4 => (0u64..20 * MS).prop_map(Act::Pass),
        1 => any::<bool>().prop_map(Act::Switch),
    ]
}

/// A line, the slots of its requests and the worker of the GPU, with the events that the kernel has: calls,
/// the timers of slots, and that of the worker.
struct Machine {
    line: Line,
    now: u64,
    on: bool,
    requests: BTreeMap<usize, Request>,
    begun: usize,
    /// When the worker is due, and the TSGs that it knows as held.
    worker: Option<u64>,
    told: BTreeSet<u64>,
    /// Since when some wait, or are held.
    wanted: Option<u64>,
    /// The credit of each user, in halves of a nanosecond, by the formula of the documentation.
    credits: BTreeMap<u32, i64>,
    /// Time for which the TSG of the first user was held.
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
            worker: None,
            told: BTreeSet::new(),
            wanted: None,
            credits: BTreeMap::new(),
            took: 0,
        }
    }

    fn of(&mut self, place: Place) -> &mut Request {
        self.requests.get_mut(&place.number()).unwrap()
    }

    fn held(&self) -> impl Iterator<Item = &Request> {
        self.requests.values().filter(|request| request.is_held)
    }

    /// Those that have the GPU, as far as zernel knows.
    fn runners(&self) -> impl Iterator<Item = &Request> {
        let all = self.requests.values();
        all.filter(|request| request.runs(self.now))
    }

    /// The TSGs that are held, and their users.
    fn tsgs(&self) -> BTreeSet<(u64, u32)> {
        self.held().map(|held| (held.tsg, held.user)).collect()
    }

    /// The user of the request with the earliest deadline that has the GPU.
    fn payer(&self) -> Option<u32> {
        let first = self.runners().min_by_key(|r| (r.deadline, r.number));
        first.map(|request| request.user)
    }

    /// Time goes on, and nothing happens meanwhile.
    fn pass_to(&mut self, at: u64) {
        let passed = (at - self.now) as i64;
        if passed > 0 {
            self.check_idle(at);
        }
        let payer = self.payer();
        for (_, user) in self.tsgs() {
            let by = payer.expect("held for nobody");
            if user != by {
                *self.credits.entry(by).or_insert(2 * FULL) -= 2 * passed;
            }
            if user == 1 {
                self.took += passed as u64;
            }
        }
        for left in self.credits.values_mut() {
            *left = (*left + passed).clamp(2 * LEAST, 2 * FULL);
        }
        self.now = at;
    }

    /// Nobody waits, or is held, for long while all that have the GPU are done.
    fn check_idle(&self, at: u64) {
        let Some(wanted) = self.wanted else { return };
        let stored: Option<Vec<_>> = self
            .runners()
            .map(|r| Some(r.stored?.max(r.resumed)))
            .collect();
        let Some(stored) = stored else { return };
        let from = stored.into_iter().max().unwrap_or_default().max(wanted);
        let parts = self.runners().count().div_ceil(TURNS) as u64;
        let look = self.runners().map(|r| r.look(from)).max().unwrap_or(0) + parts * PAUSE;
        assert!(at <= from + look, "idle for {} ns", at - from);
    }

    /// Carries out what a slot wants.
    fn act(&mut self, place: Place, actions: &Actions) {
        let request = self.of(place);
        if let Some(number) = actions.release {
            request.words.release = number.get();
        }
        if let Some(number) = actions.trigger {
            request.words.trigger = number.get();
        }
        request.alarm = actions.alarm;
    }

    /// The timer of a slot fires, or somebody looks.
    fn poll(&mut self, place: Place) {
        let now = Ns(self.now);
        let request = self.of(place);
        let seen = request.words;
        let actions = request.slot.poll(now, &seen);
        self.act(place, &actions);
        self.settle(place);
    }

    /// The line follows an event of a slot.
    fn settle(&mut self, place: Place) {
        let request = *self.of(place);
        if request.slot.ordered().is_none() {
            self.requests.remove(&place.number());
            let ended = request.slot.ended(Number::ONE);
            let burst = ended.and_then(|ended| ended.burst);
            assert_eq!(self.line.was_held(place), request.holds > 0);
            if self.line.holds(place) {
                self.worker = Some(self.now);
            }
            self.line.over(place, burst, Ns(self.now));
        } else {
            self.note(place);
        }
        self.serve();
    }

    fn note(&mut self, place: Place) {
        let standing = self.of(place).slot.standing();
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => self.line.runs(place, until, Ns(self.now)),
        };
    }

    /// As `Places::serve` in `rust/zernel/request/order.rs`.
    fn serve(&mut self) {
        let now = Ns(self.now);
        let mut turns = 0;
        for step in 0.. {
            assert!(step < 4 * MOST + TURNS, "it never rests");
            let next = match self.line.step(LANE, now, self.on) {
                Step::Go(next) if turns < TURNS => next,
                step @ (Step::Held(place) | Step::Resumed(place)) => {
                    self.is_moved(step == Step::Held(place), place);
                    self.worker = Some(self.now);
                    continue;
                }
                Step::Charged => {
                    self.worker = Some(self.now);
                    continue;
                }
                Step::Go(_) | Step::Rest => break,
            };
            turns += 1;
            let request = self.of(next);
            let seen = request.words;
            let actions = request.slot.grant(Number::ONE, now, &seen);
            self.act(next, &actions);
            self.note(next);
        }
        let first = self.line.first(LANE);
        if first.is_none() && !self.line.is_held(LANE) {
            return;
        }
        let soon = Ns(self.now + PAUSE);
        let mut until = self.line.busy_until(LANE, now).unwrap_or(soon);
        for watched in 0..=TURNS {
            let Some(runner) = self.line.unwatched(LANE) else {
                break;
            };
            if watched == TURNS {
                until = until.min(soon);
                if first.is_none() {
                    self.worker = Some(self.now);
                }
                break;
            }
            self.line.is_watched(runner);
            let actions = self.of(runner).slot.watch(now);
            self.act(runner, &actions);
        }
        if let Some(first) = first {
            let actions = self.of(first).slot.wait_until(until);
            self.act(first, &actions);
        }
    }

    /// All requests of a TSG that have the GPU are held, or some that are go on.
    fn is_moved(&mut self, is_held: bool, place: Place) {
        assert!(self.on || !is_held, "held with another order");
        let (now, tsg) = (self.now, self.of(place).tsg);
        let mut moved = 0;
        for request in self.requests.values_mut() {
            let before = *request;
            request.is_held = self.line.holds(request.place);
            let is_its = request.tsg == tsg && request.contends;
            assert!(!is_held || !is_its || !request.runs(now), "held in part");
            if request.is_held == before.is_held {
                continue;
            }
            assert_eq!(request.is_held, is_held);
            moved += 1;
            if is_held {
                assert!(is_its && before.runs(now));
                request.holds += 1;
                assert!(request.holds <= HOLDS, "held too often");
            } else {
                request.resumed = now;
            }
        }
        assert!(moved > 0, "nothing has changed");
    }

    /// As `Order::wishes`.
    fn work(&mut self) {
        let now = Ns(self.now);
        for _ in 0..Line::ROOM {
            let (due, _) = self.line.released(now);
            let off = self.line.held_lane().filter(|_| !self.on);
            if due.or(off).or_else(|| self.line.overlooked()).is_none() {
                break;
            }
            self.serve();
        }
        assert_eq!(self.line.overlooked(), None);
        self.worker = self.line.released(now).1.map(|due| due.0);
        self.told = self.wished();
    }

    fn wished(&self) -> BTreeSet<u64> {
        let wishes = self.line.wishes(Ns(self.now));
        wishes.iter().flatten().map(|wish| wish.tsg).collect()
    }

    /// All that is due now happens.
    fn catch_up(&mut self) {
        for _ in 0..8 * Line::ROOM {
            if self.worker.is_some_and(|at| at <= self.now) {
                self.work();
                continue;
            }
            let now = Ns(self.now);
            let mut requests = self.requests.values();
            match requests.find(|r| r.alarm.is_some_and(|alarm| alarm <= now)) {
                Some(request) => self.poll(request.place),
                None => return self.check(),
            }
        }
        panic!("time stands still");
    }

    fn check(&mut self) {
        let wanted = self.requests.values().any(|r| r.is_held || r.waits());
        self.wanted = wanted.then_some(self.wanted.unwrap_or(self.now));
        for user in 0..3 {
            let expected = self.credits.get(&user).copied().unwrap_or(2 * FULL);
            let left = self.line.credit(user, Ns(self.now));
            // All of it, but for the part that keeps the place.
            assert!(
                (expected / 2 - left).abs() <= 1,
                "user {user}: {left}, and not {expected} / 2"
            );
        }
        if let Some(payer) = self.payer() {
            let is_held = self.held().any(|held| held.user != payer);
            let left = self.credits.get(&payer).copied().unwrap_or(2 * FULL);
            assert!(!is_held || left >= 0, "held without credit: {left}");
        }
        assert!(self.tsgs().len() <= MOST);
        for request in self.held() {
            assert!(self.on, "held with another order");
            let end = request.deadline.min(request.until().unwrap());
            assert!(self.now < end, "held beyond its end");
            let mut runners = self.runners();
            assert!(
                runners.any(|other| other.deadline <= request.deadline),
                "held for nobody"
            );
            let mut runners = self.runners();
            assert!(
                !runners.any(|other| other.contends && other.tsg == request.tsg),
                "held in part"
            );
        }
        // The worker has all that are held off the GPU, and no others.
        assert_eq!(self.told, self.wished());
        assert_eq!(self.told, self.tsgs().iter().map(|(tsg, _)| *tsg).collect());
        // Nobody waits while the GPU is free.
        let waits = self.requests.values().any(Request::waits);
        assert!(!waits || self.runners().next().is_some(), "the GPU is free");
    }

    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            let alarms = self.requests.values().filter_map(|r| r.alarm);
            let next = alarms.map(|alarm| alarm.0).chain(self.worker).min();
            self.pass_to(next.unwrap_or(end).clamp(self.now, end));
            self.catch_up();
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
        let now = Ns(self.now);
        let plan = Plan {
            trigger_at: now,
            lease: Ns(LEASE),
            slo: Some(Ns(within)),
            holder: true,
            ordered: true,
            ..Plan::default()
        };
        let mut request = Request {
            place,
            tsg,
            user,
            deadline,
            number: self.begun,
            contends,
            slot: Slot::new(),
            words: Observed::default(),
            alarm: None,
            stored: None,
            is_held: false,
            holds: 0,
            resumed: 0,
        };
        request.slot.begin(now, &Observed::default(), plan);
        let actions = request.slot.ready(Number::ONE, now, &Observed::default());
        self.begun += 1;
        self.requests.insert(place.number(), request);
        self.act(place, &actions.unwrap());
        if itself {
            self.store(place);
        } else {
            self.settle(place);
        }
        self.catch_up();
        Some(place)
    }

    /// A process stores its trigger, and zernel sees that.
    fn store(&mut self, place: Place) {
        self.of(place).words.trigger = Number::ONE.get();
        self.poll(place);
    }

    /// A process stores that it is done, and nobody sees that.
    fn store_done(&mut self, at: usize) {
        let now = self.now;
        let known = self.known(at).filter(|r| r.until().is_some());
        if let Some(request) = known.and_then(|r| self.requests.get_mut(&r.place.number())) {
            request.words.done = Number::ONE.get();
            request.words.done_ns = Ns(now);
            request.stored = request.stored.or(Some(now));
        }
    }

    fn known(&self, at: usize) -> Option<Request> {
        let known = self.requests.range(at..).next();
        known.or(self.requests.iter().next()).map(|(_, r)| *r)
    }

    /// A process calls that it is done.
    fn end(&mut self, at: usize) {
        let Some(request) = self.known(at) else {
            return;
        };
        let (place, now) = (request.place, Ns(self.now));
        let request = self.of(place);
        let seen = request.words;
        if let Ok(actions) = request.slot.done(Number::ONE, now, &seen) {
            self.act(place, &actions);
        }
        self.settle(place);
        self.catch_up();
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
                    let waiting = machine.requests.values().filter(|r| r.waits());
                    let place = waiting.map(|r| r.place).nth(at % 8);
                    if let Some(place) = place {
                        machine.store(place);
                        machine.catch_up();
                    }
                }
                Act::StoreDone(at) => machine.store_done(at),
                Act::End(at) => machine.end(at),
                Act::Pass(time) => machine.pass(time),
                Act::Switch(on) => {
                    machine.on = on;
                    machine.worker = Some(machine.now);
                    machine.catch_up();
                }
            }
        }
        while !machine.requests.is_empty() {
            machine.end(0);
            prop_assert!(machine.held().count() < machine.requests.len().max(1));
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
