// SPDX-License-Identifier: GPL-2.0
//! The software GPU: a provider of zernel with TSGs that share simulated engines.
#![crate_name = "zernel_sim"]

mod context;
mod cpu_share;
mod device;
mod errno;
mod fault;
mod file;
#[path = "../glue/mod.rs"]
mod glue;
mod hub;
mod inbox;
mod ioctl;
#[path = "../model/mod.rs"]
mod model;
mod open;
mod provider;
mod records;
mod report;
mod settings;
mod store;
#[cfg(zernel_kunit)]
mod tests;
mod uapi;
mod user;

use file::File;
use glue::{
    lock,
    miscdev,
    sim::params::Params, //
};
use hub::Published;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use provider::Hub;

module! {
    type: lock::Root<ZernelSim, ZernelSim>,
    name: "zernel_sim",
    authors: ["zernel"],
    description: "Software GPU for zernel",
    license: "GPL",
}

/// The module. Fields are dropped in this order: first nobody can open the device any more, then
/// `zernel.ko` forgets the GPUs, then they go.
struct ZernelSim {
    _device: Pin<KBox<miscdev::Registration<File>>>,
    _hub: Published,
}

impl lock::Locks for ZernelSim {
    fn init(loading: &lock::Loading) {
        hub::init_lock(loading);
    }
}

impl kernel::Module for ZernelSim {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let hub = Published::new(start()?);
        let device = KBox::pin_init(miscdev::Registration::new(), GFP_KERNEL)?;
        Ok(Self {
            _device: device,
            _hub: hub,
        })
    }
}

/// Makes the GPUs and reports them to `zernel.ko`.
fn start() -> Result<Arc<Hub>> {
    let settings = settings::Settings::new(&Params::get()?)?;
    let (gpus, preset) = (settings.gpus, settings.preset.name);
    let hub = provider::register(settings)?;
    pr_info!("{} software GPU(s) like {}\n", gpus, preset);
    Ok(hub)
}
