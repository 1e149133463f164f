// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices that follow the slack of latency-critical TSGs, called as the worker of a GPU calls them.

use zernel_workload::Role;

use super::{Lane, Zernel, SLACK};
use crate::model::measures::Us;
use crate::policy::slices::slack::{Claimant, Open, Seen, Terms};
use crate::policy::units::{self, Ns};
use crate::world::{Event, Operation, World};

/// A latency-critical TSG.
struct One {
    group: usize,
    claimant: Claimant,
    /// Its requests that are done.
    done: u64,
    /// The slice that it has.
    slice: Us,
}

/// The slices.
pub(super) struct Slack {
    terms: Terms,
    all: Vec<One>,
    /// No look comes before.
    due: u64,
    is_armed: bool,
}

impl Slack {
    /// Of the latency-critical TSGs, which have this slice each.
    pub(super) fn new(world: &World, terms: Terms, slice: impl Fn(usize) -> Us) -> Self {
        let all = world.of_role(Role::Lc).map(|group| One {
            group,
            claimant: Claimant::NEW,
            done: 0,
            slice: slice(world.groups[group].clients[0]),
        });
        Self {
            terms,
            all: all.collect(),
            due: 0,
            is_armed: false,
        }
    }

    /// A request begins.
    pub(super) fn began(&mut self, world: &mut World) {
        if !self.is_armed {
            self.is_armed = true;
            world.at(self.due.max(world.now), Event::Timer(SLACK));
        }
    }

    /// One of a TSG is done.
    pub(super) fn done(&mut self, group: usize) {
        if let Some(one) = self.all.iter_mut().find(|one| one.group == group) {
            one.done += 1;
        }
    }

    /// A look at all of them. `table`: the slice of a client without this policy.
    fn look(&mut self, world: &mut World, lanes: &[Lane], table: impl Fn(usize) -> Us) {
        let now = Ns(world.now);
        let mut is_open = false;
        for one in &mut self.all {
            let group = &world.groups[one.group];
            let mut open = Open::NONE;
            for &client in &group.clients {
                let lane = &lanes[client];
                if let Some(deadline) = lane.requests.open_deadline(&lane.seen) {
                    open.add(deadline, now);
                }
            }
            is_open |= open.first().is_some();
            let table = table(group.clients[0]);
            let seen = Seen {
                now,
                ran: Ns(world.busy(one.group)),
                ended: one.done,
                is_runnable: group.active > 0,
                table: units::Us(table.0),
                slice: units::Us(one.slice.0),
                may_lengthen: true,
            };
            let slice = one.claimant.step(&self.terms, &seen, &open);
            let slice = slice.map_or(table, |slice| Us(slice.0));
            if slice != one.slice {
                one.slice = slice;
                world.operate(Operation::Slice(one.group, slice));
            }
        }
        self.due = world.now + Ns::from(self.terms.quantum).0;
        self.is_armed = is_open;
        if is_open {
            world.at(self.due, Event::Timer(SLACK));
        }
    }
}

impl Zernel {
    /// A quantum is over, or a request has begun after it.
    pub(super) fn look_at_slacks(&mut self, world: &mut World) {
        let Some(mut slack) = self.slack.take() else {
            return;
        };
        let table = |client: usize| match self.budget.as_ref().and_then(|one| one.throttled()) {
            Some(slice) => slice,
            None => self.slice_of(self.lanes[client].level),
        };
        slack.look(world, &self.lanes, table);
        self.slack = Some(slack);
    }
}
