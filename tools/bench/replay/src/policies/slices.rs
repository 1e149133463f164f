// SPDX-License-Identifier: MIT OR Apache-2.0
//! Policies that set slices once and leave the rest to the GPU.

use zernel_workload::Role;

use super::{submit, Policy};
use crate::model::measures::Us;
use crate::model::tsg::Interleave;
use crate::policy::class::Effective;
use crate::policy::level::Level;
use crate::policy::tunables::settings::Conditions;
use crate::policy::tunables::Tunables;
use crate::world::{Launch, World};

/// Gives every TSG the settings of its role's level.
pub(super) fn set_classes(world: &mut World) {
    for group in 0..world.groups.len() {
        let level = match world.groups[group].role {
            Role::Lc => Level::LC,
            Role::Be => Level::BE,
        };
        world.set_timeslice(group, Us(level.default_timeslice().0));
        let interleave = Interleave::new(level.interleave().number()).unwrap_or(Interleave::Low);
        world.set_interleave(group, interleave);
        let on = Conditions {
            copies: true,
            ..Conditions::NONE
        };
        let copies = Tunables::new().settings(Effective::of(level), on);
        if let Some(copies) = copies {
            world.set_copies(group, Us(copies.timeslice.0), interleave);
        }
    }
}

/// Slices that do not change.
pub(super) struct Slices {
    name: &'static str,
    classes: bool,
    lc_only: bool,
    blocks: bool,
}

impl Slices {
    const PLAIN: Self = Self {
        name: "default",
        classes: false,
        lc_only: false,
        blocks: false,
    };

    /// The driver's defaults.
    pub(super) const fn defaults() -> Self {
        Self::PLAIN
    }

    /// The same without best-effort clients.
    pub(super) const fn exclusive() -> Self {
        Self {
            name: "exclusive",
            lc_only: true,
            ..Self::PLAIN
        }
    }

    /// zernel's classes.
    pub(super) const fn classes() -> Self {
        Self {
            name: "classes",
            classes: true,
            ..Self::PLAIN
        }
    }

    /// The GPU is given away where kernels end, as soon as it is asked for.
    ///
    /// The time of a block is not published; here a block is a kernel of the workload.
    pub(super) const fn block() -> Self {
        Self {
            name: "block",
            classes: true,
            blocks: true,
            ..Self::PLAIN
        }
    }
}

impl Policy for Slices {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn lc_only(&self) -> bool {
        self.lc_only
    }

    fn launch(&self) -> Launch {
        match self.blocks {
            true => Launch::Blocks,
            false => Launch::Whole,
        }
    }

    fn start(&mut self, world: &mut World) {
        if self.classes {
            set_classes(world);
        }
        if self.blocks {
            // Between blocks of best-effort work nothing forces a switch.
            for group in world.of_role(Role::Be).collect::<Vec<_>>() {
                let usual = Level::DEFAULT.default_timeslice();
                world.set_timeslice(group, Us(usual.0));
            }
        }
    }

    fn ready(&mut self, world: &mut World, client: usize) {
        submit(world, client);
        if self.blocks && world.clients[client].spec.role == Role::Lc {
            for group in world.of_role(Role::Be).collect::<Vec<_>>() {
                world.preempt(group);
            }
        }
    }
}
