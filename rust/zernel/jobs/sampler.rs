// SPDX-License-Identifier: GPL-2.0
//! Takes samples of the threads of machine-learning programs.

use crate::{
    glue::{
        identity::Uid,
        memory::account_nowait,
        thread::Thread,
        time::now_ns,
        trace,
        work::{
            Job,
            Worker, //
        },
    },
    policy::{
        phase::{
            libraries::Libraries,
            task::{
                Seen,
                Task, //
            },
            window::Gpu,
            Thresholds, //
        },
        prefetch::Signal,
        tunables::phases::Phases,
        units::Ns, //
    },
    prefetch,
    registry::{
        self,
        metered,
        meters::Meters, //
    },
    tracking::{
        self,
        batch,
        process,
        program::Program,
        programs::{
            tell as tell_phase,
            Recorded, //
        },
        BATCH, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A thread is looked at for each such part of a tick, the same number of each user's; more take
/// their turns. So a user with many does not slow down the samples of others: a look takes about a
/// tenth of this, and with the pause after it as long as this.
const LOOK: Ns = Ns(8_000);

/// Most threads looked at in a tick.
const MOST: u64 = 1_024;

/// Processes per tick with a look through their memory.
const LOOKS_FOR_COLLECTIVES: u32 = 8;

/// For how long a GPU that does not answer is waited for.
const PATIENCE: Ns = Ns(100_000_000);

/// A look is followed by a pause of so many times its length, at least: however many threads have
/// phases, the sampler takes a bounded share of a CPU.
const PAUSE: u64 = 9;

/// A user of programs with phases.
#[derive(Clone, Copy, Default)]
struct User {
    /// Some of them are to be looked at.
    awake: bool,
    /// Looks left in this tick.
    left: u64,
    /// The key of the process with which the user's turn begins, and with which the next one does.
    turn: usize,
    next: Option<usize>,
}

/// Where the sampler is.
struct State {
    /// The processes that have phases, by their places, in the order of their keys.
    programs: KVVec<Program>,
    /// The places of those that do not rest, in order. There is room for all.
    awake: KVVec<usize>,
    /// Their users.
    users: RBTree<Uid, User>,
    /// The generations of the table and the registry that it was made from.
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
    /// Nothing happens: no tick is due.
    rests: bool,
}

/// The job.
pub(crate) struct Sampler {
    state: Pin<KBox<Mutex<State>>>,
}

impl Sampler {
    /// One that rests.
    pub(crate) fn new() -> Result<Self> {
        let state = State {
            programs: KVVec::new(),
            awake: KVVec::new(),
            users: RBTree::new(),
            made_from: None,
            meters: KVec::new(),
            asked: false,
            ticked: Ns::ZERO,
            spent: Ns::ZERO,
            next: Ns::ZERO,
            rests: true,
        };
        Ok(Self {
            state: KBox::pin_init(new_mutex!(state), GFP_KERNEL)?,
        })
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
        if process::any_rung() {
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
        if core::mem::take(&mut self.rests) {
            self.next = self.next.max(now);
        }
    }

    /// Counts the time of this run. Returns the time of the next tick or, while a GPU has not
    /// answered, the end of waiting for it.
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
        self.wake_rung();
        for &place in self.awake.iter() {
            let uid = self.programs.get(place).map(Program::uid);
            if let Some(user) = uid.and_then(|uid| self.users.get_mut(&uid)) {
                user.awake = true;
            }
        }
        if self.awake.is_empty() {
            self.rests = self.made_from.is_some();
            return;
        }
        for meters in &self.meters {
            meters.want(now);
        }
        // Without a registry nobody answers.
        let asked = registry::with(|r| r.kick_metered());
        // A sampler that has just looked for long does not look again now.
        self.asked = asked.is_ok() && !self.is_answered();
        if !self.asked {
            self.observe(now, tunables);
        }
    }

    /// Has those that have rung looked at.
    fn wake_rung(&mut self) {
        let (programs, awake) = (&mut self.programs, &mut self.awake);
        process::take_rung(|process| {
            let key = process.pid().key();
            // One that is not there yet is awake when it comes.
            let place = programs.binary_search_by_key(&key, Program::key);
            let Ok(place) = place else {
                return;
            };
            let program = programs.get_mut(place).filter(|p| p.is_of(process));
            if program.is_some_and(Program::wake) {
                // Never fails: there is room for all.
                let _ = awake.push_within_capacity(place);
            }
        });
        awake.sort_unstable();
    }

    fn forget(&mut self) {
        self.made_from = None;
        self.programs.clear();
        self.awake.clear();
        self.users = RBTree::new();
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
        let mut from = Some(0);
        while let Some(at) = from {
            programs.reserve(BATCH, GFP_KERNEL)?;
            from = batch(at, |t, from| {
                let (key, program) = t.program_from(from)?;
                if let Some(program) = program {
                    // Never fails: there is room for a batch.
                    let _ = programs.push(program, GFP_NOWAIT);
                }
                key.checked_add(1)
            });
        }
        let mut users = RBTree::new();
        for program in &programs {
            let user = self.users.get(&program.uid()).copied().unwrap_or_default();
            users.try_create_and_insert(program.uid(), user, GFP_KERNEL)?;
        }
        let mut awake = KVVec::with_capacity(programs.len(), GFP_KERNEL)?;
        // Both are in the order of their keys.
        let mut known = self.programs.iter_mut().peekable();
        for program in &mut programs {
            while known.next_if(|old| old.key() < program.key()).is_some() {}
            if let Some(old) = known.next_if(|old| old.is(program)) {
                program.succeed(old);
            }
        }
        drop(known);
        for (place, _) in programs.iter().enumerate().filter(|(_, p)| !p.rests()) {
            // Never fails, as above.
            let _ = awake.push_within_capacity(place);
        }
        (self.programs, self.awake, self.users) = (programs, awake, users);
        self.meters.clear();
        let sampler = tracking::with(|t| t.sampler())?;
        let complete = metered::begin_plan()?;
        for (place, program) in self.programs.iter().enumerate() {
            metered::plan_program(program, place)?;
        }
        self.meters = metered::end_plan(&sampler)?;
        self.made_from = complete.then_some((generation, population));
        Ok(())
    }

    /// Takes a sample of each thread.
    fn observe(&mut self, now: Ns, tunables: &Phases) {
        for &place in self.awake.iter() {
            if let Some(program) = self.programs.get_mut(place) {
                program.begin_look();
            }
        }
        for meters in &self.meters {
            meters.add_to(&mut self.programs, now);
        }
        if tunables.thresholds().collectives() {
            self.look_for_collectives(now, tunables.libraries());
        }
        self.share_out(tunables.tick());
        let sure = self.made_from.is_some() && self.is_answered();
        // First those from the present place on, then those before.
        for again in [false, true] {
            for at in 0..self.awake.len() {
                if let Some(&place) = self.awake.get(at) {
                    self.observe_program(place, (again, sure), now, tunables);
                }
            }
        }
        for user in self.users.values_mut() {
            user.turn = user.next.take().unwrap_or(0);
        }
        let programs = &self.programs;
        let is_awake = |place: &mut usize| programs.get(*place).is_some_and(|p| !p.rests());
        self.awake.retain(is_awake);
        self.rests = self.made_from.is_some() && self.awake.is_empty();
    }

    /// Gives every user a share of the looks of a tick.
    fn share_out(&mut self, tick: Ns) {
        let awake = self.users.values().filter(|user| user.awake);
        let users = awake.count().max(1) as u64;
        let looks = tick.0.checked_div(LOOK.0).unwrap_or(0).min(MOST);
        let each = looks.checked_div(users).unwrap_or(0).max(1);
        for user in self.users.values_mut() {
            user.awake = false;
            user.left = each;
        }
    }

    /// Looks at the threads of a program, as far as its user's share goes. `again`: it lies before
    /// the present place; `sure`: all GPUs have answered.
    fn observe_program(
        &mut self,
        place: usize,
        (again, sure): (bool, bool),
        now: Ns,
        tunables: &Phases,
    ) {
        let Some(program) = self.programs.get_mut(place).filter(|p| !p.rests()) else {
            return;
        };
        let Some(user) = self.users.get_mut(&program.uid()) else {
            return;
        };
        if (program.key() < user.turn) != again {
            return;
        }
        if user.left == 0 {
            user.next = user.next.or(Some(program.key()));
            return;
        }
        let mut from = Some(program.cursor);
        while let Some(at) = from.filter(|_| user.left > 0) {
            from = batch(at, |t, from| {
                if user.left == 0 {
                    return Some(from);
                }
                let next = t.sample_from(
                    program.key(),
                    from,
                    program.listens(),
                    |now, thread, slot| {
                        let gpu = (program.gpu, program.collective);
                        let (anew, thresholds) = (program.is_anew(), tunables.thresholds());
                        let seen = take(thread, slot, now, gpu, anew, thresholds);
                        program.see(slot.as_deref(), seen, &thread.waited, now);
                    },
                );
                user.left -= u64::from(next.is_some());
                next
            });
        }
        // A user with no more left is through.
        let is_left = |&at: &usize| tracking::with(|t| t.has_thread_from(program.key(), at));
        if let Some(at) = from.filter(|at| is_left(at).unwrap_or(false)) {
            program.cursor = at;
            user.next = user.next.or(Some(program.key()));
            return;
        }
        program.end_round(now, tunables);
        program.settle(sure);
        // Without a table there is nobody to tell.
        let _ = tracking::with(|t| t.report(program, tunables.prefetch()));
    }

    fn look_for_collectives(&mut self, now: Ns, libraries: &Libraries) {
        let mut left = LOOKS_FOR_COLLECTIVES;
        for &place in self.awake.iter() {
            let Some(program) = self.programs.get_mut(place) else {
                continue;
            };
            if program.is_to_look(now) {
                let thread = Thread::of(program.process().pid());
                let maps = thread.map_or(Some(false), |thread| thread.maps_any(libraries));
                program.collective = maps.unwrap_or(program.collective);
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }

    /// Gives the signals that are due. Returns when the next one is.
    fn signal(&mut self, now: Ns) -> Option<Ns> {
        let mut next: Option<Ns> = None;
        // One whose signal is due does not rest.
        for &place in self.awake.iter() {
            let Some(program) = self.programs.get_mut(place) else {
                continue;
            };
            if let Some(signal) = program.signal(now) {
                tell(program, &signal);
            }
            let due = program.due();
            next = next.map_or(due, |at| Some(due.map_or(at, |due| at.min(due))));
        }
        next
    }
}

/// Tells a process that it is time to load its next batch.
fn tell(program: &Program, signal: &Signal) {
    let process = program.process();
    let Some(thread) = Thread::of(process.pid()) else {
        return;
    };
    trace::prefetch_signal(
        process.pid().global_number(),
        signal.elapsed.0,
        signal.predicted.0,
        signal.lead.0,
    );
    prefetch::signal(process.pid(), &thread);
    // Without a registry there are no streams.
    let _ = registry::with(|r| r.signal_prefetch(process.pid(), &thread, program.id(), signal));
}

/// Takes a sample of a thread, unless nothing is known of the time before.
fn take(
    Recorded {
        thread,
        activity,
        waited,
    }: &Recorded<'_>,
    slot: &mut Option<KBox<Task>>,
    now: Ns,
    (gpu, collective): (Gpu, bool),
    anew: bool,
    thresholds: &Thresholds,
) -> Option<Seen> {
    match slot {
        None => {
            // Without memory the next look tries again.
            let new = || KBox::new(Task::new(activity, waited, now), account_nowait()).ok();
            *slot = thread.pays(new).flatten();
            None
        }
        Some(task) if anew => {
            task.skip(activity, waited, now);
            None
        }
        Some(task) => {
            let seen = task.observe(activity, waited, now, gpu, collective, thresholds);
            if let Some(transition) = &seen.transition {
                tell_phase(thread, transition, false);
            }
            Some(seen)
        }
    }
}
