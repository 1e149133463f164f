// SPDX-License-Identifier: GPL-2.0
//! The one place where files that are being opened find the GPUs.

use crate::provider::Hub;
use kernel::{
    prelude::*,
    sync::{
        global_lock,
        Arc, //
    }, //
};

global_lock! {
    // SAFETY: `Published::new` initialises it before any use.
    unsafe(uninit) static HUB: Mutex<Option<Arc<Hub>>> = None;
}

/// Lets files find the GPUs while it lives.
///
/// # Invariants
///
/// [`HUB`] is initialised and holds the GPUs.
pub(crate) struct Published(());

impl Published {
    /// Lets files find the GPUs.
    ///
    /// # Safety
    ///
    /// Called once, before the device is registered; [`get`] is called for its files alone.
    unsafe fn new(hub: Arc<Hub>) -> Self {
        // SAFETY: Called once, by the caller.
        unsafe { HUB.init() };
        *HUB.lock() = Some(hub);
        // INVARIANT: Just done.
        Self(())
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // The GPUs go when the lock is free again.
        let hub = HUB.lock().take();
        drop(hub);
    }
}

/// Makes the GPUs with `make` and lets files find them. Called by the module's init function.
pub(crate) fn publish(
    _module: &'static ThisModule,
    make: impl FnOnce() -> Result<Arc<Hub>>,
) -> Result<Published> {
    let hub = make()?;
    // SAFETY: The init function runs once and registers the device afterwards.
    Ok(unsafe { Published::new(hub) })
}

/// The GPUs, for a file that is being opened.
///
/// # Errors
///
/// `ENODEV` the module is being unloaded.
pub(crate) fn get() -> Result<Arc<Hub>> {
    HUB.lock().clone().ok_or(ENODEV)
}
