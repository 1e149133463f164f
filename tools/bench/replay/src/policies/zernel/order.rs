// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of deadlines, called as `rust/zernel/request/order.rs` calls it.

use super::Zernel;
use crate::policy::deadline::line::{Lane, Line, Place};
use crate::policy::deadline::preemptive::Step;
use crate::policy::deadline::Order as Kept;
use crate::policy::level::Level;
use crate::policy::request::order::Standing;
use crate::policy::request::words::Number;
use crate::policy::units::Ns;
use crate::world::World;

/// The places, and the clients that have them.
pub(super) struct Order {
    pub(super) line: Line,
    owners: [Option<usize>; Line::ROOM],
}

impl Order {
    pub(super) const fn new() -> Self {
        Self {
            line: Line::new(),
            owners: [None; Line::ROOM],
        }
    }

    fn note(&mut self, place: Place, standing: Standing) -> Option<Lane> {
        match standing {
            Standing::Apart => self.line.rests(place),
            Standing::Waits => self.line.waits(place),
            Standing::Runs(until) => self.line.runs(place, until),
        }
    }
}

impl Zernel {
    /// A request that has just begun gets its place.
    pub(super) fn take_turn(&mut self, world: &mut World, client: usize, level: Level) {
        self.settle(world, client);
        let lane = &mut self.lanes[client];
        let Some(number) = lane.requests.ordered() else {
            return;
        };
        let of = Lane { runlist: 0, level };
        match self.order.line.join(of, 0, lane.requests.deadline()) {
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
            self.order.note(place, standing)
        } else {
            lane.place = None;
            self.order.owners[place.number()] = None;
            self.order.line.leave(place)
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
                Step::Held(_) | Step::Resumed(_) => {
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
            self.order.note(next, standing);
        }
        if is_news {
            self.hold(world);
        }
        let line = &self.order.line;
        let (Some(first), Some(until)) = (line.first(of), line.busy_until(of, now)) else {
            return;
        };
        if let Some(client) = self.order.owners[first.number()] {
            let actions = self.lanes[client].requests.wait_until(until);
            self.act(world, client, actions);
        }
        let mut from = 0;
        while let Some(runner) = self.order.line.runner(of, from) {
            if let Some(client) = self.order.owners[runner.number()] {
                let actions = self.lanes[client].requests.watch(now);
                self.act(world, client, actions);
            }
            from = runner.number() + 1;
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
