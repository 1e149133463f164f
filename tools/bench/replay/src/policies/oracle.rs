// SPDX-License-Identifier: MIT OR Apache-2.0
//! A policy that knows the future, to within an error: the worth of prediction.

use rand_chacha::rand_core::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use zernel_workload::Role;

use super::gpreempt::Ahead;
use super::{Policy, Stream};
use crate::policy::level::Level;
use crate::world::World;

/// Takes the GPU so early that, without an error, it is always free when the data is ready.
pub(super) struct Oracle {
    error_us: f64,
    random: ChaCha8Rng,
    ahead: Ahead,
}

impl Oracle {
    /// With a normally distributed error.
    pub(super) fn new(error_us: f64, seed: u64) -> Self {
        Self {
            error_us,
            random: ChaCha8Rng::seed_from_u64(seed),
            ahead: Ahead::default(),
        }
    }
}

impl Policy for Oracle {
    fn name(&self) -> String {
        format!("oracle ±{} µs", self.error_us)
    }

    fn start(&mut self, world: &mut World) {
        self.ahead.start(world);
    }

    fn begin(&mut self, world: &mut World, client: usize) -> Stream {
        let one = &world.clients[client];
        if one.spec.role == Role::Be {
            return Stream::Plain;
        }
        // The longest that a switch can take: a slice, a save and a restore.
        let slice = u64::from(Level::BE.default_timeslice().0) * 1_000;
        let switch = slice + 2 * world.setting.preset.switch_cost().0 + world.setting.flag.0;
        let normal: f64 = StandardNormal.sample(&mut self.random);
        let error = (self.error_us * 1e3 * normal) as i64;
        let at = one.ready_at().saturating_sub(switch);
        self.ahead
            .begin(world, client, at.saturating_add_signed(error))
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        self.ahead.ready(world, client);
    }

    fn timer(&mut self, world: &mut World, token: u64) {
        self.ahead.timer(world, token);
    }
}
