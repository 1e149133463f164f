// SPDX-License-Identifier: GPL-2.0
//! A process that has phases, as the sampler sees it.

use crate::policy::{
    phase::{
        task::Task,
        window::Gpu,
        Phase, //
    },
    prefetch::{
        Counts,
        Params,
        Prefetch, //
    },
    units::Ns,
};
use kernel::prelude::*;

/// What came of the signals of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    pub(crate) overlap: u64,
}

/// What some thread of a process does.
#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    computes: bool,
    loads: bool,
    /// Some thread that computes had a CPU.
    moved: bool,
}

/// A process that has phases.
pub(crate) struct Program {
    /// Key of the process.
    pub(crate) key: usize,
    /// Its number, which is never used again.
    id: u64,
    /// What the GPU did for it.
    pub(crate) gpu: Gpu,
    /// What was told of that the last time.
    told: Gpu,
    /// NCCL is active, and when to look for that again.
    pub(crate) nccl: bool,
    look_at: Ns,
    /// What its threads were found to do at the last look at all of them.
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
    pub(crate) fn new(key: usize, id: u64) -> Self {
        Self {
            key,
            id,
            gpu: Gpu::default(),
            told: Gpu::default(),
            nccl: false,
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

    /// Whether both are the same process.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.key, self.id) == (other.key, other.id)
    }

    /// Whether to look if NCCL is active: now and then, for it takes a walk through the process'
    /// memory.
    pub(crate) fn is_to_look(&mut self, now: Ns) -> bool {
        const INTERVAL: Ns = Ns(1_000_000_000);
        let is = self.look_at <= now;
        if is {
            self.look_at = now.saturating_add(INTERVAL);
        }
        is
    }

    /// Takes in what one of its threads does, and whether it had a CPU since the last time.
    pub(crate) fn see(&mut self, task: &Task, moved: bool, now: Ns) {
        let computes = task.phase(now).0 == Phase::GpuCompute;
        self.now.computes |= computes;
        self.now.moved |= computes && moved;
        self.now.loads |= task.loads();
    }

    /// Every thread was looked at. What has begun or ended since the last time did so at `at`.
    pub(crate) fn end_round(&mut self, at: Ns, params: &Params) {
        let (before, now) = (self.before, core::mem::take(&mut self.now));
        self.before = now;
        if self.prefetch.is_none() && (now.computes || now.loads) {
            // Without memory there is no history, and so no signal.
            self.prefetch = KBox::new(Prefetch::NEW, GFP_KERNEL_ACCOUNT).ok();
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
        // One computation may follow another too soon for the phase to change: the GPU was done, and
        // who had waited for it went on.
        let synced = self.gpu.synced.filter(|_| self.gpu.synced != self.synced);
        if let Some(synced) = synced.filter(|_| self.computes && now.moved) {
            self.synced = Some(synced);
            self.computes = false;
            self.due = None;
            prefetch.compute_ends(synced, params);
        }
        if let Some(since) = self.gpu.pending.filter(|_| !self.computes) {
            self.computes = true;
            self.due = prefetch.compute_begins(since, params);
        }
    }

    /// When its signal is due.
    pub(crate) fn due(&self) -> Option<Ns> {
        self.due
    }

    /// Whether it is to be signalled at `now`.
    pub(crate) fn signal(&mut self, now: Ns) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.due = None;
        let prefetch = self.prefetch.as_mut();
        prefetch.is_some_and(|prefetch| prefetch.signal(now))
    }

    /// Whether there is something to tell that was not told before. It is then.
    pub(crate) fn has_news(&mut self) -> bool {
        let told = core::mem::replace(&mut self.told, self.gpu);
        told != self.gpu || self.before.computes || self.before.loads
    }

    /// What came of its signals.
    pub(crate) fn report(&self) -> Option<Report> {
        let prefetch = self.prefetch.as_ref()?;
        Some(Report {
            counts: prefetch.counts(),
            overlap: prefetch.overlap(),
        })
    }
}
