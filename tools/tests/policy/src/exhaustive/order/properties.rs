// SPDX-License-Identifier: MIT OR Apache-2.0
//! The properties of requests in the order of deadlines, in each state and at last.

use stateright::Property;

use super::{
    at,
    client::{Client, Noted, Turn},
    Scene, World,
};
use crate::policy::{request::order::Standing, units::Ns};

pub(super) fn all() -> Vec<Property<Scene>> {
    vec![
        Property::always(
            "no inversion beyond one blocking term",
            |_, world: &World| {
                world.wrong != Some(World::INVERSION)
                    && world.clients.iter().all(|c| c.blockers <= 1)
            },
        ),
        Property::always("one has the GPU at a time", |_, world: &World| {
            world.wrong != Some(World::TWO)
        }),
        Property::always("a wait ends at its deadline", |_, world: &World| {
            world.clients.iter().all(|one| one.ends_in_time(world.now))
        }),
        Property::always("nobody waits for nobody", |scene: &Scene, world: &World| {
            (0..world.clients.len()).all(|client| world.waits_for_somebody(scene, client))
        }),
        Property::always("every begin has one outcome", |_, world: &World| {
            world.clients.iter().all(Client::is_counted)
        }),
        Property::always("no stream is stranded", |_, world: &World| {
            world.clients.iter().all(Client::strands_nothing)
        }),
        Property::eventually("all is given back", |scene: &Scene, world: &World| {
            world.now == scene.ticks && world.is_empty()
        }),
    ]
}

impl Client {
    /// The deadline of the request that is not over, if that waits for its turn.
    fn waits(&self) -> Option<Ns> {
        let waits = self.requests.standing() == Standing::Waits;
        waits.then(|| self.requests.deadline())
    }

    /// A wait is over at the deadline of the request for anything that others do, or at once where that
    /// has passed when the trigger is due; and a timer sees to that.
    fn ends_in_time(&self, now: u8) -> bool {
        let Some(deadline) = self.waits() else {
            return true;
        };
        let end = deadline.max(self.due);
        at(now) <= end && self.alarm.is_some_and(|alarm| alarm <= end)
    }

    fn is_counted(&self) -> bool {
        let behind = u8::from(self.requests.is_behind());
        let active = u8::from(self.requests.ordered().is_some());
        // One without a place is not seen by that.
        let open = self.over + behind + active;
        open <= self.begun && self.begun <= self.over + behind + 1
    }

    /// A request that is over leaves no stream waiting.
    fn strands_nothing(&self) -> bool {
        let behind = u8::from(self.requests.is_behind());
        let is_over = self.over + behind == self.begun;
        self.last.is_none_or(|last| !is_over || self.is_free(last))
    }
}

impl World {
    pub(super) const INVERSION: &'static str = "an earlier deadline waits";
    pub(super) const TWO: &'static str = "two have the GPU";

    pub(super) fn fail(&mut self, why: &'static str) {
        self.wrong.get_or_insert(why);
    }

    fn is_empty(&self) -> bool {
        let empty = |one: &Client| {
            let done = !one.is_open && !one.is_under_way() && one.turn.is_none();
            done && one.over == one.begun && one.last.is_none_or(|last| one.is_free(last))
        };
        self.clients.iter().all(empty)
    }

    /// Nobody whose lane is this one's waits for another that does not have the GPU, unless a call that
    /// changes that is under way.
    fn waits_for_somebody(&self, scene: &Scene, client: usize) -> bool {
        let own = &self.clients[client];
        let lane = scene.clients[client].lane();
        let of_lane = || {
            let all = self.clients.iter().zip(&scene.clients);
            all.filter(move |(_, habits)| habits.lane() == lane)
                .map(|(one, _)| one)
        };
        if own.waits().is_none() || of_lane().any(|one| one.is_due(self.now)) {
            return true;
        }
        let has_gpu = |one: &Client| match one.requests.standing() {
            Standing::Runs(until) => one.turn.is_some() && until > at(self.now),
            _ => false,
        };
        own.turn.is_some() && of_lane().any(has_gpu)
    }

    /// Notes which request with a later deadline has the GPU while another one waits for its turn.
    pub(super) fn look_around(&mut self, scene: &Scene) {
        let now = at(self.now);
        for client in 0..self.clients.len() {
            let own = &self.clients[client];
            let Some(deadline) = own.waits().filter(|_| own.noted == Noted::Waits) else {
                continue;
            };
            let lane = scene.clients[client].lane();
            let blocks = |other: usize| {
                let one = &self.clients[other];
                let of = &scene.clients[other];
                let turn = one.turn.filter(|turn| turn.deadline > deadline)?;
                let has_gpu = matches!(one.noted, Noted::Runs(until) if until > now);
                // One that stores its trigger itself takes no turn.
                let counts = other != client && of.lane() == lane && !of.stores && has_gpu;
                counts.then_some((other, turn.number))
            };
            let found = (0..self.clients.len()).find_map(blocks);
            let own = &mut self.clients[client];
            if found.is_some() && found != own.blocker {
                own.blocker = found;
                own.blockers += 1;
            }
        }
    }
}

impl Scene {
    /// A request is about to get its turn: nobody of its lane that waits has an earlier deadline, but
    /// for one that goes at that now, and nobody has the GPU within its lease.
    pub(super) fn check_turn(&self, world: &mut World, client: usize) {
        let now = at(world.now);
        let lane = self.clients[client].lane();
        let Some(Turn { deadline, .. }) = world.clients[client].turn else {
            return;
        };
        for other in 0..self.clients.len() {
            let one = &world.clients[other];
            let Some(turn) = one.turn.filter(|_| other != client) else {
                continue;
            };
            if self.clients[other].lane() != lane {
                continue;
            }
            match one.noted {
                Noted::Waits if turn.deadline < deadline && turn.deadline > now => {
                    world.fail(World::INVERSION);
                }
                Noted::Runs(until) if until > now => world.fail(World::TWO),
                _ => {}
            }
        }
    }
}
