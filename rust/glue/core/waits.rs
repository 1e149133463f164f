// SPDX-License-Identifier: GPL-2.0
//! The waits of a tracked thread for the GPU.
//!
//! A thread has memory for them once it waits. It alone begins them; others end waits with a missed
//! return, so that there is a lock. The scheduler never takes it.

use super::memory::account_nowait;
use crate::policy::phase::waits::Waits;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Acquire,
                Release, //
            },
            Atomic,
        },
        SpinLock, //
    },
    types::ForeignOwnable,
};

type Memory = Pin<KBox<SpinLock<Waits>>>;

/// The waits of one thread.
///
/// # Invariants
///
/// 0, or the address of a [`Memory`] that is this one's until it is dropped.
pub(super) struct ThreadWaits(Atomic<usize>);

impl ThreadWaits {
    /// Of a thread that has not waited.
    pub(super) const fn new() -> Self {
        // INVARIANT: 0.
        Self(Atomic::new(0))
    }

    pub(super) fn get(&self) -> Option<&SpinLock<Waits>> {
        let memory = self.0.load(Acquire) as *mut c_void;
        // SAFETY: By the type invariant, and for as long as `self` is borrowed.
        (!memory.is_null()).then(|| unsafe { Memory::borrow(memory) }.get_ref())
    }

    /// As [`Self::get`], with memory if there is some. By the thread alone.
    pub(super) fn get_or_make(&self) -> Option<&SpinLock<Waits>> {
        if let Some(waits) = self.get() {
            return Some(waits);
        }
        // Without memory the wait is not seen. Not to wait for it, in the handler of a probe others
        // may wait for.
        let memory = KBox::pin_init(new_spinlock!(Waits::NONE), account_nowait()).ok()?;
        // INVARIANT: It was 0, as nobody else stores.
        self.0.store(memory.into_foreign() as usize, Release);
        self.get()
    }

    /// Nothing is known any more.
    pub(super) fn forget(&self) {
        if let Some(waits) = self.get() {
            *waits.lock() = Waits::NONE;
        }
    }
}

impl Drop for ThreadWaits {
    fn drop(&mut self) {
        let memory = self.0.load(Acquire) as *mut c_void;
        if !memory.is_null() {
            // SAFETY: By the type invariant; nobody borrows it any more.
            drop(unsafe { Memory::from_foreign(memory) });
        }
    }
}
