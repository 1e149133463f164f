// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of deadlines, called as `rust/zernel/request/order.rs` calls it.

use super::{Asked, Zernel};
use crate::policy::deadline::line::{Claim, Lane, Line, Place, Refused};
use crate::policy::deadline::preemptive::Step;
use crate::policy::deadline::{Order as Kept, HORIZON};
use crate::policy::level::Level;
use crate::policy::request::order::Standing;
use crate::policy::request::words::Number;
use crate::policy::request::Plan;
use crate::policy::units::Ns;
use crate::world::{nanos, World};

/// A deadline that cannot be met.
pub(super) struct Late;

/// The places, and the clients that have them.
pub(super) struct Order {
    pub(super) line: Line,
    owners: [Option<usize>; Line::ROOM],
}

impl Order {
    pub(super) const fn new() -> Self {
        Self {
            line: Line::EMPTY,
            owners: [None; Line::ROOM],
        }
    }

    fn note(&mut self, place: Place, standing: Standing, now: u64) -> Option<Lane> {
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => self.line.runs(place, until, Ns(now)),
        }
    }
}

impl Zernel {
    /// A place with a promise for a request that is to begin. None without a deadline, or while nothing
    /// is known of its burst: it begins without, as a program does that asks in vain for that reason.
    pub(super) fn admit(
        &mut self,
        world: &World,
        client: usize,
        asked: &Asked,
        plan: &Plan,
    ) -> Result<Option<Place>, Late> {
        let (Some(slo), Some(burst)) = (plan.slo, self.keys.burst(client, asked)) else {
            return Ok(None);
        };
        let one = &world.clients[client];
        // Its result is copied after it is done.
        let copy = Ns(nanos(one.spec.copy_out(one.request.traced.size)));
        let now = Ns(world.now);
        let claim = Claim {
            deadline: now.saturating_add(slo.saturating_sub(copy).min(HORIZON)),
            due: plan.trigger_at.min(now.saturating_add(plan.predicted)),
            switch: plan.cost,
            burst,
        };
        let of = Lane {
            runlist: 0,
            level: self.lanes[client].level,
        };
        let replaced = self.lanes[client].place.map(|(place, _)| place);
        match self.order.line.admit(of, 0, claim, replaced, now) {
            Ok(place) => Ok(Some(place)),
            Err(Refused::Late(_) | Refused::NoRoom | Refused::OverQuota) => Err(Late),
        }
    }

    /// A request that has just begun gets its place, or has this one.
    pub(super) fn take_turn(
        &mut self,
        world: &mut World,
        client: usize,
        (level, asked): (Level, &Asked),
        seat: Option<Place>,
    ) {
        self.settle(world, client);
        let lane = &mut self.lanes[client];
        let Some(number) = lane.requests.ordered() else {
            return;
        };
        let of = Lane { runlist: 0, level };
        let (due, switch) = lane.requests.due();
        let claim = Claim {
            deadline: lane.requests.deadline(),
            due,
            switch,
            burst: self.keys.burst(client, asked).unwrap_or_default(),
        };
        match seat.or_else(|| self.order.line.join(of, 0, claim)) {
            Some(place) => {
                lane.place = Some((place, number));
                if self.preempts() && self.lanes[client].requests.states_deadline() {
                    let group = world.clients[client].group;
                    self.order.line.contends(place, group as u64);
                }
                self.order.owners[place.number()] = Some(client);
                self.settle(world, client);
            }
            None => {
                self.grant(world, client, number);
            }
        }
    }

    /// Follows an event of a client's slot.
    pub(super) fn settle(&mut self, world: &mut World, client: usize) {
        let lane = &mut self.lanes[client];
        let Some((place, number)) = lane.place else {
            return;
        };
        let of = if lane.requests.ordered() == Some(number) {
            let standing = lane.requests.standing();
            self.order.note(place, standing, world.now)
        } else {
            lane.place = None;
            self.order.owners[place.number()] = None;
            let ended = lane.requests.ended(number);
            let burst = ended.and_then(|ended| ended.burst);
            // The time for which it was held is no part of its burst.
            if let Some(burst) = burst.filter(|_| !self.order.line.was_held(place)) {
                self.keys.learn_burst(client, &lane.asked.0, burst);
            }
            if let Some(held) = ended.and_then(|ended| ended.late) {
                self.order.line.is_late(place, held, Ns(world.now));
            }
            let is_held = self.order.line.holds(place);
            let of = self.order.line.over(place, burst, Ns(world.now));
            if is_held {
                self.hold(world);
            }
            of
        };
        if let Some(of) = of {
            self.serve(world, of);
        }
    }

    /// True if the GPU is taken from requests with later deadlines.
    fn preempts(&self) -> bool {
        self.options.rule.order == Kept::EdfPreemptive
    }

    pub(super) fn serve(&mut self, world: &mut World, of: Lane) {
        let now = Ns(world.now);
        let mut is_news = false;
        loop {
            let next = match self.order.line.step(of, now, self.preempts()) {
                Step::Go(next) => next,
                Step::Held(_) | Step::Resumed(_) | Step::Charged => {
                    is_news = true;
                    continue;
                }
                Step::Rest => break,
            };
            let owner = self.order.owners[next.number()];
            let standing = match owner.and_then(|client| Some((client, self.lanes[client].place?)))
            {
                Some((client, (_, number))) => self.grant(world, client, number),
                None => Standing::Apart,
            };
            self.order.note(next, standing, world.now);
        }
        if is_news {
            self.hold(world);
        }
        let line = &self.order.line;
        let first = line.first(of).zip(line.asks_at(of, now));
        if first.is_none() && !line.is_held(of) {
            return;
        }
        if let Some((first, until)) = first {
            if let Some(client) = self.order.owners[first.number()] {
                let actions = self.lanes[client].requests.wait_until(until);
                self.act(world, client, actions);
            }
        }
        while let Some(runner) = self.order.line.unwatched(of) {
            self.order.line.is_watched(runner);
            if let Some(client) = self.order.owners[runner.number()] {
                let actions = self.lanes[client].requests.watch(now);
                self.act(world, client, actions);
            }
        }
    }

    fn grant(&mut self, world: &mut World, client: usize, number: Number) -> Standing {
        let seen = self.observe(world, client);
        let lane = &mut self.lanes[client];
        let actions = lane.requests.grant(number, Ns(world.now), &seen);
        self.act(world, client, actions);
        let lane = &self.lanes[client];
        match lane.requests.ordered() == Some(number) {
            true => lane.requests.standing(),
            false => Standing::Apart,
        }
    }
}
