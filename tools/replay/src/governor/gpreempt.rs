// SPDX-License-Identifier: GPL-2.0
//! Hints with two constants, as in GPreempt (USENIX ATC'25).

use zernel_workload::Role;

use super::slices::set_classes;
use super::{submit, Governor, Stream};
use crate::model::units::{Ns, Us};
use crate::world::{Event, World};

/// What GPreempt takes for given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constants {
    /// How long a preparation takes.
    pub(crate) preparation: Us,
    /// How long a switch takes.
    pub(crate) switch: Us,
}

impl Constants {
    /// The published ones.
    pub(crate) const PUBLISHED: Self = Self {
        preparation: Us(200),
        switch: Us(100),
    };

    /// Time from the begin to the trigger.
    fn lead(self) -> Ns {
        self.preparation.ns().since(self.switch.ns())
    }
}

/// Takes the GPU a constant time after the begin.
///
/// The latency-critical TSGs have the interleave level of their class too, which is more than is
/// published: with a process per best-effort client they would wait for all of these else.
pub(super) struct Gpreempt {
    constants: Constants,
    /// Last request of each client that was triggered.
    triggered: Vec<u32>,
}

impl Gpreempt {
    /// With these constants.
    pub(super) const fn new(constants: Constants) -> Self {
        Self {
            constants,
            triggered: Vec::new(),
        }
    }

    fn trigger(&mut self, world: &mut World, client: usize) {
        let number = world.clients[client].begun;
        if self.triggered[client] != number {
            self.triggered[client] = number;
            world.trigger(client, number);
        }
    }
}

impl Governor for Gpreempt {
    fn name(&self) -> String {
        match self.constants {
            Constants::PUBLISHED => "gpreempt".to_owned(),
            Constants {
                preparation: Us(preparation),
                switch: Us(switch),
            } => format!("gpreempt {preparation}/{switch}"),
        }
    }

    fn start(&mut self, world: &mut World) {
        self.triggered = vec![0; world.clients.len()];
        set_classes(world);
    }

    fn begin(&mut self, world: &mut World, client: usize) -> Stream {
        if world.clients[client].spec.role == Role::Be {
            return Stream::Plain;
        }
        match self.constants.lead() {
            Ns(0) => self.trigger(world, client),
            lead => world.at(world.now + lead.0, timer(world, client)),
        }
        Stream::Holder
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
        if world.clients[client].holder {
            world.release(client, world.clients[client].begun);
            self.trigger(world, client);
        }
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        let (client, number) = whose(token);
        // Of a request that is over: it was ready before its time.
        if world.clients[client].begun == number {
            self.trigger(world, client);
        }
    }
}

/// A timer for the request that a client is at.
pub(super) fn timer(world: &World, client: usize) -> Event {
    let number = world.clients[client].begun;
    Event::Timer((client as u64) << 32 | u64::from(number))
}

/// Whose timer it is: client and number of the request.
pub(super) const fn whose(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}
