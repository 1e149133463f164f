// SPDX-License-Identifier: GPL-2.0
//! The one place where files that are being opened find the GPUs.

use crate::{
    glue::lock,
    host::Hub, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

lock::global!(HUB: Arc<Hub>);

/// Lets files find the GPUs while it lives.
pub(crate) struct Published(());

impl Published {
    /// Lets files find these GPUs; called once, when the module is loaded.
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        *lock().lock() = Some(hub);
        Self(())
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // The GPUs go when the lock is free again.
        let hub = lock().lock().take();
        drop(hub);
    }
}

/// The GPUs, for a file that is being opened.
///
/// # Errors
///
/// `ENODEV` the module is being unloaded.
pub(crate) fn get() -> Result<Arc<Hub>> {
    lock().lock().clone().ok_or(ENODEV)
}
