// SPDX-License-Identifier: GPL-2.0
//! The software GPU behind the software resource manager of NVIDIA's driver: TSGs of that share
//! simulated engines.
#![crate_name = "zernel_simrm"]

mod context;
mod cpu_share;
mod device;
mod errno;
mod file;
#[path = "../glue/mod.rs"]
mod glue;
#[path = "simrm/mod.rs"]
mod host;
mod hub;
mod inbox;
mod ioctl;
#[path = "../model/mod.rs"]
mod model;
mod module;
mod open;
mod records;
mod report;
mod settings;
mod sim;
mod store;
mod uapi;
mod user;

use glue::lock;
use kernel::prelude::*;
use module::Software;

module! {
    type: lock::Root<Software, Software>,
    name: "zernel_simrm",
    authors: ["zernel"],
    description: "Software GPU for the tests of zernel with NVIDIA's driver",
    license: "GPL",
}
