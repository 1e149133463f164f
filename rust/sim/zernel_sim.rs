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
    miscdev,
    sim::{
        hub::{
            self,
            Published, //
        },
        params::Params, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use provider::Hub;

module! {
    type: ZernelSim,
    name: "zernel_sim",
    authors: ["zernel"],
    description: "Software GPU for zernel",
    license: "GPL",
}

/// The module. Fields are dropped in this order: first nobody can open the device any more, then
/// `zernel.ko` forgets the GPUs, then they go.
#[pin_data]
struct ZernelSim {
    #[pin]
    _device: miscdev::Registration<File>,
    _hub: Published,
}

impl kernel::InPlaceModule for ZernelSim {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _hub: hub::publish(module, start)?,
            _device <- miscdev::Registration::new(),
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
