// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of the rotation of best-effort TSGs: on a simulated GPU, and for any order of events.

mod bench;
mod events;
mod many;
mod newcomers;
mod waits;

use crate::policy::{
    rotation::{entity::Entity, run_list::RunList, Quantum, Weight},
    units::Ns,
};

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// A run list in a vector; an entity that left is `None`.
#[derive(Default)]
struct Members(Vec<Option<Entity>>);

impl RunList for Members {
    fn get(&self, id: usize) -> Option<&Entity> {
        self.0.get(id)?.as_ref()
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
        self.0.get_mut(id)?.as_mut()
    }
}

fn weight(number: u32) -> Weight {
    Weight::new(number).unwrap()
}

fn quantum(length: u64) -> Quantum {
    Quantum::new(Ns(length)).unwrap()
}
