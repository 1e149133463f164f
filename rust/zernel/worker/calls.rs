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

impl Calls for Driver<'_> {
    fn load(&self, tsg: u64) -> Result<Sample> {
        let load = self.ops.tsg_load(self.handle, tsg);
        if load.is_err_and(|error| error == errno::unsupported()) {
            // Without a registry there is nobody to tell.
            let _ = registry::with(|r| r.set_blind(self.gpu, true));
        }
        load
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
