// SPDX-License-Identifier: GPL-2.0
//! The module from its start to its end, whichever host its GPUs are of.

use crate::{
    file::File,
    glue::{
        lock,
        miscdev,
        sim::params::Params, //
    },
    host::{
        self,
        Hub, //
    },
    hub::{
        self,
        Published, //
    },
    settings::Settings, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The module. Fields are dropped in this order: first nobody can open the device any more, then
/// the host forgets the GPUs, then they go.
pub(crate) struct Software {
    _device: Pin<KBox<miscdev::Registration<File>>>,
    _hub: Published,
}

impl lock::Locks for Software {
    fn init(loading: &lock::Loading) {
        hub::init_lock(loading);
    }
}

impl kernel::Module for Software {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let hub = Published::new(start()?);
        let device = KBox::pin_init(miscdev::Registration::new(), GFP_KERNEL)?;
        Ok(Self {
            _device: device,
            _hub: hub,
        })
    }
}

/// Makes the GPUs and reports them to the host.
fn start() -> Result<Arc<Hub>> {
    let settings = Settings::new(&Params::get()?)?;
    let (gpus, preset) = (settings.gpus, settings.preset.name);
    let hub = host::register(settings)?;
    pr_info!("{} software GPU(s) like {}\n", gpus, preset);
    Ok(hub)
}
