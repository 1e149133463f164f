// SPDX-License-Identifier: MIT OR Apache-2.0
//! Others that come out of turn as fast as they are dealt with keep nobody from a turn.

use super::{quantum, weight, Members, MS};
use crate::policy::{
    rotation::{
        entity::{Entity, Sample},
        turn::{Action, Outcome, Turn},
        Discipline,
    },
    units::Ns,
};
use proptest::prelude::*;

const QUANTUM: u64 = 5 * MS;

/// The others. There is always one more.
#[derive(Clone, Copy, Debug)]
enum Newcomers {
    /// Enabled, with nothing to run.
    Idle,
    /// Enabled, with something to run.
    Busy,
    /// The same, and each goes when the next one comes.
    Swapping,
    /// With something to run; each waits for its turn, and goes in it while another one waits.
    Quitting,
    /// Each call for one fails.
    Failing,
}

struct World {
    turn: Turn,
    members: Members,
    ran: Vec<u64>,
}

impl World {
    fn join(&mut self, runnable: bool) {
        let id = self.members.0.len();
        self.members.0.push(Some(Entity::new(weight(1024))));
        self.ran.push(0);
        self.turn.join(&mut self.members, id);
        self.see(id, runnable);
    }

    fn leave(&mut self, id: usize) {
        self.turn.leave(&mut self.members, id);
        self.members.0[id] = None;
    }

    fn see(&mut self, id: usize, runnable: bool) {
        let sample = Sample {
            ran: Ns(self.ran[id]),
            runnable,
            since: None,
        };
        self.turn.observe(&mut self.members, id, sample);
    }

    /// Members from `first` on of which something is true.
    fn find(&self, first: usize, is: impl Fn(&Entity) -> bool) -> Vec<usize> {
        let all = self.members.0.iter().enumerate().skip(first);
        all.filter_map(|(id, e)| e.as_ref().is_some_and(&is).then_some(id))
            .collect()
    }
}

fn takes_part(e: &Entity) -> bool {
    e.is_enabled() && !e.is_in_slices()
}

/// For each of `clients`, which always have something to run: true if it was enabled once everybody
/// had come to know the others, and true if it was disabled then.
fn states(clients: usize, newcomers: Newcomers, discipline: Discipline) -> Vec<(bool, bool)> {
    let mut world = World {
        turn: Turn::new(discipline, quantum(QUANTUM)),
        members: Members::default(),
        ran: Vec::new(),
    };
    world.turn.set_on(true);
    for _ in 0..clients {
        world.join(true);
    }
    let (mut states, mut newcomers_had_turns) = (vec![(false, false); clients], false);
    // A turn takes two calls, each with one beside it, and a newcomer may have one in between.
    let rounds = 12 * clients as u64;
    for round in 1..2 * rounds {
        let others = world.find(clients, takes_part);
        let (swaps, quits) = match newcomers {
            Newcomers::Swapping => (true, false),
            Newcomers::Quitting => (false, true),
            _ => (false, false),
        };
        let current = world.turn.current();
        let is_missed = match quits {
            true => !world
                .find(clients, |_| true)
                .iter()
                .any(|&id| current != Some(id)),
            false => others.is_empty() || swaps,
        };
        if is_missed {
            world.join(!matches!(newcomers, Newcomers::Idle));
        }
        let waits = !world.find(clients, |e| !e.is_enabled()).is_empty();
        let goes = |id: &usize| swaps || quits && waits && current == Some(*id);
        for id in others.into_iter().filter(goes) {
            newcomers_had_turns |= quits;
            world.leave(id);
        }
        for id in world.find(0, |e| e.is_enabled() && e.is_runnable()) {
            // Those that quit are disabled at once when they come, and go before they are to.
            world.ran[id] += match (quits && id >= clients, current == Some(id)) {
                (false, _) => QUANTUM,
                (true, true) => QUANTUM / 2,
                (true, false) => 0,
            };
            world.see(id, true);
        }
        let now = Ns(round * QUANTUM);
        let action = world.turn.next(&mut world.members, now);
        let outcome = match (action, newcomers) {
            (Action::Enable(id) | Action::Disable(id), Newcomers::Failing) if id >= clients => {
                Outcome::Failed
            }
            _ => Outcome::Done,
        };
        world.turn.finished(&mut world.members, now, outcome);
        let enabled = world.find(0, Entity::is_enabled);
        for (id, (on, off)) in states.iter_mut().enumerate().filter(|_| round > rounds) {
            let is_on = enabled.contains(&id);
            (*on, *off) = (*on || is_on, *off || !is_on);
        }
        // They are LC again, and so take no part, as soon as they are dealt with.
        let are_over = |e: &Entity| !quits && !e.is_enabled() && !e.is_in_slices();
        for id in world.find(clients, are_over) {
            world.leave(id);
        }
    }
    assert_eq!(
        newcomers_had_turns,
        matches!(newcomers, Newcomers::Quitting)
    );
    states
}

proptest! {
    #[test]
    fn newcomers_keep_nobody_from_a_turn(
        clients in 2usize..7,
        newcomers in prop::sample::select(vec![
            Newcomers::Idle,
            Newcomers::Busy,
            Newcomers::Swapping,
            Newcomers::Quitting,
            Newcomers::Failing,
        ]),
        discipline in prop::sample::select(Discipline::ALL.to_vec()),
    ) {
        let states = states(clients, newcomers, discipline);
        prop_assert!(states.iter().all(|&state| state == (true, true)), "{:?}", states);
    }
}
