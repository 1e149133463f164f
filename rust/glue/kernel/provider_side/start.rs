// SPDX-License-Identifier: GPL-2.0
//! The report that a TSG has got its engine.

use super::super::provider_abi as raw;
use core::ptr::NonNull;
use kernel::prelude::*;

extern "C" {
    fn zernel_tsg_started(
        provider: *mut raw::zernel_provider,
        gpu: u64,
        start: *const raw::zernel_tsg_start,
    );
}

/// A TSG has got its engine.
pub(crate) struct Start {
    /// Which one.
    pub(crate) tsg: u64,
    /// When, in ns of the kernel's monotonic clock.
    pub(crate) at: u64,
    /// When it got something to run, if it had nothing before.
    pub(crate) since: Option<u64>,
    /// Time of the context switch before that; 0 without one.
    pub(crate) switch: u64,
}

impl Start {
    /// Tells `zernel.ko`, in any context.
    ///
    /// # Safety
    ///
    /// `provider` is registered until this returns.
    pub(super) unsafe fn report(&self, provider: NonNull<raw::zernel_provider>, gpu: u64) {
        let desc = raw::zernel_tsg_start {
            size: size_of::<raw::zernel_tsg_start>() as u32,
            flags: match self.since {
                Some(_) => raw::ZERNEL_TSG_START_WOKEN,
                None => 0,
            },
            tsg: self.tsg,
            at_ns: self.at,
            since_ns: self.since.unwrap_or(0),
            switch_ns: self.switch,
        };
        // SAFETY: By the caller.
        unsafe { zernel_tsg_started(provider.as_ptr(), gpu, &desc) };
    }
}
