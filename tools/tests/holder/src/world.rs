// SPDX-License-Identifier: MIT OR Apache-2.0
//! The holder among those that it meets: a program, zernel, its GPU stream, a timer. Every order.
//!
//! A state is the thread of the holder, the words that it shares, how far the program is, and the
//! time. One step is one of:
//! - the program stores its next word: data, its time, release, trigger; or anything, if it is
//!   hostile;
//! - zernel stores the trigger; the stream launches the holder once that has reached its number;
//! - the holder takes a step that others see, or that sees others;
//! - another kernel on the SM reads the data, so that the SM's cache has a copy of it;
//! - a tick passes; the timer jumps, back or on.
//!
//! The instructions between two steps of the holder are executed with the second one, as nobody can
//! see the difference.

mod state;
pub mod worlds;

use std::sync::Arc;

use stateright::{Checker, Model, Property};

use crate::machine::{parameters, Parameters, Program};
pub use state::{Breach, State};

/// The address of `held`.
pub const HELD: u64 = 0x7f35_0000_204c;

/// The address of `release`.
pub const RELEASE: u64 = 0x7f35_0000_2044;

/// The program that releases the holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Writer {
    /// As `Documentation/requests.rst` says, and it may stop at any point.
    Honest,
    /// It stores release before the data.
    Disordered,
    /// It stores the trigger first.
    Hasty,
    /// It stores any of these to release, at any time.
    Hostile(Vec<u32>),
}

/// The GPU's timer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Its nanoseconds at the launch.
    pub base: u64,
    /// Nanoseconds of a tick.
    pub tick: u64,
    /// Nanoseconds of its own steps.
    pub grain: u64,
    /// Its jumps, in ticks. Each can come at any time, two in all.
    pub jumps: Vec<i64>,
}

/// A world.
#[derive(Clone, Debug)]
pub struct World {
    /// The code.
    pub program: Arc<Program>,
    /// The number of the request.
    pub number: u32,
    /// The content of release at first.
    pub release: u32,
    /// The one that stores to it.
    pub writer: Writer,
    /// Nanoseconds after which the holder ends by itself.
    pub bound: u64,
    /// The timer.
    pub clock: Clock,
    /// Ticks that pass.
    pub ticks: u8,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The program's next store.
    Store,
    /// A hostile store to release.
    Hostile(u32),
    /// zernel stores the trigger.
    Trigger,
    /// The stream launches the holder.
    Launch,
    /// The holder takes its next step.
    Holder,
    /// Another kernel reads the data.
    Cache,
    /// A tick passes.
    Tick,
    /// The timer jumps, by ticks.
    Jump(i64),
}

/// True if a word has reached a number.
pub fn reached(word: u32, number: u32) -> bool {
    word.wrapping_sub(number) as i32 >= 0
}

/// The number before another one; 0 is none.
pub fn before(number: u32) -> u32 {
    match number.wrapping_sub(1) {
        0 => u32::MAX,
        number => number,
    }
}

impl World {
    /// A program that is honest, and a timer that is good.
    pub fn honest(program: &Arc<Program>, number: u32) -> Self {
        Self {
            program: Arc::clone(program),
            number,
            release: before(number),
            writer: Writer::Honest,
            bound: 3,
            clock: Clock {
                // The upper half changes on the way.
                base: u64::from(u32::MAX) - 1,
                tick: 1,
                grain: 1,
                jumps: Vec::new(),
            },
            ticks: 6,
        }
    }

    /// The parameters of its launch.
    pub(crate) fn parameters(&self) -> Parameters {
        parameters(HELD, RELEASE, self.number, self.bound)
    }

    /// Goes through every order. Returns the breaches that were found, none in a good world.
    pub fn explore(self) -> Vec<Breach> {
        let checker = self.checker().spawn_bfs().join();
        let mut found = Vec::new();
        for path in checker.discoveries().into_values() {
            found.extend(path.last_state().breach);
        }
        found
    }

    /// Goes through every order, and panics with a path if there is a breach or if something that
    /// the world is for does not come about.
    pub fn assert(self) {
        self.checker().spawn_bfs().join().assert_properties();
    }

    /// The number of its states.
    pub fn states(self) -> usize {
        self.checker().spawn_bfs().join().unique_state_count()
    }

    /// True if the bound can be over while ticks pass.
    fn is_bounded(&self) -> bool {
        self.bound <= (u64::from(self.ticks)).saturating_mul(self.clock.tick)
    }

    fn can_release(&self) -> bool {
        match &self.writer {
            Writer::Honest | Writer::Disordered | Writer::Hasty => true,
            Writer::Hostile(words) => {
                let mut words = words.iter().chain([&self.release]);
                words.any(|&word| reached(word, self.number))
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some() || state.has_ended() {
            return;
        }
        match &self.writer {
            Writer::Honest | Writer::Disordered | Writer::Hasty => {
                actions.extend(state.next_store(self).map(|_| Action::Store));
                if state.cached.is_none() {
                    actions.push(Action::Cache);
                }
            }
            Writer::Hostile(words) => {
                let other = words.iter().filter(|&&word| word != state.release);
                actions.extend(other.map(|&word| Action::Hostile(word)));
            }
        }
        if !reached(state.trigger, self.number) {
            actions.push(Action::Trigger);
        } else if !state.is_launched() {
            actions.push(Action::Launch);
        }
        if state.is_launched() {
            actions.push(Action::Holder);
            if state.time < self.ticks {
                actions.push(Action::Tick);
            }
            if state.jumps < 2 {
                let jumps = self.clock.jumps.iter();
                actions.extend(jumps.map(|&ticks| Action::Jump(ticks)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.act(self, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = state::properties();
        if self.can_release() {
            all.push(Property::sometimes("released", |_, state: &State| {
                state.has_ended() && state.seen
            }));
        }
        if self.is_bounded() && !reached(self.release, self.number) {
            all.push(Property::sometimes("over", |_, state: &State| {
                state.has_ended() && !state.seen
            }));
        }
        all
    }
}

#[cfg(test)]
mod tests;
