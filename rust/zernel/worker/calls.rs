// SPDX-License-Identifier: GPL-2.0
//! The calls of turns and budgets to the provider of a GPU.

use crate::{
    glue::provider::Ops,
    policy::rotation::entity::Sample,
    registry::gpu, //
};
use kernel::prelude::*;

/// The calls; a trait so that tests can be the driver.
pub(crate) trait Calls {
    /// Tells the load of a TSG.
    fn load(&self, tsg: u64) -> Result<Sample>;
    /// Lets a TSG be scheduled, or not.
    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result;
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
        self.ops.tsg_load(self.handle, tsg)
    }

    fn set_enabled(&self, tsg: u64, enabled: bool) -> Result {
        self.ops.set_enabled(self.handle, tsg, enabled)
    }
}
