// SPDX-License-Identifier: MIT OR Apache-2.0
//! The GPU with its tasks, and the checks of each tick.

use std::cell::Cell;
use std::rc::Rc;

use crate::model::arena::{Node, Pool};
use crate::model::channel::Channel;
use crate::model::engine::Engine;
use crate::model::event::{Completion, Sink};
use crate::model::gpu::{Config, Gpu, NewTsg, Store};
use crate::model::measures::{Ns, Permille, Us};
use crate::model::stats::TsgStats;
use crate::model::tsg::{Context, Handle, Interleave, Tsg};
use crate::model::work::{Granularity, Item, Order, Work};
use crate::policy::tunables::settings::Settings;

/// Time passes in steps of this many ns.
pub(super) const TICK: u64 = 50_000;
/// The time of a save, and of a restore: a switch takes a tick.
pub(super) const SWITCH: u64 = 25_000;
/// More events than there are in a tick.
const EVENTS: u32 = 10_000;

pub(super) struct Heap<T>(Vec<T>);

impl<T: Node> Heap<T> {
    fn new(size: usize) -> Self {
        Self((0..size).map(|_| T::blank()).collect())
    }
}

impl<T> Pool<T> for Heap<T> {
    fn at(&self, at: u32) -> Option<&T> {
        self.0.get(at as usize)
    }

    fn at_mut(&mut self, at: u32) -> Option<&mut T> {
        self.0.get_mut(at as usize)
    }

    fn size(&self) -> u32 {
        self.0.len() as u32
    }
}

/// The words of a task: trigger, release, held.
#[derive(Clone, Default)]
pub(super) struct Words(Rc<[Cell<u32>; 3]>);

impl Context for Words {
    fn load(&self, word: u16) -> u32 {
        self.0.get(usize::from(word)).map_or(0, Cell::get)
    }

    fn store(&self, word: u16, value: u32) {
        if let Some(cell) = self.0.get(usize::from(word)) {
            cell.set(value);
        }
    }
}

struct Heaps;

impl Store<Words> for Heaps {
    type Engines = Heap<Engine>;
    type Tsgs = Heap<Tsg<Words>>;
    type Channels = Heap<Channel>;
    type Items = Heap<Item>;
}

/// Items that have completed: their tags, and when they first ran.
#[derive(Default)]
pub(super) struct Log(pub(super) Vec<(u64, u64)>);

impl Sink<Words> for Log {
    fn completed(&mut self, _words: &Words, completion: &Completion) {
        self.0.push((completion.tag, completion.start.0));
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Idle,
    /// It has something to run of which nothing has run.
    Ready,
    Running,
    /// It was preempted in the middle of its work.
    Saved,
}

/// A task.
pub(super) struct Task {
    pub(super) handle: Handle,
    pub(super) words: Words,
    /// GPU time of all work that it was given, and of the work that is done.
    pub(super) given: u64,
    pub(super) done: u64,
    /// GPU time that it had at the last tick.
    pub(super) busy: u64,
    place: Place,
}

/// The GPU.
pub(super) struct Machine {
    gpu: Gpu<Words, Heaps>,
    pub(super) log: Log,
    pub(super) now: u64,
    pub(super) tasks: Vec<Task>,
    pub(super) wrong: Option<&'static str>,
    /// Times that a task was seen saved.
    pub(super) saves: u32,
}

/// Work that can be interrupted anywhere.
pub(super) fn run(alone: u64) -> Work {
    Work::Run {
        alone: Ns(alone),
        demand: Permille::FULL,
        granularity: Granularity::Instruction,
    }
}

/// The tag of the work of a task. An item of another kind has none.
fn tag(task: usize) -> u64 {
    task as u64 + 1
}

impl Machine {
    pub(super) fn new(tasks: usize) -> Self {
        let config = Config {
            number: 0,
            compute_switch: Ns(SWITCH),
            copy_switch: Ns(SWITCH),
            channel_items: 16,
        };
        let gpu = Gpu::new(
            config,
            Heap::new(1),
            Heap::new(tasks),
            Heap::new(tasks),
            Heap::new(16 * tasks),
            Ns::ZERO,
        );
        let mut machine = Self {
            gpu,
            log: Log::default(),
            now: 0,
            tasks: Vec::new(),
            wrong: None,
            saves: 0,
        };
        for serial in 1..=tasks as u64 {
            let words = Words::default();
            let new = NewTsg {
                serial,
                context: words.clone(),
                engine: 0,
                nr_channels: 1,
                sharer: None,
            };
            let made = machine.gpu.create(Ns::ZERO, new, &mut machine.log);
            let handle = made.map_err(|(error, _)| error).expect("there is room");
            machine.tasks.push(Task {
                handle,
                words,
                given: 0,
                done: 0,
                busy: 0,
                place: Place::Idle,
            });
        }
        machine
    }

    pub(super) fn fail(&mut self, why: &'static str) {
        self.wrong.get_or_insert(why);
    }

    pub(super) fn stats(&self, task: usize) -> TsgStats {
        let handle = self.tasks[task].handle;
        self.gpu.tsg_stats(handle).expect("it is there")
    }

    /// Gives a task work of so many ns, that can be interrupted anywhere.
    pub(super) fn give(&mut self, task: usize, alone: u64) {
        self.tasks[task].given += alone;
        self.submit(task, tag(task) | (alone << 8), run(alone));
    }

    /// Has a task do a tick of its work once more.
    pub(super) fn waste(&mut self, task: usize) {
        self.submit(task, 0, run(TICK));
    }

    pub(super) fn submit(&mut self, task: usize, tag: u64, work: Work) {
        let order = Order {
            work,
            notify: false,
            tag,
        };
        let handle = self.tasks[task].handle;
        let done = self
            .gpu
            .submit(Ns(self.now), handle, 0, &[order], &mut self.log);
        done.expect("there is room");
    }

    /// A store to a word of a task.
    pub(super) fn store(&mut self, task: usize, word: u16, value: u32) {
        self.tasks[task].words.store(word, value);
        let handle = self.tasks[task].handle;
        let rung = self.gpu.doorbell(Ns(self.now), handle, &mut self.log);
        rung.expect("it is there");
    }

    pub(super) fn set(&mut self, task: usize, settings: &Settings) {
        let (handle, now) = (self.tasks[task].handle, Ns(self.now));
        let slice = Us(settings.timeslice.0);
        let level = settings.interleave.map_or(0, |level| level.number());
        let level = Interleave::new(level).expect("a level");
        let set = self.gpu.set_timeslice(now, handle, slice, &mut self.log);
        set.expect("it is there");
        let set = self.gpu.set_interleave(now, handle, level, &mut self.log);
        set.expect("it is there");
    }

    pub(super) fn set_enabled(&mut self, task: usize, enabled: bool) {
        let handle = self.tasks[task].handle;
        let set = self
            .gpu
            .set_enabled(Ns(self.now), handle, enabled, &mut self.log);
        set.expect("it is there");
    }

    pub(super) fn preempt(&mut self, task: usize) {
        let handle = self.tasks[task].handle;
        let done = self.gpu.preempt(Ns(self.now), handle, &mut self.log);
        done.expect("it is there");
    }

    /// Lets a tick pass. Returns the tasks whose work has ended, and when it first ran.
    pub(super) fn pass(&mut self) -> Vec<(usize, u64)> {
        self.now += TICK;
        let reached = self.gpu.advance(Ns(self.now), EVENTS, &mut self.log);
        assert!(reached, "too many events in a tick");
        let mut ended = Vec::new();
        for (tag, start) in std::mem::take(&mut self.log.0) {
            let task = (tag & 0xff) as usize;
            if let Some(task) = task.checked_sub(1) {
                self.tasks[task].done += tag >> 8;
                ended.push((task, start));
            }
        }
        ended
    }

    /// Looks at where the tasks are: each is in one place, one runs, and what was saved is as it was.
    pub(super) fn look(&mut self) {
        let mut running = 0;
        for at in 0..self.tasks.len() {
            let stats = self.stats(at);
            let task = &self.tasks[at];
            let has_begun = stats.times.busy.0 > task.done;
            let place = match (stats.on_engine, stats.queued > 0) {
                (true, _) => Place::Running,
                (false, false) => Place::Idle,
                (false, true) if has_begun => Place::Saved,
                (false, true) => Place::Ready,
            };
            running += u32::from(place == Place::Running);
            let (busy, was) = (task.busy, task.place);
            let now = stats.times.busy.0;
            self.saves += u32::from(place == Place::Saved && was != Place::Saved);
            if stats.on_engine && !stats.enabled {
                self.fail("a task runs that is not to run");
            }
            if now < busy {
                self.fail("GPU time has gone back");
            }
            let task = &mut self.tasks[at];
            (task.busy, task.place) = (now, place);
        }
        if running > 1 {
            self.fail("two tasks run");
        }
    }

    /// True if a task has something to run.
    pub(super) fn has_work(&self, task: usize) -> bool {
        let stats = self.stats(task);
        stats.on_engine || stats.demand
    }
}
