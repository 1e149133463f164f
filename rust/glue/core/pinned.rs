// SPDX-License-Identifier: GPL-2.0
//! A page of slots in a process' memory, pinned: words that it and zernel share.

use super::uapi;
use crate::policy::{
    request::words::Observed,
    units::Ns, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
        Atomic, //
    }, //
};

/// `struct zernel_pinned` of `rust/helpers/zernel_helpers.h`.
#[repr(C)]
struct Raw {
    address: *mut c_void,
    page: *mut c_void,
    mm: *mut c_void,
}

extern "C" {
    fn zernel_helper_pin(address: c_ulong, pinned: *mut Raw) -> c_int;
    fn zernel_helper_unpin(pinned: *mut Raw);
}

/// Slots of a page.
pub(crate) const SLOTS: usize = uapi::ZERNEL_V0_PAGE_SLOTS as usize;

/// `struct zernel_v0_slot`. The process may write to it at any time: only atomic accesses.
#[repr(C)]
pub(crate) struct Words {
    trigger: Atomic<u32>,
    release: Atomic<u32>,
    done: Atomic<u32>,
    held: Atomic<u32>,
    ready_ns: Atomic<u64>,
    done_ns: Atomic<u64>,
    prefetch: Atomic<u32>,
    pad: Atomic<u32>,
    reserved: [Atomic<u64>; 3],
}
static_assert!(size_of::<Words>() == size_of::<uapi::zernel_v0_slot>());
static_assert!(size_of::<Words>() * SLOTS <= PAGE_SIZE);

impl Words {
    /// Stores the trigger word: the stream of the request may take the GPU.
    pub(crate) fn trigger(&self, request: u32) {
        self.trigger.store(request, Release);
    }

    /// Stores the release word: the holder of the request ends.
    pub(crate) fn release(&self, request: u32) {
        self.release.store(request, Release);
    }

    /// What the prefetch word holds.
    pub(crate) fn prefetch(&self) -> u32 {
        self.prefetch.load(Relaxed)
    }

    /// Stores the prefetch word: so many signals were given.
    pub(crate) fn set_prefetch(&self, signals: u32) {
        self.prefetch.store(signals, Release);
    }

    /// What the process, and its stream, have stored.
    ///
    /// A process stores the words in the opposite order, so nothing is seen here without what was
    /// stored before it.
    #[inline]
    pub(crate) fn observe(&self) -> Observed {
        let done = self.done.load(Acquire);
        let done_ns = Ns(self.done_ns.load(Relaxed));
        let trigger = self.trigger.load(Acquire);
        let release = self.release.load(Acquire);
        Observed {
            done,
            done_ns,
            trigger,
            release,
            ready_ns: Ns(self.ready_ns.load(Relaxed)),
            held: self.held.load(Relaxed),
        }
    }
}

/// A pinned page.
///
/// # Invariants
///
/// `raw.address` is the kernel's address of the page, which stays pinned until this is dropped.
pub(crate) struct PinnedPage {
    raw: Raw,
}

// SAFETY: A pinned page belongs to no thread.
unsafe impl Send for PinnedPage {}
// SAFETY: It is accessed through atomics alone.
unsafe impl Sync for PinnedPage {}

impl PinnedPage {
    /// Pins the caller's page at `address`, which counts against `RLIMIT_MEMLOCK`. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` not the address of a page, `EFAULT` no writable memory, `ENOMEM` also when the
    /// limit is reached.
    pub(crate) fn new(address: u64) -> Result<Self> {
        let address = usize::try_from(address).map_err(|_| EFAULT)?;
        if address % PAGE_SIZE != 0 {
            return Err(EINVAL);
        }
        let mut raw = Raw {
            address: core::ptr::null_mut(),
            page: core::ptr::null_mut(),
            mm: core::ptr::null_mut(),
        };
        // SAFETY: `raw` is valid for writes; any address may be asked for.
        to_result(unsafe { zernel_helper_pin(address, &mut raw) }).map_err(|e| match e {
            ENOMEM => ENOMEM,
            _ => EFAULT,
        })?;
        // INVARIANT: Just pinned.
        Ok(Self { raw })
    }

    /// The words of a slot; `None` if there is no such slot.
    pub(crate) fn slot(&self, number: u32) -> Option<&Words> {
        let slots = NonNull::new(self.raw.address.cast::<[Words; SLOTS]>())?;
        // SAFETY: By the type invariant the page is there as long as `self`, aligned and long
        // enough; others only store whole words.
        unsafe { slots.as_ref() }.get(number as usize)
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        // SAFETY: Pinned by the type invariant, and nobody has its address any more.
        unsafe { zernel_helper_unpin(&mut self.raw) };
    }
}
