// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are held for those with earlier deadlines, as `rust/zernel/worker/takeover.rs` holds them.

use zernel_workload::Role;

use super::{Zernel, HOLDS};
use crate::model::measures::Us;
use crate::model::tsg::Interleave;
use crate::policy::deadline::preemptive::{BOUND, MOST};
use crate::policy::level::Level;
use crate::policy::units::Ns;
use crate::world::{Event, Operation, World};

/// A TSG that is held.
#[derive(Clone, Copy)]
struct Held {
    group: usize,
    level: Level,
    since: u64,
    /// So long after that it is looked at; 0: it is off the GPU.
    after: u64,
}

/// Those that are held.
#[derive(Default)]
pub(super) struct Holds {
    held: [Option<Held>; MOST],
    /// Timers set before the last one are stale.
    timer: u64,
}

fn interleave(level: Level) -> Interleave {
    Interleave::new(level.interleave().number()).unwrap_or(Interleave::Low)
}

impl Zernel {
    /// Has TSGs yield, takes some off the GPU and gives others back.
    pub(super) fn hold(&mut self, world: &mut World) {
        let wishes = self.order.line.wishes(Ns(world.now));
        let (_, mut at) = self.order.line.released(Ns(world.now));
        for place in 0..MOST {
            let Some(held) = self.holds.held[place] else {
                continue;
            };
            let mut wanted = wishes.iter().flatten();
            if wanted.any(|wish| wish.tsg == held.group as u64) {
                continue;
            }
            if held.after == 0 {
                world.operate(Operation::Enable(held.group, true));
            }
            self.set(world, held.group, held.level, held.level);
            self.holds.held[place] = None;
        }
        for wish in wishes.iter().flatten() {
            let mut known = self.holds.held.iter().flatten();
            if known.any(|held| held.group as u64 == wish.tsg) {
                continue;
            }
            let Some(free) = self.holds.held.iter_mut().find(|place| place.is_none()) else {
                continue;
            };
            let group = wish.tsg as usize;
            *free = Some(Held {
                group,
                level: wish.level,
                since: world.now,
                after: BOUND.0,
            });
            self.set(world, group, wish.level, Level::BE);
        }
        for held in self.holds.held.iter_mut().flatten() {
            if held.after == 0 {
                continue;
            }
            if held.since + held.after <= world.now {
                let is_on_engine = world.runs(held.group);
                if world.groups[held.group].active > 0 || is_on_engine {
                    held.after = 0;
                    world.operate(Operation::Enable(held.group, false));
                    continue;
                }
                held.after = 2 * (world.now - held.since);
            }
            let due = Ns(held.since + held.after);
            at = Some(at.map_or(due, |at| at.min(due)));
        }
        if let Some(at) = at {
            self.holds.timer += 1;
            world.at(at.0, Event::Timer(HOLDS | self.holds.timer));
        }
    }

    /// A timer has fired.
    pub(super) fn look_at_holds(&mut self, world: &mut World, token: u64) {
        if token != HOLDS | self.holds.timer {
            return;
        }
        if let (Some(lane), _) = self.order.line.released(Ns(world.now)) {
            self.serve(world, lane);
        }
        self.hold(world);
    }

    /// A TSG of a level has the settings of this one.
    fn set(&self, world: &mut World, group: usize, own: Level, as_of: Level) {
        let slice = match own == as_of {
            true => self.slice_of(own),
            false => self.slice_of(own).min(Us(as_of.default_timeslice().0)),
        };
        world.operate(Operation::Slice(group, slice));
        world.operate(Operation::Interleave(group, interleave(as_of)));
    }

    /// Turns go on after the operations of best-effort TSGs, and not of those that are held.
    pub(super) fn goes_on(&mut self, world: &mut World, operation: Operation) {
        let Operation::Enable(group, _) = operation else {
            return;
        };
        match &mut self.rotation {
            Some(rotation) if world.groups[group].role != Role::Lc => rotation.finished(world),
            _ => {}
        }
    }
}
