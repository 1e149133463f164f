// SPDX-License-Identifier: GPL-2.0
//! A GPU in the registry.

use super::gpu_time::Levels;
pub(crate) use crate::{
    glue::provider::gpu::{
        Abilities,
        Description,
        Handle,
        Tells, //
    },
    ids::GpuId as Id,
};
use crate::{
    glue::{
        identity::Uid,
        time::now_ns,
        uapi,
        work::Kick, //
    },
    policy::{
        backoff::Backoff,
        level,
        slices::Instead,
        tunables::settings::{
            Bounds,
            OnGpu, //
        },
        units::{
            Ms,
            Ns,
            Permille, //
        },
    },
    registry::meters::Meters,
    request::device::Device,
};
use kernel::sync::Arc;

/// Most GPUs at a time.
pub(crate) const MAX: u32 = 64;

/// The names of a GPU. NUL-padded and NUL-terminated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// Product.
    pub(crate) name: [u8; 64],
    /// Bus address.
    pub(crate) bus: [u8; 32],
    /// Provider.
    pub(crate) provider: [u8; 16],
    /// Version of the driver.
    pub(crate) driver: [u8; 32],
    /// UUID; zero: not known.
    pub(crate) uuid: [u8; 16],
    /// Node of the host that it is attached to, if that is known.
    pub(crate) numa_node: Option<i32>,
}

impl Names {
    /// Nothing is known.
    #[cfg(zernel_kunit)]
    pub(crate) const NONE: Self = Self {
        name: [0; 64],
        bus: [0; 32],
        provider: [0; 16],
        driver: [0; 32],
        uuid: [0; 16],
        numa_node: None,
    };
}

/// The load of a GPU, from one question to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Time for which it was busy.
    pub(crate) busy_ns: u64,
    /// When that was read; 0: never.
    pub(crate) read_at: u64,
    elapsed_ns: u64,
    /// Share of the interval between the last two answers.
    pub(crate) share: Option<Permille>,
    /// Somebody wants a new answer.
    pub(crate) wanted: bool,
    asked_ns: u64,
}

impl Load {
    /// Shortest time between two questions, so that nobody keeps the driver busy with them.
    pub(crate) const INTERVAL_NS: u64 = 100_000_000;

    /// Asks for a new answer if the last question is long enough ago.
    pub(crate) fn ask(&mut self, now_ns: u64) -> bool {
        if self.wanted || now_ns.saturating_sub(self.asked_ns) < Self::INTERVAL_NS {
            return false;
        }
        self.asked_ns = now_ns;
        self.wanted = true;
        true
    }

    /// Takes an answer of the provider.
    pub(crate) fn update(&mut self, busy_ns: u64, elapsed_ns: u64, now_ns: u64) {
        self.share = Some(Permille::of(
            busy_ns.saturating_sub(self.busy_ns),
            elapsed_ns.saturating_sub(self.elapsed_ns),
        ));
        self.busy_ns = busy_ns;
        self.elapsed_ns = elapsed_ns;
        self.read_at = now_ns;
        self.wanted = false;
    }
}

/// The time to ask the provider for the load of TSGs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// Somebody wants to know.
    pub(crate) wanted: bool,
    asked_ns: u64,
    /// Time that the last look took.
    took_ns: u64,
}

impl Look {
    /// Shortest time between two looks.
    const INTERVAL_NS: u64 = Load::INTERVAL_NS;
    /// A worker spends no more than one part of so many on them.
    const PARTS: u64 = 20;

    /// Asks for a look if the last one is long enough ago.
    pub(crate) fn ask(&mut self, now_ns: u64) -> bool {
        let pause = Self::INTERVAL_NS.max(self.took_ns.saturating_mul(Self::PARTS));
        if self.wanted || now_ns.saturating_sub(self.asked_ns) < pause {
            return false;
        }
        self.asked_ns = now_ns;
        self.wanted = true;
        true
    }

    /// The earliest time for the next one, as far as known at `now_ns`.
    pub(crate) fn next(&self, now_ns: u64) -> u64 {
        let pause = Self::INTERVAL_NS.max(self.took_ns.saturating_mul(Self::PARTS));
        match self.wanted {
            true => now_ns.saturating_add(Self::INTERVAL_NS),
            false => self.asked_ns.saturating_add(pause),
        }
    }

    /// The look is over, and took so long.
    pub(crate) fn done(&mut self, took_ns: u64) {
        self.wanted = false;
        self.took_ns = took_ns;
    }
}

/// A GPU.
pub(crate) struct Gpu {
    /// Which provider it belongs to.
    pub(crate) provider: u64,
    /// Its number there.
    pub(crate) handle: Handle,
    /// Its names.
    pub(crate) names: Names,
    /// When its provider reported it, in ns of `CLOCK_MONOTONIC`.
    pub(crate) added_at: u64,
    /// Reports that its provider makes by itself.
    pub(crate) tells: Tells,
    /// The work of its TSGs, by level.
    pub(crate) levels: Levels,
    /// When to ask for that.
    pub(crate) look: Look,
    /// The bounds of its hardware.
    pub(crate) bounds: Bounds,
    /// The abilities of its provider.
    pub(crate) abilities: Abilities,
    /// Its provider could not tell the load of TSGs, and is not asked until it refreshes the GPU.
    pub(crate) blind: bool,
    /// TSGs on it.
    pub(crate) tsgs: u32,
    /// TSGs in the queue of its worker.
    pub(crate) pending: u32,
    /// True if its worker is at a TSG.
    pub(crate) working: bool,
    /// The user whose TSG it took last.
    pub(crate) served: Uid,
    /// Counted up when the tunables of turns and budgets change.
    pub(crate) generation: u64,
    /// Levels with a spent budget.
    pub(crate) throttled: level::Set,
    /// Slices that follow latencies, in place of those of levels.
    pub(crate) instead: Instead,
    /// Settings the provider took.
    pub(crate) applied: u64,
    /// Calls answered `EAGAIN`.
    pub(crate) retries: u64,
    /// Calls that failed for good.
    pub(crate) errors: u64,
    /// The last call was answered `EAGAIN`.
    pub(crate) retrying: bool,
    /// Its provider said that its driver sleeps, and not yet that it is back.
    pub(crate) suspended: bool,
    /// It did not answer, and is left alone until its provider refreshes it.
    pub(crate) unresponsive: bool,
    /// State that requests on it share.
    pub(crate) requests: Arc<Device>,
    /// Delay before the next call after `EAGAIN`.
    pub(crate) backoff: Backoff,
    /// The end of the last of them.
    pub(crate) waits_until: Ns,
    /// Its load.
    pub(crate) load: Load,
    /// Its load by programs that have phases.
    pub(crate) meters: Arc<Meters>,
    /// Some TSG of it was not taken, for want of places or memory: one that is not known may be
    /// that one.
    pub(crate) turned_away: bool,
    /// Its state as it was told last, see [`Self::state`].
    pub(crate) told: u32,
    /// Its provider is leaving or it is gone: nothing is queued any more.
    pub(crate) closing: bool,
    /// Calls the provider; `None` in tests, which call the passes themselves.
    pub(crate) worker: Option<Kick>,
}

impl Gpu {
    /// True if best-effort TSGs can take turns on it, and levels have budgets.
    pub(crate) fn has_turns(&self) -> bool {
        self.abilities.turns && !self.blind
    }

    /// The conditions that change the meaning of a class, without those of a TSG.
    pub(crate) fn conditions(&self) -> OnGpu {
        OnGpu {
            bounds: self.bounds,
            turns: self.has_turns(),
            throttled: self.throttled,
            instead: self.instead,
        }
    }

    /// Its state, `ZERNEL_GPU_SUSPENDED` and so on. `has_turns`: best-effort TSGs take turns where
    /// they can.
    pub(crate) fn state(&self, has_turns: bool) -> u32 {
        let states = [
            (self.suspended, uapi::ZERNEL_GPU_SUSPENDED),
            (self.retrying, uapi::ZERNEL_GPU_RETRYING),
            (self.unresponsive, uapi::ZERNEL_GPU_UNRESPONSIVE),
            (self.has_turns() && has_turns, uapi::ZERNEL_GPU_TURNS),
            (self.turned_away, uapi::ZERNEL_GPU_OVERFULL),
        ];
        let on = states.iter().filter(|(is_on, _)| *is_on);
        on.fold(0, |all, (_, state)| all | state)
    }

    /// Has the worker look at the queue.
    pub(crate) fn kick(&self) {
        if let Some(worker) = self.open_worker() {
            worker.kick();
        }
    }

    /// Ends the waiting after `EAGAIN`.
    pub(crate) fn wake(&mut self) {
        self.retrying = false;
        self.suspended = false;
        self.unresponsive = false;
        self.requests.set_suspended(false);
        self.relent();
        if let Some(worker) = self.open_worker() {
            worker.kick_now();
        }
    }

    /// The provider answered "not now": its GPU is left alone for the time that is returned.
    pub(super) fn back_off(&mut self) -> Ms {
        let pause = self.backoff.next();
        let ns = u64::from(pause.0).saturating_mul(1_000_000);
        self.waits_until = Ns(now_ns().saturating_add(ns));
        pause
    }

    /// It gave another answer.
    pub(super) fn relent(&mut self) {
        self.backoff.reset();
        self.waits_until = Ns::ZERO;
    }

    fn open_worker(&self) -> Option<&Kick> {
        self.worker.as_ref().filter(|_| !self.closing)
    }
}
