// SPDX-License-Identifier: MIT OR Apache-2.0
//! As many TSGs as a GPU can have: a decision looks at a few of them.

use super::{bench::Random, quantum, weight, Members, MS, US};
use crate::policy::{
    rotation::{
        entity::{Entity, Sample},
        run_list::RunList,
        turn::{Action, Outcome, Turn},
        Discipline,
    },
    units::Ns,
};
use std::{cell::RefCell, collections::HashSet};

/// TSGs of a GPU at most.
const COUNT: usize = 4096;

/// TSGs that an observation or a decision may look at: along the height of a tree with 4,096 nodes,
/// which is 17 at most, a node and its children, for each of four trees.
const FEW: usize = 160;

/// A run list that remembers who was looked at.
struct Counted {
    members: Members,
    seen: RefCell<HashSet<usize>>,
    most: usize,
}

impl RunList for Counted {
    fn get(&self, id: usize) -> Option<&Entity> {
        self.seen.borrow_mut().insert(id);
        self.members.get(id)
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
        self.seen.borrow_mut().insert(id);
        self.members.get_mut(id)
    }
}

impl Counted {
    /// Forgets what was looked at, and remembers how much it was.
    fn count(&mut self) {
        let seen = self.seen.borrow_mut().drain().count();
        self.most = self.most.max(seen);
        assert!(seen <= FEW, "{seen} TSGs were looked at");
    }
}

struct World {
    turn: Turn,
    list: Counted,
    random: Random,
    ran: Vec<u64>,
    now: u64,
}

impl World {
    fn new(discipline: Discipline, seed: u64) -> Self {
        let mut turn = Turn::new(discipline, quantum(8 * MS));
        turn.set_on(true);
        let list = Counted {
            members: Members::default(),
            seen: RefCell::default(),
            most: 0,
        };
        let mut world = Self {
            turn,
            list,
            random: Random(seed),
            ran: vec![0; COUNT],
            now: 0,
        };
        for id in 0..COUNT {
            let of = 1 + world.random.below(10_000) as u32;
            world.list.members.0.push(Some(Entity::new(weight(of))));
            world.turn.join(&mut world.list, id);
            world.list.count();
        }
        world
    }

    fn see(&mut self, id: usize, ran: u64, runnable: bool) {
        self.ran[id] += ran;
        let sample = Sample {
            ran: Ns(self.ran[id]),
            runnable,
            since: None,
        };
        self.turn.observe(&mut self.list, id, sample);
        self.list.count();
    }

    fn ask(&mut self) -> Action {
        let action = self.turn.next(&mut self.list, Ns(self.now));
        self.list.count();
        if let Action::Enable(_) | Action::Disable(_) = action {
            self.now += 100 * US;
            let now = Ns(self.now);
            self.turn.finished(&mut self.list, now, Outcome::Done);
            self.list.count();
        }
        action
    }

    fn check(&self) {
        self.turn.check(&self.list.members, COUNT);
    }
}

#[test]
fn a_decision_looks_at_a_few() {
    for discipline in Discipline::ALL {
        let mut world = World::new(discipline, 7);
        for id in 0..COUNT {
            world.see(id, 0, true);
        }
        world.check();
        // All but one are disabled, and then each has its turn.
        let mut disabled = 0;
        while let Action::Disable(_) = world.ask() {
            disabled += 1;
        }
        assert_eq!(disabled, COUNT - 1);
        world.check();
        let mut turns = 0;
        while turns < 2 * COUNT {
            let Some(current) = world.turn.current() else {
                panic!("nobody has a turn");
            };
            world.now += MS;
            // Some go idle, some get something to run, and one joins for one that leaves.
            let other = world.random.below(COUNT as u64) as usize;
            let runnable = world.random.below(4) > 0;
            if other != current {
                world.see(other, 0, runnable);
            }
            let goes_on = world.random.below(16) > 0;
            world.see(current, MS, goes_on);
            if turns % 16 == 0 && other != current {
                world.turn.leave(&mut world.list, other);
                world.list.members.0[other] = Some(Entity::new(weight(1024)));
                world.ran[other] = 0;
                world.turn.join(&mut world.list, other);
                world.list.seen.borrow_mut().clear();
            }
            while let Action::Enable(_) | Action::Disable(_) = world.ask() {
                turns += 1;
            }
            if turns % 512 == 0 {
                world.check();
            }
        }
        world.check();
        println!("{}: {} TSGs at most", discipline.name(), world.list.most);
        // Others are told of a change of the order once, and that takes a look at all.
        let later = Discipline::ALL.into_iter().find(|&d| d != discipline);
        world
            .turn
            .tune(&mut world.list, later.unwrap(), quantum(MS));
        world.check();
    }
}
