// SPDX-License-Identifier: GPL-2.0
//! Reports of a provider from its own operations, which do not have its registration. Process
//! context.

use super::{
    super::provider_abi as raw,
    start::Start, //
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// The registration of a provider, as long as there is one.
///
/// # Invariants
///
/// The pointer is one of a registered provider.
#[pin_data]
pub(crate) struct Herald {
    #[pin]
    provider: Mutex<Option<NonNull<raw::zernel_provider>>>,
}

// SAFETY: The pointer is only handed to a function that may be called in any context.
unsafe impl Send for Herald {}
// SAFETY: As above.
unsafe impl Sync for Herald {}

impl Herald {
    /// Of nobody yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        // INVARIANT: There is none.
        Arc::pin_init(
            pin_init!(Self {
                provider <- new_mutex!(None, "zernel_herald"),
            }),
            GFP_KERNEL,
        )
    }

    /// Of a provider that was just registered.
    pub(super) fn appoint(&self, provider: *mut raw::zernel_provider) {
        // INVARIANT: By the caller, who dismisses it.
        *self.provider.lock() = NonNull::new(provider);
    }

    /// Has it tell nothing any more, and waits for a report that is under way.
    pub(super) fn dismiss(&self) {
        self.provider.lock().take();
    }

    /// Tells `zernel.ko` that a TSG of a GPU has got its engine.
    pub(crate) fn started(&self, gpu: u64, start: &Start) {
        if let Some(provider) = *self.provider.lock() {
            // SAFETY: Registered by the type invariant, as long as the lock is held.
            unsafe { start.report(provider, gpu) };
        }
    }
}
