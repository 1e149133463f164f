// SPDX-License-Identifier: GPL-2.0
//! The global locks of `zernel.ko`: C calls the provider ABI, and threads come with their records,
//! without a pointer to anything.

use crate::{
    nice::Control,
    prefetch::Table,
    registry::Registry,
    tracking::Tracking, //
};
use kernel::{
    prelude::*,
    sync::{
        global_lock,
        GlobalLock, //
    },
};

global_lock! {
    // SAFETY: `init` comes before everything that locks it.
    pub(crate) unsafe(uninit) static REGISTRY: Mutex<Option<KBox<Registry>>> = None;
}

/// The lock of the registry.
pub(crate) fn get() -> &'static GlobalLock<REGISTRY> {
    &REGISTRY
}

global_lock! {
    // SAFETY: `init` comes before everything that locks it.
    pub(crate) unsafe(uninit) static TRACKING: Mutex<Option<KBox<Tracking>>> = None;
}

/// The lock of the table of tracked threads.
pub(crate) fn tracking() -> &'static GlobalLock<TRACKING> {
    &TRACKING
}

global_lock! {
    // SAFETY: `init` comes before everything that locks it.
    pub(crate) unsafe(uninit) static NICE: Mutex<Option<KBox<Control>>> = None;
}

/// The lock of who tunes nice values.
pub(crate) fn nice() -> &'static GlobalLock<NICE> {
    &NICE
}

global_lock! {
    // SAFETY: `init` comes before everything that locks it.
    pub(crate) unsafe(uninit) static PREFETCH: Mutex<Option<KBox<Table>>> = None;
}

/// The lock of the subscriptions of prefetch signals.
pub(crate) fn prefetch() -> &'static GlobalLock<PREFETCH> {
    &PREFETCH
}

/// Makes the locks usable.
///
/// # Safety
///
/// Called once, when the module is loaded, before anything can call [`get`], [`tracking`],
/// [`nice`] or [`prefetch`].
unsafe fn init() {
    // SAFETY: By the caller.
    unsafe {
        REGISTRY.init();
        TRACKING.init();
        NICE.init();
        PREFETCH.init();
    }
}

/// The module's type, whose initialisation comes before everything else.
pub(crate) struct Root<T>(T);

impl<T: kernel::Module> kernel::Module for Root<T> {
    fn init(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The kernel calls this once, and nothing of the module is registered yet.
        unsafe { init() };
        Ok(Self(T::init(module)?))
    }
}
