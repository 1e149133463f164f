// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemption with a published latency: best-effort work leaves the GPU so long after
//! latency-critical work is ready, without a hint.
//!
//! - 40 µs: a trap handler that saves contexts (XSched, OSDI'25: 34 to 41 µs on a GV100);
//! - 100 µs: the end of a slice and the switch (GPreempt, USENIX ATC'25, on an A100);
//! - 140 µs: kernels that look for a flag (XSched's binary instrumentation: 148 µs for kernels of
//!   100 µs);
//! - 5 ms: a wait until kernels that were launched are done (XSched's throttling of launches: 1 to
//!   14 ms, by the length of kernels).
//!
//! The latency holds from *ready* to the first kernel. A switch of the GPU is part of it; where one
//! alone takes longer, this GPU is one whose switch takes just as long. Best-effort work that is not
//! there, or that ends by itself, is not waited for.

use zernel_workload::Role;

use super::{retire, submit, Policy};
use crate::model::measures::{Ns, Us};
use crate::model::preset::Preset;
use crate::policy::level::Level;
use crate::world::{Event, Setting, World};

/// A GPU whose switch takes so many microseconds.
const fn taking(name: &'static str, us: u32) -> Preset {
    Preset {
        name,
        sms: us,
        sm_kib: 500,
        mb_per_s: 1_024_000,
        copy_engines: 3,
    }
}

/// GPUs by the time of a switch, as published latencies of preemption have it.
pub(crate) static SWITCHES: [Preset; 3] = [
    taking("switch-40", 40),
    taking("switch-100", 100),
    taking("switch-140", 140),
];

/// A published latency of preemption.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    time: Ns,
    /// The GPU where a switch of another one takes longer.
    preset: &'static Preset,
}

impl Latency {
    const fn of(us: u64, preset: &'static Preset) -> Self {
        Self {
            time: Ns(us * 1_000),
            preset,
        }
    }

    /// That of a trap handler.
    pub(super) const TRAP: Self = Self::of(40, &taking("switch of 40 us", 40));
    /// That of the end of a slice.
    pub(super) const SLICE: Self = Self::of(100, &taking("switch of 100 us", 100));
    /// That of kernels that look for a flag.
    pub(super) const FLAG: Self = Self::of(140, &taking("switch of 140 us", 140));
    /// That of a wait for kernels that were launched.
    pub(super) const WAIT: Self = Self::of(5_000, &taking("switch of 5000 us", 5_000));
}

/// The policy.
pub(super) struct Suspend {
    latency: Latency,
    /// Latency-critical work has the GPU.
    taken: bool,
    /// It is ready, and best-effort work is about to leave.
    waits: bool,
    /// Timers set before the last one are stale.
    timer: u64,
}

impl Suspend {
    /// With this latency.
    pub(super) const fn new(latency: Latency) -> Self {
        Self {
            latency,
            taken: false,
            waits: false,
            timer: 0,
        }
    }

    fn set(&mut self, world: &mut World, taken: bool) {
        self.taken = taken;
        self.waits = false;
        let (stop, go) = match taken {
            true => (Role::Be, Role::Lc),
            false => (Role::Lc, Role::Be),
        };
        for (role, enabled) in [(stop, false), (go, true)] {
            for group in world.of_role(role).collect::<Vec<_>>() {
                world.set_enabled(group, enabled);
            }
        }
    }
}

fn has_work(world: &World, role: Role) -> bool {
    let mut groups = world.of_role(role);
    groups.any(|group| world.groups[group].active > 0)
}

impl Policy for Suspend {
    fn name(&self) -> String {
        format!("suspend-{}", self.latency.time.0 / 1_000)
    }

    fn setting(&self, setting: Setting) -> Setting {
        let preset = match 2 * setting.preset.switch_cost().0 > self.latency.time.0 {
            true => self.latency.preset,
            false => setting.preset,
        };
        Setting { preset, ..setting }
    }

    fn start(&mut self, world: &mut World) {
        // Latency-critical work is not interrupted by its like.
        let slice = Us(Level::LC.default_timeslice().0);
        for group in world.of_role(Role::Lc).collect::<Vec<_>>() {
            world.set_timeslice(group, slice);
        }
        self.set(world, false);
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
        if world.clients[client].spec.role == Role::Be || self.taken || self.waits {
            return;
        }
        let switch = 2 * world.setting.preset.switch_cost().0;
        let wait = match has_work(world, Role::Be) {
            true => self.latency.time.0.saturating_sub(switch),
            false => 0,
        };
        match wait {
            0 => self.set(world, true),
            _ => {
                self.waits = true;
                self.timer += 1;
                world.at(world.now + wait, Event::Timer(self.timer));
            }
        }
    }

    fn done(&mut self, world: &mut World, client: usize) {
        retire(world, client);
        if self.taken && !has_work(world, Role::Lc) {
            self.set(world, false);
        } else if self.waits && !has_work(world, Role::Be) {
            // It has left by itself.
            self.set(world, true);
        }
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        if self.waits && token == self.timer {
            self.set(world, true);
        }
    }
}
