// SPDX-License-Identifier: MIT OR Apache-2.0
//! The worker of the GPU, as `rust/zernel/worker/` has it: turns, budgets, and the exclusion of less
//! urgent tasks. It does one call at a time.

use super::machine::Machine;
use super::world::Fault;
use crate::policy::budget::{Params, Server, State};
use crate::policy::class::Effective;
use crate::policy::level::{self, Level};
use crate::policy::preempt::{Answer, Attempt, Next, Verdict};
use crate::policy::rotation::entity::{Entity, Sample};
use crate::policy::rotation::run_list::RunList;
use crate::policy::rotation::turn::{Action, Outcome, Turn};
use crate::policy::rotation::{Discipline, Quantum, Weight};
use crate::policy::tunables::settings::{Conditions, Settings};
use crate::policy::tunables::Tunables;
use crate::policy::units::Ns;

/// The budget of the latency-critical level, and its period: the shortest that there are.
pub(super) const BUDGET: u64 = 1_000_000;
pub(super) const PERIOD: u64 = 2_000_000;

/// The provider in the next calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Provider {
    /// Each call takes a tick.
    Quick,
    /// Each call takes five.
    Slow,
    /// The GPU does not give the engine up in time, but a task can be disabled.
    TimesOut,
    /// Neither works in time.
    DoesNotRespond,
    /// A task cannot be disabled.
    Refuses,
    /// The GPU is in no state for it.
    NotNow,
}

impl Provider {
    fn ticks(self) -> u8 {
        match self {
            Self::Slow => 5,
            _ => 1,
        }
    }

    /// The answer to a preemption, and to a task being disabled for a request.
    fn answers(self) -> (Answer, Answer) {
        match self {
            Self::Quick | Self::Slow => (Answer::Done, Answer::Done),
            Self::TimesOut => (Answer::TimedOut, Answer::Done),
            Self::DoesNotRespond => (Answer::TimedOut, Answer::TimedOut),
            Self::Refuses => (Answer::Done, Answer::Refused),
            Self::NotNow => (Answer::InvalidState, Answer::InvalidState),
        }
    }
}

/// A call of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Of the rotation.
    Turn(Action),
    /// Of an exclusion.
    Exclude(Next),
    /// The end of one.
    LetIn(usize),
}

/// The best-effort tasks, by their numbers.
struct Members(Vec<Entity>);

impl RunList for Members {
    fn get(&self, id: usize) -> Option<&Entity> {
        self.0.get(id)
    }

    fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
        self.0.get_mut(id)
    }
}

/// The exclusion of best-effort tasks.
#[derive(Default)]
struct Exclusion {
    excluded: Vec<usize>,
    refused: Vec<usize>,
    attempt: Option<(usize, Attempt)>,
    /// It failed for the requests that there are.
    failed: bool,
    since: Option<u64>,
}

pub(super) struct Worker {
    tunables: Tunables,
    members: Members,
    turn: Turn,
    exclusion: Exclusion,
    server: Server,
    /// GPU time of the level up to the last charge.
    charged: u64,
    pub(super) throttled: bool,
    /// When the budget is looked at next.
    due: u64,
    call: Option<(Call, u8)>,
    pub(super) provider: Provider,
    /// When the turns are looked at next; `None`: when something changes.
    look_at: Option<u64>,
    /// The tasks that had something to run at the last look.
    seen: Vec<bool>,
    fault: Option<Fault>,
}

impl Worker {
    /// Best-effort tasks come first.
    pub(super) fn new(
        machine: &mut Machine,
        be: usize,
        discipline: Discipline,
        fault: Option<Fault>,
    ) -> Self {
        let mut tunables = Tunables::new();
        let params = Params::new(Ns(BUDGET), Ns(PERIOD)).expect("in range");
        let set = tunables.set_budget(Level::LC, Ns(BUDGET), Ns(PERIOD));
        set.expect("in range");
        tunables.turns_mut().set_discipline(Some(discipline));
        let quantum = Quantum::new(Quantum::RANGE.0).expect("in range");
        let mut turn = Turn::new(discipline, quantum);
        turn.set_on(true);
        let mut members = Members(vec![Entity::new(Weight::DEFAULT); be]);
        for id in 0..be {
            turn.join(&mut members, id);
        }
        let tasks = machine.tasks.len();
        let worker = Self {
            tunables,
            members,
            turn,
            exclusion: Exclusion::default(),
            server: Server::new(params),
            charged: 0,
            throttled: false,
            due: 0,
            call: None,
            provider: Provider::Quick,
            look_at: Some(0),
            seen: vec![false; tasks],
            fault,
        };
        for task in 0..tasks {
            let settings = worker.settings(task);
            machine.set(task, &settings);
        }
        worker
    }

    fn level(&self, task: usize) -> Level {
        match task < self.members.0.len() {
            true => Level::BE,
            false => Level::LC,
        }
    }

    /// The settings of a task that follow from the tunables and the budget.
    fn settings(&self, task: usize) -> Settings {
        let mut throttled = level::Set::NONE;
        throttled.put(Level::LC, self.throttled);
        let conditions = Conditions {
            turns: self.fault != Some(Fault::LongSlices),
            throttled,
            ..Conditions::NONE
        };
        let mut tunables = self.tunables;
        if self.fault == Some(Fault::LongSlices) {
            let slice = tunables.timeslice(Level::LC);
            tunables.set_timeslice(Level::BE, slice).expect("in range");
        }
        let effective = Effective::of(self.level(task));
        tunables.settings(effective, conditions).expect("a class")
    }

    /// GPU time of the latency-critical tasks.
    pub(super) fn lc_busy(&self, machine: &Machine) -> u64 {
        let lc = self.members.0.len()..machine.tasks.len();
        lc.map(|task| machine.stats(task).times.busy.0).sum()
    }

    /// GPU time of the best-effort tasks.
    pub(super) fn be_busy(&self, machine: &Machine) -> u64 {
        let be = 0..self.members.0.len();
        be.map(|task| machine.stats(task).times.busy.0).sum()
    }

    fn lc_has_work(&self, machine: &Machine) -> bool {
        (self.members.0.len()..machine.tasks.len()).any(|task| machine.has_work(task))
    }

    /// True if nothing is under way.
    pub(super) fn rests(&self) -> bool {
        self.call.is_none() && self.exclusion.excluded.is_empty()
    }

    /// True if no task is kept off the GPU by a request.
    pub(super) fn has_let_in(&self) -> bool {
        self.exclusion.excluded.is_empty() && self.exclusion.attempt.is_none()
    }

    /// Another request asks for the GPU.
    pub(super) fn arrival(&mut self) {
        self.exclusion.failed = false;
    }

    /// Goes on. `wanted`: a request asks for less urgent tasks to be kept off the GPU.
    pub(super) fn step(&mut self, machine: &mut Machine, wanted: bool) {
        let wanted = wanted && !self.throttled;
        if let Some((call, left)) = &mut self.call {
            *left -= 1;
            if *left > 0 {
                return;
            }
            let call = *call;
            self.call = None;
            self.carry_out(machine, call);
        }
        self.charge(machine);
        let next = self.exclude(machine, wanted);
        let next = match next {
            Some(call) => Some(call),
            None if wanted && !self.exclusion.failed => None,
            None if !self.exclusion.excluded.is_empty() => None,
            None => self.rotate(machine),
        };
        self.call = next.map(|call| (call, self.provider.ticks()));
    }

    fn carry_out(&mut self, machine: &mut Machine, call: Call) {
        match call {
            Call::Turn(action) => {
                match action {
                    Action::Enable(id) => machine.set_enabled(id, true),
                    Action::Disable(id) => machine.set_enabled(id, false),
                    Action::WaitUntil(_) | Action::Nothing => {}
                }
                self.look_at = Some(machine.now);
                if self.fault == Some(Fault::ForgetsCalls) {
                    return;
                }
                self.observe(machine);
                let now = Ns(machine.now);
                self.turn.finished(&mut self.members, now, Outcome::Done);
            }
            Call::Exclude(next) => self.answer(machine, next),
            Call::LetIn(task) => {
                machine.set_enabled(task, true);
                self.turn.set_enabled(&mut self.members, task, true);
                self.exclusion.excluded.retain(|&other| other != task);
                self.look_at = Some(machine.now);
            }
        }
    }

    /// The provider answers a step of an attempt.
    fn answer(&mut self, machine: &mut Machine, next: Next) {
        let Some((victim, mut attempt)) = self.exclusion.attempt.take() else {
            return;
        };
        let (preempt, disable) = self.provider.answers();
        let answer = match next {
            Next::Preempt => preempt,
            _ => disable,
        };
        if answer == Answer::Done {
            match next {
                Next::Preempt => machine.preempt(victim),
                _ => {
                    machine.set_enabled(victim, false);
                    self.turn.set_enabled(&mut self.members, victim, false);
                    if self.fault == Some(Fault::LosesContext) {
                        machine.waste(victim);
                    }
                }
            }
        }
        attempt.answered(answer);
        let exclusion = &mut self.exclusion;
        match attempt.next() {
            Next::Over(verdict) if verdict.is_off() => exclusion.excluded.push(victim),
            Next::Over(Verdict::Refused) => exclusion.refused.push(victim),
            Next::Over(_) => exclusion.failed = true,
            _ => exclusion.attempt = Some((victim, attempt)),
        }
    }

    /// The next call for requests without a holder.
    fn exclude(&mut self, machine: &Machine, wanted: bool) -> Option<Call> {
        if let Some((_, attempt)) = self.exclusion.attempt {
            return Some(Call::Exclude(attempt.next()));
        }
        let exclusion = &mut self.exclusion;
        if wanted && !exclusion.failed {
            exclusion.since.get_or_insert(machine.now);
            let is_victim = |&task: &usize| {
                let known = exclusion.excluded.contains(&task) || exclusion.refused.contains(&task);
                machine.stats(task).enabled && !known
            };
            let victim = (0..self.members.0.len()).find(is_victim)?;
            let attempt = Attempt::new(true);
            exclusion.attempt = Some((victim, attempt));
            return Some(Call::Exclude(attempt.next()));
        }
        exclusion.since = None;
        exclusion.refused.clear();
        let last = *exclusion.excluded.last()?;
        if self.fault == Some(Fault::NoRollBack) {
            return None;
        }
        Some(Call::LetIn(last))
    }

    /// The next call of the rotation, if it is time to ask.
    fn rotate(&mut self, machine: &Machine) -> Option<Call> {
        let now = Ns(machine.now);
        let has_work: Vec<bool> = (0..machine.tasks.len())
            .map(|task| machine.has_work(task))
            .collect();
        let is_due = self.look_at.is_some_and(|at| at <= machine.now);
        if has_work == self.seen && !is_due {
            return None;
        }
        self.seen = has_work;
        self.observe(machine);
        let busy = self.lc_has_work(machine) && !self.throttled;
        self.turn.set_lc(busy, now);
        self.look_at = None;
        match self.turn.next(&mut self.members, now) {
            action @ (Action::Enable(_) | Action::Disable(_)) => Some(Call::Turn(action)),
            Action::WaitUntil(at) => {
                self.look_at = Some(at.0);
                None
            }
            Action::Nothing => None,
        }
    }

    fn observe(&mut self, machine: &Machine) {
        for id in 0..self.members.0.len() {
            let stats = machine.stats(id);
            let sample = Sample {
                ran: Ns(stats.times.busy.0),
                runnable: machine.has_work(id),
                since: None,
            };
            self.members.0[id].learn(sample, Ns(machine.now));
            self.turn.observe(&mut self.members, id, sample);
        }
    }

    /// Charges the level, when its budget can be spent or back, and has its tasks follow.
    fn charge(&mut self, machine: &mut Machine) {
        let served = self.be_busy(machine);
        self.server.serve(Ns(machine.now), Some(Ns(served)));
        let busy = self.lc_has_work(machine);
        let held = self.exclusion.since;
        let is_due = self.due <= machine.now && (busy || self.throttled || held.is_some());
        if !is_due || self.fault == Some(Fault::NoBudget) {
            return;
        }
        let ran = self.lc_busy(machine);
        let new = ran - self.charged;
        self.charged = ran;
        let held = held.map_or(0, |since| machine.now - since);
        if let Some(since) = &mut self.exclusion.since {
            *since = machine.now;
        }
        // Work like best-effort is not charged.
        let charge = if self.throttled { 0 } else { new.max(held) };
        let (throttled, next) = match self.server.charge(Ns(machine.now), Ns(charge)) {
            State::Throttled { until } => (true, until.0),
            State::Free { left } => (false, machine.now + left.0),
        };
        self.due = next;
        if throttled != self.throttled {
            self.throttled = throttled;
            for task in self.members.0.len()..machine.tasks.len() {
                let settings = self.settings(task);
                machine.set(task, &settings);
            }
        }
    }
}
