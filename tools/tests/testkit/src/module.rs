// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel modules that come and go.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::io::Errno;

use crate::wait_until;

/// Folder of the modules.
pub const FOLDER: &str = "/lib/modules/zernel";

/// True if a module is loaded.
pub fn is_loaded(name: &str) -> bool {
    Path::new("/sys/module")
        .join(name)
        .join("initstate")
        .exists()
}

/// Loads a module with parameters such as `gpus=2`.
pub fn load(name: &str, parameters: &str) -> Result<()> {
    let file = File::open(format!("{FOLDER}/{name}.ko"))?;
    let parameters = CString::new(parameters)?;
    rustix::system::finit_module(&file, &parameters, 0).with_context(|| format!("load {name}"))
}

/// Unloads a module.
pub fn unload(name: &str) -> Result<()> {
    Ok(try_unload(name)?)
}

/// Unloads a module; the error is the kernel's.
pub fn try_unload(name: &str) -> rustix::io::Result<()> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    rustix::system::delete_module(&name, libc::O_NONBLOCK)
}

/// Unloads a module as soon as nobody uses it: for a moment, that may be a client that has it
/// open, or the worker of one of its GPUs.
pub fn unload_soon(name: &str) -> Result<()> {
    wait_until(&format!("{name} can be unloaded"), || {
        match try_unload(name) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("unload {name}")),
        }
    })
}

/// Unloads those of the modules that are loaded, in this order, each as soon as it can be.
pub fn unload_each(names: &[&str]) -> Result<()> {
    for name in names {
        if is_loaded(name) {
            unload_soon(name)?;
        }
    }
    Ok(())
}

/// Modules go faster: grace periods, of which each load and unload waits for several, are short.
pub struct Expedited(String);

impl Expedited {
    const PATH: &'static str = "/sys/kernel/rcu_expedited";

    /// Until it is dropped, the kernel does not wait for them longer than it must.
    pub fn new() -> Result<Self> {
        let before = fs::read_to_string(Self::PATH)?;
        fs::write(Self::PATH, "1")?;
        Ok(Self(before))
    }
}

impl Drop for Expedited {
    fn drop(&mut self) {
        // It only costs time if this fails.
        let _ = fs::write(Self::PATH, &self.0);
    }
}
