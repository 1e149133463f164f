// SPDX-License-Identifier: GPL-2.0
//! The calls of turns and budgets to the provider of a GPU.

use crate::{
    glue::{
        errno,
        provider::Ops, //
    },
    policy::{
        rotation::entity::Sample,
        units::Ms, //
    },
    registry::{
        self,
        gpu,
        tsg, //
    },
};
use kernel::prelude::*;

/// The calls; a trait so that tests can be the driver.
pub(crate) trait Calls {
    /// Tells the load of a TSG.
    fn load(&self, tsg: u64) -> Result<Sample>;
    /// Tells the load of some TSGs, [`Ops::LOADS`] at most, with their places.
    fn loads(&self, tsgs: &[u64], mut tell: impl FnMut(usize, Sample)) {
        for (at, &tsg) in tsgs.iter().enumerate() {
            if let Ok(sample) = self.load(tsg) {
                tell(at, sample);
            }
        }
    }
    /// Lets a TSG be scheduled, or not.
    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result;
    /// Says before a call of a turn that it comes. Returns false if the TSG takes no turns any more.
    fn will_enable(&self, id: tsg::Id, enabled: bool) -> bool;
    /// Gives the result of a call of a turn. Returns for how long nothing can be called.
    fn was_enabled(&self, id: tsg::Id, enabled: bool, result: Result) -> Option<Ms>;
}

/// The driver behind a provider, for one GPU.
pub(crate) struct Driver<'a> {
    /// The operations.
    pub(crate) ops: &'a Ops,
    /// The GPU.
    pub(crate) gpu: gpu::Id,
    /// The provider's number of it.
    pub(crate) handle: gpu::Handle,
}

fn is_unsupported<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(error) if *error == errno::unsupported())
}

impl Driver<'_> {
    /// Nothing can be told of this GPU.
    fn note_blind(&self) {
        // Without a registry there is nobody to tell.
        let _ = registry::with(|r| r.set_blind(self.gpu, true));
    }
}

impl Calls for Driver<'_> {
    fn load(&self, tsg: u64) -> Result<Sample> {
        let load = self.ops.tsg_load(self.handle, tsg);
        if is_unsupported(&load) {
            self.note_blind();
        }
        load
    }

    fn loads(&self, tsgs: &[u64], mut tell: impl FnMut(usize, Sample)) {
        let mut is_blind = false;
        let all = self.ops.tsg_loads(self.handle, tsgs, |at, load| {
            is_blind |= is_unsupported(&load);
            if let Ok(sample) = load {
                tell(at, sample);
            }
        });
        if is_blind || is_unsupported(&all) {
            self.note_blind();
        }
    }

    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result {
        self.ops.set_enabled(self.handle, tsg, enabled)
    }

    fn will_enable(&self, id: tsg::Id, enabled: bool) -> bool {
        registry::with(|r| r.will_disable(id, !enabled)).unwrap_or(false)
    }

    fn was_enabled(&self, id: tsg::Id, enabled: bool, result: Result) -> Option<Ms> {
        registry::with(|r| r.was_disabled(id, !enabled, result)).unwrap_or(None)
    }
}
