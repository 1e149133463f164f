// SPDX-License-Identifier: MIT OR Apache-2.0
//! An order of deadlines, the slots of its requests and the worker of a GPU, with the events of the kernel and
//! no others.

use std::collections::{BTreeMap, BTreeSet};

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

pub(super) const LANE: Lane = Lane {
    runlist: 0,
    level: Level::LC,
};
const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
const LEASE: u64 = 40 * MS;
/// Requests that are watched in one hold of the order's lock.
const TURNS: usize = 4;
/// The rest follows so long after.
const PAUSE: u64 = 5 * US;

pub(super) fn claim(deadline: u64) -> Claim {
    Claim {
        deadline: Ns(deadline),
        due: Ns::ZERO,
        switch: Ns::ZERO,
        burst: Ns(MS),
    }
}

/// So much credit has a user that held nobody for long, in ns.
pub(super) const FULL: i64 = 100 * MS as i64;
/// No debt is greater.
const LEAST: i64 = -10_000 * MS as i64;

/// A request, its slot, and the process behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) place: Place,
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

    pub(super) fn waits(&self) -> bool {
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

/// A line, the slots of its requests and the worker of the GPU, with the events that the kernel has: calls,
/// the timers of slots, and that of the worker.
pub(super) struct Machine {
    pub(super) line: Line,
    pub(super) now: u64,
    pub(super) on: bool,
    pub(super) requests: BTreeMap<usize, Request>,
    begun: usize,
    /// When the worker is due, and the TSGs that it knows as held.
    pub(super) worker: Option<u64>,
    told: BTreeSet<u64>,
    /// Since when some wait, or are held.
    wanted: Option<u64>,
    /// The credit of each user, in halves of a nanosecond, by the formula of the documentation.
    credits: BTreeMap<u32, i64>,
    /// Time for which the TSG of the first user was held.
    pub(super) took: u64,
}

impl Machine {
    pub(super) fn new() -> Self {
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

    pub(super) fn held(&self) -> impl Iterator<Item = &Request> {
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
    pub(super) fn catch_up(&mut self) {
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

    pub(super) fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            let alarms = self.requests.values().filter_map(|r| r.alarm);
            let next = alarms.map(|alarm| alarm.0).chain(self.worker).min();
            self.pass_to(next.unwrap_or(end).clamp(self.now, end));
            self.catch_up();
        }
    }

    pub(super) fn begin(
        &mut self,
        tsg: u64,
        user: u32,
        within: u64,
        contends: bool,
    ) -> Option<Place> {
        self.begin_as(tsg, user, within, contends, false)
    }

    /// `itself`: it goes without a turn.
    pub(super) fn begin_as(
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
    pub(super) fn store(&mut self, place: Place) {
        self.of(place).words.trigger = Number::ONE.get();
        self.poll(place);
    }

    /// A process stores that it is done, and nobody sees that.
    pub(super) fn store_done(&mut self, at: usize) {
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
    pub(super) fn end(&mut self, at: usize) {
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
