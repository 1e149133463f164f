// SPDX-License-Identifier: GPL-2.0
//! Reports of a provider to `zernel.ko` with interrupts off: TSGs of a GPU have become busy or
//! idle.

use super::{
    super::{
        irqlock::{
            new_raw_lock,
            RawLock, //
        },
        provider_abi as raw, //
    },
    start::Start, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

extern "C" {
    fn zernel_tsg_activity(provider: *mut raw::zernel_provider, gpu: u64, tsg: u64);
}

/// The registration that the bells of a provider share.
///
/// # Invariants
///
/// The pointer is one of a registered provider.
#[pin_data]
pub(super) struct Rope {
    #[pin]
    provider: RawLock<Option<NonNull<raw::zernel_provider>>>,
}

// SAFETY: The pointer is only handed to a function that may be called in any context.
unsafe impl Send for Rope {}
// SAFETY: As above.
unsafe impl Sync for Rope {}

impl Rope {
    /// Of nobody yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        // INVARIANT: There is none.
        Arc::pin_init(
            pin_init!(Self {
                provider <- new_raw_lock!(None, c"zernel_bell"),
            }),
            GFP_KERNEL,
        )
    }

    /// Of a provider that was just registered.
    pub(super) fn tie(&self, provider: *mut raw::zernel_provider) {
        // INVARIANT: By the caller, who cuts it.
        *self.provider.lock() = NonNull::new(provider);
    }

    /// Has no bell ring any more, and waits for one that does.
    pub(super) fn cut(&self) {
        self.provider.lock().take();
    }
}

/// Rings when a TSG of a GPU gets something to run, or runs out of it. In any context.
pub(crate) struct Bell {
    rope: Arc<Rope>,
    gpu: u64,
}

impl Bell {
    /// The bell of a GPU.
    pub(super) fn new(rope: Arc<Rope>, gpu: u64) -> Self {
        Self { rope, gpu }
    }

    /// Has `zernel.ko` look at a TSG.
    pub(crate) fn ring(&self, tsg: u64) {
        if let Some(provider) = *self.rope.provider.lock() {
            // SAFETY: Registered by the type invariant, as long as the lock is held.
            unsafe { zernel_tsg_activity(provider.as_ptr(), self.gpu, tsg) };
        }
    }

    /// Tells `zernel.ko` that a TSG has got its engine.
    pub(crate) fn started(&self, start: &Start) {
        if let Some(provider) = *self.rope.provider.lock() {
            // SAFETY: As in `ring`.
            unsafe { start.report(provider, self.gpu) };
        }
    }
}
