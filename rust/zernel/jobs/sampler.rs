// SPDX-License-Identifier: GPL-2.0
//! Takes samples of the threads of machine-learning programs.

mod programs;
mod user;

use self::{
    programs::{
        Entry,
        Programs,
        TOOK, //
    },
    user::Visit, //
};
use crate::{
    glue::{
        memory::account_nowait,
        thread::{
            Stint,
            Thread, //
        },
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
    prefetch, registry,
    tracking::{
        self,
        batch,
        process,
        program::Program,
        programs::{
            tell as tell_phase,
            Recorded, //
        }, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

/// For how long a GPU that does not answer is waited for.
const PATIENCE: Ns = Ns(100_000_000);

/// A look is followed by a pause of so many times its length, at least: however many threads have
/// phases, the sampler takes a bounded share of a CPU.
const PAUSE: u64 = 9;

/// Where the sampler is.
struct State {
    programs: Programs,
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
            programs: Programs::new(),
            asked: false,
            ticked: Ns::ZERO,
            spent: Ns::ZERO,
            next: Ns::ZERO,
            rests: true,
        };
        Ok(Self {
            state: KBox::pin_init(new_mutex!(state, "zernel_sampler"), GFP_KERNEL)?,
        })
    }

    /// Forgets everything. The worker does not run any more.
    pub(crate) fn clear(&self) {
        self.state.lock().programs = Programs::new();
    }
}

impl Job for Sampler {
    fn run(worker: &Worker<Self>) {
        let Ok(tunables) = registry::with(|r| *r.tunables().phases()) else {
            // There is nobody left to look at.
            return;
        };
        let mut state = worker.state.lock();
        let (now, stint) = (Ns(now_ns()), Stint::new());
        if !(process::RUNG.is_empty() && process::CHANGED.is_empty()) {
            state.wake(now);
        }
        let answered = state.programs.are_answered();
        if state.asked && (answered || state.ticked.saturating_add(PATIENCE) <= now) {
            state.asked = false;
            state.observe(now, &tunables);
        }
        if !state.rests && !state.asked && state.next <= now {
            state.tick(now, &tunables);
        }
        if !state.rests {
            let due = state.signal(now);
            let next = state.pace(&stint);
            worker.kick_at(due.map_or(next, |due| due.min(next)));
        }
    }
}

impl State {
    fn wake(&mut self, now: Ns) {
        if core::mem::take(&mut self.rests) {
            process::keep_sampler_awake();
            self.next = self.next.max(now);
        }
    }

    /// Counts the time of this run, without that of others who had the CPU meanwhile. Returns the time
    /// of the next tick or, while a GPU has not answered, the end of waiting for it.
    fn pace(&mut self, stint: &Stint) -> Ns {
        let end = Ns(now_ns());
        self.spent = self.spent.saturating_add(Ns(stint.length()));
        let pause = Ns(self.spent.0.saturating_mul(PAUSE + 1));
        self.next = self.next.max(self.ticked.saturating_add(pause));
        match self.asked {
            true => self.ticked.saturating_add(PATIENCE),
            false => self.next.max(end),
        }
    }

    fn tick(&mut self, now: Ns, tunables: &Phases) {
        (self.ticked, self.spent) = (now, Ns::ZERO);
        self.next = now.saturating_add(tunables.tick());
        self.programs.follow();
        if self.programs.is_idle() {
            self.rest();
            return;
        }
        let collectives = tunables.thresholds().collectives();
        self.programs.share_out(now, tunables.tick(), collectives);
        // Without a registry there are no TSGs.
        let _ = self.programs.name_tsgs();
        self.programs.want(now);
        // Without a registry nobody answers.
        let asked = registry::with(|r| r.kick_metered());
        // A sampler that has just looked for long does not look again now.
        self.asked = asked.is_ok() && !self.programs.are_answered();
        if !self.asked {
            self.observe(now, tunables);
        }
    }

    /// Takes samples of threads, and gives the signals of their programs.
    fn observe(&mut self, now: Ns, tunables: &Phases) {
        let sure = self.programs.are_answered();
        self.programs.look(now, |visit| {
            if visit.is_searched {
                let stint = Stint::new();
                look_for_collectives(&mut visit.program.program, tunables.libraries());
                visit.extra = stint.length() / TOOK.0;
            }
            let is_through = observe_program(visit, sure, now, tunables);
            signal_to(&mut visit.program.program, now);
            is_through
        });
        self.rest();
    }

    /// Rests if there is nothing to look at, and nobody has rung meanwhile.
    fn rest(&mut self) {
        let is_idle = self.programs.is_idle() && self.programs.are_followed();
        self.rests = is_idle && process::let_sampler_rest();
    }

    /// Gives the signals that are due. Returns when the next one is.
    fn signal(&mut self, now: Ns) -> Option<Ns> {
        // One whose signal is due does not rest.
        self.programs.signal(now, |program| signal_to(program, now))
    }
}

/// Looks at the threads of a program, as far as its user's share goes. `sure`: all GPUs have answered.
/// Returns false if some are left for the next tick.
fn observe_program(visit: &mut Visit<'_, Entry>, sure: bool, now: Ns, tunables: &Phases) -> bool {
    let Visit { program, looks, .. } = visit;
    let program = &mut program.program;
    let mut from = Some(program.cursor);
    while let Some(at) = from.filter(|_| *looks > 0) {
        from = batch(at, |t, from| {
            if *looks == 0 {
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
            *looks -= u64::from(next.is_some());
            next
        });
    }
    // A user with no more left is through.
    let is_left = |&at: &usize| tracking::with(|t| t.has_thread_from(program.key(), at));
    if let Some(at) = from.filter(|at| is_left(at).unwrap_or(false)) {
        program.cursor = at;
        return false;
    }
    program.end_round(now, tunables);
    program.settle(sure);
    // Without a table there is nobody to tell.
    let _ = tracking::with(|t| t.report(program, tunables.prefetch()));
    true
}

/// Looks whether a library of collectives is active.
fn look_for_collectives(program: &mut Program, libraries: &Libraries) {
    let thread = Thread::of(program.process().pid());
    let maps = thread.map_or(Some(false), |thread| thread.maps_any(libraries));
    program.collective = maps.unwrap_or(program.collective);
}

/// Gives the signal of a program, if it is due.
fn signal_to(program: &mut Program, now: Ns) {
    if let Some(signal) = program.signal(now) {
        tell(program, &signal);
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
