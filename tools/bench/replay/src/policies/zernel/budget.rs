// SPDX-License-Identifier: MIT OR Apache-2.0
//! The budget of the latency-critical level: when it is spent, its slice drops to that of BE.

use zernel_workload::Role;

use super::BUDGET;
use crate::model::measures::Us;
use crate::policy;
use crate::policy::budget::{Params, Server, State};
use crate::policy::level::Level;
use crate::policy::units::Ns;
use crate::world::{Event, Operation, World};

/// The budget.
pub(super) struct Budget {
    server: Server,
    lc: Vec<usize>,
    be: Vec<usize>,
    /// The slice of the level, and that without a budget.
    slices: (Us, Us),
    /// Time on the engine up to the last charge.
    charged: u64,
    throttled: bool,
    /// Timers set before the last one are stale.
    timer: u64,
    /// When the last one that was set fires.
    due: u64,
}

impl Budget {
    /// A full one of so much time per period, which is that of the level; none if it has none.
    /// `slices`: of the level, and without a budget.
    pub(super) fn new(world: &World, budget: Us, slices: (Us, Us)) -> Option<Self> {
        let period = Params::default_of(Level::LC)?.period();
        let params = Params::new(policy::units::Us(budget.0).into(), period).ok()?;
        Some(Self {
            server: Server::new(params),
            lc: world.of_role(Role::Lc).collect(),
            be: world.of_role(Role::Be).collect(),
            slices,
            charged: 0,
            throttled: false,
            timer: 0,
            due: 0,
        })
    }

    /// The slice that the level has while its budget is spent.
    pub(super) fn throttled(&self) -> Option<Us> {
        self.throttled.then_some(self.slices.1)
    }

    /// Latency-critical work begins or ends.
    pub(super) fn look(&mut self, world: &mut World, busy: bool) {
        self.serve(world);
        // While a timer is set for no later than the budget can be spent, nothing is missed.
        if busy && self.due <= world.now {
            self.charge(world, busy);
        }
    }

    /// A timer has fired.
    pub(super) fn timer(&mut self, world: &mut World, token: u64, busy: bool) {
        if token == BUDGET | self.timer {
            self.charge(world, busy);
        }
    }

    fn serve(&mut self, world: &World) {
        let ran = self.be.iter().map(|&group| world.busy(group)).sum();
        self.server.serve(Ns(world.now), Some(Ns(ran)));
    }

    fn charge(&mut self, world: &mut World, busy: bool) {
        self.serve(world);
        let ran: u64 = self.lc.iter().map(|&group| world.busy(group)).sum();
        let new = ran - self.charged;
        self.charged = ran;
        // A slice of BE takes its turn like BE.
        let charge = if self.throttled { 0 } else { new };
        let state = self.server.charge(Ns(world.now), Ns(charge));
        let (throttled, next) = match state {
            State::Throttled { until } => (true, until.0),
            State::Free { left } => (false, world.now + left.0),
        };
        if throttled != self.throttled {
            self.throttled = throttled;
            let slice = match throttled {
                true => self.slices.1,
                false => self.slices.0,
            };
            for &group in &self.lc {
                world.operate(Operation::Slice(group, slice));
            }
        }
        if busy || throttled {
            self.due = next;
            self.timer += 1;
            world.at(next, Event::Timer(BUDGET | self.timer));
        }
    }
}
