// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same GPU, written so that it is easy to believe: one engine, one nanosecond at a time, no
//! cached events, every list a `Vec`.

use std::collections::{BTreeSet, VecDeque};

use crate::model::{
    measures::Ns,
    work::{Expect, Granularity, Work},
};

/// An item, with what is left of it in picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    work: Work,
    seq: u64,
    left: u64,
    started: Option<u64>,
}

/// A channel.
#[derive(Default, Debug)]
pub(crate) struct Channel {
    queue: VecDeque<Item>,
    submitted: u64,
    active: bool,
    /// The rest where the first item must stop for another TSG.
    stop: u64,
}

/// Nanoseconds in each state.
#[derive(Default, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) busy: u64,
    pub(crate) switch: u64,
    pub(crate) wait: u64,
    pub(crate) inactive: u64,
}

/// A TSG.
#[derive(Debug)]
pub(crate) struct Tsg {
    channels: Vec<Channel>,
    slice: u64,
    level: usize,
    enabled: bool,
    pub(crate) times: Times,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Saving { from: usize, next: usize, end: u64 },
    Restoring { next: usize, end: u64 },
    Running { tsg: usize },
}

#[derive(Default, Debug)]
struct Level {
    due: Vec<usize>,
    later: Vec<usize>,
    served: BTreeSet<usize>,
}

impl Level {
    fn begin_pass(&mut self) {
        assert!(self.due.is_empty());
        self.due = std::mem::take(&mut self.later);
        self.served.clear();
    }

    fn serve(&mut self) -> Option<usize> {
        if self.due.is_empty() {
            return None;
        }
        let tsg = self.due.remove(0);
        self.served.insert(tsg);
        Some(tsg)
    }
}

/// An item that has completed: end, TSG, channel, number.
pub(crate) type Done = (u64, usize, usize, u64);

/// The GPU.
pub(crate) struct Reference {
    pub(crate) now: u64,
    cost: u64,
    pub(crate) words: [u32; 4],
    pub(crate) tsgs: Vec<Tsg>,
    levels: [Level; 3],
    phase: Phase,
    loaded: Option<usize>,
    slice_pos: u64,
    slice_len: u64,
    draining: bool,
    /// The slice that begins after the switch under way is over at once.
    cut: bool,
    pub(crate) done: Vec<Done>,
    pub(crate) idle: u64,
}

impl Reference {
    pub(crate) fn new(tsgs: usize, cost: u64) -> Self {
        let tsg = |_| Tsg {
            channels: vec![Channel::default(), Channel::default()],
            slice: 1_024_000,
            level: 0,
            enabled: true,
            times: Times::default(),
        };
        Self {
            now: 0,
            cost,
            words: [0; 4],
            tsgs: (0..tsgs).map(tsg).collect(),
            levels: Default::default(),
            phase: Phase::Idle,
            loaded: None,
            slice_pos: 0,
            slice_len: 0,
            draining: false,
            cut: false,
            done: Vec::new(),
            idle: 0,
        }
    }

    /// Lets time go on to `to`.
    pub(crate) fn advance(&mut self, to: u64) {
        self.settle();
        while self.now < to {
            self.tick();
            self.now += 1;
            self.settle();
        }
    }

    pub(crate) fn submit(&mut self, tsg: usize, channel: usize, works: &[Work]) {
        let channel = &mut self.tsgs[tsg].channels[channel];
        for work in works {
            channel.submitted += 1;
            let left = match work {
                Work::Run { alone, .. } => alone.0 * 1_000,
                _ => 0,
            };
            let seq = channel.submitted;
            channel.queue.push_back(Item {
                work: *work,
                seq,
                left,
                started: None,
            });
        }
        self.settle();
    }

    pub(crate) fn set_slice(&mut self, tsg: usize, us: u32) {
        let new = u64::from(us) * 1_000;
        self.roll_slice();
        self.tsgs[tsg].slice = new;
        if self.phase == (Phase::Running { tsg }) && new < self.slice_len {
            self.slice_len = new.max(self.slice_pos);
        }
        self.settle();
    }

    pub(crate) fn set_level(&mut self, tsg: usize, level: usize) {
        let queued = self
            .levels
            .iter()
            .any(|l| l.due.contains(&tsg) || l.later.contains(&tsg));
        if queued {
            self.unqueue(tsg);
        }
        self.tsgs[tsg].level = level;
        for level in &mut self.levels {
            level.served.remove(&tsg);
        }
        if self.has_engine(tsg) {
            self.levels[level].served.insert(tsg);
        }
        if queued {
            self.queue(tsg);
        }
    }

    pub(crate) fn set_enabled(&mut self, tsg: usize, enabled: bool) {
        self.tsgs[tsg].enabled = enabled;
        self.settle();
    }

    pub(crate) fn preempt(&mut self, tsg: usize) {
        if self.phase == (Phase::Running { tsg }) && self.others_wait() {
            self.drain(tsg);
        }
        self.settle();
    }

    pub(crate) fn restart(&mut self, tsg: usize, force: bool) {
        if force || !self.has_engine(tsg) {
            for level in &mut self.levels {
                level.due.append(&mut level.later);
                level.served.clear();
            }
            match self.phase {
                Phase::Running { tsg } if self.others_wait() => self.drain(tsg),
                Phase::Saving { .. } | Phase::Restoring { .. } => self.cut = true,
                _ => {}
            }
        }
        self.settle();
    }

    pub(crate) fn set_word(&mut self, word: u16, value: u32) {
        self.words[usize::from(word)] = value;
        self.settle();
    }

    fn met(&self, expect: &Expect) -> bool {
        expect.met(self.words[usize::from(expect.word)])
    }

    fn eligible(&self, tsg: usize) -> bool {
        let needs_engine = |channel: &Channel| {
            matches!(
                channel.queue.front().map(|item| item.work),
                Some(Work::Run { .. } | Work::Hold { .. })
            )
        };
        self.tsgs[tsg].enabled && self.tsgs[tsg].channels.iter().any(needs_engine)
    }

    fn has_engine(&self, tsg: usize) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Saving { next, .. } | Phase::Restoring { next, .. } => next == tsg,
            Phase::Running { tsg: running } => running == tsg,
        }
    }

    fn others_wait(&self) -> bool {
        self.levels
            .iter()
            .any(|level| !level.due.is_empty() || !level.later.is_empty())
    }

    fn unqueue(&mut self, tsg: usize) {
        for level in &mut self.levels {
            level.due.retain(|other| *other != tsg);
            level.later.retain(|other| *other != tsg);
        }
    }

    fn queue(&mut self, tsg: usize) {
        let level = &mut self.levels[self.tsgs[tsg].level];
        if level.served.contains(&tsg) {
            level.later.push(tsg);
        } else {
            level.due.push(tsg);
        }
    }

    /// Between two of a level, all of the higher levels.
    fn pick(&mut self) -> Option<usize> {
        let [low, medium, high] = &mut self.levels;
        if let Some(tsg) = high.serve() {
            return Some(tsg);
        }
        if let Some(tsg) = medium.serve() {
            high.begin_pass();
            return Some(tsg);
        }
        if low.due.is_empty() {
            low.begin_pass();
        }
        medium.begin_pass();
        if let Some(tsg) = low.serve() {
            high.begin_pass();
            return Some(tsg);
        }
        high.begin_pass();
        medium.serve().or_else(|| high.serve())
    }

    fn complete(&mut self, tsg: usize, channel: usize) {
        let target = &mut self.tsgs[tsg].channels[channel];
        let item = target.queue.pop_front().unwrap();
        target.active = false;
        self.done.push((self.now, tsg, channel, item.seq));
    }

    /// Does what needs no engine. Returns whether anything happened.
    fn settle_channels(&mut self) -> bool {
        let mut any = false;
        for tsg in 0..self.tsgs.len() {
            for channel in 0..self.tsgs[tsg].channels.len() {
                let target = &self.tsgs[tsg].channels[channel];
                let Some(item) = target.queue.front().cloned() else {
                    continue;
                };
                let over = match item.work {
                    Work::Fence => true,
                    Work::Release { word, value } => {
                        self.words[usize::from(word)] = value;
                        true
                    }
                    Work::Wait(expect) => self.met(&expect),
                    Work::Run { .. } => target.active && item.left == 0,
                    Work::Hold { expect, bound, .. } => {
                        let expired = item.started.is_some_and(|at| self.now >= at + bound.0);
                        target.active && (self.met(&expect) || expired)
                    }
                };
                if over {
                    self.complete(tsg, channel);
                    any = true;
                }
            }
        }
        any
    }

    fn settle(&mut self) {
        loop {
            if self.settle_channels() {
                continue;
            }
            // A pass over the engine that changes nothing is the last one.
            let mut again = false;
            for tsg in 0..self.tsgs.len() {
                let queued = self
                    .levels
                    .iter()
                    .any(|l| l.due.contains(&tsg) || l.later.contains(&tsg));
                let eligible = self.eligible(tsg);
                if eligible && !queued && !self.has_engine(tsg) {
                    self.queue(tsg);
                    again = true;
                } else if !eligible && queued {
                    self.unqueue(tsg);
                    again = true;
                }
            }
            if again {
                continue;
            }
            if !self.settle_engine() {
                break;
            }
        }
    }

    fn settle_engine(&mut self) -> bool {
        match self.phase {
            Phase::Idle => match self.pick() {
                Some(next) if self.loaded == Some(next) => {
                    self.cut = false;
                    self.run(next);
                    true
                }
                Some(next) => {
                    self.cut = false;
                    let end = self.now + self.cost;
                    self.phase = match self.loaded {
                        Some(from) => Phase::Saving { from, next, end },
                        None => Phase::Restoring { next, end },
                    };
                    true
                }
                None => false,
            },
            Phase::Saving { next, end, .. } if self.now == end => {
                self.loaded = None;
                let end = self.now + self.cost;
                self.phase = match self.eligible(next) {
                    true => Phase::Restoring { next, end },
                    false => Phase::Idle,
                };
                true
            }
            Phase::Restoring { next, end } if self.now == end => {
                self.loaded = Some(next);
                match self.eligible(next) {
                    true => self.run(next),
                    false => self.phase = Phase::Idle,
                }
                true
            }
            Phase::Running { tsg } => self.settle_running(tsg),
            _ => false,
        }
    }

    fn run(&mut self, tsg: usize) {
        self.phase = Phase::Running { tsg };
        self.slice_pos = 0;
        self.slice_len = if self.cut { 0 } else { self.tsgs[tsg].slice };
        self.cut = false;
        self.draining = false;
    }

    /// The slice that ended at an earlier time was followed by another one.
    fn roll_slice(&mut self) {
        if let Phase::Running { tsg } = self.phase {
            if self.slice_pos > self.slice_len {
                self.slice_pos -= self.slice_len;
                self.slice_len = self.tsgs[tsg].slice;
            }
        }
    }

    fn settle_running(&mut self, tsg: usize) -> bool {
        self.roll_slice();
        if !self.draining {
            let over = self.others_wait() && self.slice_pos >= self.slice_len;
            if !self.eligible(tsg) || over {
                self.drain(tsg);
                return true;
            }
            let mut any = false;
            for channel in &mut self.tsgs[tsg].channels {
                if let Some(item) = channel.queue.front_mut() {
                    let runs = matches!(item.work, Work::Run { .. } | Work::Hold { .. });
                    if runs && !channel.active {
                        channel.active = true;
                        item.started.get_or_insert(self.now);
                        any = true;
                    }
                }
            }
            return any;
        }
        // Blocks that end here stop here.
        let mut in_block = false;
        for channel in &mut self.tsgs[tsg].channels {
            if let (true, Some(item)) = (channel.active, channel.queue.front()) {
                if is_block(&item.work) {
                    channel.active = item.left > channel.stop;
                    in_block |= channel.active;
                }
            }
        }
        if in_block {
            return false;
        }
        for channel in &mut self.tsgs[tsg].channels {
            channel.active = false;
        }
        self.phase = Phase::Idle;
        self.draining = false;
        if self.eligible(tsg) {
            self.queue(tsg);
        }
        true
    }

    fn drain(&mut self, tsg: usize) {
        self.draining = true;
        for channel in &mut self.tsgs[tsg].channels {
            let Some(item) = channel.queue.front() else {
                continue;
            };
            if let Work::Run {
                alone,
                granularity: Granularity::Block(Ns(block)),
                ..
            } = item.work
            {
                let all = alone.0 * 1_000;
                let done = (all - item.left).next_multiple_of(block * 1_000);
                channel.stop = all.saturating_sub(done);
            }
        }
    }

    /// One nanosecond passes.
    fn tick(&mut self) {
        if self.phase == Phase::Idle {
            self.idle += 1;
        }
        for tsg in 0..self.tsgs.len() {
            let eligible = self.eligible(tsg);
            let phase = self.phase;
            let times = &mut self.tsgs[tsg].times;
            match phase {
                Phase::Running { tsg: running } if running == tsg => times.busy += 1,
                Phase::Saving { from, .. } if from == tsg => times.switch += 1,
                Phase::Restoring { next, .. } if next == tsg => times.switch += 1,
                _ if eligible => times.wait += 1,
                _ => times.inactive += 1,
            }
        }
        if let Phase::Running { tsg } = self.phase {
            self.slice_pos += 1;
            let draining = self.draining;
            let channels = &mut self.tsgs[tsg].channels;
            let running = channels.iter().filter(|channel| channel.active);
            let total: u64 = running.map(|c| u64::from(c.queue[0].work.demand().0)).sum();
            for channel in channels.iter_mut().filter(|channel| channel.active) {
                let step = 1_000_000 / total.max(1_000);
                let item = &mut channel.queue[0];
                item.left = item.left.saturating_sub(step);
                if draining && is_block(&item.work) {
                    item.left = item.left.max(channel.stop);
                }
            }
        }
    }
}

fn is_block(work: &Work) -> bool {
    matches!(
        work,
        Work::Run {
            granularity: Granularity::Block(_),
            ..
        }
    )
}
