// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rotation of best-effort TSGs, driven as by the GPU's worker.

use super::ROTATION;
use crate::model::measures::Us;
use crate::policy::rotation::entity::{Entity, Sample};
use crate::policy::rotation::run_list::RunList;
use crate::policy::rotation::turn::{Action, Outcome, Turn};
use crate::policy::rotation::{Discipline, Quantum, Weight};
use crate::policy::units::Ns;
use crate::world::{Event, Operation, World};

/// The best-effort TSGs by their group.
struct Members(Vec<(usize, Entity)>);

impl RunList for Members {
    fn get(&self, id: usize) -> Option<&Entity> {
        let found = self.0.iter().find(|(group, _)| *group == id);
        found.map(|(_, entity)| entity)
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
        let found = self.0.iter_mut().find(|(group, _)| *group == id);
        found.map(|(_, entity)| entity)
    }
}

/// The rotation.
pub(super) struct Rotation {
    members: Members,
    turn: Turn,
    /// Timers set before the last one are stale.
    timer: u64,
}

impl Rotation {
    /// Of these groups, which are enabled.
    pub(super) fn new(
        world: &mut World,
        be: &[usize],
        discipline: Discipline,
        quantum: Us,
    ) -> Self {
        let (min, max) = Quantum::RANGE;
        let length = Ns(quantum.ns().0).clamp(min, max);
        let quantum = Quantum::new(length).unwrap_or(Quantum::DEFAULT);
        let mut turn = Turn::new(discipline, quantum);
        turn.set_on(true);
        let members = be.iter().map(|&group| {
            let (lowest, highest) = Weight::RANGE;
            let weight = Weight::DEFAULT.number() * world.groups[group].weight;
            let weight = Weight::new(weight.clamp(lowest, highest)).unwrap_or(Weight::DEFAULT);
            (group, Entity::new(weight))
        });
        let mut members = Members(members.collect());
        for &group in be {
            turn.join(&mut members, group);
        }
        let mut rotation = Self {
            members,
            turn,
            timer: 0,
        };
        rotation.drive(world);
        rotation
    }

    /// A TSG got something to run, or has nothing any more.
    pub(super) fn observe(&mut self, world: &mut World, group: usize) {
        if let Some(current) = self.turn.current().filter(|&current| current != group) {
            self.see(world, current);
        }
        self.see(world, group);
        self.drive(world);
    }

    /// Latency-critical work begins or ends.
    pub(super) fn set_lc(&mut self, world: &mut World, busy: bool) {
        if let Some(current) = self.turn.current() {
            self.see(world, current);
        }
        self.turn.set_lc(busy, Ns(world.now));
        self.drive(world);
    }

    /// True if the GPU goes from one TSG to another.
    pub(super) fn is_handing_over(&self) -> bool {
        self.turn.is_handing_over(&self.members)
    }

    /// A timer has fired.
    pub(super) fn timer(&mut self, world: &mut World, token: u64) {
        if token == ROTATION | self.timer {
            self.look(world);
        }
    }

    /// The call that was under way is done.
    pub(super) fn finished(&mut self, world: &mut World) {
        self.turn
            .finished(&mut self.members, Ns(world.now), Outcome::Done);
        self.look(world);
    }

    /// Looks at the one that is enabled, and goes on.
    fn look(&mut self, world: &mut World) {
        if let Some(current) = self.turn.current() {
            self.see(world, current);
        }
        self.drive(world);
    }

    fn see(&mut self, world: &World, group: usize) {
        let sample = Sample {
            ran: Ns(world.busy(group)),
            runnable: world.groups[group].active > 0,
            since: None,
        };
        if let Some(entity) = self.members.get_mut(group) {
            entity.learn(sample, Ns(world.now));
        }
        self.turn.observe(&mut self.members, group, sample);
    }

    fn drive(&mut self, world: &mut World) {
        match self.turn.next(&mut self.members, Ns(world.now)) {
            Action::Enable(group) => world.operate(Operation::Enable(group, true)),
            Action::Disable(group) => world.operate(Operation::Enable(group, false)),
            Action::WaitUntil(at) => {
                self.timer += 1;
                world.at(at.0, Event::Timer(ROTATION | self.timer));
            }
            Action::Nothing => {}
        }
    }
}
