// SPDX-License-Identifier: GPL-2.0
//! A process that has phases, as the sampler sees it.

use crate::{
    glue::{
        identity::Uid,
        memory::account_nowait,
        thread::Thread, //
    },
    ids::GpuId,
    policy::{
        phase::{
            task::{
                Seen,
                Task, //
            },
            waits::Waited,
            window::Gpu,
            Phase, //
        },
        prefetch::{
            Counts,
            Params,
            Prefetch,
            Signal,
            Sums, //
        },
        tunables::phases::Phases,
        units::{
            Ns,
            Permille, //
        },
    },
    tracking::process::Process,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// So many rounds in a row have to find that nothing happens before a program rests: from the
/// second on its threads are asked to ring.
const QUIET: u32 = 2;

/// The report of a process with phases.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// The GPU's work for it, at the last sample.
    pub(crate) gpu: Gpu,
    /// The GPU that it used last, as far as was seen.
    pub(crate) used: Option<GpuId>,
    /// A library of collectives is active.
    pub(crate) collective: bool,
    /// The last sample, and the time that it covers.
    pub(crate) sampled: Ns,
    pub(crate) sample: Ns,
    /// The outcomes of its signals.
    pub(crate) counts: Counts,
    /// Times of computations and loadings.
    pub(crate) times: Sums,
    /// Predicted length of the next computation, and lead that loading needs.
    pub(crate) predicted: (Option<Ns>, Option<Ns>),
}

/// The activity of some thread of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    computes: bool,
    loads: bool,
    /// Some thread that computes had a CPU.
    moved: bool,
    /// The largest share of the time for which some thread waited for the GPU.
    waited: Permille,
    /// Since when some thread waits for it.
    waits_since: Option<Ns>,
}

/// A process that has phases.
pub(crate) struct Program {
    process: Arc<Process>,
    /// Its number, which is never used again.
    id: u64,
    uid: Uid,
    /// The key of the thread that is looked at next.
    pub(crate) cursor: usize,
    /// When all its threads had been looked at the last time.
    rounded: Ns,
    /// The population of TSGs of which its own were named to the meters of their GPUs; `None`: they
    /// are to be named anew.
    planned: Option<u64>,
    /// Nothing happens: nobody looks.
    rests: bool,
    /// No look for a while: the last observation is of no use.
    anew: bool,
    /// Something has happened since the first thread was looked at.
    restless: bool,
    /// Rounds in a row in which nothing had happened.
    quiet: u32,
    /// The GPU's work for it, and its threads' waits for that.
    pub(crate) gpu: Gpu,
    /// The GPU that it used last, as far as was seen, and since when it is known to.
    used: Option<(Ns, GpuId)>,
    /// Length of the last sample of all its threads.
    sample: Ns,
    /// A library of collectives is active, and when to look for that again.
    pub(crate) collective: bool,
    look_at: Ns,
    /// The activity of its threads at the last look at all of them.
    before: Doing,
    /// The same, as far as they were looked at since.
    now: Doing,
    /// A computation is under way.
    computes: bool,
    /// When work on the GPU was done last that is not the end of that one.
    synced: Option<Ns>,
    /// Since when it loads, if it does.
    loads_since: Ns,
    /// When its signal is due.
    due: Option<Ns>,
    /// Once something was seen that counts.
    prefetch: Option<KBox<Prefetch>>,
}

impl Program {
    /// One of which nothing is known.
    pub(crate) fn new(process: Arc<Process>, id: u64) -> Self {
        // One that is gone costs nobody anything.
        let uid = Thread::of(process.pid()).map_or(Uid::ROOT, |thread| thread.uid());
        Self {
            process,
            id,
            uid,
            cursor: 0,
            rounded: Ns::ZERO,
            planned: None,
            rests: false,
            anew: true,
            restless: true,
            quiet: 0,
            gpu: Gpu::default(),
            used: None,
            sample: Ns::ZERO,
            collective: false,
            look_at: Ns::ZERO,
            before: Doing::default(),
            now: Doing::default(),
            computes: false,
            synced: None,
            loads_since: Ns::ZERO,
            due: None,
            prefetch: None,
        }
    }

    /// The process.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Its user, when it was found.
    pub(crate) fn uid(&self) -> Uid {
        self.uid
    }

    /// True if nobody looks at it, as nothing happens.
    pub(crate) fn rests(&self) -> bool {
        self.rests
    }

    /// True if its TSGs are to be named for this population.
    pub(crate) fn is_to_plan(&self, population: u64) -> bool {
        self.planned != Some(population)
    }

    /// All of its TSGs were named, of this population; `None`: not all of them.
    pub(crate) fn set_planned(&mut self, population: Option<u64>) {
        self.planned = population;
    }

    /// Its key.
    pub(crate) fn key(&self) -> usize {
        self.process.pid().key()
    }

    /// True if it is this process.
    pub(crate) fn is_of(&self, process: &Process) -> bool {
        core::ptr::eq(&*self.process, process)
    }

    /// It has rung: it is to be looked at.
    pub(crate) fn wake(&mut self) {
        if core::mem::take(&mut self.rests) {
            self.anew = true;
            self.cursor = 0;
            self.planned = None;
        }
        self.quiet = 0;
        self.restless = true;
    }

    /// True if the last observations are of no use.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew
    }

    /// True if it is time to look whether a library of collectives is active: now and then, as that
    /// takes a walk through the process's memory.
    pub(crate) fn is_to_look(&mut self, now: Ns) -> bool {
        const INTERVAL: Ns = Ns(1_000_000_000);
        let is = self.look_at <= now;
        if is {
            self.look_at = now.saturating_add(INTERVAL);
        }
        is
    }

    /// Its threads are about to be looked at. GPU activity is added later; the wait of a thread for
    /// it is known up to the last look at all of them.
    pub(crate) fn begin_look(&mut self) {
        (self.gpu.share, self.gpu.pending) = (self.before.waited, None);
    }

    /// A GPU does something for it now, or was done with that at `at`.
    pub(crate) fn uses(&mut self, gpu: GpuId, at: Ns) {
        if self.used.is_none_or(|(known, _)| known <= at) {
            self.used = Some((at, gpu));
        }
    }

    /// Takes in the activity of one of its threads, its waits for the GPU and, if there is one, its
    /// sample.
    pub(crate) fn see(
        &mut self,
        task: Option<&Task>,
        seen: Option<Seen>,
        waited: &Waited,
        now: Ns,
    ) {
        self.restless |= seen.is_none_or(|seen| seen.restless);
        let Some(task) = task else {
            return;
        };
        let computes = task.phase(now).0 == Phase::GpuCompute;
        self.now.computes |= computes;
        self.now.moved |= computes && seen.is_some_and(|seen| seen.moved);
        self.now.loads |= task.loads();
        let share = seen.map_or(Permille(0), |seen| seen.waited);
        self.now.waited = self.now.waited.max(share);
        self.now.waits_since = self.now.waits_since.max(waited.since);
        self.gpu.synced = self.gpu.synced.max(waited.synced);
    }

    /// True if the threads that are looked at are to ring from now on.
    pub(crate) fn listens(&self) -> bool {
        self.quiet > 0
    }

    /// Every thread was looked at at `now`.
    pub(crate) fn end_round(&mut self, now: Ns, tunables: &Phases) {
        // The present activity has begun with the first of the samples that it takes to be sure.
        let interval = now.saturating_sub(self.rounded).max(tunables.tick());
        self.rounded = now;
        // After a rest nothing is known of the time before.
        let interval = if self.anew { tunables.tick() } else { interval };
        self.sample = interval;
        let count = u64::from(tunables.thresholds().stability());
        let delay = interval.0.saturating_mul(count.saturating_sub(1));
        self.judge(now.saturating_sub(Ns(delay)), tunables.prefetch());
        self.cursor = 0;
        self.anew = false;
        self.quiet = match core::mem::take(&mut self.restless) {
            true => 0,
            false => self.quiet.saturating_add(1),
        };
    }

    /// Rests if nothing has happened for long enough, and no signal is due; `sure`: all GPUs have
    /// answered.
    pub(crate) fn settle(&mut self, sure: bool) {
        // A thread that has rung since this round began may have been looked at before.
        let quiet = self.quiet >= QUIET && self.due.is_none();
        self.rests = sure && self.planned.is_some() && quiet && !self.process.is_rung();
    }

    /// Judges the activity of its threads. Changes since the last time happened at `at`.
    fn judge(&mut self, at: Ns, params: &Params) {
        let (before, now) = (self.before, core::mem::take(&mut self.now));
        self.before = now;
        if self.prefetch.is_none() && (now.computes || now.loads) {
            // Without memory there is no history, and so no signal.
            let thread = Thread::of(self.process.pid());
            let new = || KBox::new(Prefetch::NEW, account_nowait()).ok();
            self.prefetch = thread.and_then(|thread| thread.pays(new).flatten());
        }
        let Some(prefetch) = &mut self.prefetch else {
            return;
        };
        match (before.loads, now.loads) {
            (false, true) => self.loads_since = at,
            (true, false) => prefetch.loaded(self.loads_since, at, params),
            _ => {}
        }
        if !now.computes {
            self.due = None;
            if core::mem::take(&mut self.computes) {
                prefetch.compute_ends(at, params);
            }
            return;
        }
        if !before.computes {
            self.computes = true;
            self.synced = self.gpu.synced;
            self.due = prefetch.compute_begins(at, params);
            return;
        }
        // One computation may follow another too soon for the phase to change: the GPU was done,
        // and the waiting thread went on.
        let synced = self.gpu.synced.filter(|_| self.gpu.synced != self.synced);
        if let Some(synced) = synced.filter(|_| self.computes && now.moved) {
            self.synced = Some(synced);
            self.computes = false;
            self.due = None;
            prefetch.compute_ends(synced, params);
        }
        let pending = self.gpu.pending.or(now.waits_since);
        if let Some(since) = pending.filter(|_| !self.computes) {
            self.computes = true;
            self.due = prefetch.compute_begins(since, params);
            // A thread that waited for the one before is done with that later than the GPU was.
            if self.gpu.synced.is_some_and(|synced| synced <= since) {
                self.synced = self.gpu.synced;
            }
        }
    }

    /// When its signal is due.
    pub(crate) fn due(&self) -> Option<Ns> {
        self.due
    }

    /// The signal, if it is to be given at `now`.
    pub(crate) fn signal(&mut self, now: Ns) -> Option<Signal> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        self.prefetch.as_mut()?.signal(now)
    }

    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The report of it.
    pub(crate) fn report(&self, params: &Params) -> Report {
        let prefetch = self.prefetch.as_ref();
        Report {
            gpu: self.gpu,
            used: self.used.map(|(_, gpu)| gpu),
            collective: self.collective,
            sampled: self.rounded,
            sample: self.sample,
            counts: prefetch.map_or(Counts::default(), |p| p.counts()),
            times: prefetch.map_or(Sums::default(), |p| p.times()),
            predicted: prefetch.map_or((None, None), |p| p.predicted(params)),
        }
    }
}
