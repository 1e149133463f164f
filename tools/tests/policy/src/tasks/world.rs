// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of events, and their properties.

use std::hash::{Hash, Hasher};

use stateright::{Model, Property};

use super::machine::{Machine, SWITCH, TICK};
use super::process::{Process, Progress};
use super::worker::{Provider, Worker, BUDGET, PERIOD};
use crate::policy::rotation::Discipline as Turns;

/// Ticks after which nothing is left of any path.
const REST: u32 = 400;

/// Latency-critical work waits for a slice of best-effort (a tick), a switch that is under way and its own
/// (a tick each), and is seen a tick later.
const MOST: u64 = 4 * TICK;

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Best-effort has the slice of latency-critical work.
    LongSlices,
    /// The budget of a level is not charged.
    NoBudget,
    /// Tasks that a request has kept off the GPU stay off it.
    NoRollBack,
    /// The rotation is not told that a call has ended.
    ForgetsCalls,
    /// A task that is preempted does a part of its work anew.
    LosesContext,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// A process begins a request.
    Begin(usize),
    /// Its data is ready.
    Ready(usize),
    /// It gives the request up.
    Cancel(usize),
    /// A best-effort task gets more to run.
    Work(usize),
    /// Nothing new comes.
    Rest,
}

/// So many ticks after the one before, with the provider like this from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Step {
    after: u8,
    event: Event,
    provider: Provider,
}

/// The tasks, and the choices that there are.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// GPU time of the first work of each best-effort task, in ticks.
    pub(super) be: Vec<u64>,
    /// GPU time of the later work of one of them, likewise; 0: none comes.
    pub(super) more: u64,
    /// Latency-critical processes: with a holder or without, ticks of a request, requests.
    pub(super) lc: Vec<(bool, u64, u8)>,
    /// Ticks from one event to the next.
    pub(super) delays: Vec<u8>,
    /// The behaviour of the provider from the begin of a request without a holder on.
    pub(super) providers: Vec<Provider>,
    /// The order of turns.
    pub(super) turns: &'static str,
    /// A process may give its request up.
    pub(super) cancels: bool,
    /// A planted fault.
    pub(super) fault: Option<Fault>,
}

/// A path, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    path: Vec<Step>,
    wrong: Option<&'static str>,
    /// The next event of each process: begin, ready, or none.
    processes: Vec<(bool, bool)>,
    more: bool,
    ended: Option<End>,
    saves: u32,
    throttled: bool,
}

/// The end of a path.
#[derive(Clone, Copy, Debug)]
struct End {
    be_done: bool,
    lc_done: bool,
    exact: bool,
    let_in: bool,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // All else follows from it.
        self.path.hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// The machine with all around it.
struct Run {
    machine: Machine,
    worker: Worker,
    processes: Vec<Process>,
    be: usize,
    more: u64,
    /// Requests that there are at most.
    requests: u64,
    /// GPU time of the latency-critical level, by ticks.
    lc: Vec<u64>,
    /// Ticks for which best-effort has waited in a row.
    waiting: u64,
    /// Ticks for which it has waited and not run, and the GPU time that it has had.
    starving: (u64, u64),
    throttled: bool,
}

impl Run {
    fn new(world: &World) -> Self {
        let be = world.be.len();
        let mut machine = Machine::new(be + world.lc.len());
        let turns = Turns::named(world.turns).expect("an order of turns");
        let worker = Worker::new(&mut machine, be, turns, world.fault);
        for (task, ticks) in world.be.iter().enumerate() {
            machine.give(task, ticks * TICK);
        }
        let processes = world.lc.iter().enumerate();
        let processes = processes.map(|(at, &(holder, ticks, requests))| {
            Process::new(be + at, holder, ticks * TICK, requests)
        });
        Self {
            machine,
            worker,
            processes: processes.collect(),
            be,
            more: world.more,
            requests: world.lc.iter().map(|&(_, _, all)| u64::from(all)).sum(),
            lc: vec![0],
            waiting: 0,
            starving: (0, 0),
            throttled: false,
        }
    }

    fn tick(&mut self) {
        let machine = &mut self.machine;
        for (task, _) in machine.pass() {
            if let Some(process) = self.processes.iter_mut().find(|p| p.task == task) {
                process.done(machine);
            }
        }
        for process in &mut self.processes {
            process.timer(machine);
        }
        let wanted = self.processes.iter().any(|process| process.holds(machine));
        self.worker.step(machine, wanted);
        machine.look();
        self.check();
    }

    fn check(&mut self) {
        self.throttled |= self.worker.throttled;
        let machine = &mut self.machine;
        let lc_runs = |but: usize| {
            let mut lc = self.be..machine.tasks.len();
            lc.any(|task| task != but && machine.has_work(task))
        };
        let excused: Vec<bool> = self.processes.iter().map(|p| lc_runs(p.task)).collect();
        for (process, excused) in self.processes.iter_mut().zip(excused) {
            process.wait(machine, excused || self.worker.throttled, MOST);
        }
        self.lc.push(self.worker.lc_busy(machine));
        let waits = (0..self.be).any(|task| machine.stats(task).queued > 0);
        self.waiting = if waits { self.waiting + 1 } else { 0 };
        let window = (PERIOD / TICK).min(self.waiting) as usize;
        let (last, before) = (self.lc.len() - 1, self.lc.len() - 1 - window);
        let had = self.lc[last] - self.lc[before];
        // Beyond the budget it has what is left between two charges, its turns like best-effort, and as
        // much as that has had.
        let like_be = (PERIOD - BUDGET) / 2;
        let (starving, before) = self.starving;
        let served = self.worker.be_busy(machine);
        let credit = served.min(BUDGET / 4);
        if had > BUDGET + like_be + credit + 2 * TICK + 2 * SWITCH {
            machine.fail("a level runs for longer than its budget");
        }
        self.starving = match waits && served == before {
            true => (starving + 1, served),
            false => (0, served),
        };
        // Each of the others has a slice before it, and there are a switch and a look for each. Nobody is
        // charged for the switch to a request.
        let others = (machine.tasks.len() - self.be) as u64 + 1;
        let slices = others * (2 * TICK + 2 * SWITCH);
        let switches = self.requests * (TICK + 2 * SWITCH);
        if self.starving.0 * TICK > BUDGET + slices + switches {
            machine.fail("best-effort waits for longer than a budget");
        }
    }

    fn apply(&mut self, step: Step) {
        for _ in 0..step.after {
            self.tick();
        }
        self.worker.provider = step.provider;
        let machine = &mut self.machine;
        match step.event {
            Event::Begin(at) => {
                self.processes[at].begin(machine);
                self.worker.arrival();
            }
            Event::Ready(at) => self.processes[at].ready(machine),
            Event::Cancel(at) => self.processes[at].cancel(machine),
            Event::Work(task) => {
                machine.give(task, self.more * TICK);
                self.more = 0;
            }
            Event::Rest => {
                self.worker.provider = Provider::Quick;
                for _ in 0..REST {
                    self.tick();
                    if self.is_quiet() {
                        return;
                    }
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let mut tasks = 0..self.machine.tasks.len();
        let busy = |task: usize| self.machine.stats(task).queued > 0;
        let open = |p: &Process| p.over < p.begun;
        !tasks.any(busy) && !self.processes.iter().any(open) && self.worker.rests()
    }

    fn end(&self) -> End {
        let task = |task: usize| &self.machine.tasks[task];
        let is_done = |at: usize| task(at).done == task(at).given;
        let is_exact = |at: usize| self.machine.stats(at).times.busy.0 == task(at).given;
        End {
            be_done: (0..self.be).all(is_done),
            lc_done: self
                .processes
                .iter()
                .all(|process| is_done(process.task) && process.over == process.begun),
            // That of a stream with a holder is more.
            exact: (0..self.be).all(is_exact),
            let_in: self.worker.has_let_in(),
        }
    }
}

impl World {
    fn state(&self, path: Vec<Step>) -> State {
        let mut run = Run::new(self);
        for step in &path {
            run.apply(*step);
        }
        let rests = path.last().is_some_and(|step| step.event == Event::Rest);
        let processes = run.processes.iter().map(|process| {
            let begins = process.left > 0 && process.progress == Progress::Idle;
            (begins, process.progress == Progress::Prepares)
        });
        State {
            wrong: run.machine.wrong,
            processes: processes.collect(),
            more: run.more > 0,
            ended: rests.then(|| run.end()),
            saves: run.machine.saves,
            throttled: run.throttled,
            path,
        }
    }

    fn events(&self, state: &State) -> Vec<Event> {
        let mut events = vec![Event::Rest];
        for (at, &(begins, prepares)) in state.processes.iter().enumerate() {
            if begins {
                events.push(Event::Begin(at));
            }
            if prepares {
                events.push(Event::Ready(at));
                if self.cancels {
                    events.push(Event::Cancel(at));
                }
            }
        }
        if state.more {
            events.push(Event::Work(0));
        }
        events
    }
}

fn at_last(state: &State, is: impl Fn(&End) -> bool) -> bool {
    state.ended.as_ref().is_some_and(is)
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.state(Vec::new())]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.ended.is_some() {
            return;
        }
        let provider = state.path.last().map_or(Provider::Quick, |s| s.provider);
        for event in self.events(state) {
            if event == Event::Rest {
                steps.push(Step {
                    after: 0,
                    event,
                    provider,
                });
                continue;
            }
            let same = [provider];
            let providers = match event {
                // With a holder nothing is asked of it.
                Event::Begin(at) if !self.lc[at].0 => &self.providers[..],
                _ => &same[..],
            };
            for &after in &self.delays {
                steps.extend(providers.iter().map(|&provider| Step {
                    after,
                    event,
                    provider,
                }));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut path = state.path.clone();
        path.push(step);
        Some(self.state(path))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each task is in one place", |_, state: &State| {
                !matches!(
                    state.wrong,
                    Some("two tasks run" | "a task runs that is not to run")
                )
            }),
            Property::always("no GPU time is lost", |_, state: &State| {
                state.wrong != Some("GPU time has gone back")
                    && state.ended.is_none_or(|end| !end.be_done || end.exact)
            }),
            Property::always("latency-critical work waits bounded", |_, state: &State| {
                state.wrong != Some("latency-critical work waits for longer than its bound")
            }),
            Property::always("a level keeps to its budget", |_, state: &State| {
                state.wrong != Some("a level runs for longer than its budget")
            }),
            Property::always("best-effort waits bounded", |_, state: &State| {
                state.wrong != Some("best-effort waits for longer than a budget")
            }),
            Property::eventually("best-effort work completes", |_, state: &State| {
                at_last(state, |end| end.be_done)
            }),
            Property::eventually("requests complete", |_, state: &State| {
                at_last(state, |end| end.lc_done)
            }),
            Property::eventually("all that was kept off is let in", |_, state: &State| {
                at_last(state, |end| end.let_in)
            }),
            Property::sometimes("a task is saved and goes on", |_, state: &State| {
                state.saves > 1 && at_last(state, |end| end.be_done)
            }),
            Property::sometimes("a budget is spent", |_, state: &State| state.throttled),
        ]
    }
}
