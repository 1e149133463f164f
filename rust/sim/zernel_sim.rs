// SPDX-License-Identifier: GPL-2.0
//! The software GPU: a provider of zernel with TSGs that share simulated engines.
#![crate_name = "zernel_sim"]

mod context;
mod cpu_share;
mod device;
mod errno;
mod file;
#[path = "../glue/mod.rs"]
mod glue;
#[path = "zernel/mod.rs"]
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
    name: "zernel_sim",
    authors: ["zernel"],
    description: "Software GPU for zernel",
    license: "GPL",
}
