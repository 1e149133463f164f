// SPDX-License-Identifier: GPL-2.0
//! Tells when the whole system is about to sleep, while processes still run, and when it is back.

use crate::registry;
use kernel::{
    error::to_result,
    prelude::*, //
};

extern "C" {
    fn zernel_helper_power_watch() -> c_int;
    fn zernel_helper_power_ignore();
}

/// Has the registry told, until it is dropped.
///
/// # Invariants
///
/// The notifier is registered.
pub(crate) struct Notifier(());

impl Notifier {
    /// Called once, when the module is loaded.
    ///
    /// # Errors
    ///
    /// Those of `register_pm_notifier()`, of which a kernel that cannot sleep has none.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The notifier is static, and is there as long as the module.
        to_result(unsafe { zernel_helper_power_watch() })?;
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SAFETY: Registered by the type invariant.
        unsafe { zernel_helper_power_ignore() };
    }
}

/// Called by the notifier, in process context.
#[no_mangle]
extern "C" fn zernel_rust_system_sleeps(asleep: bool) {
    // Without a registry there is nothing to end.
    let _ = registry::with(|r| r.system_sleeps(asleep));
}
