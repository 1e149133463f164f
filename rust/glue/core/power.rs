// SPDX-License-Identifier: GPL-2.0
//! Tells when the whole system is about to sleep, while processes still run, and when it is back.

use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Release, //
        },
        Atomic, //
    },
};

extern "C" {
    fn zernel_helper_power_watch() -> c_int;
    fn zernel_helper_power_ignore();
}

/// The receiver, once there is one.
static TOLD: Atomic<usize> = Atomic::new(0);

/// Has somebody told, until it is dropped.
///
/// # Invariants
///
/// The notifier is registered.
pub(crate) struct Notifier(());

impl Notifier {
    /// `told` is called when the system is about to sleep, with true, and when it is back. Called
    /// once, when the module is loaded.
    ///
    /// # Errors
    ///
    /// Those of `register_pm_notifier()`, of which a kernel that cannot sleep has none.
    pub(crate) fn new(told: fn(bool)) -> Result<Self> {
        TOLD.store(told as usize, Release);
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
    let told = TOLD.load(Acquire);
    // SAFETY: Stored before the notifier was registered.
    let told = unsafe { core::mem::transmute::<usize, fn(bool)>(told) };
    told(asleep);
}
