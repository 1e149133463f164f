// SPDX-License-Identifier: MIT OR Apache-2.0
//! Best-effort kernels are killed for latency-critical ones and start again, as in REEF (OSDI'22).

use anyhow::{bail, Result};
use zernel_workload::{Role, Workload};

use super::slices::set_classes;
use super::{submit, Policy};
use crate::world::{Launch, World};

/// Kills running kernels when a latency-critical request is ready. Only kernels that can start
/// again on the same data may be killed.
pub(super) struct Reset;

impl Reset {
    /// Kills the best-effort TSG that has the GPU. If one is only being restored, looks again when
    /// that is done.
    fn clear(world: &mut World) {
        let lc_waits = |world: &World| {
            let mut lc = world.of_role(Role::Lc);
            lc.any(|group| world.groups[group].active > 0)
                && !world.of_role(Role::Lc).any(|group| world.runs(group))
        };
        if !lc_waits(world) {
            return;
        }
        for group in world.of_role(Role::Be).collect::<Vec<_>>() {
            if world.runs(group) {
                world.reset(group);
            }
        }
        if lc_waits(world) {
            let again = world.now + world.setting.preset.switch_cost().0;
            world.at(again, crate::world::Event::Timer(0));
        }
    }
}

impl Policy for Reset {
    fn name(&self) -> String {
        "reset".to_owned()
    }

    fn accepts(&self, workload: &Workload) -> Result<()> {
        let be = workload.clients.iter().filter(|one| one.role == Role::Be);
        for client in be {
            if !client.network.idempotent() {
                bail!(
                    "policy reset kills kernels and starts them again, which {} of workload {} \
                     cannot take; leave the policy out, or say `idempotent: true`",
                    client.network.name(),
                    workload.name
                );
            }
        }
        Ok(())
    }

    fn launch(&self) -> Launch {
        Launch::Kernels
    }

    fn start(&mut self, world: &mut World) {
        set_classes(world);
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
        if world.clients[client].spec.role == Role::Lc {
            Self::clear(world);
        }
    }

    fn timer(&mut self, world: &mut World, _token: u64) {
        Self::clear(world);
    }
}
