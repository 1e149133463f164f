// SPDX-License-Identifier: GPL-2.0
//! Takes samples of the threads of machine-learning programs.

use super::{
    meters::Meters,
    program::Program, //
};
use crate::{
    glue::{
        thread::Thread,
        time::now_ns,
        work::{
            Job,
            Worker, //
        },
    },
    policy::{
        phase::{
            activity::Activity,
            task::Task,
            window::Gpu,
            Thresholds, //
        },
        tunables::phases::Phases,
        units::{
            Ns,
            Permille, //
        },
    },
    registry,
    tracking::{
        self,
        Tracking, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Release, //
            },
            Atomic,
        },
        Arc,
        Mutex, //
    },
};

/// Threads looked at with the table locked once.
const BATCH: usize = 64;

/// Threads looked at in a tick; more take their turns.
const MOST: usize = 4096;

/// Processes whose memory is looked through in a tick.
const LOOKS_FOR_NCCL: u32 = 8;

/// For how long a GPU that does not answer is waited for.
const PATIENCE: Ns = Ns(100_000_000);

/// A look is followed by a pause of so many times its length, at least: however many threads have
/// phases, the sampler takes a bounded share of a CPU.
const PAUSE: u64 = 9;

/// So many looks in a row at all of the threads have to find that nothing happens before the sampler
/// rests: at the end of the first the threads are asked to ring.
const QUIET: u32 = 2;

/// Where the sampler is.
struct State {
    /// The processes that have phases, by their places.
    programs: KVVec<Program>,
    /// What that was made from: the generations of the table and the registry.
    made_from: Option<(u64, u64)>,
    /// The GPUs with TSGs of them.
    meters: KVec<Arc<Meters>>,
    /// GPUs were asked for this tick.
    asked: bool,
    /// When the last tick began, and the time that was spent since.
    ticked: Ns,
    spent: Ns,
    /// When the next tick is due.
    next: Ns,
    /// When all threads had been looked at the last time.
    rounded: Ns,
    /// Nothing happens: no tick is due.
    rests: bool,
    /// Nobody has looked for a while: what was seen last is of no use.
    anew: bool,
    /// The id of the thread that is looked at next.
    cursor: u64,
    /// Something has happened since the first thread was looked at.
    restless: bool,
    /// How often in a row nothing had.
    quiet: u32,
}

/// The job.
pub(crate) struct Sampler {
    /// A thread has done something, or more are to be looked at.
    rung: Atomic<bool>,
    state: Pin<KBox<Mutex<State>>>,
}

impl Sampler {
    /// One that rests.
    pub(crate) fn new() -> Result<Self> {
        let state = State {
            programs: KVVec::new(),
            made_from: None,
            meters: KVec::new(),
            asked: false,
            ticked: Ns::ZERO,
            spent: Ns::ZERO,
            next: Ns::ZERO,
            rounded: Ns::ZERO,
            rests: true,
            anew: true,
            cursor: 0,
            restless: false,
            quiet: 0,
        };
        Ok(Self {
            rung: Atomic::new(false),
            state: KBox::pin_init(new_mutex!(state), GFP_KERNEL)?,
        })
    }

    /// Something happens: it is to look. From any context.
    pub(crate) fn wake(worker: &Worker<Self>) {
        worker.rung.store(true, Release);
        worker.kick();
    }

    /// Forgets everything. The worker does not run any more.
    pub(crate) fn clear(&self) {
        self.state.lock().forget();
    }
}

impl Job for Sampler {
    fn run(worker: &Worker<Self>) {
        let Ok(tunables) = registry::with(|r| *r.tunables().phases()) else {
            // There is nobody left to look at.
            return;
        };
        let mut state = worker.state.lock();
        let now = Ns(now_ns());
        if worker.rung.xchg(false, Acquire) {
            state.wake(now);
        }
        if state.asked && (state.is_answered() || state.ticked.saturating_add(PATIENCE) <= now) {
            state.asked = false;
            state.observe(now, &tunables);
        }
        if !state.rests && !state.asked && state.next <= now {
            state.tick(now, &tunables);
        }
        if !state.rests {
            let due = state.signal(now);
            let next = state.pace(now);
            worker.kick_at(due.map_or(next, |due| due.min(next)));
        }
    }
}

impl State {
    fn wake(&mut self, now: Ns) {
        if self.rests {
            self.rests = false;
            self.anew = true;
            self.cursor = 0;
            self.next = self.next.max(now);
        }
        self.quiet = 0;
        self.restless = true;
    }

    /// Counts what this run has spent. Returns when the next tick is due, or, while a GPU has not
    /// answered, when it is not waited for any more.
    fn pace(&mut self, began: Ns) -> Ns {
        let end = Ns(now_ns());
        self.spent = self.spent.saturating_add(end.saturating_sub(began));
        let pause = Ns(self.spent.0.saturating_mul(PAUSE + 1));
        self.next = self.next.max(self.ticked.saturating_add(pause));
        match self.asked {
            true => self.ticked.saturating_add(PATIENCE),
            false => self.next.max(end),
        }
    }

    fn is_answered(&self) -> bool {
        self.meters.iter().all(|meters| meters.is_answered())
    }

    fn tick(&mut self, now: Ns, tunables: &Phases) {
        (self.ticked, self.spent) = (now, Ns::ZERO);
        self.next = now.saturating_add(tunables.tick());
        if self.plan().is_err() {
            // The next tick tries again.
            self.made_from = None;
        }
        if self.programs.is_empty() {
            self.rests = self.made_from.is_some();
            return;
        }
        for meters in &self.meters {
            meters.want(now);
        }
        // Without a registry nobody answers.
        let asked = registry::with(|r| r.kick_metered());
        // Who has just looked for long does not look again now.
        self.asked = asked.is_ok() && !self.is_answered();
        if !self.asked {
            self.observe(now, tunables);
        }
    }

    fn forget(&mut self) {
        self.made_from = None;
        self.programs.clear();
        self.meters.clear();
    }

    /// Finds out which processes have phases and which TSGs are theirs, if that has changed.
    fn plan(&mut self) -> Result {
        let generation = tracking::with(|t| t.generation())?;
        let population = registry::with(|r| r.population_generation())?;
        if self.made_from == Some((generation, population)) {
            return Ok(());
        }
        let mut programs = KVVec::new();
        loop {
            let count = tracking::with(|t| t.place_programs(&mut programs))?;
            if count <= programs.capacity() {
                break;
            }
            programs.reserve(count, GFP_KERNEL)?;
        }
        // Both are in the order of their keys.
        let mut known = self.programs.iter_mut().peekable();
        for program in &mut programs {
            while known.next_if(|old| old.key < program.key).is_some() {}
            if let Some(old) = known.next_if(|old| old.is(program)) {
                core::mem::swap(old, program);
            }
        }
        drop(known);
        self.programs = programs;
        self.meters.clear();
        let sampler = tracking::with(|t| t.sampler())?;
        let (meters, complete) = registry::with(|r| r.plan_meters(&self.programs, &sampler))??;
        self.meters = meters;
        self.made_from = complete.then_some((generation, population));
        Ok(())
    }

    /// Takes a sample of each thread.
    fn observe(&mut self, now: Ns, tunables: &Phases) {
        for program in &mut self.programs {
            (program.gpu.share, program.gpu.pending) = (Permille(0), None);
        }
        for meters in &self.meters {
            meters.add_to(&mut self.programs);
        }
        if tunables.thresholds().nccl() {
            self.look_for_nccl(now);
        }
        let (programs, anew) = (&mut self.programs, self.anew);
        let mut restless = false;
        let mut sample = |place: usize, now, activity: &Activity, slot: &mut Option<KBox<Task>>| {
            if let Some(program) = programs.get_mut(place) {
                let thresholds = tunables.thresholds();
                let seen = (program.gpu, program.nccl);
                let (again, moved) = take(activity, slot, now, seen, anew, thresholds);
                restless |= again;
                if let Some(task) = slot {
                    program.see(task, moved, now);
                }
            }
        };
        let mut from = Some(self.cursor);
        let mut looks = 0;
        while let Some(at) = from.filter(|_| looks < MOST) {
            looks += BATCH;
            from = batch(at, |t, from| t.sample_from(from, &mut sample));
        }
        self.restless |= restless;
        match from {
            Some(at) => self.cursor = at,
            None => self.end_round(now, tunables),
        }
    }

    fn look_for_nccl(&mut self, now: Ns) {
        let mut left = LOOKS_FOR_NCCL;
        for program in &mut self.programs {
            if program.is_to_look(now) {
                let process = tracking::with(|t| t.process(program.key));
                let thread = process.ok().flatten().and_then(|p| Thread::of(p.pid()));
                let maps = thread.map_or(Some(false), |thread| thread.maps_nccl());
                program.nccl = maps.unwrap_or(program.nccl);
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }

    /// Every thread was looked at.
    fn end_round(&mut self, now: Ns, tunables: &Phases) {
        // What is seen now has begun with the first of the samples that it takes to be sure.
        let interval = now.saturating_sub(self.rounded).max(tunables.tick());
        self.rounded = now;
        // After a rest nothing is known of the time before.
        let interval = if self.anew { tunables.tick() } else { interval };
        let count = u64::from(tunables.thresholds().stability());
        let lag = interval.0.saturating_mul(count.saturating_sub(1));
        for program in &mut self.programs {
            program.end_round(now.saturating_sub(Ns(lag)), tunables.prefetch());
        }
        // Without a table there is nobody to tell.
        let _ = tracking::with(|t| {
            for program in &mut self.programs {
                if program.has_news() {
                    t.report(program);
                }
            }
        });
        self.cursor = 0;
        self.anew = false;
        self.quiet = match self.restless {
            true => 0,
            false => self.quiet + 1,
        };
        self.restless = false;
        if self.quiet == 1 {
            listen();
        }
        let complete = self.made_from.is_some() && self.is_answered();
        self.rests = self.quiet >= QUIET && complete;
    }

    /// Gives the signals that are due. Returns when the next one is.
    fn signal(&mut self, now: Ns) -> Option<Ns> {
        let mut next: Option<Ns> = None;
        for program in &mut self.programs {
            if program.signal(now) {
                tell(program.key);
            }
            let due = program.due();
            next = next.map_or(due, |at| Some(due.map_or(at, |due| at.min(due))));
        }
        next
    }
}

/// Tells a process that it is time to load its next batch.
fn tell(key: usize) {
    let process = tracking::with(|t| t.process(key));
    let Ok(Some(process)) = process else {
        return;
    };
    if let Some(thread) = Thread::of(process.pid()) {
        // Without a registry there are no streams.
        let _ = registry::with(|r| r.signal_prefetch(process.pid(), &thread));
    }
}

/// Takes a sample of a thread. Returns whether another one may tell something else, and whether it
/// had a CPU.
fn take(
    activity: &Activity,
    slot: &mut Option<KBox<Task>>,
    now: Ns,
    (gpu, nccl): (Gpu, bool),
    anew: bool,
    thresholds: &Thresholds,
) -> (bool, bool) {
    match slot {
        None => {
            // Without memory the next look tries again.
            *slot = KBox::new(Task::new(activity, now), GFP_KERNEL_ACCOUNT).ok();
            (true, false)
        }
        Some(task) if anew => {
            task.skip(activity, now);
            (true, false)
        }
        Some(task) => {
            let seen = task.observe(activity, now, gpu, nccl, thresholds);
            (seen.restless, seen.moved)
        }
    }
}

/// Has every thread that has phases ring when it does something.
fn listen() {
    let mut from = Some(0);
    while let Some(at) = from {
        from = batch(at, |t, from| t.listen_from(from));
    }
}

/// Does something for some threads from an id on, with the table locked once. Returns where to go on.
fn batch(at: u64, mut f: impl FnMut(&mut Tracking, u64) -> Option<u64>) -> Option<u64> {
    let next = tracking::with(|t| {
        let mut from = Some(at);
        for _ in 0..BATCH {
            from = from.and_then(|from| f(t, from));
        }
        from
    });
    // Without a table there are no threads.
    next.unwrap_or(None)
}
