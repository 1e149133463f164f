// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints with two constants, as in GPreempt (USENIX ATC'25).

use zernel_workload::Role;

use super::slices::set_classes;
use super::{submit, Policy, Stream};
use crate::model::measures::{Ns, Us};
use crate::world::{Event, World};

/// The constants of GPreempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constants {
    /// Time of a preparation.
    pub(crate) preparation: Us,
    /// Time of a switch.
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

/// The common part of policies in which clients take the GPU at a time that is set at the begin.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Last request of each client that was triggered.
    triggered: Vec<u32>,
}

impl Ahead {
    /// Before the first request.
    ///
    /// The latency-critical TSGs have the interleave level of their class too, which is more than
    /// GPreempt has published: with a process per best-effort client they would wait for all of
    /// these else.
    pub(super) fn start(&mut self, world: &mut World) {
        self.triggered = vec![0; world.clients.len()];
        set_classes(world);
    }

    /// A request begins: it is triggered at `time`, in nanoseconds.
    pub(super) fn begin(&mut self, world: &mut World, client: usize, time: u64) -> Stream {
        if time <= world.now {
            self.trigger(world, client);
        } else {
            let number = world.clients[client].begun;
            let token = (client as u64) << 32 | u64::from(number);
            world.at(time, Event::Timer(token));
        }
        Stream::Holder
    }

    /// The data is ready.
    pub(super) fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
        if world.clients[client].holder {
            world.release(client, world.clients[client].begun);
            self.trigger(world, client);
        }
    }

    /// A timer has fired.
    pub(super) fn timer(&mut self, world: &mut World, token: u64) {
        let (client, number) = whose(token);
        // Else it is of a request that is over: it was ready before its time.
        if world.clients[client].begun == number {
            self.trigger(world, client);
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

/// Takes the GPU a constant time after the begin.
pub(super) struct Gpreempt {
    constants: Constants,
    ahead: Ahead,
}

impl Gpreempt {
    /// With these constants.
    pub(super) fn new(constants: Constants) -> Self {
        Self {
            constants,
            ahead: Ahead::default(),
        }
    }
}

impl Policy for Gpreempt {
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
        self.ahead.start(world);
    }

    fn begin(&mut self, world: &mut World, client: usize) -> Stream {
        match world.clients[client].spec.role {
            Role::Be => Stream::Plain,
            Role::Lc => {
                let time = world.now + self.constants.lead().0;
                self.ahead.begin(world, client, time)
            }
        }
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        self.ahead.ready(world, client);
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        self.ahead.timer(world, token);
    }
}

/// The owner of a timer: client and number of the request.
pub(super) const fn whose(token: u64) -> (usize, u32) {
    ((token >> 32) as usize, token as u32)
}
