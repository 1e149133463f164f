// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies of slices that change while TSGs have slices, as the registry and a worker carry them out.
//!
//! A state is: the real [`Tunables`] and [`Controllers`], three TSGs with the slice that they have and
//! the one that is queued for them, and the walks that bring TSGs in line. One step is one of:
//! - a tunable changes;
//! - a walk brings the next TSG in line; the worker sets the slice of one that is queued;
//! - the budget of level 0 is spent, or back;
//! - a control period is over, in which requests were late or early.
//!
//! Changes and control periods are bounded, so that no path comes back to where it was.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use stateright::{Model, Property};

use super::Text;
use crate::policy::{
    class::Effective,
    level::{self, Level},
    rotation::Discipline,
    slices::{
        pid::{Controllers, Target},
        Instead, Policy,
    },
    tunables::{settings::Conditions, Tunables},
    units::{Ns, Permille, Us},
};

/// The levels of the TSGs: above the target, one that can keep the GPU, best-effort.
const LEVELS: [u32; 3] = [0, 3, 7];

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A change of the policy reaches those alone that come later.
    NoWalk,
    /// Slices that followed latencies stay when that is over.
    KeepsInstead,
    /// A throttled TSG does not follow a change of best-effort's slice.
    LeavesThrottled,
    /// A walk that begins leaves out those that the walk before had not reached.
    LosesPlace,
}

/// So many of each.
pub(super) struct Changes {
    pub(super) tunings: u8,
    pub(super) periods: u8,
    pub(super) throttles: u8,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Policy(Policy),
    Kept(bool),
    Turns(bool),
    Enabled(bool),
    Target(bool),
    Walk,
    Follow,
    Set(usize),
    Throttle(bool),
    /// The worker looks at the tunables, and at a control period that is over.
    Work(Option<Ns>),
}

/// TSGs that follow a change of their levels, from this one on.
#[derive(Clone, Copy, Debug)]
struct Followers {
    levels: level::Set,
    from: usize,
}

/// The control loop of a worker.
#[derive(Clone, Debug)]
struct Loop {
    is_on: bool,
    controllers: Controllers,
    instead: Instead,
    follow: Option<Followers>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    tunables: Tunables,
    conditions: Conditions,
    walk: Option<usize>,
    throttled: Option<Followers>,
    control: Loop,
    /// The slice of each, 0: its driver's, and the one that is queued for it.
    has: [Us; 3],
    queued: [Option<Us>; 3],
    left: (u8, u8, u8),
}

/// All that is tuned: the policy, a level that keeps the GPU, turns, whether anything counts, a target.
fn tuned(tunables: &Tunables) -> (&'static str, u8, bool, bool, u32) {
    let slices = tunables.slices();
    let turns = tunables.turns().discipline().is_some();
    let target = slices.target(Level::LC).latency.0;
    let policy = slices.policy().name();
    (
        policy,
        slices.kept().bits(),
        turns,
        tunables.enabled(),
        target,
    )
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        tuned(&self.tunables).hash(hasher);
        let followers = |f: Followers| (f.levels.bits(), f.from);
        let follow = self.control.follow.map(followers);
        (self.walk, self.throttled.map(followers), follow).hash(hasher);
        (self.conditions.throttled.bits(), self.control.is_on).hash(hasher);
        (self.has.map(|us| us.0), self.left).hash(hasher);
        self.queued.map(|queued| queued.map(|us| us.0)).hash(hasher);
        // With the slices that are in force.
        write!(Text(hasher), "{:?}", self.control).expect("a hasher takes all");
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl State {
    fn level(tsg: usize) -> Level {
        Level::new(LEVELS[tsg]).expect("a level")
    }

    /// The slice that the tunables give a TSG now.
    fn due(&self, tsg: usize) -> Us {
        let effective = Effective::of(Self::level(tsg));
        let settings = self.tunables.settings(effective, self.conditions);
        settings.map_or(Us(0), |settings| settings.timeslice)
    }

    /// As the registry: a TSG whose slice is to be another one is queued, once.
    fn refresh(&mut self, tsg: usize) {
        let due = self.due(tsg);
        self.queued[tsg] = (due != self.has[tsg]).then_some(due);
    }

    fn tune(&mut self, fault: Option<Fault>, change: impl FnOnce(&mut Tunables)) -> Option<()> {
        let before = self.tunables;
        change(&mut self.tunables);
        if tuned(&self.tunables) == tuned(&before) {
            return None;
        }
        self.left.0 -= 1;
        if self.tunables.gives_other_settings(&before) {
            let policy = self.tunables.slices().policy() != before.slices().policy();
            match fault {
                Some(Fault::NoWalk) if policy => {}
                Some(Fault::LosesPlace) => self.walk = self.walk.or(Some(0)),
                _ => self.walk = Some(0),
            }
        }
        Some(())
    }

    /// The next TSG of those that follow, from a place on.
    fn follow(&mut self, followers: Option<Followers>) -> Option<Followers> {
        let Followers { levels, from } = followers?;
        if from >= LEVELS.len() {
            return None;
        }
        if levels.contains(Self::level(from)) {
            self.refresh(from);
        }
        Some(Followers {
            levels,
            from: from + 1,
        })
    }

    fn throttle(&mut self, throttled: level::Set) {
        let changed = throttled.difference(self.conditions.throttled);
        self.conditions.throttled = throttled;
        self.throttled = Some(after(self.throttled, changed));
    }

    fn put(&mut self, instead: Instead, fault: Option<Fault>) {
        if instead == self.control.instead {
            return;
        }
        self.control.instead = instead;
        let mut changed = instead.changed(&self.conditions.instead);
        if changed.contains(Level::BE) && fault != Some(Fault::LeavesThrottled) {
            changed = changed.union(self.conditions.throttled);
        }
        self.conditions.instead = instead;
        self.control.follow = Some(after(self.control.follow, changed));
    }

    fn work(&mut self, measured: Option<Ns>, fault: Option<Fault>) -> Option<()> {
        let terms = self.tunables.feedback();
        match (&terms, self.control.is_on) {
            (Some(_), false) => {
                self.control.is_on = true;
                self.control.controllers = Controllers::new();
            }
            (Some(terms), true) if self.control.follow.is_none() => {
                let measured = measured?;
                self.left.1 -= 1;
                let mut all = [None; level::COUNT];
                all[0] = Some(measured);
                let instead = self.control.controllers.step(terms, &all);
                self.put(instead, fault);
            }
            (None, true) => {
                self.control.is_on = false;
                if fault != Some(Fault::KeepsInstead) {
                    self.put(Instead::NONE, fault);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// True if nothing is to be done.
    fn rests(&self) -> bool {
        let follows = self.throttled.is_some() || self.control.follow.is_some();
        let is_due = self.tunables.feedback().is_some() != self.control.is_on;
        self.walk.is_none() && !follows && !is_due && self.queued == [None; 3]
    }

    /// True if each has the slice that it should.
    fn is_right(&self) -> bool {
        (0..LEVELS.len()).all(|tsg| self.has[tsg] == self.due(tsg))
    }
}

/// Those that follow a change, and the change before.
fn after(before: Option<Followers>, levels: level::Set) -> Followers {
    let before = before.map_or(level::Set::NONE, |before| before.levels);
    Followers {
        levels: levels.union(before),
        from: 0,
    }
}

impl Model for Changes {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut tunables = Tunables::new();
        tunables
            .set_timeslice(Level::BE, Us(5_000))
            .expect("in range");
        let conditions = Conditions {
            turns: true,
            ..Conditions::NONE
        };
        let mut state = State {
            tunables,
            conditions,
            walk: None,
            throttled: None,
            control: Loop {
                is_on: false,
                controllers: Controllers::new(),
                instead: Instead::NONE,
                follow: None,
            },
            has: [Us(0); 3],
            queued: [None; 3],
            left: (self.tunings, self.periods, self.throttles),
        };
        state.has = [0, 1, 2].map(|tsg| state.due(tsg));
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend([Step::Walk, Step::Follow, Step::Work(None)]);
        steps.extend([0, 1, 2].map(Step::Set));
        if state.left.0 > 0 {
            steps.extend(Policy::ALL.map(Step::Policy));
            for on in [false, true] {
                let change = [Step::Kept, Step::Turns, Step::Enabled, Step::Target];
                steps.extend(change.map(|step| step(on)));
            }
        }
        if state.left.1 > 0 {
            let times = [Ns(100_000), Ns(100_000_000)];
            steps.extend(times.map(|time| Step::Work(Some(time))));
        }
        if state.left.2 > 0 {
            steps.extend([false, true].map(Step::Throttle));
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let fault = self.fault;
        match step {
            Step::Policy(policy) => next.tune(fault, |t| t.slices_mut().set_policy(policy))?,
            Step::Kept(is) => next.tune(fault, |t| {
                let level = State::level(1);
                t.slices_mut().set_preemptible(level, !is).expect("a level");
            })?,
            Step::Turns(on) => next.tune(fault, |t| {
                let discipline = on.then(Discipline::default);
                t.turns_mut().set_discipline(discipline);
            })?,
            Step::Enabled(on) => next.tune(fault, |t| t.set_enabled(on))?,
            Step::Target(on) => next.tune(fault, |t| {
                let target = Target {
                    latency: Us(if on { 2_000 } else { 0 }),
                    quantile: Permille(990),
                };
                let slices = t.slices_mut();
                slices.set_target(Level::LC, target).expect("in range");
            })?,
            Step::Walk => {
                let tsg = next.walk?;
                next.walk = (tsg + 1 < LEVELS.len()).then_some(tsg + 1);
                next.refresh(tsg);
            }
            Step::Follow => {
                if state.control.follow.is_some() {
                    next.control.follow = next.follow(state.control.follow);
                } else {
                    state.throttled?;
                    next.throttled = next.follow(state.throttled);
                }
            }
            Step::Set(tsg) => next.has[tsg] = next.queued[tsg].take()?,
            Step::Throttle(on) => {
                let mut throttled = level::Set::NONE;
                throttled.put(Level::LC, on);
                if throttled == next.conditions.throttled {
                    return None;
                }
                next.left.2 -= 1;
                next.throttle(throttled);
            }
            Step::Work(measured) => next.work(measured, fault)?,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no slice is stranded", |_, state: &State| {
                !state.rests() || state.is_right()
            }),
            Property::always("nothing follows latencies for ever", |_, state: &State| {
                let follows = state.tunables.feedback().is_some();
                !state.rests() || follows || state.conditions.instead == Instead::NONE
            }),
            Property::eventually(
                "each TSG has the slice of the last change",
                |_, state: &State| {
                    let (tunings, _, throttles) = state.left;
                    tunings + throttles == 0 && state.rests() && state.is_right()
                },
            ),
            Property::sometimes("slices follow", |_, state: &State| {
                state.control.instead != Instead::NONE
            }),
            Property::sometimes("a throttled one follows best-effort", |_, state: &State| {
                let slice = state.conditions.instead.of(Level::BE);
                state.conditions.throttled.contains(Level::LC) && slice == Some(state.has[0])
            }),
        ]
    }
}
