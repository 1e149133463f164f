// SPDX-License-Identifier: GPL-2.0
//! Probes of functions in libraries, by which a thread is seen to wait for the GPU.

use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

extern "C" {
    fn zernel_helper_probe_begin(fd: c_int, offset: u64, id: u64) -> *mut c_void;
    fn zernel_helper_probe_end(point: *mut c_void);
    fn zernel_helper_probes_wait();
    fn zernel_helper_probe_free(point: *mut c_void);
}

/// A place in a file whose execution the kernel tells of.
///
/// # Invariants
///
/// Valid. Its handlers are called unless `ended`, and nobody is in them any more then.
pub(crate) struct Point {
    raw: NonNull<c_void>,
    id: u64,
    ended: bool,
}

// SAFETY: Any thread may end a point, in process context.
unsafe impl Send for Point {}

impl Point {
    /// Has calls of the function at `offset` in the caller's open file told with the number `id`. May
    /// wait for every process that maps the file.
    ///
    /// # Errors
    ///
    /// See `struct zernel_v0_probe`.
    pub(crate) fn new(fd: u32, offset: u64, id: u64) -> Result<Self> {
        let fd = c_int::try_from(fd).map_err(|_| EBADF)?;
        // SAFETY: FFI.
        let raw = from_err_ptr(unsafe { zernel_helper_probe_begin(fd, offset, id) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Just begun.
        Ok(Self {
            raw,
            id,
            ended: false,
        })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Ends all that are held, waiting once for whoever is in their handlers.
    pub(crate) fn end<T>(holders: &mut [T], of: impl Fn(&mut T) -> &mut Self) {
        if holders.is_empty() {
            return;
        }
        for point in holders.iter_mut().map(&of) {
            if !point.ended {
                // SAFETY: Valid, and not ended.
                unsafe { zernel_helper_probe_end(point.raw.as_ptr()) };
            }
        }
        // SAFETY: The caller may sleep.
        unsafe { zernel_helper_probes_wait() };
        for point in holders.iter_mut().map(&of) {
            // INVARIANT: Ended, and waited for.
            point.ended = true;
        }
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        if !self.ended {
            Self::end(core::slice::from_mut(self), |point| point);
        }
        // SAFETY: Ended, and this was the last use.
        unsafe { zernel_helper_probe_free(self.raw.as_ptr()) };
    }
}
