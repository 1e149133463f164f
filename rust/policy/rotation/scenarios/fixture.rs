// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A run list of up to three TSGs, and its turns.

use crate::policy::{
    rotation::{
        entity::{
            Entity,
            Sample, //
        },
        run_list::RunList,
        turn::{
            Action,
            Outcome,
            Turn, //
        },
        Discipline,
        Quantum,
        Weight, //
    },
    units::Ns,
};

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;

pub(super) struct Slots(pub(super) [Option<Entity>; 3]);

impl RunList for Slots {
    fn get(&self, id: usize) -> Option<&Entity> {
        self.0.get(id)?.as_ref()
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
        self.0.get_mut(id)?.as_mut()
    }
}

pub(super) fn idle(turn: &mut Turn, count: usize) -> Slots {
    turn.set_on(true);
    let mut list = Slots([None, None, None]);
    for id in 0..count {
        join(turn, &mut list, id);
    }
    list
}

pub(super) fn join(turn: &mut Turn, list: &mut Slots, id: usize) {
    if let Some(slot) = list.0.get_mut(id) {
        *slot = Some(Entity::new(Weight::DEFAULT));
    }
    turn.join(list, id);
}

pub(super) fn leave(turn: &mut Turn, list: &mut Slots, id: usize) {
    turn.leave(list, id);
    if let Some(slot) = list.0.get_mut(id) {
        *slot = None;
    }
}

pub(super) fn five_ms() -> Quantum {
    Quantum::new(Ns(5 * MS)).unwrap_or(Quantum::DEFAULT)
}

pub(super) fn rr() -> Turn {
    Turn::new(Discipline::RoundRobin, five_ms())
}

/// Several that are runnable, the first of them enabled.
pub(super) fn busy(turn: &mut Turn, count: usize) -> Slots {
    let mut list = idle(turn, count);
    for id in 0..count {
        see(turn, &mut list, id, 0, true);
    }
    for id in 1..count {
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(id));
        assert_eq!(done(turn, &mut list, 0), None);
    }
    assert_eq!(turn.current(), Some(0));
    list
}

pub(super) fn see(turn: &mut Turn, list: &mut Slots, id: usize, ran: u64, runnable: bool) {
    let ran = Ns(ran);
    let since = None;
    turn.observe(
        list,
        id,
        Sample {
            ran,
            runnable,
            since,
        },
    );
}

pub(super) fn done(turn: &mut Turn, list: &mut Slots, now: u64) -> Option<usize> {
    turn.finished(list, Ns(now), Outcome::Done)
}

pub(super) fn failed(turn: &mut Turn, list: &mut Slots, now: u64) -> Option<usize> {
    turn.finished(list, Ns(now), Outcome::Failed)
}
