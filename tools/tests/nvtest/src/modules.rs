// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules of the guest. A driver without hooks comes and goes together with the module that
//! follows it, if there is one.

use std::path::Path;

use anyhow::Result;
use testkit::module::{self, FOLDER};

pub use testkit::module::{is_loaded, try_unload, unload, unload_soon, Expedited};

/// The module that follows a driver without hooks.
pub const STOCK: &str = "zernel_nvidia_stock";

/// A call is replayed before it goes on, however busy the host is.
const PATIENT: &str = "patience_ms=10000";

/// True if the driver has no hooks, and is followed all the same.
pub fn is_stock() -> bool {
    Path::new(FOLDER).join(format!("{STOCK}.ko")).exists()
}

/// Loads a module with parameters such as `gpus=2`.
pub fn load(name: &str, parameters: &str) -> Result<()> {
    if name == STOCK {
        return module::load(STOCK, &format!("{PATIENT} {parameters}"));
    }
    module::load(name, parameters)?;
    if name == "nvidia" && is_stock() {
        load(STOCK, "")?;
    }
    Ok(())
}

/// Unloads those of the modules that are loaded, in this order, each as soon as it can be.
pub fn unload_each(names: &[&str]) -> Result<()> {
    for name in names {
        if *name == "nvidia" {
            module::unload_each(&[STOCK])?;
        }
        module::unload_each(&[name])?;
    }
    Ok(())
}
