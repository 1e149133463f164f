// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run list, a worker and a provider in steps of [`STEP`].

use super::{Members, MS, US};
use crate::policy::{
    rotation::{
        entity::{Entity, Sample},
        run_list::RunList as _,
        turn::{Action, Outcome, Turn},
        Discipline, Quantum, Weight,
    },
    units::Ns,
};

/// The resolution of time.
pub(super) const STEP: u64 = 10 * US;

/// The longest time of a call.
pub(super) const CALL: u64 = 250 * US;

/// A generator of numbers that are random enough (xorshift64*).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound.max(1)
    }
}

/// The load of a TSG.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Never idle.
    Busy,
    /// Idle for up to twice `sleep` after each burst of up to twice `burst`.
    Bursts { burst: u64, sleep: u64 },
    /// As long as it may have the GPU it has; sleeps for `sleep` as soon as it had `burst`.
    Thinks { burst: u64, sleep: u64 },
    /// The same until `busy_at`, and never idle from then on.
    Turncoat {
        burst: u64,
        sleep: u64,
        busy_at: u64,
    },
}

/// A TSG of the simulation.
pub(super) struct Tsg {
    pub(super) weight: u32,
    load: Load,
    pub(super) enabled: bool,
    /// GPU time, as the provider counts it.
    ran: u64,
    /// The same when measuring began.
    before: u64,
    /// Work that is left of a burst.
    left: u64,
    wake_at: u64,
    /// Time that it has waited with something to run.
    waited: u64,
    pub(super) longest_wait: u64,
    reported: bool,
}

impl Tsg {
    /// GPU time since measuring began.
    pub(super) fn served(&self) -> u64 {
        self.ran - self.before
    }

    fn is_runnable(&self) -> bool {
        self.left > 0
    }
}

/// The behaviour of the machine around the rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) discipline: Discipline,
    pub(super) quantum: Quantum,
    /// `None`: the provider tells of idleness and work.
    pub(super) poll: Option<u64>,
    /// LC takes the first `.0` of every `.1`.
    pub(super) lc: Option<(u64, u64)>,
    /// Bursts and think times are learned.
    pub(super) predict: bool,
}

pub(super) struct Bench {
    machine: Machine,
    pub(super) tsgs: Vec<Tsg>,
    members: Members,
    turn: Turn,
    random: Random,
    now: u64,
    call: Option<(Action, u64)>,
    wait_until: Option<u64>,
    /// The TSG that had the last slice.
    last: usize,
    idle: u64,
    pub(super) longest_idle: u64,
    pub(super) total_idle: u64,
    pub(super) calls: u64,
    had_lc: bool,
    settled: bool,
}

impl Bench {
    pub(super) fn new(machine: Machine, tsgs: &[(u32, Load)], seed: u64) -> Self {
        let mut turn = Turn::new(machine.discipline, machine.quantum);
        turn.set_on(true);
        turn.set_poll(machine.poll.map(Ns));
        let mut members = Members::default();
        for (id, &(weight, _)) in tsgs.iter().enumerate() {
            let mut entity = Entity::new(Weight::new(weight).unwrap());
            entity.set_resolution(Ns(machine.poll.unwrap_or(0)));
            members.0.push(Some(entity));
            turn.join(&mut members, id);
        }
        let tsgs = tsgs
            .iter()
            .map(|&(weight, load)| Tsg {
                weight,
                load,
                enabled: true,
                ran: 0,
                before: 0,
                left: 0,
                wake_at: 0,
                waited: 0,
                longest_wait: 0,
                reported: false,
            })
            .collect();
        Self {
            machine,
            tsgs,
            members,
            turn,
            random: Random(seed | 1),
            now: 0,
            call: None,
            wait_until: Some(0),
            last: 0,
            idle: 0,
            longest_idle: 0,
            total_idle: 0,
            calls: 0,
            had_lc: false,
            settled: false,
        }
    }

    /// Runs until only one is enabled, and forgets what was measured.
    pub(super) fn settle(&mut self) {
        while self.tsgs.iter().filter(|t| t.enabled).count() > 1 || self.call.is_some() {
            self.step();
        }
        self.settled = true;
        self.calls = 0;
        (self.longest_idle, self.total_idle) = (0, 0);
        for tsg in &mut self.tsgs {
            tsg.before = tsg.ran;
            (tsg.waited, tsg.longest_wait) = (0, 0);
        }
    }

    pub(super) fn run(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.tsgs.iter().map(Tsg::served).sum()
    }

    fn lc(&self) -> bool {
        self.machine
            .lc
            .is_some_and(|(busy, period)| self.now % period < busy)
    }

    fn step(&mut self) {
        let lc = self.lc();
        let mut changed = self.wake();
        if self.had_lc != lc {
            self.observe(|_| true);
            changed = true;
        }
        self.turn.set_lc(lc, Ns(self.now));
        self.had_lc = lc;
        if let Some((action, _)) = self.call.filter(|&(_, end)| end <= self.now) {
            self.call = None;
            match action {
                Action::Enable(id) => self.tsgs[id].enabled = true,
                Action::Disable(id) => self.tsgs[id].enabled = false,
                _ => unreachable!(),
            }
            self.observe(|_| true);
            let failed = self
                .turn
                .finished(&mut self.members, Ns(self.now), Outcome::Done);
            assert_eq!(failed, None);
            changed = true;
        }
        if changed || self.wait_until.is_some_and(|at| at <= self.now) {
            self.ask();
        }
        self.check();
        if !lc {
            self.run_one();
        }
        self.now += STEP;
    }

    /// Lets sleepers wake; says whether the provider tells of it.
    fn wake(&mut self) -> bool {
        let mut changed = false;
        for tsg in &mut self.tsgs {
            if tsg.left == 0 && tsg.wake_at <= self.now {
                tsg.left = match tsg.load {
                    Load::Busy => u64::MAX,
                    Load::Bursts { burst, .. } => STEP + self.random.below(2 * burst),
                    Load::Turncoat { busy_at, .. } if busy_at <= self.now => u64::MAX,
                    Load::Thinks { burst, .. } | Load::Turncoat { burst, .. } => burst,
                };
            }
            changed |= tsg.is_runnable() != tsg.reported;
        }
        changed && self.machine.poll.is_none()
    }

    fn observe(&mut self, which: impl Fn(usize) -> bool) {
        let first = self.turn.current();
        let order = first.into_iter().chain(0..self.tsgs.len());
        for id in order.filter(|&id| which(id)) {
            let tsg = &mut self.tsgs[id];
            tsg.reported = tsg.is_runnable();
            let sample = Sample {
                ran: Ns(tsg.ran),
                runnable: tsg.reported,
                since: None,
            };
            if let (true, Some(e)) = (self.machine.predict, self.members.get_mut(id)) {
                e.learn(sample, Ns(self.now));
            }
            self.turn.observe(&mut self.members, id, sample);
        }
    }

    fn ask(&mut self) {
        self.observe(|_| true);
        self.wait_until = None;
        match self.turn.next(&mut self.members, Ns(self.now)) {
            Action::WaitUntil(at) => {
                assert!(at.0 > self.now);
                self.wait_until = Some(at.0);
            }
            Action::Nothing => {}
            action => {
                self.calls += 1;
                let takes = 20 * US + self.random.below(CALL - 20 * US - STEP);
                self.call = Some((action, self.now + takes));
            }
        }
    }

    fn check(&mut self) {
        if self.settled {
            let enabled = self.tsgs.iter().filter(|t| t.enabled).count();
            assert!((1..=2).contains(&enabled), "{enabled} enabled");
            assert!(enabled == 1 || self.call.is_some() || self.wait_until.is_some());
        }
    }

    /// The hardware runs one slice.
    fn run_one(&mut self) {
        let count = self.tsgs.len();
        let next = (1..=count)
            .map(|n| (self.last + n) % count)
            .find(|&id| self.tsgs[id].enabled && self.tsgs[id].is_runnable());
        for (id, tsg) in self.tsgs.iter_mut().enumerate() {
            if Some(id) == next || !tsg.is_runnable() {
                tsg.waited = 0;
            } else {
                tsg.waited += STEP;
                tsg.longest_wait = tsg.longest_wait.max(tsg.waited);
            }
        }
        let Some(id) = next else {
            let wasted = self.tsgs.iter().any(Tsg::is_runnable);
            self.idle = if wasted { self.idle + STEP } else { 0 };
            self.total_idle += u64::from(wasted) * STEP;
            self.longest_idle = self.longest_idle.max(self.idle);
            return;
        };
        self.idle = 0;
        self.last = id;
        let tsg = &mut self.tsgs[id];
        tsg.ran += STEP;
        if tsg.left != u64::MAX {
            tsg.left = tsg.left.saturating_sub(STEP);
        }
        if tsg.left == 0 {
            let sleep = match tsg.load {
                Load::Busy => 0,
                Load::Bursts { sleep, .. } => self.random.below(2 * sleep),
                Load::Thinks { sleep, .. } | Load::Turncoat { sleep, .. } => sleep,
            };
            tsg.wake_at = self.now + STEP + sleep.max(STEP);
        }
    }
}

/// By how much a turn lasts longer than its quantum at most: for half a quantum it waits for LC or
/// the end of a burst, for twice the longest think time.
pub(super) fn overrun(machine: &Machine) -> u64 {
    machine.quantum.length().0 / 2
        + 3 * CALL
        + 2 * (250 * US + machine.poll.unwrap_or(0).min(250 * US))
        + Turn::STEP.0
        + machine.poll.unwrap_or(0)
        + 4 * STEP
        + MS / 10
}
