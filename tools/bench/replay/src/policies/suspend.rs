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
//! there is not waited for.

use zernel_workload::Role;

use super::{retire, submit, Policy};
use crate::model::measures::{Ns, Us};
use crate::model::preset::Preset;
use crate::policy::level::Level;
use crate::world::{Event, Setting, World};

/// A GPU that saves a context in 20 µs and restores one in as many.
const FAST: Preset = Preset {
    name: "40 us",
    sms: 100,
    sm_kib: 500,
    mb_per_s: 2_560_000,
    copy_engines: 3,
};

/// The policy.
pub(super) struct Suspend {
    latency: Ns,
    /// Latency-critical work has the GPU.
    taken: bool,
}

impl Suspend {
    /// With this latency.
    pub(super) const fn new(latency: Ns) -> Self {
        Self {
            latency,
            taken: false,
        }
    }

    fn set(&mut self, world: &mut World, taken: bool) {
        self.taken = taken;
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
        format!("suspend-{}", self.latency.0 / 1_000)
    }

    fn setting(&self, setting: Setting) -> Setting {
        let preset = match 2 * setting.preset.switch_cost().0 > self.latency.0 {
            true => &FAST,
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
        if world.clients[client].spec.role == Role::Be || self.taken {
            return;
        }
        let switch = 2 * world.setting.preset.switch_cost().0;
        let wait = match has_work(world, Role::Be) {
            true => self.latency.0.saturating_sub(switch),
            false => 0,
        };
        match wait {
            0 => self.set(world, true),
            _ => world.at(world.now + wait, Event::Timer(0)),
        }
    }

    fn done(&mut self, world: &mut World, client: usize) {
        retire(world, client);
        if self.taken && !has_work(world, Role::Lc) {
            self.set(world, false);
        }
    }

    fn timer(&mut self, world: &mut World, _token: u64) {
        if !self.taken && has_work(world, Role::Lc) {
            self.set(world, true);
        }
    }
}
