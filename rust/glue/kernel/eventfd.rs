// SPDX-License-Identifier: GPL-2.0
//! An eventfd to signal.

use core::ptr::NonNull;
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*, //
};

/// The context of an eventfd.
///
/// # Invariants
///
/// Holds a reference.
pub(crate) struct EventFd(NonNull<bindings::eventfd_ctx>);

// SAFETY: Reference counted; signalling takes its own lock.
unsafe impl Send for EventFd {}
// SAFETY: As above.
unsafe impl Sync for EventFd {}

impl EventFd {
    /// The eventfd that the caller calls `fd`.
    ///
    /// # Errors
    ///
    /// `EBADF` not open, `EINVAL` not an eventfd.
    pub(crate) fn get(fd: i32) -> Result<Self> {
        // SAFETY: Called by a task.
        let context = from_err_ptr(unsafe { bindings::eventfd_ctx_fdget(fd) })?;
        // INVARIANT: The call takes a reference.
        Ok(Self(NonNull::new(context).ok_or(EINVAL)?))
    }

    /// Adds 1. Does not sleep.
    pub(crate) fn signal(&self) {
        // SAFETY: Valid by the type invariant.
        unsafe { bindings::eventfd_signal_mask(self.0.as_ptr(), 0) };
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // SAFETY: Held by the type invariant.
        unsafe { bindings::eventfd_ctx_put(self.0.as_ptr()) };
    }
}
