// SPDX-License-Identifier: MIT OR Apache-2.0
//! A latency-critical process with one slot, and the kernel's part of that: `rust/zernel/request/slot.rs`.

use super::machine::{run, Machine, TICK};
use crate::model::measures::{Ns as ModelNs, Permille};
use crate::model::work::{Condition, Expect, Work};
use crate::policy::request::succession::Succession;
use crate::policy::request::trial::Look;
use crate::policy::request::words::{Number, Observed};
use crate::policy::request::{Actions, Error, Plan};
use crate::policy::units::Ns;

/// The words of a slot on the GPU.
const TRIGGER: u16 = 0;
const RELEASE: u16 = 1;
const HELD: u16 = 2;

/// The longest time from the trigger to ready.
pub(super) const LEASE: u64 = 5 * TICK;
/// A preparation is expected to take so long.
const EXPECTED: u64 = 2 * TICK;
/// Work of a holder before it holds.
const SHORTEST: u64 = 1_000;
/// The estimated time of a switch.
const COST: u64 = TICK;

/// The call of a process on its request.
type Call = fn(&mut Succession, Number, Ns, &Observed) -> Result<Actions, Error>;

/// The progress of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Idle,
    Prepares,
    /// Its kernels are queued, since then.
    Ready(u64),
}

pub(super) struct Process {
    pub(super) task: usize,
    /// Its stream has a holder.
    holder: bool,
    /// The GPU time of its kernels.
    burst: u64,
    pub(super) requests: Succession,
    words: Observed,
    alarm: Option<Ns>,
    number: Option<Number>,
    pub(super) progress: Progress,
    /// Requests that are left to begin, that were begun, and that are over.
    pub(super) left: u8,
    pub(super) begun: u8,
    pub(super) over: u8,
    /// GPU time for which its kernels waited, with nobody else of its level on the GPU.
    waited: u64,
}

impl Process {
    pub(super) fn new(task: usize, holder: bool, burst: u64, requests: u8) -> Self {
        Self {
            task,
            holder,
            burst,
            requests: Succession::new(),
            words: Observed::default(),
            alarm: None,
            number: None,
            progress: Progress::Idle,
            left: requests,
            begun: 0,
            over: 0,
            waited: 0,
        }
    }

    fn observe(&mut self, machine: &Machine) -> Observed {
        let words = &machine.tasks[self.task].words;
        self.words.held = crate::model::tsg::Context::load(words, HELD);
        self.words
    }

    fn act(&mut self, machine: &mut Machine, actions: &Actions) {
        if let Some(number) = actions.release {
            self.words.release = number.get();
            machine.store(self.task, RELEASE, number.get());
        }
        if let Some(number) = actions.trigger {
            self.words.trigger = number.get();
            machine.store(self.task, TRIGGER, number.get());
        }
        self.alarm = actions.alarm;
        self.over += u8::from(actions.over.is_some());
        if actions.over.is_some() {
            self.catch_up();
        }
    }

    fn catch_up(&mut self) {
        self.over += u8::from(self.requests.catch_up().is_some());
    }

    pub(super) fn begin(&mut self, machine: &mut Machine) {
        let now = Ns(machine.now);
        self.catch_up();
        let plan = Plan {
            trigger_at: now.saturating_add(Ns(EXPECTED - COST)),
            lease: Ns(LEASE),
            cost: Ns(COST),
            holder: self.holder,
            look: Look::AtDue,
            ..Plan::default()
        };
        let seen = self.observe(machine);
        let number = self.requests.next(&seen);
        let mut actions = Actions::default();
        self.requests.begin(number, now, &seen, &plan, &mut actions);
        self.number = Some(number);
        self.left -= 1;
        self.begun += 1;
        self.progress = Progress::Prepares;
        self.waited = 0;
        self.act(machine, &actions);
        if self.holder {
            let at_least = |word| Expect {
                word,
                value: number.get(),
                condition: Condition::AtLeast,
                rung: false,
            };
            let hold = Work::Hold {
                expect: at_least(RELEASE),
                bound: ModelNs(1_000_000_000),
                demand: Permille(1),
            };
            let held = Work::Release {
                word: HELD,
                value: number.get(),
            };
            let wait = Work::Wait(at_least(TRIGGER));
            for work in [wait, run(SHORTEST), held, hold] {
                machine.submit(self.task, 0, work);
            }
        }
    }

    /// Its data is ready: its kernels are queued behind the holder.
    pub(super) fn ready(&mut self, machine: &mut Machine) {
        machine.give(self.task, self.burst);
        self.progress = Progress::Ready(machine.now);
        let Some(number) = self.number else {
            return;
        };
        if self.holder {
            // By stores; the trigger only if nobody has stored it.
            self.words.ready_ns = Ns(machine.now);
            self.words.release = number.get();
            machine.store(self.task, RELEASE, number.get());
            if !number.is_reached_by(self.words.trigger) {
                self.words.trigger = number.get();
                machine.store(self.task, TRIGGER, number.get());
            }
        } else {
            self.call(machine, Succession::ready);
        }
    }

    pub(super) fn cancel(&mut self, machine: &mut Machine) {
        self.progress = Progress::Idle;
        self.call(machine, Succession::cancel);
    }

    fn call(&mut self, machine: &mut Machine, call: Call) {
        let seen = self.observe(machine);
        let now = Ns(machine.now);
        if let Some(Ok(actions)) = self
            .number
            .map(|number| call(&mut self.requests, number, now, &seen))
        {
            self.act(machine, &actions);
        }
    }

    /// Its kernels are done.
    pub(super) fn done(&mut self, machine: &mut Machine) {
        self.progress = Progress::Idle;
        self.call(machine, Succession::done);
    }

    /// The timer of its slot.
    pub(super) fn timer(&mut self, machine: &mut Machine) {
        if self.alarm.is_some_and(|alarm| alarm.0 <= machine.now) {
            let seen = self.observe(machine);
            let actions = self.requests.poll(Ns(machine.now), &seen);
            self.act(machine, &actions);
            self.catch_up();
        }
    }

    /// True if it keeps less urgent tasks off the GPU.
    pub(super) fn holds(&self, machine: &Machine) -> bool {
        self.requests.holds() && machine.now < self.requests.holds_until().0
    }

    /// Counts a tick for which its kernels wait. `excused`: for one of its own level, or without a
    /// budget.
    pub(super) fn wait(&mut self, machine: &mut Machine, excused: bool, most: u64) {
        let waits = matches!(self.progress, Progress::Ready(_));
        if !waits || machine.stats(self.task).on_engine {
            self.waited = 0;
        } else if !excused {
            self.waited += TICK;
        }
        if self.waited > most {
            machine.fail("latency-critical work waits for longer than its bound");
        }
    }
}
