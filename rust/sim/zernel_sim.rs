// SPDX-License-Identifier: GPL-2.0
//! The software GPU: a provider of zernel whose TSGs share simulated engines.
#![crate_name = "zernel_sim"]

mod context;
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
mod provider;
mod report;
mod ring;
mod settings;
mod store;
mod uapi;
mod user;

use file::File;
use glue::{
    miscdev,
    sim_params::Params, //
};
use kernel::{
    prelude::*,
    sync::{
        global_lock,
        Arc, //
    }, //
};
use provider::Hub;

module! {
    type: ZernelSim,
    name: "zernel_sim",
    authors: ["zernel"],
    description: "Software GPU for zernel",
    license: "GPL",
}

global_lock! {
    // SAFETY: Initialised in the module's init function, before the device exists.
    unsafe(uninit) static HUB: Mutex<Option<Arc<Hub>>> = None;
}

/// The GPUs, for a file that is being opened.
fn hub() -> Result<Arc<Hub>> {
    HUB.lock().clone().ok_or(ENODEV)
}

/// Lets files find the GPUs while it lives.
///
/// # Invariants
///
/// Holds what [`HUB`] holds: there is one of these at most.
struct Published(());

impl Published {
    fn new(hub: Arc<Hub>) -> Self {
        *HUB.lock() = Some(hub);
        // INVARIANT: The module's init function makes the only one.
        Self(())
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let hub = HUB.lock().take();
        drop(hub);
    }
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
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // SAFETY: Called once, before any use.
        unsafe { HUB.init() };
        try_pin_init!(Self {
            _hub: start()?,
            _device <- miscdev::Registration::new(),
        })
    }
}

/// Makes the GPUs and lets files find them.
fn start() -> Result<Published> {
    let settings = settings::Settings::new(&Params::get()?)?;
    let (gpus, preset) = (settings.gpus, settings.preset.name);
    let hub = Published::new(provider::register(settings)?);
    pr_info!("{} software GPU(s) like {}\n", gpus, preset);
    Ok(hub)
}
