// SPDX-License-Identifier: GPL-2.0
//! The software GPUs, as the engine of the software resource manager.

use crate::{
    device::Card,
    glue::simrm::engine::{
        Registration,
        Take, //
    },
    model::tsg::Handle,
    settings::Settings,
    sim::Sim, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The software GPUs, known to the resource manager.
pub(crate) struct Hub {
    /// Goes first: then nobody changes a TSG any more.
    engine: Registration<Sim>,
    sim: Arc<Sim>,
}

impl Hub {
    /// The GPUs.
    pub(crate) fn inner(&self) -> &Arc<Sim> {
        &self.sim
    }

    /// Asks for a TSG; see [`Registration::attach`].
    pub(super) fn attach(&self, client: u32, object: u32, take: Take<'_>) -> Result {
        self.engine.attach(client, object, take)
    }

    /// Ends a TSG that nobody can find any more. The resource manager gives it to nobody else
    /// before.
    pub(crate) fn end(&self, card: &Card, tsg: Handle) {
        card.destroy(tsg);
        self.engine.detach(tsg.0);
    }
}

/// Makes the GPUs and reports them to the resource manager.
pub(crate) fn register(settings: Settings) -> Result<Arc<Hub>> {
    if !settings.lacks.is_empty() {
        pr_err!("lacks: the operations are those of NVIDIA's driver here\n");
        return Err(EINVAL);
    }
    let sim = Sim::new(settings)?;
    let engine = Registration::new(sim.clone())?;
    Ok(Arc::new(Hub { engine, sim }, GFP_KERNEL)?)
}
