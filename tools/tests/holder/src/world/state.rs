// SPDX-License-Identifier: MIT OR Apache-2.0
//! A state of the world, its steps, and what must never come about.

use stateright::Property;

use super::{reached, Action, World, Writer, HELD, RELEASE};
use crate::code::Scope;
use crate::machine::{Fault, Machine, Step};

/// Something that must not come about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Breach {
    /// It ends, or looks at release, and has not stored held.
    NotHeld,
    /// It stores held again.
    HeldAgain,
    /// It stores another number than that of the request.
    HeldOther,
    /// It accesses other memory, or the right words at a narrower scope.
    Strange,
    /// It ends, and neither is it released nor is its bound over.
    EndsEarly,
    /// It has seen its release, and goes on.
    GoesOn,
    /// It looks at release for a second time when its bound is over.
    EndsLate,
    /// It is released, and the work behind it does not see the data or its time.
    Stale,
    /// The program has triggered it, and it does not see the release at its first look.
    TriggeredUnreleased,
    /// Its code is wrong by itself.
    Fault(Fault),
}

/// A state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The thread, once it is launched.
    machine: Option<Machine>,
    has_ended: bool,
    /// Stores that the program has done.
    stores: u8,
    pub(super) trigger: u32,
    /// The program has stored the trigger, not zernel.
    own_trigger: bool,
    pub(super) release: u32,
    is_held: bool,
    /// The new data is in memory, and its time.
    data: bool,
    data_time: bool,
    /// The content of the copy in the SM's cache, if there is one: the new data, or the old.
    pub(super) cached: Option<bool>,
    /// Ticks since the launch.
    pub(super) time: u8,
    /// Ticks by which the timer has jumped, and those of them that were on.
    jumped: i64,
    jumped_on: u64,
    pub(super) jumps: u8,
    /// The ghost of the timer: when it was read last, whether it has jumped back since, and the
    /// ticks between two readings with such a jump.
    looked: u8,
    jumped_back: bool,
    lost: u8,
    /// Looks at release: up to 2, and those in a row that began when the bound was over.
    looks: u8,
    late: u8,
    /// Its last look has seen the release.
    pub(super) seen: bool,
    pub(super) breach: Option<Breach>,
}

impl State {
    /// Before the launch.
    pub(super) fn new(world: &World) -> Self {
        Self {
            machine: None,
            has_ended: false,
            stores: 0,
            trigger: super::before(world.number),
            own_trigger: false,
            release: world.release,
            is_held: false,
            data: false,
            data_time: false,
            cached: None,
            time: 0,
            jumped: 0,
            jumped_on: 0,
            jumps: 0,
            looked: 0,
            jumped_back: false,
            lost: 0,
            looks: 0,
            late: 0,
            seen: false,
            breach: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn is_launched(&self) -> bool {
        self.machine.is_some()
    }

    /// The next store of a program that is not hostile, if it has one left.
    pub(super) fn next_store(&self, world: &World) -> Option<Word> {
        use Word::{Data, DataTime, Release, Trigger};
        let order = match world.writer {
            Writer::Honest => [Data, DataTime, Release, Trigger],
            Writer::Disordered => [Release, Data, DataTime, Trigger],
            Writer::Hasty => [Trigger, Data, DataTime, Release],
            Writer::Hostile(_) => return None,
        };
        order.get(usize::from(self.stores)).copied()
    }

    pub(super) fn act(&mut self, world: &World, action: Action) {
        match action {
            Action::Store => {
                match self.next_store(world) {
                    Some(Word::Data) => self.data = true,
                    Some(Word::DataTime) => self.data_time = true,
                    Some(Word::Release) => self.release = world.number,
                    Some(Word::Trigger) if !reached(self.trigger, world.number) => {
                        self.trigger = world.number;
                        self.own_trigger = true;
                    }
                    _ => {}
                }
                self.stores += 1;
            }
            Action::Hostile(word) => self.release = word,
            Action::Trigger => self.trigger = world.number,
            Action::Launch => self.launch(world),
            Action::Holder => {
                if let Err(breach) = self.go_on(world) {
                    self.breach = Some(breach);
                }
            }
            Action::Cache => self.cached = Some(self.data),
            Action::Tick => self.time += 1,
            Action::Jump(ticks) => {
                self.jumps += 1;
                self.jumped += ticks;
                self.jumped_on += u64::try_from(ticks).unwrap_or(0);
                self.jumped_back |= ticks < 0;
            }
        }
    }

    /// Its time counts from its first instructions. A reading of the timer is one of them, if it
    /// comes before all other steps.
    fn launch(&mut self, world: &World) {
        let mut machine = Machine::new(&world.program, 0, world.parameters());
        let first = machine.next(&world.program);
        self.machine = Some(machine);
        if first == Ok(Step::Timer) {
            if let Err(breach) = self.go_on(world) {
                self.breach = Some(breach);
            }
        }
    }

    fn go_on(&mut self, world: &World) -> Result<(), Breach> {
        let Some(mut machine) = self.machine.take() else {
            return Ok(());
        };
        let step = machine.next(&world.program).map_err(Breach::Fault)?;
        let value = self.see(world, step)?;
        machine.take(&world.program, value).map_err(Breach::Fault)?;
        self.machine = Some(machine);
        Ok(())
    }

    /// A step of the holder: its effect and its result.
    fn see(&mut self, world: &World, step: Step) -> Result<u64, Breach> {
        if self.seen && !matches!(step, Step::Invalidate | Step::End) {
            return Err(Breach::GoesOn);
        }
        match step {
            Step::Load {
                address: RELEASE,
                scope: Scope::System,
            } => self.look(world),
            Step::Store {
                address: HELD,
                value,
                scope: Scope::System,
            } => {
                if value != world.number {
                    return Err(Breach::HeldOther);
                }
                if self.is_held {
                    return Err(Breach::HeldAgain);
                }
                self.is_held = true;
                Ok(0)
            }
            Step::Load { .. } | Step::Store { .. } => Err(Breach::Strange),
            Step::Timer => Ok(self.read_timer(world)),
            Step::Invalidate => {
                self.cached = None;
                Ok(0)
            }
            Step::Sleep => Ok(0),
            Step::End => self.end(world),
        }
    }

    fn look(&mut self, world: &World) -> Result<u64, Breach> {
        if !self.is_held {
            return Err(Breach::NotHeld);
        }
        self.seen = reached(self.release, world.number);
        if self.own_trigger && self.looks == 0 && !self.seen {
            return Err(Breach::TriggeredUnreleased);
        }
        self.looks = (self.looks + 1).min(2);
        self.late = match self.is_late(world) {
            true => self.late + 1,
            false => 0,
        };
        match self.late {
            0 | 1 => Ok(self.release.into()),
            _ => Err(Breach::EndsLate),
        }
    }

    fn read_timer(&mut self, world: &World) -> u64 {
        if self.jumped_back {
            self.lost += self.time - self.looked;
            self.late = 0;
        }
        self.jumped_back = false;
        self.looked = self.time;
        let clock = &world.clock;
        let ticks = i64::from(self.time) + self.jumped;
        let now = clock
            .base
            .wrapping_add((ticks as u64).wrapping_mul(clock.tick));
        now - now % clock.grain
    }

    /// A look has begun although the bound was over. A time between two readings of the timer in
    /// which it has jumped back does not count, as the holder cannot know it.
    fn is_late(&self, world: &World) -> bool {
        let unknown = match self.jumped_back {
            true => self.time - self.looked,
            false => 0,
        };
        let known = self.time - self.lost - unknown;
        self.nanoseconds(world, known.into()) >= u128::from(world.bound) + self.slack(world)
    }

    fn nanoseconds(&self, world: &World, ticks: u64) -> u128 {
        u128::from(ticks) * u128::from(world.clock.tick)
    }

    /// A time between two readings is known to one step of the timer.
    fn slack(&self, world: &World) -> u128 {
        u128::from(world.clock.grain - 1) * u128::from(self.jumps + 1)
    }

    fn end(&mut self, world: &World) -> Result<u64, Breach> {
        self.has_ended = true;
        if !self.is_held {
            return Err(Breach::NotHeld);
        }
        let sees_data = self.cached.unwrap_or(self.data) && self.data_time;
        let is_released = self.seen && !matches!(world.writer, Writer::Hostile(_));
        // A word that was far ahead from the beginning releases nothing.
        if is_released && world.release == super::before(world.number) && !sees_data {
            return Err(Breach::Stale);
        }
        // The time of its last reading, not that of its end.
        let ticks = u64::from(self.looked) + self.jumped_on;
        let most = self.nanoseconds(world, ticks) + self.slack(world);
        match self.seen || most >= world.bound.into() {
            true => Ok(0),
            false => Err(Breach::EndsEarly),
        }
    }
}

/// A word that a program stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Data,
    DataTime,
    Release,
    Trigger,
}

/// Each breach by itself, so that all of a world are found.
pub(super) fn properties() -> Vec<Property<World>> {
    fn never(state: &State, breach: Breach) -> bool {
        state.breach != Some(breach)
    }
    vec![
        Property::always("it stores held before it looks", |_, state| {
            never(state, Breach::NotHeld)
        }),
        Property::always("it stores held once", |_, state| {
            never(state, Breach::HeldAgain)
        }),
        Property::always("held gets its number", |_, state| {
            never(state, Breach::HeldOther)
        }),
        Property::always("it accesses its words alone", |_, state| {
            never(state, Breach::Strange)
        }),
        Property::always(
            "it ends when it is released or its bound is over",
            |_, state| never(state, Breach::EndsEarly),
        ),
        Property::always("it ends when it sees its release", |_, state| {
            never(state, Breach::GoesOn)
        }),
        Property::always("it ends when its bound is over", |_, state| {
            never(state, Breach::EndsLate)
        }),
        Property::always("the work behind it sees the data", |_, state| {
            never(state, Breach::Stale)
        }),
        Property::always(
            "a trigger of the program comes with its release",
            |_, state| never(state, Breach::TriggeredUnreleased),
        ),
        Property::always("its code is sound", |_, state: &State| {
            !matches!(state.breach, Some(Breach::Fault(_)))
        }),
    ]
}
