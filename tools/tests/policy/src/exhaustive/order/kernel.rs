// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of slots and of their line, as `rust/zernel/request/` has them: `slot.rs`, `slot/turn.rs`
//! and `order.rs`.

use super::{
    at,
    client::{Join, Noted, Turn},
    Fault, Scene, Word, World, LEASE,
};
use crate::policy::{
    deadline::{
        line::{Claim, Lane, Line, Place},
        Order,
    },
    predict::{Choice, Kind},
    request::{record::Cause, succession::Succession, words::Number, Actions, Plan},
    units::Ns,
};

/// The user of all clients; one whose places are not used up.
const USER: u32 = 1000;

impl Scene {
    /// Carries out what a slot wants.
    fn act(&self, world: &mut World, client: usize, actions: &Actions) {
        let one = &mut world.clients[client];
        if let Some(number) = actions.release {
            one.words.release = number.get();
        }
        if let Some(number) = actions.trigger {
            one.words.trigger = number.get();
        }
        one.alarm = actions.alarm;
        if self.fault == Some(Fault::NoDeadline) {
            let deadline = one.requests.deadline();
            one.alarm = one.alarm.filter(|&alarm| alarm != deadline);
        }
        if actions.over.is_some() {
            one.over += u8::from(one.requests.catch_up().is_some()) + 1;
        }
    }

    /// Carries it out, and leaves it to a later step to have the line follow.
    fn happened(&self, world: &mut World, client: usize, actions: &Actions) {
        self.act(world, client, actions);
        let one = &mut world.clients[client];
        one.settles |= one.turn.is_some();
    }

    pub(super) fn begin(&self, world: &mut World, client: usize, deadline: u8, lead: u8) {
        let now = at(world.now);
        let rule = self.rules[world.rule];
        let one = &mut world.clients[client];
        one.over += u8::from(one.requests.catch_up().is_some());
        let choice = Choice {
            kind: Kind::Fixed,
            ..Choice::default()
        };
        let known = (lead > 0).then_some(at(lead));
        let plan = Plan {
            trigger_at: now.saturating_add(rule.lead(choice, known, Ns::ZERO)),
            lease: at(LEASE),
            slo: Some(at(deadline)),
            holder: true,
            ordered: rule.order == Order::Edf,
            ..Plan::default()
        };
        one.due = plan.trigger_at;
        let seen = one.words;
        let number = one.requests.next(&seen);
        let mut actions = Actions::default();
        one.requests.begin(number, now, &seen, &plan, &mut actions);
        one.last = Some(number);
        one.begun += 1;
        (one.blocker, one.blockers) = (None, 0);
        self.act(world, client, &actions);
        let one = &mut world.clients[client];
        if plan.ordered || one.turn.is_some() {
            one.settles |= one.turn.is_some();
            one.joins = plan.ordered.then_some(Join {
                number,
                is_settled: !one.settles,
            });
        }
    }

    pub(super) fn tell(&self, world: &mut World, client: usize, word: Word) {
        let now = at(world.now);
        let one = &mut world.clients[client];
        let Some(number) = one.last else {
            return;
        };
        let call = match word {
            Word::Ready => Succession::ready,
            Word::Done => Succession::done,
            Word::Cancel => Succession::cancel,
            Word::StoreReady => {
                one.words.ready_ns = now;
                one.words.release = number.get();
                one.words.trigger = number.get();
                return;
            }
            Word::StoreDone => {
                one.words.done_ns = now;
                one.words.done = number.get();
                return;
            }
        };
        let seen = one.words;
        if let Ok(actions) = call(&mut one.requests, number, now, &seen) {
            self.happened(world, client, &actions);
        }
    }

    pub(super) fn timer(&self, world: &mut World, client: usize) {
        let now = at(world.now);
        let one = &mut world.clients[client];
        let seen = one.words;
        let actions = one.requests.poll(now, &seen);
        self.happened(world, client, &actions);
        if actions.trigger.is_none() {
            let one = &mut world.clients[client];
            one.over += u8::from(one.requests.catch_up().is_some());
        }
    }

    pub(super) fn end(&self, world: &mut World, client: usize, cause: Cause) {
        let now = at(world.now);
        let one = &mut world.clients[client];
        let seen = one.words;
        let actions = one.requests.end(now, &seen, cause);
        self.happened(world, client, &actions);
        let one = &mut world.clients[client];
        one.over += u8::from(one.requests.catch_up().is_some());
        one.is_open = false;
        one.alarm = None;
    }

    pub(super) fn tune(&self, world: &mut World, rule: usize) {
        world.rule = rule;
        world.tuned += 1;
        if self.fault == Some(Fault::DropsLine) {
            for one in &mut world.clients {
                if let Some(turn) = one.turn.take() {
                    world.line.0.leave(turn.place);
                }
                one.noted = Noted::Apart;
            }
        }
    }

    /// The line follows an event of a slot.
    pub(super) fn settle(&self, world: &mut World, client: usize) {
        let one = &mut world.clients[client];
        one.settles = false;
        if let Some(join) = &mut one.joins {
            join.is_settled = true;
        }
        if self.fault == Some(Fault::Forgets) {
            return;
        }
        self.follow(world, client);
    }

    fn follow(&self, world: &mut World, client: usize) {
        let one = &mut world.clients[client];
        let Some(Turn { place, number, .. }) = one.turn else {
            return;
        };
        if one.requests.ordered() != Some(number) {
            if self.fault == Some(Fault::KeepsPlace) {
                return;
            }
            one.turn = None;
            one.noted = Noted::Apart;
            if let Some(lane) = world.line.0.leave(place) {
                self.serve(world, lane);
            }
        } else if let Some(lane) = self.note(world, client) {
            self.serve(world, lane);
        }
    }

    /// Tells the line of a request that has a place.
    fn note(&self, world: &mut World, client: usize) -> Option<Lane> {
        let one = &mut world.clients[client];
        let Turn { place, number, .. } = one.turn?;
        one.noted = match one.requests.ordered() == Some(number) {
            true => one.requests.standing().into(),
            false => Noted::Apart,
        };
        let (line, now) = (&mut world.line.0, at(world.now));
        match one.noted {
            Noted::Apart => line.rests(place),
            Noted::Waits => line.waits(place),
            Noted::Runs(_) if self.fault == Some(Fault::NoLease) => {
                line.runs(place, Ns(u64::MAX), now)
            }
            Noted::Runs(until) => line.runs(place, until, now),
        }
    }

    /// The one whose turn it is.
    fn next(&self, world: &World, lane: Lane) -> Option<Place> {
        let line = &world.line.0;
        match self.fault {
            Some(Fault::TwoAtATime) => line.first(lane),
            Some(Fault::FirstCome) if line.busy_until(lane, at(world.now)).is_none() => {
                let all = world.clients.iter().zip(&self.clients);
                let waiting =
                    all.filter(|(one, of)| of.lane() == lane && one.noted == Noted::Waits);
                let places = waiting.filter_map(|(one, _)| one.turn);
                places.map(|turn| turn.place).min_by_key(|at| at.number())
            }
            _ => line.next(lane, at(world.now)),
        }
    }

    fn owner(world: &World, place: Place) -> Option<usize> {
        let is_its = |turn: Turn| turn.place == place;
        let mut clients = world.clients.iter();
        clients.position(|one| one.turn.is_some_and(is_its))
    }

    fn serve(&self, world: &mut World, lane: Lane) {
        for _ in 0..Line::ROOM {
            let Some(next) = self.next(world, lane) else {
                break;
            };
            let Some(client) = Self::owner(world, next) else {
                world.fail("a place is nobody's");
                return;
            };
            self.check_turn(world, client);
            if let Some(turn) = world.clients[client].turn {
                self.let_go(world, client, turn.number);
            }
            self.note(world, client);
        }
        let now = at(world.now);
        let line = &world.line.0;
        let (Some(first), Some(until)) = (line.first(lane), line.busy_until(lane, now)) else {
            return;
        };
        if let Some(client) = Self::owner(world, first) {
            let actions = world.clients[client].requests.wait_until(until);
            self.act(world, client, &actions);
        }
        while let Some(runner) = world.line.0.unwatched(lane) {
            world.line.0.is_watched(runner);
            if let Some(client) = Self::owner(world, runner) {
                let actions = world.clients[client].requests.watch(now);
                self.act(world, client, &actions);
            }
        }
    }

    fn let_go(&self, world: &mut World, client: usize, number: Number) {
        let one = &mut world.clients[client];
        let seen = one.words;
        let actions = one.requests.grant(number, at(world.now), &seen);
        self.act(world, client, &actions);
    }

    /// A begin takes a place for its request, unless that is over by now.
    pub(super) fn join(&self, world: &mut World, client: usize) {
        let one = &mut world.clients[client];
        let Some(Join { number, .. }) = one.joins.take() else {
            return;
        };
        if one.requests.ordered() != Some(number) || one.turn.is_some() {
            return;
        }
        let deadline = one.requests.deadline();
        let (due, switch) = one.requests.due();
        let claim = Claim {
            deadline,
            due,
            switch,
            burst: Ns::ZERO,
        };
        match world.line.0.join(self.clients[client].lane(), USER, claim) {
            Some(place) => {
                world.clients[client].turn = Some(Turn {
                    place,
                    number,
                    deadline,
                });
                self.follow(world, client);
            }
            None => self.let_go(world, client, number),
        }
    }
}
